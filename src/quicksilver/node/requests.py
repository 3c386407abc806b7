"""Requests and their answers: what both forms of the API share.

``multicast.requests`` says how they work; here are the futures, the threads and the groups that
a node joins and opens for them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from quicksilver.multicast.reply_groups import ReplyGroup, ReplyGroups
from quicksilver.multicast.requests import (
    Attendance,
    Pending,
    find_requests,
    reply_group,
    serve_attendance,
)
from quicksilver.multicast.routes import Receivers
from quicksilver.multicast.sending.group import GroupSender
from quicksilver.multicast.sending.unconfirmed import Unconfirmed
from quicksilver.node.errors import (
    ClosedError,
    NoResponderError,
    OptionError,
    QuicksilverError,
    RequestFailedError,
    RequestTimeoutError,
)
from quicksilver.node.headers import enveloped
from quicksilver.node.messages import NO_HEADERS, Headers, Message, View
from quicksilver.node.promises import fail, settle
from quicksilver.wire.envelope import Envelope, Kind
from quicksilver.wire.packets import Messages

if TYPE_CHECKING:
    from quicksilver.node.core import NodeCore

TIMEOUT_S = 5.0
CONCURRENCY = 16
WAITING_MAX = 1024
"""Requests that wait for a handler; whoever asks on top is told that the member is busy."""

FAILURE_CHARS_MAX = 1000
PENDING_MAX = 100_000
"""Requests under way at once, of one node."""

Handler = Callable[[Message[Any]], Any | Awaitable[Any]]


class Sink:
    """A group that has no object of its own for the application; all calls do nothing."""

    echo = False

    def __init__(self, name: str) -> None:
        self.name = name

    def ready_on_core(self, sender: GroupSender) -> None:
        """Nothing is sent there."""

    def deliver_on_core(self, messages: Messages) -> None:
        """Nobody sends plain messages there."""

    def deliver_enveloped_on_core(self, messages: Messages, envelopes: Sequence[Envelope]) -> None:
        """Nobody is served by default."""

    def receivers_on_core(self, name: str) -> Receivers:
        return self.deliver_on_core, None

    def view_on_core(self, view: View) -> None:
        """Views are of no interest by default."""

    def emptiness_on_core(self) -> None:
        """Nothing is sent there."""

    def unconfirmed_on_core(self, messages: Unconfirmed) -> None:
        """Nothing is sent there."""

    def told_on_core(self) -> None:
        """Nothing is sent there."""

    def fail_on_core(self, error: Exception) -> None:
        """Whoever waits is told by the node."""


class _Attendance(Sink):
    """The attendance group of those who serve a group."""

    def __init__(self, group: str, on_left: Callable[[str, frozenset[int]], None]) -> None:
        super().__init__(serve_attendance(group))
        self.group = group
        self._known = Attendance()
        self._on_left = on_left

    @property
    def servers(self) -> frozenset[int]:
        return self._known.servers

    def view_on_core(self, view: View) -> None:
        left = self._known.handle_view(view.members)
        if left:
            self._on_left(self.group, left)


class _Replies(Sink):
    """The reply group of this node."""

    def __init__(self, on_answer: Callable[[int, Kind, Message[bytes]], None]) -> None:
        super().__init__(reply_group(os.urandom(8).hex()))
        self._on_answer = on_answer

    def deliver_enveloped_on_core(self, messages: Messages, envelopes: Sequence[Envelope]) -> None:
        numbers = messages.numbers()
        for payload, sequence, envelope in zip(messages.payloads, numbers, envelopes, strict=True):
            if envelope.kind in (Kind.ANSWER, Kind.FAILURE):
                headers = envelope.headers or NO_HEADERS
                message = Message(
                    payload, messages.sender, sequence, "", messages.batch, envelope.key, headers
                )
                self._on_answer(envelope.number, envelope.kind, message)


class _OthersReplies(Sink):
    """The reply group of another node."""

    def __init__(self, group: ReplyGroup, groups: ReplyGroups) -> None:
        super().__init__(group.name)
        self._group = group
        self._groups = groups

    def view_on_core(self, view: View) -> None:
        self._groups.handle_view(self._group)

    def fail_on_core(self, error: Exception) -> None:
        self._groups.handle_gone(self._group)


class Waiting(Pending):
    """A request that somebody waits for, in whichever thread."""

    def __init__(self, group: str, wanted: int | None, servers: frozenset[int]) -> None:
        self.done: Future[None] = Future()
        """Has a result when nothing more is to be waited for."""
        super().__init__(group, wanted, servers, lambda: settle(self.done, None))

    def handle(self, kind: Kind, message: Message[bytes]) -> None:
        """An answer has come (core thread)."""
        if kind == Kind.FAILURE:
            text = bytes(message.payload).decode("utf-8", "replace")[:FAILURE_CHARS_MAX]
            self.handle_failure(message.sender, text)
        else:
            self.handle_answer(message.sender, msgspec.structs.replace(message, group=self.group))

    def fail(self, error: Exception) -> None:
        """The node or the group has ended: no answer comes any more (any thread)."""
        fail(self.done, error)

    def result(self, timeout_s: float, *, is_timeout: bool) -> Any:
        """Return what the caller of ``request`` gets, or raise it."""
        if not is_timeout:
            self.done.result()  # raises what the request failed with
        wanted, answers = self.wanted, self.answers
        if wanted is not None and len(answers) >= wanted:
            return answers[0] if wanted == 1 else answers[:wanted]
        if wanted is None and answers:
            return list(answers)
        if self.failures and not is_timeout:
            raise RequestFailedError(self.group, *self.failures[0], tuple(answers))
        if is_timeout:
            raise RequestTimeoutError(self.group, timeout_s, tuple(answers))
        if answers:
            problem = f"{len(answers)} of {wanted} answers came, and no other member serves it"
        else:
            problem = "all members that serve it left before they answered"
        raise NoResponderError(self.group, problem, tuple(answers))


class Requests:
    """The requests of one node, and the groups that they need."""

    def __init__(self, core: NodeCore) -> None:
        self._core = core
        self._replies = _Replies(self._handle_answer)
        self._has_replies = False
        """True once the reply group was asked for."""
        self._attendance: dict[str, _Attendance] = {}
        self._preparing: dict[str, Future[dict[str, int]]] = {}
        """What the first request to a group waits for, and those that come meanwhile."""
        self._lock = threading.RLock()
        self._pending: dict[int, Waiting] = {}
        self._next = 1
        self.late = 0
        """Answers that nobody waited for any more."""
        self.answers = Answers(core)
        """Those of this node to others' requests."""

    def prepare(self, group: str) -> Future[dict[str, int]] | None:
        """Join and open what requests to a group need; None if that was done.

        All who ask for the same share the future: none of them may cancel it.
        """
        with self._lock:
            if group in self._attendance:
                return self._preparing.get(group)
            self._core.check_alive()
            sink = self._attendance[group] = _Attendance(group, self._handle_left)
            joins_replies, self._has_replies = not self._has_replies, True
            # Answers of the GMS come in order: whoever does not join the reply group here
            # hears of its own request after the one that does.
            future = self._core.subscribe(
                join=[self._replies] if joins_replies else (), open_=[sink], empty="drop"
            )
            self._preparing[group] = future

        def keep(done: Future[dict[str, int]]) -> None:
            with self._lock:
                del self._preparing[group]
                if done.cancelled() or done.exception() is not None:
                    del self._attendance[group]
                    self._has_replies = self._has_replies and not joins_replies

        future.add_done_callback(keep)
        return future

    def begin(
        self,
        group: str,
        body: bytes,
        answers: int | None,
        key: Any,
        headers: Headers | None,
        make: type[Waiting] | None = None,
    ) -> tuple[Waiting, bytes]:
        """Return a request that waits, and the payload that asks for it; ``make`` makes the first.

        Raises:
            NoResponderError: nobody serves the group, as far as this node has heard.
            ClosedError: the group was left meanwhile.
        """
        attendance = self._attendance.get(group)
        if attendance is None:
            raise ClosedError(f"group {group!r}")
        servers = attendance.servers - {self._core.session.node}
        if not servers:
            raise NoResponderError(group, "no member serves it")
        if len(self._pending) >= PENDING_MAX:
            raise OptionError("request", f"{PENDING_MAX} are under way: wait for some of them")
        pending = (make or Waiting)(group, answers, servers)
        with self._lock:  # threads may ask at once
            pending.number, self._next = self._next, self._next + 1
        payload = enveloped(
            body,
            key,
            headers,
            kind=Kind.REQUEST,
            number=pending.number,
            reply=self._replies.name,
        )
        self._pending[pending.number] = pending
        # Those who left before the request was entered were told to nobody.
        gone = servers - attendance.servers
        if gone:
            self._core.call(lambda: pending.handle_left(gone))
        if self._attendance.get(group) is not attendance:
            pending.fail(ClosedError(f"group {group!r}"))
        return pending, payload

    def end(self, pending: Waiting) -> None:
        """Nobody waits for a request any more."""
        self._pending.pop(pending.number, None)

    def fail_all(self, error: Exception) -> None:
        """The node has ended: tell those who wait for answers (any thread)."""
        for pending in list(self._pending.values()):
            pending.fail(error)

    # Core thread

    def forget_on_core(self, group: str) -> None:
        """The node has left a group: close what requests to it needed."""

        def forget_unused() -> None:
            if not self._core.has_group(group):
                self.forget_on_core(group)

        with self._lock:
            preparing = self._preparing.get(group)
            attendance = None if preparing is not None else self._attendance.pop(group, None)
        if preparing is not None:
            preparing.add_done_callback(lambda _: self._core.call(forget_unused))
        elif attendance is not None:
            self._core.withdraw([attendance])
        error = ClosedError(f"group {group!r}")
        for pending in list(self._pending.values()):
            if pending.group == group:
                pending.fail(error)

    def _handle_answer(self, number: int, kind: Kind, message: Message[bytes]) -> None:
        pending = self._pending.get(number)
        if pending is None:
            self.late += 1
        else:
            pending.handle(kind, message)

    def _handle_left(self, group: str, gone: frozenset[int]) -> None:
        for pending in list(self._pending.values()):
            if pending.group == group:
                pending.handle_left(gone)


