"""Programs over the members of a group, on real sockets."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

import quicksilver
from quicksilver.properties.groups import GroupProtocol, OtherVersionError
from quicksilver.stdx.errors import QuicksilverError
from tests.node.service import running_gms
from tests.properties.plans import CLEANUP_PLAN, PHASES_PLAN

pytestmark = [pytest.mark.integration, pytest.mark.slow]


async def requests(protocol: GroupProtocol, count: int) -> list[int]:
    found: list[int] = []
    async with asyncio.timeout(60):
        while len(found) < count:
            _, arguments = await protocol.next_request()
            assert isinstance(arguments[0], int)
            found.append(arguments[0])
    return found


def test_what_all_members_have_is_cleaned_up() -> None:
    async def main(gms: str) -> None:
        async with AsyncExitStack() as stack:
            parts: list[GroupProtocol] = []
            for _ in range(4):
                node = await stack.enter_async_context(quicksilver.connect(gms))
                part = GroupProtocol(node, CLEANUP_PLAN)
                parts.append(await stack.enter_async_context(part))
            for part in parts:
                part.give("Receive", 5)
            assert [await requests(part, 1) for part in parts] == [[5]] * 4
            with pytest.raises(QuicksilverError, match="Receive takes"):
                parts[0].give("Receive", "x")
            with pytest.raises(QuicksilverError, match="no event"):
                parts[0].give("Lose", 1)

    with running_gms() as gms:
        asyncio.run(main(gms))


def test_closing_ends_while_something_was_just_heard() -> None:
    """A wake-up and a cancellation in one moment: the second was lost, and closing hung."""

    async def main(gms: str) -> None:
        async with quicksilver.connect(gms) as node:
            for number in range(50):
                async with GroupProtocol(node, CLEANUP_PLAN, f"closing-{number}") as part:
                    await asyncio.sleep(0.001)
                    part.give("Receive", 1)

    with running_gms() as gms:
        asyncio.run(asyncio.wait_for(main(gms), 60))


def test_phases_go_on_without_a_member_that_has_gone() -> None:
    """The first node leads every domain; the others go on where it stopped."""

    async def main(gms: str) -> None:
        async with AsyncExitStack() as stack:
            first = await stack.enter_async_context(AsyncExitStack())
            parts: list[GroupProtocol] = []
            for number in range(3):
                holder = stack if number else first
                node = await holder.enter_async_context(quicksilver.connect(gms))
                parts.append(await holder.enter_async_context(GroupProtocol(node, PHASES_PLAN)))
            phases = await requests(parts[1], 5)
            await first.aclose()
            phases += await requests(parts[1], 10)
            assert phases == list(range(phases[0], phases[0] + 15))
            others = await requests(parts[2], 10)
            assert others == list(range(others[0], others[0] + 10))

    with running_gms() as gms:
        asyncio.run(main(gms))


def test_a_member_with_another_version_is_told_so() -> None:
    async def main(gms: str) -> None:
        other = replace(CLEANUP_PLAN, conditions=())
        async with (
            quicksilver.connect(gms) as one,
            quicksilver.connect(gms) as two,
            GroupProtocol(one, CLEANUP_PLAN) as right,
            GroupProtocol(two, other, right.group_name) as wrong,
        ):
            with pytest.raises(OtherVersionError, match="another version of Cleanup"):
                async with asyncio.timeout(60):
                    await wrong.next_request()

    with running_gms() as gms:
        asyncio.run(main(gms))
