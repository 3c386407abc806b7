"""Requests and their answers: what both forms of the API share.

A request is a message of its group with an envelope that has a number and the name of the
requester's reply group. The reply group is private: it has a region of its own with the
requester as its only member, so an answer is a reliable message to one node, the plan of all
other regions stays as it is, and nobody else hears it. A node makes its reply group with its
first request; whoever answers opens it once.

Members that serve a group are in an attendance group, whose view requesters know: a request
that nobody would answer fails at once, and one whose servers have all gone does not wait.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from quicksilver.membership.names import ATTENDANCE, PRIVATE, find_name_problem
from quicksilver.multicast.reply_groups import ReplyGroups
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
from quicksilver.node.promises import settle
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


def serve_attendance(group: str) -> str:
    """Return the attendance group of those who serve a group.

    Names of groups may be as long as those of attendance groups: the longest are hashed.
    """
    name = f"{ATTENDANCE}serve.{group}"
    if find_name_problem(name) is None:
        return name
    return f"{ATTENDANCE}serve-long.{hashlib.sha256(group.encode()).hexdigest()}"


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
    """Who serves a group, as a requester knows it."""

    def __init__(self, group: str, on_left: Callable[[str, frozenset[int]], None]) -> None:
        super().__init__(serve_attendance(group))
        self.group = group
        self.servers: frozenset[int] = frozenset()
        self._on_left = on_left

    def view_on_core(self, view: View) -> None:
        left = self.servers.difference(view.members)
        self.servers = frozenset(view.members)
        if left:
            self._on_left(self.group, left)


class _Replies(Sink):
    """The reply group of this node."""

    def __init__(self, on_answer: Callable[[int, Kind, Message[bytes]], None]) -> None:
        super().__init__(f"{PRIVATE}reply.{os.urandom(8).hex()}")
        self._on_answer = on_answer

    def deliver_enveloped_on_core(self, messages: Messages, envelopes: Sequence[Envelope]) -> None:
        numbers = messages.sequences or range(messages.first, messages.first + len(envelopes))
        for payload, sequence, envelope in zip(messages.payloads, numbers, envelopes, strict=True):
            if envelope.kind in (Kind.ANSWER, Kind.FAILURE):
                headers = envelope.headers or NO_HEADERS
                message = Message(
                    payload, messages.sender, sequence, "", messages.batch, envelope.key, headers
                )
                self._on_answer(envelope.number, envelope.kind, message)


class _ReplyGroup(Sink):
    """The reply group of another node."""

    def __init__(self, name: str, groups: ReplyGroups) -> None:
        super().__init__(name)
        self._groups = groups

    def ready_on_core(self, sender: GroupSender) -> None:
        self._groups.handle_ready(self.name, sender)

    def view_on_core(self, view: View) -> None:
        self._groups.handle_view(self.name)

    def fail_on_core(self, error: Exception) -> None:
        self._groups.handle_gone(self.name)


class Pending:
    """A request that waits for answers."""

    def __init__(self, group: str, wanted: int | None, servers: frozenset[int]) -> None:
        self.group = group
        self.number = 0
        self.answers: list[Message[bytes]] = []
        self.done: Future[None] = Future()
        """Has a result when nothing more is to be waited for."""
        self._failures: list[tuple[int, str]] = []
        self._wanted = wanted
        self._servers = set(servers)
        """Who may still answer, as far as it is known."""

    def handle_answer(self, kind: Kind, message: Message[bytes]) -> None:
        """An answer has come (core thread)."""
        if self.done.done():
            return
        if kind == Kind.FAILURE:
            text = bytes(message.payload).decode("utf-8", "replace")[:FAILURE_CHARS_MAX]
            self._failures.append((message.sender, text))
        else:
            self.answers.append(msgspec.structs.replace(message, group=self.group))
        self._servers.discard(message.sender)
        self._check()

    def handle_left(self, gone: frozenset[int]) -> None:
        """Servers are gone (core thread): they will not answer."""
        if not self.done.done():
            self._servers -= gone
            self._check()

    def _check(self) -> None:
        # A failure counts: whoever asks for one answer gets the first, whatever it is.
        count = len(self.answers) + len(self._failures)
        if not self._servers or (self._wanted is not None and count >= self._wanted):
            self._end()

    def fail(self, error: Exception) -> None:
        """The node or the group has ended: no answer comes any more (any thread)."""
        with suppress(InvalidStateError):
            self.done.set_exception(error)

    def _end(self) -> None:
        with suppress(InvalidStateError):  # whoever waited has given up in the same moment
            self.done.set_result(None)

    def result(self, timeout_s: float, *, is_timeout: bool) -> Any:
        """Return what the caller of ``request`` gets, or raise it."""
        if not is_timeout:
            self.done.result()  # raises what the request failed with
        wanted, answers = self._wanted, self.answers
        if wanted is not None and len(answers) >= wanted:
            return answers[0] if wanted == 1 else answers[:wanted]
        if wanted is None and answers:
            return list(answers)
        if self._failures and not is_timeout:
            raise RequestFailedError(self.group, *self._failures[0], tuple(answers))
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
        self._pending: dict[int, Pending] = {}
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
        self, group: str, body: bytes, answers: int | None, key: Any, headers: Headers | None
    ) -> tuple[Pending, bytes]:
        """Return a request that waits, and the payload that asks for it.

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
        pending = Pending(group, answers, servers)
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

    def end(self, pending: Pending) -> None:
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
            pending.handle_answer(kind, message)

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
    except BaseException:  # noqa: BLE001  # whatever the application's own code raises
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
    numbers = messages.sequences or range(messages.first, messages.first + len(envelopes))
    requests: list[Request] = []
    rest: list[int] = []
    for at, envelope in enumerate(envelopes):
        if envelope.kind != Kind.REQUEST or not envelope.reply.startswith(PRIVATE):
            rest.append(at)
            continue
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
    if not rest:
        return requests, None, []
    number = messages.groups[0] if messages.group is None else messages.group
    others = Messages(
        messages.sender,
        messages.batch,
        [messages.payloads[at] for at in rest],
        None,
        0,
        [number] * len(rest),
        [numbers[at] for at in rest],
    )
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


