"""What serving and asking for may take, and how both end."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

import quicksilver
from quicksilver.node import serving, task_serving
from quicksilver.node.messages import NO_HEADERS, Message
from quicksilver.node.requests import WAITING_MAX, Request, Requests
from quicksilver.node.serving import BUSY, ThreadServer
from quicksilver.node.sync_requests import Limit
from quicksilver.node.task_serving import TaskServer
from quicksilver.wire.envelope import Kind, parse_enveloped
from tests.node.service import connect, connect_sync, run, until

CONCURRENCY = 4


class FakeGroup:
    """A group whose loop is busy until it is told to go on; answers are noted."""

    name = "g"

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []
        self.answered: list[tuple[bytes, Future[None]]] = []

    def decoded(self, message: Message[bytes]) -> Message[bytes]:
        return message

    def call_in_loop(self, work: Callable[[], None]) -> None:
        self.calls.append(work)


class FakeAnswers:
    """Answers of which each requester takes one after the other."""

    def __init__(self, group: FakeGroup) -> None:
        self._group = group

    def attach(self, server: object) -> None: ...

    def detach(self, server: object) -> None: ...

    def send(self, name: str, payload: bytes) -> Future[None]:
        room: Future[None] = Future()
        self._group.answered.append((payload, room))
        return room

    def give_up(self, name: str, room: Future[None]) -> None:
        room.set_result(None)


def make_requests(count: int) -> list[Request]:
    return [
        Request(Message(b"x", 1, n, "g", 1, None, NO_HEADERS), n, "$private.reply.a")
        for n in range(count)
    ]


def test_a_loop_that_does_not_keep_up_is_woken_once_and_tasks_are_bounded() -> None:
    async def work() -> None:
        group: Any = FakeGroup()
        answers: Any = FakeAnswers(group)
        server = TaskServer(group, lambda _: b"done", CONCURRENCY, answers)
        idle = len(asyncio.all_tasks())
        for _ in range(20):
            server.take_on_core(make_requests(1000))
        assert len(group.calls) == 1
        assert server.dropped == 20_000 - 2 * WAITING_MAX
        group.calls.pop()()
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) - idle == CONCURRENCY + 1  # and the one that refuses
        while len(group.answered) < 2 * WAITING_MAX:
            for _, room in group.answered:
                if not room.done():
                    room.set_result(None)
            await asyncio.sleep(0)
        opened = [parse_enveloped(payload) for payload, _ in group.answered]
        bodies = [body for _, body in filter(None, opened)]
        assert bodies.count(b"done") == bodies.count(BUSY.encode()) == WAITING_MAX
        server.take_on_core(make_requests(1))
        assert len(group.calls) == 1
        server.stop()

    run(work())


def test_threads_that_do_not_keep_up_take_no_more_than_they_may() -> None:
    group: Any = FakeGroup()
    answers: Any = FakeAnswers(group)
    begun, go_on = threading.Event(), threading.Event()

    def wait(_: Message[Any]) -> bytes:
        begun.set()
        go_on.wait(10)
        return b""

    server = ThreadServer(group, wait, 1, answers)
    server.take_on_core(make_requests(1))
    assert begun.wait(10)
    server.take_on_core(make_requests(3 * WAITING_MAX))
    assert server.dropped == WAITING_MAX
    server.stop()
    go_on.set()


def test_servers_that_leave_while_a_request_is_entered_are_noticed() -> None:
    core: Any = SimpleNamespace(
        session=SimpleNamespace(node=1, put_enveloped=None), call=lambda work: work()
    )
    requests = Requests(core)
    looks = iter([frozenset({2, 3}), frozenset(), frozenset()])

    class Attendance:
        @property
        def servers(self) -> frozenset[int]:
            return next(looks)

    attendance: Any = Attendance()
    requests._attendance["g"] = attendance
    pending, _ = requests.begin("g", b"", 1, None, None)
    assert pending.done.done()
    with pytest.raises(quicksilver.NoResponderError, match="left before they answered"):
        pending.result(5.0, is_timeout=False)


class SilentError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("nothing to say")


def test_an_error_that_cannot_say_what_it_is_has_a_name() -> None:
    found = parse_enveloped(make_requests(1)[0].failure(SilentError()))
    assert found is not None
    assert (found[0].kind, found[1]) == (Kind.FAILURE, b"SilentError")


class SlowToSayError(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt


def test_an_interruption_while_an_error_is_told_is_not_swallowed() -> None:
    """Where handlers are tasks this runs on the program's own thread: Ctrl-C must end it."""
    with pytest.raises(KeyboardInterrupt):
        make_requests(1)[0].failure(SlowToSayError())


