"""Groups over a real node: its core thread on one side, the executor on the other.

What the core thread delivers is queued and handed to the executor in batches;
while more than ``inbound_bytes_max`` waits, the node leaves data in the kernel,
which holds its senders back. What objects send waits here while the node's own
queue is full, up to ``outbound_bytes_max`` a group.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial

from quicksilver.live.runtime.executors import Executor
from quicksilver.live.services.groups import (
    RUNTIMES,
    GroupHub,
    GroupsError,
    GroupView,
    RuntimeNodes,
    SharedGroup,
)
from quicksilver.multicast.routes import Receivers
from quicksilver.multicast.sending.group import GroupSender
from quicksilver.multicast.sending.unconfirmed import Unconfirmed
from quicksilver.node.aio import Node as AioNode
from quicksilver.node.core import NodeCore
from quicksilver.node.errors import ScopeLimitError
from quicksilver.node.inbox import cost
from quicksilver.node.messages import View
from quicksilver.node.sync import Node as SyncNode
from quicksilver.wire.envelope import Envelope
from quicksilver.wire.packets import Messages

INBOUND_BYTES_MAX = 32 << 20
OUTBOUND_BYTES_MAX = 64 << 20
BATCHES_A_STEP = 64
"""Batches handed over before the executor may do something else."""


class OutboundFullError(GroupsError):
    """Objects send faster than the network takes it."""

    def __init__(self, group: str, limit: int) -> None:
        super().__init__(group, limit)
        self.group, self.limit = group, limit

    def __str__(self) -> str:
        return (
            f"more than {self.limit >> 20} MiB wait to be sent to group {self.group!r}: "
            "send slower, or find the member that holds everybody up"
        )


class NodeGroups(GroupHub):
    """The groups of one connected node; one for each node."""

    def __init__(
        self,
        node: AioNode | SyncNode,
        executor: Executor,
        *,
        inbound_bytes_max: int = INBOUND_BYTES_MAX,
        outbound_bytes_max: int = OUTBOUND_BYTES_MAX,
    ) -> None:
        super().__init__(executor)
        core = node.core
        if not isinstance(core, NodeCore):
            core.check_supports("live objects")
            raise ScopeLimitError("live objects")
        self._core = core
        self._inbound_bytes_max = inbound_bytes_max
        self._outbound_bytes_max = outbound_bytes_max
        self.runtimes = RuntimeNodes()
        """Used on the core thread only."""
        self._sinks: dict[str, _Sink] = {}
        self._inbound: deque[tuple[Callable[[], None], int]] = deque()
        self._in_bytes = 0
        """Written by the core thread only …"""
        self._out_bytes = 0
        """… and this by the executor only: their difference is what waits."""
        self._is_handing = False
        self._pausing: _Sink | None = None

    # Executor

    def subscribe(self, join: Sequence[str], leave: Sequence[str]) -> None:
        """Make one request."""
        sinks = [_Sink(self, name) for name in join]
        if RUNTIMES not in self._sinks:
            # In front: should the request be sent in parts, others hear of this one first.
            sinks.insert(0, _Sink(self, RUNTIMES))
        for name in leave:
            left = self._sinks.pop(name, None)
            if left is not None:
                self._core.call(left.finish_on_core)
        self._sinks.update((sink.name, sink) for sink in sinks)
        try:
            future = self._core.subscribe(join=sinks, leave=leave)
        except Exception as error:  # noqa: BLE001  # the node is closed or has failed
            self.end_all(error)
            return
        future.add_done_callback(partial(self._post_done, tuple(join)))

    def _post_done(self, names: tuple[str, ...], future: Future[dict[str, int]]) -> None:
        error = None if future.cancelled() else future.exception()
        self.put(lambda: self._finish_request(names, error), 0)

    def _finish_request(self, names: tuple[str, ...], error: BaseException | None) -> None:
        if isinstance(error, Exception):
            self.handle_failed(names, error)
        else:
            for name in names:
                self.handle_joined(name)
        self.handle_subscribed()

    def transmit(self, name: str, message: bytes) -> None:
        """Send to a group that is joined."""
        sink = self._sinks.get(name)
        if sink is None:
            return
        if sink.waiting_bytes() > self._outbound_bytes_max:
            raise OutboundFullError(name, self._outbound_bytes_max)
        sink.put(message)

    def is_settled(self, shared: SharedGroup) -> bool:
        """Whether nothing of a group waits here to be sent."""
        sink = self._sinks.get(shared.name)
        return super().is_settled(shared) and (sink is None or not sink.waiting_bytes())

    def flush(self, done: Callable[[], None]) -> None:
        """Call back when all that was sent is on every surviving member, or the node has ended."""
        try:
            future = self._core.flush()
        except Exception:  # noqa: BLE001  # the node is closed or has failed: nothing is on its way
            self._executor.post(done)
            return
        future.add_done_callback(lambda _: self._executor.post(done))

    def _hand_over(self) -> None:
        self._is_handing = False
        inbound = self._inbound
        for _ in range(BATCHES_A_STEP):
            try:
                step, size = inbound.popleft()
            except IndexError:
                break
            self._out_bytes += size
            step()
        if inbound:
            self._plan()
        pausing = self._pausing
        if pausing is not None and self._in_bytes - self._out_bytes <= self._inbound_bytes_max // 2:
            self._pausing = None
            self._core.call(lambda: self._core.session.resume(pausing.name))

    # Core thread, or whoever completes a request

    def put(self, step: Callable[[], None], size: int, sink: _Sink | None = None) -> None:
        """Have the executor do a step, after what was put before."""
        if size:
            self._in_bytes += size
        self._inbound.append((step, size))
        if (
            sink is not None
            and self._pausing is None
            and self._in_bytes - self._out_bytes > self._inbound_bytes_max
        ):
            self._pausing = sink
            self._core.session.pause(sink.name)
        self._plan()

    def _plan(self) -> None:
        if not self._is_handing:
            self._is_handing = True
            self._executor.post(self._hand_over)

    def is_current(self, sink: _Sink) -> bool:
        """Whether a sink was not replaced by a later join of its group."""
        return self._sinks.get(sink.name) is sink

    @property
    def core(self) -> NodeCore:
        """The node's inner part."""
        return self._core