class Request(msgspec.Struct, frozen=True):
    """A request that a member received and is to answer."""

    message: Message[bytes]
    number: int
    reply: str

    def answer(self, result: Any) -> bytes:
        """Return the payload that answers it."""
        body = encode_result(result)
        return enveloped(body, None, None, kind=Kind.ANSWER, number=self.number)

    def failure(self, error: BaseException | str) -> bytes:
        """Return the payload that says why there is no answer."""
        text = error if isinstance(error, str) else describe(error)
        body = text[:FAILURE_CHARS_MAX].encode("utf-8", "replace")
        return enveloped(body, None, None, kind=Kind.FAILURE, number=self.number)


def describe(error: BaseException) -> str:
    """Return an error as one line of text, also one that cannot say what it is."""
    name = type(error).__name__
    try:
        return f"{name}: {error}"
    except Exception:  # noqa: BLE001  # whatever the application's own code raises
        return name


def encode_result(result: Any) -> bytes:
    """Return what a handler returned as it travels: bytes as they are, values as MessagePack."""
    if result is None:
        return b""
    if isinstance(result, bytes | bytearray | memoryview):
        return bytes(result)
    return msgspec.msgpack.encode(result)


def split_requests(
    messages: Messages, envelopes: Sequence[Envelope], group: str
) -> tuple[list[Request], Messages | None, list[Envelope]]:
    """Return the requests among messages, and the other messages with their envelopes."""
    numbers, requests = messages.numbers(), []
    places = find_requests(envelopes)
    for at in places:
        envelope = envelopes[at]
        message = Message(
            messages.payloads[at],
            messages.sender,
            numbers[at],
            group,
            messages.batch,
            envelope.key,
            envelope.headers or NO_HEADERS,
        )
        requests.append(Request(message, envelope.number, envelope.reply))
    rest = sorted(set(range(len(envelopes))).difference(places))
    others = messages.pick(rest) if rest else None
    return requests, others, [envelopes[at] for at in rest]