@pytest.mark.integration
def test_a_thread_that_serves_survives_whatever_its_handler_does(gms: str) -> None:
    with connect_sync(gms) as asker, connect_sync(gms) as server:
        group = server.join("s1")

        def handle(message: quicksilver.Message) -> bytes:
            if message.payload == b"exit":
                sys.exit(1)
            if message.payload == b"silent":
                raise SilentError
            return b"ok"

        group.serve(handle, concurrency=1)
        out = asker.open("s1")
        with pytest.raises(quicksilver.RequestFailedError, match="SystemExit: 1"):
            out.request(b"exit")
        with pytest.raises(quicksilver.RequestFailedError, match="SilentError"):
            out.request(b"silent")
        assert out.request(b"").payload == b"ok"


async def never(_: quicksilver.Message) -> bytes:
    await asyncio.Event().wait()
    return b""


def break_core() -> None:
    raise RuntimeError("broken on purpose")


@pytest.mark.integration
@pytest.mark.parametrize("is_failure", [False, True])
def test_a_request_ends_with_its_node(gms: str, *, is_failure: bool) -> None:
    async def work() -> None:
        async with connect(gms) as server:
            group = await server.join("s2")
            await group.serve(never)
            asker = await connect(gms)
            out = await asker.open("s2")
            asking = asyncio.create_task(out.request(b"x", timeout=600))
            await until(lambda: bool(asker.core.requests._pending))
            if is_failure:
                asker.core.call(break_core)
                with pytest.raises(quicksilver.CoreFailedError):
                    await asking
            await asker.close(timeout=0)
            if not is_failure:
                with pytest.raises(quicksilver.ClosedError):
                    await asking

    run(work())


@pytest.mark.integration
def test_a_request_ends_with_its_node_in_the_synchronous_form(gms: str) -> None:
    with connect_sync(gms) as server:
        group = server.join("s3")
        go_on = threading.Event()

        def wait(_: quicksilver.Message) -> bytes:
            go_on.wait(30)
            return b""

        group.serve(wait)
        asker = connect_sync(gms)
        out = asker.open("s3")
        caught: list[Exception] = []

        def ask() -> None:
            try:
                out.request(b"x", timeout=600)
            except quicksilver.QuicksilverError as error:
                caught.append(error)

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        while not asker.core.requests._pending:
            time.sleep(0.005)
        asker.close(timeout=0)
        thread.join(15)
        go_on.set()
        assert [type(error) for error in caught] == [quicksilver.ClosedError]


@pytest.mark.integration
def test_a_request_ends_with_its_group(gms: str) -> None:
    async def work() -> None:
        async with connect(gms) as server, connect(gms) as asker:
            group = await server.join("s4")
            await group.serve(never)
            out = await asker.open("s4")
            asking = asyncio.create_task(out.request(b"x", timeout=600))
            await until(lambda: bool(asker.core.requests._pending))
            await asker.leave(out)
            with pytest.raises(quicksilver.ClosedError):
                await asking

    run(work())