class _Sink:
    """One joined group, between core thread and executor."""

    def __init__(self, hub: NodeGroups, name: str) -> None:
        self._hub = hub
        self.name = name
        self.sender: GroupSender | None = None
        self.echo = True
        self._outbound: deque[bytes] = deque()
        self._in_bytes = 0
        self._out_bytes = 0
        self._is_sending = False

    # Executor

    def waiting_bytes(self) -> int:
        return self._in_bytes - self._out_bytes

    def put(self, message: bytes) -> None:
        self._in_bytes += len(message)
        self._outbound.append(message)
        if not self._is_sending:
            self._is_sending = True
            self._hub.core.call(self._send_on_core)

    # Core thread

    def emptiness_on_core(self) -> None:
        """Never of interest: whoever is here is in the group itself."""

    def _send_on_core(self) -> None:
        self._is_sending = False
        sender = self.sender
        if sender is None:
            return
        lane = sender.lane
        outbound = self._outbound
        while outbound:
            if lane.room < 0:
                self._is_sending = True
                lane.on_room.append(lambda: self._hub.core.call(self._send_on_core))
                return
            self._move(sender)

    def finish_on_core(self) -> None:
        """The group is being left: what waits goes out whatever room there is."""
        if self.sender is not None:
            while self._outbound:
                self._move(self.sender)

    def _move(self, sender: GroupSender) -> None:
        message = self._outbound.popleft()
        self._out_bytes += len(message)
        self._hub.core.session.send(sender, message)

    def ready_on_core(self, sender: GroupSender) -> None:
        self.sender = sender

    def deliver_on_core(self, messages: Messages) -> None:
        def hand() -> None:
            if self._hub.is_current(self):
                self._hub.handle_messages(self.name, messages.sender, messages.payloads)

        self._hub.put(hand, cost(messages), self)

    def deliver_enveloped_on_core(self, messages: Messages, envelopes: Sequence[Envelope]) -> None:
        """Objects know no headers: the payload is all they are given."""
        self.deliver_on_core(messages)

    def receivers_on_core(self, name: str) -> Receivers:
        """Not called: objects name their groups."""
        return self.deliver_on_core, None

    def view_on_core(self, view: View) -> None:
        session = self._hub.core.session
        members = self._hub.runtimes.among(view.members, session.directory)
        news = GroupView(view.number, members, session.node)

        def hand() -> None:
            if self._hub.is_current(self):
                self._hub.handle_view(self.name, news)

        self._hub.put(hand, 0)

    def unconfirmed_on_core(self, messages: Unconfirmed) -> None:
        """Nothing to tell: whoever lacks them has a gap, and objects compare their states."""

    def told_on_core(self) -> None:
        """Nothing to do: objects are not told of unconfirmed messages."""

    def fail_on_core(self, error: Exception) -> None:
        def hand() -> None:
            if self._hub.is_current(self):
                self._hub.handle_failed((self.name,), error)

        self._hub.put(hand, 0)
