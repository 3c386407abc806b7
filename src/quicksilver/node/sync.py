"""The synchronous form, for scripts and threads.

::

    with quicksilver.sync.connect("127.0.0.1:7401") as node:
        group = node.join("prices")
        group.send(b"...")
        for message in group.receive(timeout_s=1):
            ...

A node that is not used with ``with`` lives until ``close``, or the end of the program.
"""

from __future__ import annotations

import atexit
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import TimeoutError as FutureTimeout
from types import TracebackType
from typing import Any, Self

from quicksilver.multicast.sending.behind import Behind
from quicksilver.multicast.sending.lane import Lane
from quicksilver.multicast.sending.unconfirmed import Unconfirmed
from quicksilver.node.core import NodeCore
from quicksilver.node.errors import QuicksilverError, UnconfirmedError
from quicksilver.node.group_base import GroupBase, as_bytes, check_payload
from quicksilver.node.history import Catchup, History, HistoryFeed
from quicksilver.node.inbox import Inbox
from quicksilver.node.messages import Batch, Message, NodeStats, View
from quicksilver.node.node_base import NodeBase
from quicksilver.node.options import NodeOptions, Overflow

LOOK_S = 0.2
"""How long a thread waits for news before it looks by itself."""


class Group(GroupBase):
    """A group in the synchronous form; any thread may use it."""

    __slots__ = ("_arrived",)

    def __init__(
        self, core: NodeCore, name: str, type_: Any, *, inbox: Inbox | None, echo: bool = False
    ) -> None:
        super().__init__(core, name, type_, inbox=inbox, echo=echo)
        self._arrived = threading.Event() if inbox is not None else None

    def notify(self) -> None:
        """Wake whoever waits for messages."""
        if self._arrived is not None:
            self._arrived.set()

    def send(self, message: Any) -> None:
        """Queue one message; blocks while flow control says so.

        Returning means accepted, not delivered: ``Node.flush`` waits for that. Raises
        ``UnconfirmedError``, once, when earlier messages to the group may be lost and no
        flush told of it; the message is not sent then.
        """
        # Called for every message, so it tests only what it must: 165 ns with one
        # group and 207 with many; with a test for each case it took 205 and 280. Between
        # reading and writing ``room`` there is no call: see ``Lane``.
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
                    self._settle(lane)
                return
        self._send_slowly(message)

    def _send_slowly(self, message: Any) -> None:
        """Send what is not bytes, or larger than the room left; refuse what cannot be sent."""
        sender = self._sender_to_use()
        self._settle(self._core.session.send(sender, check_payload(as_bytes(message))))

    def _settle(self, lane: Lane) -> None:
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
        room = self._core.room
        while lane.room < 0:
            if thread.is_sleeping and not lane.is_blocked:
                thread.wake()
            room.clear()
            lane.on_room.append(room.set)
            if lane.room >= 0:
                return
            room.wait(0.5)
            self._ready_sender()

    def receive_batch(self, timeout_s: float | None = None) -> Batch | None:
        """Return the next batch, or None when the time is over."""
        inbox = self._joined_inbox()
        arrived = self._arrived
        assert arrived is not None
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
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
                return None

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

    def receive(self, timeout_s: float | None = None) -> Iterator[Message]:
        """Yield messages; ends when none arrived for ``timeout_s``.

        Leaving the loop early loses nothing: the next one goes on after the
        last message that was yielded.
        """
        while True:
            yield from self._unfinished()
            batch = self.receive_batch(timeout_s)
            if batch is None:
                return
            self._begin(batch)

    def __iter__(self) -> Iterator[Message]:
        return self.receive()

    def views(self, timeout_s: float | None = None) -> Iterator[View]:
        """Yield the group's views; ends when no new one came for ``timeout_s``."""
        views = self._joined_inbox().views
        arrived = self._arrived
        assert arrived is not None
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            while views:
                yield views.popleft()
                if timeout_s is not None:
                    deadline = time.monotonic() + timeout_s
            if self._end is not None:
                return
            arrived.clear()
            if views or self._end is not None:
                continue
            if not self._wait_arrival(arrived, deadline):
                return

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

    def wait_members(self, count: int, timeout_s: float = 10.0) -> View:
        """Wait until at least ``count`` nodes are in the group."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            view = self.view
            if view is not None and len(view.members) >= count:
                return view
            time.sleep(0.005)
        have = len(self.view.members) if self.view else 0
        raise TimeoutError(f"group {self.name!r} has {have} members, waited for {count}")


class TypedGroup(Group):
    """A group of values instead of bytes."""

    __slots__ = ()

    def send(self, message: Any) -> None:
        """Queue one value, encoded; otherwise like ``Group.send``."""
        Group.send(self, self._as_bytes(message))


class Node(NodeBase[Group]):
    """A node in the synchronous form.

    As a context manager it is connected at the beginning, unless ``connect`` has
    done that, and closed at the end.
    """

    _plain = Group
    _typed = TypedGroup
    _way_in = "with quicksilver.sync.connect(...) as node"

    def __enter__(self) -> Self:
        if self._core is not None:
            self._core.check_alive()
            return self
        core = self._make_core()
        core.start()
        try:
            core.wait_welcome()
        except BaseException:
            core.close()
            raise
        # Else the end of the program would look like a crash to the other nodes, and
        # messages that wait for repair would be lost.
        atexit.register(self._close_at_exit)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close(flush_timeout_s=0 if kind is not None else 5.0)

    def join(
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

        With ``history`` what was sent before comes first: see the asyncio form.
        """
        (group,) = self.join_all(
            [name], type_, echo=echo, queue_bytes=queue_bytes, overflow=overflow, behind=behind
        )
        if history is not None:
            try:
                group.begin_history(history)
            except BaseException:
                self.leave(group)
                raise
        return group

    def join_all(
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
        self._wait(self.core.subscribe(join=groups, behind=behind))
        return groups

    def open(self, name: str, type_: Any = None, *, behind: Behind | str | None = None) -> Group:
        """Open a group for sending without being a member.

        ``behind`` says what to do about members that do not keep up: ``Wait()`` for them,
        ``Keep()`` what silent ones will need and go on, or ``Drop()`` slow ones too.
        """
        return self.open_all([name], type_, behind=behind)[0]

    def open_all(
        self, names: list[str], type_: Any = None, *, behind: Behind | str | None = None
    ) -> list[Group]:
        """Open many groups for sending in one request."""
        groups = self._groups_to_open(names, type_)
        self._wait(self.core.subscribe(open_=groups, behind=behind))
        return groups

    def leave(self, *groups: Group) -> None:
        """Leave groups; what they queued can still be read."""
        self._wait(self._leave(groups))

    def _wait(self, future: Any) -> Any:
        try:
            return future.result(timeout=self._options.connect_timeout_s)
        except FutureTimeout:
            raise self.core.unreachable() from None

    def flush(self, timeout_s: float | None = None) -> tuple[Unconfirmed, ...]:
        """Wait until everything sent is on every surviving member.

        Returns the messages that members who left or failed had not acknowledged: to those
        nothing is owed.

        Raises:
            UnconfirmedError: messages sent since the last flush that said so may be lost to
                members that live. All others have arrived.
            TimeoutError: not everything was acknowledged in time; it may still be.
        """
        future = self.core.flush()
        try:
            return future.result(timeout=timeout_s)
        except FutureTimeout:
            self.core.untell(future)
            raise TimeoutError(f"not everything was acknowledged within {timeout_s} s") from None
        except KeyboardInterrupt:
            self.core.untell(future)
            raise

    def stats(self) -> NodeStats:
        """Return what this node counted so far."""
        return self.core.stats()

    def close(self, flush_timeout_s: float = 5.0) -> None:
        """Flush, leave the cluster and stop the core thread.

        Raises:
            UnconfirmedError: the node is closed, and messages may be lost, because ``flush``
                said so or was not done within ``flush_timeout_s``. With 0 there is no flush
                and nobody is told.
        """
        core = self._core
        if core is None:
            return
        atexit.unregister(self._close_at_exit)
        lost: UnconfirmedError | None = None
        if flush_timeout_s and not core.is_closed and core.failure is None:
            try:
                self.flush(flush_timeout_s)
            except TimeoutError:
                lost = core.take_unfinished()
            except UnconfirmedError as error:
                lost = error
            except QuicksilverError:
                pass  # the core has failed, or another thread closes it
        core.close()
        if lost is not None:
            raise lost

    def _close_at_exit(self) -> None:
        try:
            self.close()
        except UnconfirmedError as error:
            sys.stderr.write(f"quicksilver: {error}\n")


def connect(gms: str, **options: Any) -> Node:
    """Return a node that is connected to the GMS at ``host:port``.

    Close it, or use it with ``with``, which does. Keyword arguments are the fields
    of ``NodeOptions``.
    """
    return Node(gms, NodeOptions(**options)).__enter__()
