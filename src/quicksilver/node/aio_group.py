"""A group in the asyncio form."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Generic, Self, TypeVar

from quicksilver.node.aio_requests import request, serve
from quicksilver.node.checks import check_count, check_seconds
from quicksilver.node.errors import ClosedError, QuicksilverError, TimedOutError
from quicksilver.node.group_base import GroupBase, check_payload
from quicksilver.node.headers import enveloped
from quicksilver.node.history import Catchup, History, HistoryFeed
from quicksilver.node.inbox import Inbox
from quicksilver.node.messages import Batch, Headers, Message, View
from quicksilver.node.ports import Core, Lane
from quicksilver.node.requests import CONCURRENCY, TIMEOUT_S, Handler

T = TypeVar("T")
V = TypeVar("V")

HISTORY_LOOK_S = 0.2
"""How often a history is looked at while something waits for it."""


LOOK_S = 0.5
"""How long a task waits for room before it looks by itself whether the node lives."""


@asynccontextmanager
async def limited(timeout: float | None, what: str) -> AsyncIterator[None]:
    """Give up after a time; raises TimedOutError, which says what was waited for."""
    check_seconds("timeout", timeout, allow_none=True)
    try:
        async with asyncio.timeout(timeout):
            yield
    except TimeoutError as error:
        if isinstance(error, QuicksilverError):
            raise
        assert timeout is not None
        raise TimedOutError(what, timeout) from None


class Stream(AsyncIterator[V], Generic[V]):
    """The iterator that ``messages``, ``batches`` and ``views`` return.

    You can leave the loop and continue it later.

    If waiting for the next item is cancelled, or times out, the iterator can still be used.
    """

    __slots__ = ("_take",)

    def __init__(self, take: Callable[[], Awaitable[V]]) -> None:
        self._take = take

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> V:
        """Return the next item. The iteration ends when the group is left, when the node is closed,
        or after the timeout."""
        try:
            return await self._take()
        except (ClosedError, TimedOutError):
            raise StopAsyncIteration from None


class Group(GroupBase[T], AsyncIterator[Message[T]]):
    """A group in the asyncio form. Use it only in the event loop in which it was joined or opened.

    A group is an iterator: ``async for message in group`` takes messages until the group is left or
    the node is closed, and ``await anext(group)`` takes the next one.
    """

    __slots__ = ("_is_notified", "_loop", "_reading", "_waiters")

    def __init__(
        self, core: Core, name: str, type_: Any, *, inbox: Inbox | None, echo: bool = False
    ) -> None:
        super().__init__(core, name, type_, inbox=inbox, echo=echo)
        self._loop = asyncio.get_running_loop()
        self._is_notified = False
        self._waiters: list[asyncio.Future[None]] = []
        self._reading: asyncio.Future[Any] | None = None
        """A look at history that is under way in another thread; whoever waits may be
        cancelled, and the next one takes what it brings."""

    # Core thread

    def notify(self) -> None:
        """Wake whoever waits for messages, views or members."""
        if not self._is_notified:
            self._is_notified = True
            self._call(self._wake)

    def _call(self, work: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(work)
        except RuntimeError:
            pass  # the loop is closed: nobody waits any more

    # Loop's thread

    def _wake(self) -> None:
        self._is_notified = False
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _wait(self) -> None:
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    async def send(self, message: T, key: Any = None, headers: Headers | None = None) -> None:
        """Queue one message.

        Waits while flow control holds the group back, or while the group is empty and no more
        messages may wait for members. When it returns, the message is accepted but not yet
        delivered; to wait for that, use ``Node.flush``.

        If it is cancelled, the message is not sent.

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
        """
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
                    self._nudge(lane)
                return
        body = check_payload(self._plain_bytes(message))
        if key is not None or headers is not None:
            await self.send_payload(enveloped(body, key, headers))
            return
        await self._wait_turn(len(body))
        self._put(body)

    async def send_payload(self, payload: bytes) -> None:
        """Send what ``headers.enveloped`` made, for layers that build on groups."""
        await self._wait_turn(len(payload))
        sender = self._sender_to_use()
        self._retain(payload, is_enveloped=True)
        self._nudge(self._core.session.put_enveloped(sender, payload))

    async def _wait_turn(self, size: int) -> None:
        """Wait until a message may be queued; raises what keeps it from being sent."""
        sender = self._sender_to_use()
        while self._must_wait(sender, size) or sender.lane.room < 0:
            if sender.lane.room < 0:
                await self._wait_room(sender.lane)
            else:
                await self._wait_at_most(LOOK_S)
            self._ready_sender()

    def _put(self, payload: bytes) -> Lane:
        """Queue a message whatever room there is; refuse what cannot be sent."""
        sender = self._sender_to_use()
        self._retain(check_payload(payload))
        lane = self._core.session.send(sender, payload)
        self._nudge(lane)
        return lane

    async def request(
        self,
        message: T,
        timeout: float = TIMEOUT_S,  # the name that users of other systems know
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
        return await request(self._core, self, body, timeout, answers, key, headers)

    async def serve(self, handler: Handler, concurrency: int = CONCURRENCY) -> None:
        """Answer requests to the group: ``handler`` is called with each request, a ``Message``, and
        what it returns is the answer.

        The handler is a function, async or not. It returns bytes, a value (sent as MessagePack) or
        None (an empty answer). If it raises an error, the requester gets the error's text. At most
        ``concurrency`` handlers run at the same time. Requests no longer arrive as messages.

        Returns when others know that this member serves; it serves until the group is left.
        """
        self._joined_inbox()
        self._ready_sender()
        await serve(self._core, self, handler, concurrency)

    def call_in_loop(self, work: Any) -> None:
        """Run something in the loop's thread soon; may be called from any thread."""
        self._call(work)

    def _nudge(self, lane: Lane) -> None:
        thread = self._thread
        if lane.is_blocked:
            return
        if lane.room < 0:
            thread.lend()
        elif thread.is_sleeping:
            thread.wake()

    def post(self, message: T) -> bool:
        """Queue one message without waiting. Returns False, and does not send it, if ``send`` would
        wait.

        Raises what ``send`` raises.
        """
        payload = check_payload(self._as_bytes(message))
        sender = self._sender_to_use()
        if self._must_wait(sender, len(payload)) or sender.lane.room < 0:
            return False
        self._put(payload)
        return True

    async def _wait_room(self, lane: Lane) -> None:
        while lane.room < 0:
            room = asyncio.Event()
            tell = partial(self._call, room.set)
            lane.on_room.append(tell)
            try:
                if lane.room < 0:
                    await asyncio.wait_for(room.wait(), LOOK_S)
            except TimeoutError:
                self._ready_sender()
            finally:
                with suppress(ValueError):  # it was called
                    lane.on_room.remove(tell)

    async def receive(self, timeout: float | None = None) -> Message[T]:
        """Wait for the next message and return it.

        Raises:
            TimedOutError: none came within ``timeout`` seconds.
            ClosedError: the group was left or the node closed, and all messages have been taken.
            NotJoinedError: the group was only opened for sending.
        """
        if timeout is None:
            return await self._next()
        async with limited(timeout, f"a message of group {self.name!r}"):
            return await self._next()

    async def receive_batch(self, timeout: float | None = None) -> Batch:
        """Wait for the next batch and return it: consecutive messages of one sender, as bytes.

        Raises what ``receive`` raises.
        """
        if timeout is None:
            return await self._next_batch()
        async with limited(timeout, f"a message of group {self.name!r}"):
            return await self._next_batch()

    async def _next(self) -> Message[T]:
        while (message := self._next_unfinished()) is None:
            self._begin(await self._next_batch())
        return message

    async def _next_batch(self) -> Batch:
        self._joined_inbox()
        if self._feed is not None:
            return await self._receive_merged(self._feed)
        while (batch := self._take_batch()) is None:
            if self._end is not None:
                raise self._end
            await self._wait()
        return batch

    async def begin_history(self, history: History) -> None:
        """Read the group's past before what arrives; raises what keeps it from being read."""
        reader = await asyncio.to_thread(history.open, self.name)
        feed = HistoryFeed(reader, Catchup(self._loop.time()))
        feed.take_state(await asyncio.to_thread(reader.state), self._loop.time())
        self._feed = feed

    async def _receive_merged(self, feed: HistoryFeed) -> Batch:
        catchup, loop = feed.catchup, self._loop
        while (batch := catchup.poll_batch()) is None:
            live = self._take_batch()
            if live is not None:
                catchup.handle_live(live, loop.time())
            elif catchup.offset < catchup.past:
                await self._read(feed.read, lambda rows: feed.take(*rows, loop.time()))
            elif not catchup.is_caught_up:
                await self._read(feed.reader.state, lambda s: feed.take_state(s, loop.time()))
                if catchup.offset >= catchup.past and not catchup.is_caught_up:
                    await self._wait_at_most(HISTORY_LOOK_S)
            elif self._end is not None:
                raise self._end
            else:
                await self._wait()
        return batch

    async def _read(self, read: Callable[[], V], take: Callable[[V], object]) -> None:
        """Read history in another thread, one look at a time, whoever is cancelled meanwhile."""
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._look(read, take))
            # Whoever waited for it may be gone: an error is told to the next one who looks.
            self._reading.add_done_callback(lambda look: look.cancelled() or look.exception())
        await asyncio.shield(self._reading)

    async def _look(self, read: Callable[[], V], take: Callable[[V], object]) -> None:
        # Taken before the look is done: whoever found it done with nothing taken would look
        # again and again, and never let the loop go on.
        try:
            take(await asyncio.to_thread(read))
        finally:
            self._reading = None

    async def _wait_at_most(self, seconds: float) -> None:
        """Wait for news, or until it is time to look."""
        try:
            await asyncio.wait_for(self._wait(), seconds)
        except TimeoutError:
            pass

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message[T]:
        """Return the next message. The iteration ends when the group is left or the node is
        closed."""
        try:
            return await self._next()
        except ClosedError:
            raise StopAsyncIteration from None

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

    async def _next_view(self, timeout: float | None) -> View:
        views = self._joined_inbox().views
        async with limited(timeout, f"a view of group {self.name!r}"):
            while not views:
                if self._end is not None:
                    raise self._end
                await self._wait()
        return views.popleft()

    async def wait_members(self, count: int, timeout: float = 10.0) -> View:
        """Wait until the group has at least ``count`` members; return its view.

        Raises:
            TimedOutError: there are fewer after ``timeout`` seconds.
            ClosedError: the group was left or the node closed.
        """
        check_count("count", count, "members", least=0)
        self._core.check_supports("wait_members")
        try:
            async with limited(timeout, "members"):
                while (view := self.view) is None or len(view.members) < count:
                    if self._end is not None:
                        raise self._end
                    await self._wait()
        except TimedOutError:
            raise self._too_few(count, timeout) from None
        return view


class TypedGroup(Group[T]):
    """A group whose messages are values of a type instead of bytes."""

    __slots__ = ()

    async def send(self, message: T, key: Any = None, headers: Headers | None = None) -> None:
        """Check, encode and queue one value; otherwise like ``Group.send``."""
        payload: Any = self._as_bytes(message)
        await Group.send(self, payload, key, headers)