@pytest.mark.integration
def test_what_requests_need_is_closed_with_the_group(gms: str) -> None:
    async def work() -> None:
        async with connect(gms) as server, connect(gms) as asker:
            for number in range(3):
                group = await server.join(f"s5.{number}")
                await group.serve(lambda _: b"ok")
                for _ in range(2):  # the second time it is prepared anew
                    out = await asker.open(group.name)
                    assert (await out.request(b"")).payload == b"ok"
                    await asker.leave(out)
                await server.leave(group)
            await until(lambda: asker.core.group_count() == 1)  # its own reply group
            await until(lambda: server.core.group_count() == 0)
            assert len(server.core.requests.answers.groups) == 0

    run(work())


@pytest.mark.integration
def test_groups_that_a_node_serves_share_reply_groups(gms: str) -> None:
    async def work() -> None:
        async with connect(gms) as server, connect(gms) as one, connect(gms) as two:
            server.core.requests.answers.groups.count_max = 1
            for name in ("s6.a", "s6.b"):
                await (await server.join(name)).serve(lambda _: b"ok")
            asking = [await node.open(n) for n in ("s6.a", "s6.b") for node in (one, two)]
            for _ in range(3):
                for out in asking:
                    assert (await out.request(b"")).payload == b"ok"
                assert len(server.core.requests.answers.groups) == 1

    run(work())


def open_never(server: Any, asker: Any) -> None:
    """Let the GMS not answer a server that opens the reply group of one requester."""
    subscribe = server.core.subscribe
    slow = asker.core.requests._replies.name

    def subscribe_others(**groups: Any) -> Any:
        is_slow = any(sink.name == slow for sink in groups.get("open_", ()))
        return Future() if is_slow else subscribe(**groups)

    server.core.subscribe = subscribe_others


@pytest.mark.integration
def test_a_reply_group_that_is_not_opened_holds_up_no_other_answer(gms: str) -> None:
    """The only handler is free again as soon as it has an answer."""

    async def work() -> None:
        async with connect(gms) as server, connect(gms) as slow, connect(gms) as quick:
            await (await server.join("s11")).serve(lambda _: b"ok", concurrency=1)
            open_never(server, slow)
            waits = asyncio.create_task((await slow.open("s11")).request(b"", timeout=30))
            out = await quick.open("s11")
            await until(lambda: len(server.core.requests.answers.groups) > 0)
            for _ in range(5):
                assert (await out.request(b"", timeout=10)).payload == b"ok"
            assert not waits.done()
            waits.cancel()

    run(work())


@pytest.mark.integration
def test_a_reply_group_that_is_not_opened_holds_up_no_other_thread(gms: str) -> None:
    with connect_sync(gms) as server, connect_sync(gms) as slow, connect_sync(gms) as quick:
        server.join("s12").serve(lambda _: b"ok", concurrency=1)
        open_never(server, slow)
        out = slow.open("s12")
        with pytest.raises(quicksilver.RequestTimeoutError):
            out.request(b"", timeout=0.2)
        out = quick.open("s12")
        for _ in range(5):
            assert out.request(b"", timeout=10).payload == b"ok"


LARGE = bytes(700_000)
"""Of these, two are more than may wait for a requester."""


