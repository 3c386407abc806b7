"""The asyncio form.

::

    async with quicksilver.connect("127.0.0.1:7401") as node:
        group = await node.join("prices")
        await group.send(b"...")
        async for message in group:
            ...
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from types import TracebackType
from typing import Any, Self

from quicksilver.multicast.sending.behind import Behind
from quicksilver.multicast.sending.lane import Lane
from quicksilver.multicast.sending.unconfirmed import Unconfirmed
from quicksilver.node.core import NodeCore
from quicksilver.node.errors import ClosedError, QuicksilverError, UnconfirmedError
from quicksilver.node.group_base import GroupBase, as_bytes, check_payload
from quicksilver.node.history import Catchup, History, HistoryFeed
from quicksilver.node.inbox import Inbox
from quicksilver.node.messages import Batch, Message, NodeStats, View
from quicksilver.node.node_base import NodeBase
from quicksilver.node.options import NodeOptions, Overflow

HISTORY_LOOK_S = 0.2
"""How often a history is looked at while something waits for it."""


class Group(GroupBase):
    """A group in the asyncio form; use it from the loop that made it."""

    __slots__ = ("_is_notified", "_loop", "_waiters")

    def __init__(
        self, core: NodeCore, name: str, type_: Any, *, inbox: Inbox | None, echo: bool = False
    ) -> None:
        super().__init__(core, name, type_, inbox=inbox, echo=echo)
        self._loop = asyncio.get_running_loop()
        self._is_notified = False
        self._waiters: list[asyncio.Future[None]] = []

    # Core thread

    def notify(self) -> None:
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

    async def send(self, message: Any) -> None:
        """Queue one message; waits while flow control says so.

        Returning means accepted, not delivered: ``Node.flush`` waits for that. Raises
        ``UnconfirmedError``, once, when earlier messages to the group may be lost and no
        flush told of it; the message is not sent then.
        """
        if type(message) is bytes:
            size = len(message)
            lane = self._lane
            room = lane.room - size
            if room >= 0:
                lane.room = room
                box = lane.outbox
                if size != box.size:
                    box.is_uniform = box.size < 0
                    box.size = size
                if box.is_single:
                    box.bare.append(message)
                else:
                    box.pairs.extend((self.sender, message))
                if self._thread.is_sleeping:
                    self._nudge(lane)
                return
        lane = self._put(as_bytes(message))
        if lane.room < 0:
            await self._wait_room(lane)

    def _put(self, payload: bytes) -> Lane:
        """Queue a message whatever room there is; refuse what cannot be sent."""
        sender = self._sender_to_use()
        lane = self._core.session.send(sender, check_payload(payload))
        self._nudge(lane)
        return lane

    def _nudge(self, lane: Lane) -> None:
        thread = self._thread
        if lane.is_blocked:
            return
        if lane.room < 0:
            thread.lend()
        elif thread.is_sleeping:
            thread.wake()

    def post(self, message: Any) -> bool:
        """Queue one message without waiting; False when there is no room."""
        self._sender_to_use()
        if self._lane.room < 0:
            return False
        self._put(self._as_bytes(message))
        return True

    async def _wait_room(self, lane: Lane) -> None:
        while lane.room < 0:
            room = asyncio.Event()
            lane.on_room.append(partial(self._call, room.set))
            if lane.room >= 0:
                return
            try:
                await asyncio.wait_for(room.wait(), 0.5)
            except TimeoutError:
                self._ready_sender()

    async def receive_batch(self) -> Batch:
        """Return the next batch of messages of one sender."""
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
        now = self._loop.time()
        self._feed = HistoryFeed(reader, Catchup(now))
        self._feed.take_state(await asyncio.to_thread(reader.state), self._loop.time())

    async def _receive_merged(self, feed: HistoryFeed) -> Batch:
        catchup, loop = feed.catchup, self._loop
        while (batch := catchup.poll_batch()) is None:
            live = self._take_batch()
            if live is not None:
                catchup.handle_live(live, loop.time())
            elif catchup.offset < catchup.past:
                feed.take(*await asyncio.to_thread(feed.read), loop.time())
            elif not catchup.is_caught_up:
                state = await asyncio.to_thread(feed.reader.state)
                if not feed.take_state(state, loop.time()):
                    await self._wait_briefly()
            elif self._end is not None:
                raise self._end
            else:
                await self._wait()
        return batch

    async def _wait_briefly(self) -> None:
        """Wait for live messages, or until history may have more."""
        try:
            await asyncio.wait_for(self._wait(), HISTORY_LOOK_S)
        except TimeoutError:
            pass

    async def batches(self) -> AsyncIterator[Batch]:
        """Yield batches until the group or the node is closed."""
        while True:
            try:
                yield await self.receive_batch()
            except ClosedError:
                return

    async def __aiter__(self) -> AsyncIterator[Message]:
        while True:
            for message in self._unfinished():
                yield message
            try:
                self._begin(await self.receive_batch())
            except ClosedError:
                return

    async def views(self) -> AsyncIterator[View]:
        """Yield the group's views, from the first not yet yielded."""
        views = self._joined_inbox().views
        while True:
            while views:
                yield views.popleft()
            if self._end is not None:
                return
            await self._wait()

    async def wait_members(self, count: int, timeout_s: float = 10.0) -> View:
        """Wait until at least ``count`` nodes are in the group."""
        async with asyncio.timeout(timeout_s):
            while (view := self.view) is None or len(view.members) < count:
                await self._wait()
        return view


