"""Wildcard subscriptions, on real sockets."""

from __future__ import annotations

import pytest

import quicksilver
from quicksilver.membership.names import BadGroupNameError
from tests.node.service import connect, connect_sync, run, take, take_sync, until

pytestmark = pytest.mark.integration


def test_a_pattern_receives_from_groups_that_exist_and_those_to_come(gms: str) -> None:
    async def work() -> None:
        async with connect(gms) as sender, connect(gms) as receiver:
            before = await sender.open("p1.eu")
            everything = await receiver.join("p1.*")
            await before.wait_members(1)
            await before.send(b"1")
            after = await sender.open("p1.us")
            await after.send(b"2")
            deep = await sender.open("p1.us.spot", empty="drop")
            await deep.send(b"not for one level")
            await after.send(b"3", key=b"k")
            got = await take(everything, 3)
            assert {(m.group, m.payload) for m in got} == {
                ("p1.eu", b"1"),
                ("p1.us", b"2"),
                ("p1.us", b"3"),
            }
            assert [m.key for m in got if m.payload == b"3"] == [b"k"]
            assert everything.groups == ("p1.eu", "p1.us")

    run(work())


def test_who_joined_by_name_and_by_pattern_receives_with_both_each_once(gms: str) -> None:
    async def work() -> None:
        async with connect(gms) as sender, connect(gms) as receiver:
            named = await receiver.join("p2.a.b")
            deep = await receiver.join("p2.>")
            exact = await receiver.join("p2.*.b")
            out = await sender.open("p2.a.b")
            await out.wait_members(1)
            for number in range(100):
                await out.send(b"%d" % number)
            for group in (named, deep, exact):
                got = await take(group, 100)
                assert [m.payload for m in got] == [b"%d" % n for n in range(100)]

            await receiver.leave(named)
            await out.send(b"after the name was left")
            assert [m.payload for m in await take(deep, 1)] == [b"after the name was left"]
            await receiver.leave(deep)
            await out.send(b"last")
            got = await take(exact, 2)
            assert [m.payload for m in got][-1] == b"last"
            await receiver.leave(exact)
            await until(lambda: out.view is not None and not out.view.members)

    run(work())


def test_a_pattern_joined_again_receives_again(gms: str) -> None:
    """No view of the group need have changed in between."""

    async def work() -> None:
        async with connect(gms) as sender, connect(gms) as receiver:
            out = await sender.open("p3.x")
            named = await receiver.join("p3.x")
            pattern = await receiver.join("p3.*")
            await receiver.leave(pattern)
            pattern = await receiver.join("p3.*")
            await out.wait_members(1)
            await out.send(b"x")
            assert (await take(pattern, 1))[0].payload == b"x"
            assert (await take(named, 1))[0].payload == b"x"

    run(work())


def test_views_of_all_groups_are_told(gms: str) -> None:
    async def work() -> None:
        async with connect(gms) as sender, connect(gms) as receiver:
            pattern = await receiver.join("p4.*")
            await sender.open_all(["p4.a", "p4.b"])
            told = set()
            async for view in pattern.views():
                told.add(view.group)
                assert receiver.id in view.members
                if len(told) == 2:
                    break
            assert told == {"p4.a", "p4.b"}

    run(work())


def test_a_group_ends_with_the_last_who_named_it(gms: str) -> None:
    """A pattern alone keeps no group: names that nobody uses cost nothing."""

    async def work() -> None:
        async with connect(gms) as sender, connect(gms) as receiver:
            pattern = await receiver.join("p5.*")
            out = await sender.open("p5.a")
            await out.wait_members(1)
            first = out.id
            await sender.leave(out)
            await until(lambda: not pattern.groups)
            again = await sender.open("p5.a")
            await again.wait_members(1)
            assert again.id != first
            await again.send(b"x")
            assert (await take(pattern, 1))[0].group == "p5.a"

    run(work())


def test_the_synchronous_form(gms: str) -> None:
    with connect_sync(gms) as sender, connect_sync(gms) as receiver:
        pattern = receiver.join("p6.>")
        out = sender.open("p6.a.b.c")
        out.send(b"x")
        (message,) = take_sync(pattern, 1)
        assert (message.group, message.payload) == ("p6.a.b.c", b"x")


def test_what_a_pattern_cannot_do_is_said(gms: str) -> None:
    async def work() -> None:
        async with connect(gms) as node:
            pattern = await node.join("p7.*")
            with pytest.raises(quicksilver.PatternError, match="cannot be sent to; name one group"):
                await pattern.send(b"x")
            with pytest.raises(BadGroupNameError, match="has a wildcard"):
                await node.open("p7.*")
            with pytest.raises(BadGroupNameError, match="'>' before its last level"):
                await node.join("p7.>.x")
            with pytest.raises(quicksilver.PatternError, match="cannot echo"):
                await node.join("p8.*", echo=True)
            with pytest.raises(quicksilver.PatternError, match="cannot have a queue"):
                await node.join("p8.*", queue="w")

    run(work())


def test_many_joined_at_once_are_checked_like_one(gms: str) -> None:
    async def work() -> None:
        async with connect(gms) as node:
            with pytest.raises(quicksilver.PatternError, match="cannot echo"):
                await node.join_all(["p7.a", "p7.*"], echo=True)
            assert len(await node.join_all(["p7.a", "p7.*"])) == 2

    run(work())
