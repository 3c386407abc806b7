"""A group in the synchronous form."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Generic, Self, TypeVar

from quicksilver.node.checks import check_count, check_seconds
from quicksilver.node.errors import (
    ClosedError,
    QueueFullError,
    TimedOutError,
)
from quicksilver.node.group_base import GroupBase, check_payload
from quicksilver.node.headers import enveloped
from quicksilver.node.history import Catchup, History, HistoryFeed
from quicksilver.node.inbox import Inbox
from quicksilver.node.messages import Batch, Headers, Message, View
from quicksilver.node.ports import Core, GroupSender, Lane
from quicksilver.node.requests import CONCURRENCY, TIMEOUT_S, Handler
from quicksilver.node.sync_requests import Limit, request, serve

T = TypeVar("T")
V = TypeVar("V")

LOOK_S = 0.2
"""How long a thread waits for news before it looks by itself."""

MEMBERS_LOOK_S = 0.005
"""How often a thread that waits for members looks at the view."""

ROOM_LOOK_S = 0.5
"""How long a thread waits for room before it looks whether the node lives."""


class Stream(Iterator[V], Generic[V]):
    """The iterator that ``messages``, ``batches`` and ``views`` return.

    You can leave the loop and continue it later.
    """

    __slots__ = ("_take",)

    def __init__(self, take: Callable[[], V]) -> None:
        self._take = take

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> V:
        """Return the next item. The iteration ends when the group is left, when the node is closed,
        or after the timeout."""
        try:
            return self._take()
        except (ClosedError, TimedOutError):
            raise StopIteration from None


class Group(GroupBase[T], Iterator[Message[T]]):
    """A group in the synchronous form. Any thread may use it.

    A group is an iterator: ``for message in group`` takes messages until the group is left or the
    node is closed, and ``next(group)`` takes the next one.
    """

    __slots__ = ("_arrived",)

    def __init__(
        self, core: Core, name: str, type_: Any, *, inbox: Inbox | None, echo: bool = False
    ) -> None:
        super().__init__(core, name, type_, inbox=inbox, echo=echo)
        self._arrived = threading.Event() if inbox is not None else None

    def notify(self) -> None:
        """Wake whoever waits for messages, views or members."""
        if self._arrived is not None:
            self._arrived.set()

    def send(self, message: T, key: Any = None, headers: Headers | None = None) -> None:
        """Queue one message.

        Waits while flow control holds the group back, or while the group is empty and no more
        messages may wait for members. When it returns, the message is accepted but not yet
        delivered; to wait for that, use ``Node.flush``.

        Receivers get ``key`` (bytes or text) and ``headers`` (a mapping of names to text or bytes)
        with the message.

        Raises:
            MessageTypeError: the message is not of the group's type; in a group without a type, it
                is not bytes.
            MessageTooLargeError: the message exceeds the size limit.
            EmptyGroupError: the group has no members, and was joined or opened with
                ``empty="error"``.
            UnconfirmedError: earlier messages to the group may be lost, and no flush has reported
                it; raised once, and this message is not sent.
            QueueFullError: a callback on the core thread, which must not wait, has sent too much.
        """
        # Called for every message, so it tests only what it must: 165 ns with one
        # group and 207 with many; with a test for each case it took 205 and 280. Between
        # reading and writing ``room`` there is no call: see ``Lane``.
        if type(message) is bytes and key is headers:  # both None, in one test
            size = len(message)  # type: ignore[arg-type]  # bytes
            lane = self._lane
            room = lane.room - size
            if room >= 0:
                lane.room = room
                box = lane.outbox
                if size != box.size:
                    box.is_uniform = box.size < 0
                    box.size = size
                if box.is_single:
                    box.bare.append(message)  # type: ignore[arg-type]  # bytes
                else:
                    box.pairs.extend((self.sender, message))
                if self._thread.is_sleeping:
                    self._settle(lane)
                return
        if key is None and headers is None:
            self._send_slowly(message)
        else:
            body = check_payload(self._plain_bytes(message))
            self.send_payload(enveloped(body, key, headers))

    def send_payload(self, payload: bytes, limit: Limit | None = None) -> None:
        """Send what ``headers.enveloped`` made, for layers that build on groups.

        With a limit it waits for room first, so nothing is queued when the time is over.

        Raises:
            TimedOutError: there was no room within the limit.
        """
        sender = self._sender_to_use()
        if limit is not None and not self._thread.is_core():
            self._wait_room(sender.lane, limit)
        self._wait_for_members(sender, len(payload), limit)
        self._retain(payload, is_enveloped=True)
        lane = self._core.session.put_enveloped(sender, payload)
        self._settle(lane, limit)

    def request(
        self,
        message: T,
        timeout: float = TIMEOUT_S,
        answers: int | None = 1,
        *,
        key: Any = None,
        headers: Headers | None = None,
    ) -> Any:
        """Send a request and return the answer, a ``Message`` whose payload is bytes.

        With ``answers=n`` (2 or more) return a list of n answers. With None, return a list with one
        answer from each serving member, or those that came within ``timeout`` seconds; members
        whose handler failed are left out.

        Raises:
            NoResponderError: no other member serves the group, or those that did are gone.
            RequestFailedError: a handler raised an error, and too few answers came.
            RequestTimeoutError: too few answers came within ``timeout`` seconds; the error has
                those that came.
        """
        self._ready_sender()
        body = self._as_bytes(message)
        return request(self._core, self, body, timeout, answers, key, headers)

    def serve(self, handler: Handler, concurrency: int = CONCURRENCY) -> None:
        """Answer requests to the group: ``handler`` is called with each request, a ``Message``, and
        what it returns is the answer.

        The handler is a function. It returns bytes, a value (sent as MessagePack) or None (an empty
        answer). If it raises an error, the requester gets the error's text. At most ``concurrency``
        handlers run at the same time, in threads of their own. Requests no longer arrive as
        messages.

        Returns when others know that this member serves; it serves until the group is left.
        """
        self._joined_inbox()
        self._ready_sender()
        serve(self._core, self, handler, concurrency)

    def _send_slowly(self, message: Any) -> None:
        """Send what is not bytes, or larger than the room left; refuse what cannot be sent."""
        payload = check_payload(self._plain_bytes(message))
        sender = self._sender_to_use()
        self._wait_for_members(sender, len(payload))
        self._retain(payload)
        self._settle(self._core.session.send(sender, payload))

    def _wait_for_members(self, sender: GroupSender, size: int, limit: Limit | None = None) -> None:
        """Wait while nobody is in the group and no more may wait for members."""
        room = self._core.room
        while self._must_wait(sender, size):
            if self._thread.is_core():
                raise QueueFullError(self._core.session.waiting_bytes())
            room.clear()
            if self._must_wait(sender, size):
                self._look(room, limit)
            self._ready_sender()

    def _look(self, room: threading.Event, limit: Limit | None) -> None:
        """Wait a moment for room; raises TimedOutError when the time is over."""
        left = ROOM_LOOK_S if limit is None else limit.left()
        if left <= 0 and limit is not None:
            raise TimedOutError(f"room to send to group {self.name!r}", limit.seconds)
        room.wait(min(left, ROOM_LOOK_S))

    def post(self, message: T) -> bool:
        """Queue one message without waiting. Returns False, and does not send it, if ``send`` would
        wait.

        Raises what ``send`` raises.
        """
        payload = check_payload(self._as_bytes(message))
        sender = self._sender_to_use()
        if self._must_wait(sender, len(payload)) or sender.lane.room < 0:
            return False
        self._retain(payload)
        lane = self._core.session.send(sender, payload)
        if self._thread.is_sleeping and not lane.is_blocked:
            self._thread.wake()
        return True

    def _settle(self, lane: Lane, limit: Limit | None = None) -> None:
        """Wake the core if it sleeps, and wait while the queue is full."""
        thread = self._thread
        if lane.room >= 0:
            if thread.is_sleeping and not lane.is_blocked:
                thread.wake()
            return
        if thread.is_core():
            self._core.check_overrun(lane)
            return
        if not lane.is_blocked:
            thread.lend()
        self._wait_room(lane, limit)

    def _wait_room(self, lane: Lane, limit: Limit | None) -> None:
        """Wait while the queue is full (not on the core thread)."""
        thread, room = self._thread, self._core.room
        while lane.room < 0:
            if thread.is_sleeping and not lane.is_blocked:
                thread.wake()
            room.clear()
            lane.on_room.append(room.set)
            try:
                if lane.room < 0:
                    self._look(room, limit)
            finally:
                with suppress(ValueError):  # it was called
                    lane.on_room.remove(room.set)
            self._ready_sender()

    def receive(self, timeout: float | None = None) -> Message[T]:
        """Wait for the next message and return it.

        Raises:
            TimedOutError: none came within ``timeout`` seconds.
            ClosedError: the group was left or the node closed, and all messages have been taken.
            NotJoinedError: the group was only opened for sending.
        """
        check_seconds("timeout", timeout, allow_none=True)
        deadline = None if timeout is None else time.monotonic() + timeout
        while (message := self._next_unfinished()) is None:
            self._begin(self._next_batch(timeout, deadline))
        return message

    def receive_batch(self, timeout: float | None = None) -> Batch:
        """Wait for the next batch and return it: consecutive messages of one sender, as bytes.

        Raises what ``receive`` raises.
        """
        check_seconds("timeout", timeout, allow_none=True)
        deadline = None if timeout is None else time.monotonic() + timeout
        return self._next_batch(timeout, deadline)

    def _next_batch(self, timeout: float | None, deadline: float | None) -> Batch:
        inbox = self._joined_inbox()
        arrived = self._arrived
        assert arrived is not None
        while True:
            batch = self._take_batch() if self._feed is None else self._take_merged(self._feed)
            if batch is not None:
                return batch
            if self._end is not None:
                raise self._end
            arrived.clear()
            if inbox or self._end is not None:
                continue
            if not self._wait_arrival(arrived, deadline):
                assert timeout is not None
                raise TimedOutError(f"a message of group {self.name!r}", timeout)

    def begin_history(self, history: History) -> None:
        """Read the group's past before what arrives; raises what keeps it from being read."""
        reader = history.open(self.name)
        self._feed = HistoryFeed(reader, Catchup(time.monotonic()))
        self._feed.take_state(reader.state(), time.monotonic())

    def _take_merged(self, feed: HistoryFeed) -> Batch | None:
        """Return the next batch of history or live; None when there is none yet."""
        catchup = feed.catchup
        while (batch := catchup.poll_batch()) is None:
            live = self._take_batch()
            if live is not None:
                catchup.handle_live(live, time.monotonic())
            elif catchup.offset < catchup.past:
                feed.take(*feed.read(), time.monotonic())
            elif catchup.is_caught_up or not feed.take_state(feed.reader.state(), time.monotonic()):
                return catchup.poll_batch()
        return batch

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message[T]:
        """Return the next message. The iteration ends when the group is left or the node is
        closed."""
        try:
            return self.receive()
        except ClosedError:
            raise StopIteration from None

    def messages(self, timeout: float | None = None) -> Stream[Message[T]]:
        """Iterate over messages. The iteration ends when none came for ``timeout`` seconds, when
        the group is left, or when the node is closed."""
        check_seconds("timeout", timeout, allow_none=True)
        return Stream(partial(self.receive, timeout))

    def batches(self, timeout: float | None = None) -> Stream[Batch]:
        """Iterate over batches. The iteration ends when none came for ``timeout`` seconds, when the
        group is left, or when the node is closed."""
        check_seconds("timeout", timeout, allow_none=True)
        return Stream(partial(self.receive_batch, timeout))

    def views(self, timeout: float | None = None) -> Stream[View]:
        """Iterate over the group's views, from the oldest that you have not taken; the last 1,024
        are kept, or fewer if those of all groups take more than 4 MB. Of a pattern, these are the
        views of all groups that match.

        The iteration ends when none came for ``timeout`` seconds, when the group is left, or when
        the node is closed.

        Raises:
            NotJoinedError: the group was only opened for sending.
        """
        check_seconds("timeout", timeout, allow_none=True)
        self._core.check_supports("views")
        self._joined_inbox()
        return Stream(partial(self._next_view, timeout))

    def _next_view(self, timeout: float | None) -> View:
        views = self._joined_inbox().views
        arrived = self._arrived
        assert arrived is not None
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            if views:
                return views.popleft()
            if self._end is not None:
                raise self._end
            arrived.clear()
            if views or self._end is not None:
                continue
            if not self._wait_arrival(arrived, deadline):
                assert timeout is not None
                raise TimedOutError(f"a view of group {self.name!r}", timeout)

    @staticmethod
    def _wait_arrival(arrived: threading.Event, deadline: float | None) -> bool:
        """Wait for news; False when the time is over.

        Several threads may wait for and clear the same event, so none sleeps
        for long without looking.
        """
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            return False
        arrived.wait(LOOK_S if left is None else min(LOOK_S, left))
        return True

    def wait_members(self, count: int, timeout: float = 10.0) -> View:
        """Wait until the group has at least ``count`` members; return its view.

        Raises:
            TimedOutError: there are fewer after ``timeout`` seconds.
            ClosedError: the group was left or the node closed.
        """
        check_count("count", count, "members", least=0)
        self._core.check_supports("wait_members")
        check_seconds("timeout", timeout)
        deadline = time.monotonic() + timeout
        while (view := self.view) is None or len(view.members) < count:
            if self._end is not None:
                raise self._end
            if time.monotonic() >= deadline:
                raise self._too_few(count, timeout)
            time.sleep(MEMBERS_LOOK_S)
        return view


class TypedGroup(Group[T]):
    """A group whose messages are values of a type instead of bytes."""

    __slots__ = ()

    def send(self, message: T, key: Any = None, headers: Headers | None = None) -> None:
        """Check, encode and queue one value; otherwise like ``Group.send``."""
        payload: Any = self._as_bytes(message)
        Group.send(self, payload, key, headers)