class TypedGroup(Group):
    """A group of values instead of bytes."""

    __slots__ = ()

    async def send(self, message: Any) -> None:
        """Queue one value, encoded; otherwise like ``Group.send``."""
        await Group.send(self, self._as_bytes(message))


class Node(NodeBase[Group]):
    """A node in the asyncio form; use it as an async context manager."""

    _plain = Group
    _typed = TypedGroup
    _way_in = "async with quicksilver.connect(...) as node"

    async def __aenter__(self) -> Self:
        if self._core is not None:
            self._core.check_alive()
            return self
        core = self._make_core()
        core.start()
        try:
            await self._wait(core.welcome)
        except BaseException:
            await asyncio.to_thread(core.close)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close(flush_timeout_s=0 if kind is not None else 5.0)

    async def join(
        self,
        name: str,
        type_: Any = None,
        *,
        echo: bool = False,
        queue_bytes: int | None = None,
        overflow: Overflow | None = None,
        history: History | None = None,
        behind: Behind | str | None = None,
    ) -> Group:
        """Join one group; returns when the node is in its view.

        With ``type_`` (a msgspec struct or any type msgspec knows) the group
        carries values of it, validated on receipt. With ``echo`` the node also
        hears its own messages. With ``history`` (a recorder's, for example) what
        was sent before comes first: each sender's messages in order, nothing
        twice; what the history lacks is counted in ``Group.missing``. ``behind`` is for
        what this node sends: see ``open``.
        """
        groups = await self.join_all(
            [name], type_, echo=echo, queue_bytes=queue_bytes, overflow=overflow, behind=behind
        )
        if history is not None:
            try:
                await groups[0].begin_history(history)
            except BaseException:
                await self.leave(groups[0])
                raise
        return groups[0]

    async def join_all(
        self,
        names: list[str],
        type_: Any = None,
        *,
        echo: bool = False,
        queue_bytes: int | None = None,
        overflow: Overflow | None = None,
        behind: Behind | str | None = None,
    ) -> list[Group]:
        """Join many groups in one request."""
        groups = self._groups_to_join(
            names, type_, echo=echo, queue_bytes=queue_bytes, overflow=overflow
        )
        await self._wait(self.core.subscribe(join=groups, behind=behind))
        return groups

    async def open(
        self, name: str, type_: Any = None, *, behind: Behind | str | None = None
    ) -> Group:
        """Open a group for sending without being a member.

        ``behind`` says what to do about members that do not keep up: ``Wait()`` for them,
        ``Keep()`` what silent ones will need and go on, or ``Drop()`` slow ones too.
        """
        return (await self.open_all([name], type_, behind=behind))[0]

    async def open_all(
        self, names: list[str], type_: Any = None, *, behind: Behind | str | None = None
    ) -> list[Group]:
        """Open many groups for sending in one request."""
        groups = self._groups_to_open(names, type_)
        await self._wait(self.core.subscribe(open_=groups, behind=behind))
        return groups

    async def leave(self, *groups: Group) -> None:
        """Leave groups; what they queued can still be read."""
        await self._wait(self._leave(groups))

    async def _wait(self, future: Any) -> Any:
        try:
            return await asyncio.wait_for(
                asyncio.wrap_future(future), self._options.connect_timeout_s
            )
        except TimeoutError:
            raise self.core.unreachable() from None

    async def flush(self) -> tuple[Unconfirmed, ...]:
        """Wait until everything sent is on every surviving member.

        Returns the messages that members who left or failed had not acknowledged: to those
        nothing is owed.

        Raises:
            UnconfirmedError: messages sent since the last flush that said so may be lost to
                members that live. All others have arrived.
        """
        future = self.core.flush()
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            self.core.untell(future)
            raise

    async def stats(self) -> NodeStats:
        """Return what this node counted so far."""
        return await asyncio.to_thread(self.core.stats)

    async def close(self, flush_timeout_s: float = 5.0) -> None:
        """Flush, leave the cluster and stop the core thread.

        Raises:
            UnconfirmedError: the node is closed, and messages may be lost, because ``flush``
                said so or was not done within ``flush_timeout_s``. With 0 there is no flush
                and nobody is told.
        """
        core = self._core
        if core is None:
            return
        lost: UnconfirmedError | None = None
        if flush_timeout_s and not core.is_closed and core.failure is None:
            try:
                await asyncio.wait_for(self.flush(), flush_timeout_s)
            except TimeoutError:
                lost = await asyncio.to_thread(core.take_unfinished)
            except UnconfirmedError as error:
                lost = error
            except QuicksilverError:
                pass  # the core has failed, or another task closes it
        await asyncio.to_thread(core.close)
        if lost is not None:
            raise lost


def connect(gms: str, **options: Any) -> Node:
    """Return a node for the GMS at ``host:port``; enter it to connect.

    Keyword arguments are the fields of ``NodeOptions``.
    """
    return Node(gms, NodeOptions(**options))