@pytest.mark.integration
def test_a_reply_group_that_is_never_opened_does_not_keep_a_handler(
    gms: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The GMS may be gone for long, and other requesters have their reply groups open."""
    monkeypatch.setattr(task_serving, "OPEN_S", 0.2)

    async def work() -> None:
        async with connect(gms) as server, connect(gms) as slow, connect(gms) as quick:
            await (await server.join("s14")).serve(lambda _: LARGE, concurrency=1)
            out = await quick.open("s14")
            await out.request(b"")
            open_never(server, slow)
            opened = await slow.open("s14")
            for _ in range(3):
                with pytest.raises(quicksilver.RequestTimeoutError):
                    await opened.request(b"", timeout=0.1)
            assert len((await out.request(b"", timeout=10)).payload) == len(LARGE)
            assert server.core.requests.answers.groups.dropped > 0

    run(work())


@pytest.mark.integration
def test_a_reply_group_that_is_never_opened_does_not_keep_a_thread(
    gms: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "OPEN_S", 0.2)
    with connect_sync(gms) as server, connect_sync(gms) as slow, connect_sync(gms) as quick:
        server.join("s15").serve(lambda _: LARGE, concurrency=1)
        out = quick.open("s15")
        out.request(b"")
        open_never(server, slow)
        opened = slow.open("s15")
        for _ in range(3):
            with pytest.raises(quicksilver.RequestTimeoutError):
                opened.request(b"", timeout=0.1)
        assert len(out.request(b"", timeout=10).payload) == len(LARGE)
        assert server.core.requests.answers.groups.dropped > 0


def on_core(node: Any, work: Callable[[], Any]) -> None:
    """Have the core thread do something, and wait for what it asked itself to do."""
    for each in (work, lambda: None):
        done = threading.Event()
        node.core.call(each)
        node.core.call(done.set)
        assert done.wait(10)


def reply_name(node: Any) -> str:
    return str(node.core.requests._replies.name)


@pytest.mark.integration
def test_a_reply_group_that_is_wanted_again_before_it_is_closed_stays_open(gms: str) -> None:
    """Two handlers end in the same turn of the core: the answer of the first takes the place of
    the reply group that the second needs."""
    with (
        connect_sync(gms) as server,
        connect_sync(gms) as one,
        connect_sync(gms) as two,
        connect_sync(gms) as three,
    ):
        group = server.join("s16")
        group.serve(lambda _: b"ok")
        groups = server.core.requests.answers.groups
        groups.count_max = 2
        opened = [node.open("s16") for node in (three, one, two)]
        for out in opened:
            assert out.request(b"").payload == b"ok"
        first, _, third = map(reply_name, (one, two, three))

        def answer_both() -> None:
            groups.answer(third, b"\0")
            groups.answer(first, b"\0")

        on_core(server, answer_both)
        assert set(groups._groups) == {third, first}
        assert groups.dropped == 0
        for out in opened:
            assert out.request(b"").payload == b"ok"
        server.leave(group)
        on_core(server, lambda: None)
        assert server.core.group_count() == 0


@pytest.mark.integration
def test_a_node_that_serves_again_at_once_keeps_what_it_answers(gms: str) -> None:
    with connect_sync(gms) as server, connect_sync(gms) as asker:
        group = server.join("s17")
        group.serve(lambda _: b"ok")
        assert asker.open("s17").request(b"").payload == b"ok"
        answers, name = server.core.requests.answers, reply_name(asker)
        other = object()

        def exchange() -> None:
            answers.detach(group.server)
            answers.attach(other)
            server.core.call(lambda: answers.groups.answer(name, b"\0"))

        on_core(server, exchange)
        on_core(server, lambda: None)
        assert (len(answers.groups), answers.groups.dropped) == (1, 0)
        answers.detach(other)
        on_core(server, lambda: None)
        assert name not in server.core._openers


@pytest.mark.integration
def test_a_reply_name_that_is_refused_leaves_nothing_open(gms: str) -> None:
    with connect_sync(gms) as server, connect_sync(gms) as asker:
        server.join("s18").serve(lambda _: b"ok")
        groups = server.core.requests.answers.groups
        groups.count_max = 1
        assert asker.open("s18").request(b"").payload == b"ok"
        on_core(server, lambda: groups.answer("$private.*", b"\0"))
        on_core(server, lambda: None)
        assert len(groups) == 0
        assert reply_name(asker) not in server.core._openers


@pytest.mark.integration
def test_an_answer_to_a_reply_group_that_is_closed_in_this_moment_comes(gms: str) -> None:
    """The thread of a handler has found it open; its lane is gone when the answer is put there."""
    with connect_sync(gms) as server, connect_sync(gms) as asker:
        server.join("s19").serve(lambda _: b"ok")
        out = asker.open("s19")
        assert out.request(b"").payload == b"ok"
        session: Any = server.core.session
        put, groups = session.put_enveloped, server.core.requests.answers.groups

        def close_before(sender: Any, payload: bytes) -> Any:
            session.put_enveloped = put
            lane = sender.lane
            on_core(server, groups.close_all)
            while lane in session.engine.outgoing.groups._lanes.values():
                on_core(server, session.engine.outgoing.groups.refresh_lanes)
            return put(sender, payload)

        session.put_enveloped = close_before
        assert out.request(b"", timeout=3).payload == b"ok"
        assert session.put_enveloped is put


@pytest.mark.integration
def test_answers_of_many_megabytes_all_come(gms: str) -> None:
    """More than may wait for a requester: handlers wait then, and nothing is dropped."""

    async def work() -> None:
        async with connect(gms) as server, connect(gms) as asker:
            await (await server.join("s13")).serve(lambda _: bytes(400_000))
            out = await asker.open("s13")
            asking = [out.request(b"%d" % n, timeout=20) for n in range(100)]
            assert {len(m.payload) for m in await asyncio.gather(*asking)} == {400_000}
            assert server.core.requests.answers.groups.dropped == 0

    run(work())


@pytest.mark.integration
def test_a_reply_group_that_is_closed_is_opened_again(gms: str) -> None:
    def close_replies(asker: Any, server: Any) -> Future[Any]:
        future: Future[Any] = server.core.subscribe(close=[asker.core.requests._replies.name])
        return future

    async def work() -> None:
        async with connect(gms) as server, connect(gms) as asker:
            await (await server.join("s7")).serve(lambda _: b"ok")
            out = await asker.open("s7")
            await out.request(b"")
            await asyncio.wrap_future(close_replies(asker, server))
            assert (await out.request(b"")).payload == b"ok"

    run(work())
    with connect_sync(gms) as server, connect_sync(gms) as asker:
        server.join("s8").serve(lambda _: b"ok")
        out = asker.open("s8")
        out.request(b"")
        close_replies(asker, server).result(10)
        assert out.request(b"").payload == b"ok"


@pytest.mark.integration
def test_a_synchronous_request_keeps_its_time_while_there_is_no_room(gms: str) -> None:
    with connect_sync(gms) as asker, connect_sync(gms) as server:
        group = server.join("s9")
        group.serve(lambda _: b"ok")
        out = asker.open("s9")
        assert out.request(b"").payload == b"ok"
        session: Any = asker.core.session
        put = session.put_enveloped
        asked: list[bytes] = []
        caught: list[Exception] = []

        # The lane of the group as long as nobody reads.
        full = SimpleNamespace(room=-1, is_blocked=True, on_room=deque())
        sender: Any = SimpleNamespace(is_empty=False, lane=full)

        def ask() -> None:
            try:
                out.request(b"late", timeout=0.2)
            except quicksilver.QuicksilverError as error:
                caught.append(error)

        def note(sender: Any, payload: bytes) -> Any:
            asked.append(payload)
            return sender.lane

        own = out.sender
        out.sender = sender
        session.put_enveloped = note
        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(15)
        is_late = thread.is_alive()
        full.room = 0
        thread.join(15)
        out.sender, session.put_enveloped = own, put
        assert not is_late
        assert [type(error) for error in caught] == [quicksilver.RequestTimeoutError]
        assert asked == []  # nothing is queued where there is no room


@pytest.mark.integration
def test_a_wait_for_room_leaves_nothing_behind(gms: str) -> None:
    full: Any = SimpleNamespace(room=-1, is_blocked=True, on_room=deque())

    async def work() -> None:
        async with connect(gms) as node:
            group = await node.open("s10")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(group._wait_room(full), 0.05)

    run(work())
    assert not full.on_room
    with connect_sync(gms) as node:
        group = node.open("s10")
        with pytest.raises(quicksilver.TimedOutError, match="room to send to group 's10'"):
            group._wait_room(full, Limit(0.05))
    assert not full.on_room