async def call_handler(handler: Handler, message: Message[Any]) -> Any:
    """Return what a handler returns, whichever kind of function it is."""
    result = handler(message)
    return await result if inspect.isawaitable(result) else result


class Answers:
    """What a node answers to whom; any thread may use it."""

    def __init__(self, core: NodeCore) -> None:
        self._core = core
        self.groups = ReplyGroups(self._change, core.session.put_enveloped)
        """The reply groups of those who asked, whichever group they asked (core thread)."""
        self._servers: set[object] = set()

    def attach(self, server: object) -> None:
        """Somebody serves a group."""
        self._core.call(lambda: self._servers.add(server))

    def detach(self, server: object) -> None:
        """Somebody serves no more: the reply groups are closed after the last one."""

        def leave() -> None:
            self._servers.discard(server)
            closing = () if self._servers else self.groups.close_all()
            with suppress(QuicksilverError):  # the node has ended, and they with it
                if closing:
                    self._core.subscribe(close=closing)

        self._core.call(leave)

    def send(self, name: str, payload: bytes) -> Future[None] | None:
        """Send an answer; return what to wait for before the next one to the same requester, if
        that one does not take what it asked for."""

        def answer_on_core() -> None:
            if self._servers:
                self.groups.answer(name, payload)

        self._core.call(answer_on_core)
        if not self.groups.is_full(name):
            return None
        has_room: Future[None] = self._core.promises.make()
        self._core.call(lambda: self.groups.call_with_room(name, lambda: settle(has_room, None)))
        return has_room

    def _change(self, name: str, closing: tuple[str, ...]) -> None:
        try:
            opening = self._core.subscribe(
                open_=[_ReplyGroup(name, self.groups)], close=closing, empty="drop"
            )
        except QuicksilverError:  # the node has ended
            self.groups.handle_gone(name)
            return

        def look(done: Future[dict[str, int]]) -> None:
            if done.cancelled() or done.exception() is not None:
                self._core.call(lambda: self.groups.handle_gone(name))

        opening.add_done_callback(look)
