"""Requests and answers, on real sockets."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import msgspec
import pytest

import quicksilver
from quicksilver.membership.names import find_name_problem
from quicksilver.multicast.requests import serve_attendance
from quicksilver.node.requests import FAILURE_CHARS_MAX
from tests.node.service import connect, connect_sync, run, take

pytestmark = pytest.mark.integration


class Question(msgspec.Struct):
    number: int


def ask_for_ever(group: quicksilver.sync.Group) -> None:
    """Ask until it is known that nobody answers."""
    while True:
        group.request(b"x", timeout=5)


async def upper(message: quicksilver.Message) -> bytes:
    return bytes(message.payload).upper()


def test_a_request_has_an_answer(gms: str) -> None:
    async def work() -> None:
        async with connect(gms) as asker, connect(gms) as server:
            group = await server.join("r1")
            await group.serve(upper)
            out = await asker.open("r1")
            answer = await out.request(b"hello")
            assert isinstance(answer, quicksilver.Message)
            assert (answer.payload, answer.sender, answer.group) == (b"HELLO", server.id, "r1")
            answers = await asyncio.gather(*(out.request(b"x%d" % n) for n in range(100)))
            assert [a.payload for a in answers] == [b"X%d" % n for n in range(100)]

    run(work())


def test_an_answer_reaches_the_requester_alone(gms: str) -> None:
    """Other members see the request, a message like others, and nothing of the answer."""

    async def work() -> None:
        async with connect(gms) as asker, connect(gms) as server, connect(gms) as third:
            watching = await third.join("r2")
            asking = await asker.join("r2")
            group = await server.join("r2")
            await group.serve(upper)
            await asking.wait_members(3)
            assert (await asking.request(b"hello", headers={"a": "b"})).payload == b"HELLO"
            await asking.send(b"after")
            got = await take(watching, 2)
            assert [m.payload for m in got] == [b"hello", b"after"]
            assert got[0].headers == {"a": "b"}
            assert group.queued_bytes <= 64 + len(b"after")

    run(work())


def test_several_answers(gms: str) -> None:
    async def work() -> None:
        async with connect(gms) as asker, connect(gms) as one, connect(gms) as two:
            for node in (one, two):
                group = await node.join("r3")

                async def who(_: quicksilver.Message, me: int = node.id) -> bytes:
                    return b"%d" % me

                await group.serve(who)
            out = await asker.open("r3")
            await out.wait_members(2)
            both = {b"%d" % one.id, b"%d" % two.id}
            answers = await out.request(b"", answers=2)
            assert {a.payload for a in answers} == both
            answers = await out.request(b"", answers=None)
            assert {a.payload for a in answers} == both
            with pytest.raises(quicksilver.NoResponderError, match="2 of 3 answers came") as caught:
                await out.request(b"", timeout=600, answers=3)
            assert {a.payload for a in caught.value.answers} == both

    run(work())


def test_nobody_serves_is_said_at_once(gms: str) -> None:
    async def work() -> None:
        async with connect(gms) as asker, connect(gms) as member:
            await member.join("r4")
            out = await asker.open("r4")
            with pytest.raises(quicksilver.NoResponderError, match="no member serves it"):
                await out.request(b"x", timeout=600)

    run(work())


def test_those_who_serve_are_gone_is_said_when_it_is_known(gms: str) -> None:
    async def work() -> None:
        async with connect(gms) as asker, connect(gms) as server:
            group = await server.join("r5")
            begun = asyncio.Event()

            async def never(_: quicksilver.Message) -> bytes:
                begun.set()
                await asyncio.Event().wait()
                return b""

            await group.serve(never)
            out = await asker.open("r5")
            asking = asyncio.create_task(out.request(b"x", timeout=600))
            await begun.wait()
            await server.leave(group)
            with pytest.raises(quicksilver.NoResponderError, match="left before they answered"):
                await asking
            with pytest.raises(quicksilver.NoResponderError, match="no member serves it"):
                await out.request(b"x", timeout=600)

    run(work())


def test_what_a_handler_raises_is_the_answer(gms: str) -> None:
    async def work() -> None:
        async with connect(gms) as asker, connect(gms) as server:
            group = await server.join("r6")

            async def fail(message: quicksilver.Message) -> bytes:
                raise ValueError("x" * 10_000 if message.payload else "no number")

            await group.serve(fail)
            out = await asker.open("r6")
            with pytest.raises(quicksilver.RequestFailedError, match="ValueError: no number") as e:
                await out.request(b"")
            assert e.value.responder == server.id
            with pytest.raises(quicksilver.RequestFailedError) as long:
                await out.request(b"x")
            assert len(long.value.text) == FAILURE_CHARS_MAX

    run(work())


def test_a_request_that_takes_too_long(gms: str) -> None:
    async def work() -> None:
        async with connect(gms) as asker, connect(gms) as server:
            group = await server.join("r7")

            async def slow(message: quicksilver.Message) -> bytes:
                if message.payload == b"slow":
                    await asyncio.Event().wait()
                return b"ok"

            await group.serve(slow)
            out = await asker.open("r7")
            with pytest.raises(quicksilver.RequestTimeoutError, match=r"0 answers within 0\.2 s"):
                await out.request(b"slow", timeout=0.2)
            assert (await out.request(b"quick")).payload == b"ok"

    run(work())


def test_handlers_run_side_by_side_within_their_bound(gms: str) -> None:
    async def work() -> None:
        async with connect(gms) as asker, connect(gms) as server:
            group = await server.join("r8")
            running = most = 0

            async def count(_: quicksilver.Message) -> bytes:
                nonlocal running, most
                running += 1
                most = max(most, running)
                await asyncio.sleep(0.005)
                running -= 1
                return b""

            await group.serve(count, concurrency=4)
            out = await asker.open("r8")
            await asyncio.gather(*(out.request(b"") for _ in range(40)))
            assert most == 4

    run(work())


def test_values_and_types(gms: str) -> None:
    async def work() -> None:
        async with connect(gms) as asker, connect(gms) as server:
            group = await server.join("r9", Question)

            def double(message: quicksilver.Message) -> dict[str, int]:
                return {"double": 2 * message.payload.number}

            await group.serve(double)
            out = await asker.open("r9", Question)
            answer = await out.request(Question(21))
            assert msgspec.msgpack.decode(answer.payload) == {"double": 42}
            raw = await asker.open("r9b")
            assert isinstance(raw, quicksilver.Group)

    run(work())


def test_large_answers(gms: str) -> None:
    async def work() -> None:
        async with connect(gms) as asker, connect(gms) as server:
            group = await server.join("r10")
            await group.serve(lambda message: bytes(int(message.payload)))
            out = await asker.open("r10")
            assert len((await out.request(b"2000000", timeout=20)).payload) == 2_000_000

    run(work())


def test_one_of_a_queue_answers(gms: str) -> None:
    async def work() -> None:
        async with connect(gms) as asker, connect(gms) as one, connect(gms) as two:
            handled: list[int] = []
            for node in (one, two):
                group = await node.join("r11", queue="w")

                async def handle(_: quicksilver.Message, me: int = node.id) -> bytes:
                    handled.append(me)
                    return b"ok"

                await group.serve(handle)
            out = await asker.open("r11")
            await out.wait_members(2)
            for _ in range(50):
                assert (await out.request(b"")).payload == b"ok"
            assert len(handled) == 50
            assert set(handled) == {one.id, two.id}

    run(work())


def test_requests_do_not_change_the_plan_of_regions(gms: str) -> None:
    """A reply group has a region of its own; the regions of others stay as they are."""

    async def work() -> None:
        async with connect(gms) as asker, connect(gms) as server, connect(gms) as third:
            for node in (asker, third):
                await node.join("r12")
            group = await server.join("r12")
            await group.serve(upper)
            asking = await asker.open("r12")
            await asking.wait_members(3)

            def regions() -> tuple[Any, ...]:
                views = third.core.session.directory.groups.values()
                return next(view.regions for view in views if view.name == "r12")

            before = regions()
            await asking.request(b"x")
            assert regions() == before

    run(work())


def test_the_synchronous_form(gms: str) -> None:
    with connect_sync(gms) as asker, connect_sync(gms) as server:
        group = server.join("r13")
        threads = set()

        def handle(message: quicksilver.Message) -> bytes:
            threads.add(threading.current_thread().name)
            if message.payload == b"fail":
                raise KeyError("nothing")
            return bytes(message.payload).upper()

        group.serve(handle, concurrency=2)
        # Closing would tell of a request that waits for members of a group that all have left.
        out = asker.open("r13", empty="drop")
        assert out.request(b"hello").payload == b"HELLO"
        assert [a.payload for a in out.request(b"a", answers=None)] == [b"A"]
        with pytest.raises(quicksilver.RequestFailedError, match="KeyError: 'nothing'"):
            out.request(b"fail")
        assert threads == {"serve r13"}
        server.leave(group)
        with pytest.raises(quicksilver.NoResponderError):
            ask_for_ever(out)


@pytest.mark.parametrize(
    ("given", "problem"),
    [({"answers": 0}, "answers: must be"), ({"timeout": 0}, "timeout: must be")],
)
def test_what_cannot_be_asked_is_refused_at_the_call(
    gms: str, given: dict[str, Any], problem: str
) -> None:
    async def work() -> None:
        async with connect(gms) as node:
            group = await node.join("r14")
            with pytest.raises(quicksilver.OptionError, match=problem):
                await group.request(b"x", **given)
            with pytest.raises(quicksilver.OptionError, match="handler: must be a function"):
                await group.serve(None)  # type: ignore[arg-type]
            with pytest.raises(quicksilver.OptionError, match="concurrency: must be from 1"):
                await group.serve(upper, concurrency=0)
            opened = await node.open("r15")
            with pytest.raises(quicksilver.NotJoinedError):
                await opened.serve(upper)

    run(work())


@pytest.mark.parametrize("size", [241, 242, 255])
def test_groups_with_the_longest_names_can_be_asked(gms: str, size: int) -> None:
    async def work() -> None:
        async with connect(gms) as asker, connect(gms) as server:
            served = await server.join("n" * size)
            await served.serve(lambda message: message.payload + b"!")
            group = await asker.open("n" * size)
            assert (await group.request(b"x")).payload == b"x!"

    run(work())


def test_long_names_that_differ_have_different_servers() -> None:
    names = ["n" * 254 + last for last in "abc"] + ["n" * 10]
    attendances = {serve_attendance(name) for name in names}
    assert len(attendances) == len(names)
    assert all(find_name_problem(each) is None for each in attendances)