def check_request(timeout_s: float, answers: int | None) -> None:
    """Refuse what no request can have."""
    if answers is not None and (type(answers) is not int or answers < 1):
        raise OptionError("answers", "must be a positive number, or None for one of each server")
    if not timeout_s > 0:
        raise OptionError("timeout", "must be a positive number of seconds")


def check_serve(handler: Any, concurrency: int) -> None:
    """Refuse what nobody can serve with."""
    if not callable(handler):
        raise OptionError("handler", "must be a function of a message")
    if type(concurrency) is not int or not 1 <= concurrency <= WAITING_MAX:
        raise OptionError("concurrency", f"must be from 1 to {WAITING_MAX}")


class Answers:
    """What a node answers to whom; any thread may use it."""

    def __init__(self, core: NodeCore) -> None:
        self._core = core
        self.groups = ReplyGroups(self._open, self._close, core.session.put_enveloped)
        """The reply groups of those who asked, whichever group they asked (core thread)."""
        self._servers: set[object] = set()

    def attach(self, server: object) -> None:
        """Somebody serves a group."""
        self._core.call(lambda: self._servers.add(server))

    def detach(self, server: object) -> None:
        """Somebody serves no more: the reply groups are closed after the last one."""

        def leave() -> None:
            self._servers.discard(server)
            if not self._servers:
                self.groups.close_all()

        self._core.call(leave)

    def send(self, name: str, payload: bytes) -> Future[None] | None:
        """Send an answer; return what to wait for before the next one to the same requester, if
        that one does not take what it asked for."""

        core = self._core
        group = self.groups.find_open(name)
        if group is not None:
            assert group.sender is not None
            lane = core.session.put_enveloped(group.sender, payload)
            if core.thread.is_sleeping and not lane.is_blocked:
                core.thread.wake()
            if self.groups.is_current(group):
                return None
            # It was closed in this moment, and nobody may look into that lane any more. Of two
            # answers the requester takes the first.

        def answer_on_core() -> None:
            if self._servers:
                self.groups.answer(name, payload)

        core.call(answer_on_core)
        if not self.groups.is_full(name):
            return None
        has_room: Future[None] = core.promises.make()
        core.call(lambda: self.groups.call_with_room(name, lambda: settle(has_room, None)))
        return has_room

    def give_up(self, name: str, room: Future[None]) -> None:
        """Somebody has waited for room for long: drop the answers if the reply group is not even
        open. That a requester is slow is no reason."""

        def drop_on_core() -> None:
            if not room.done():  # or else another group may have the name by now
                self.groups.close_unopened(name)

        self._core.call(drop_on_core)

    # Core thread

    def _open(self, group: ReplyGroup) -> None:
        try:
            opening = self._core.subscribe(open_=[_OthersReplies(group, self.groups)], empty="drop")
        except QuicksilverError:  # the node has ended
            self.groups.handle_gone(group)
            return

        def look(done: Future[dict[str, int]]) -> None:
            # That it is ready may also be said of an earlier opening, to be closed yet: only the
            # answer to this one counts.
            is_open = not done.cancelled() and done.exception() is None
            sender = self._core.session.find_sender(group.name) if is_open else None
            if sender is not None:
                self.groups.handle_ready(group, sender)
            else:
                self._core.call(lambda: self.groups.handle_gone(group))

        opening.add_done_callback(look)

    def _close(self, names: tuple[str, ...]) -> None:
        # By itself: a name that is refused must keep nothing else open.
        with suppress(QuicksilverError):  # the node has ended, and they with it
            self._core.subscribe(close=names)
