"""A node assembled: engine, sockets and core thread, and the routing of messages.

Both forms of the API, asyncio and synchronous, are thin shells around this.
Methods named ``*_on_core`` run on the core thread; the others may be called
from any thread.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Protocol

from quicksilver.membership.directory import GroupView
from quicksilver.membership.events import (
    ClientEvent,
    SubscriptionCompleted,
    ViewsChanged,
    WasExcluded,
    WasRefused,
    Welcomed,
)
from quicksilver.multicast.engine import Engine
from quicksilver.multicast.lanes import GroupSender, Lane
from quicksilver.net.control import ControlStream
from quicksilver.net.datagrams import DatagramSockets
from quicksilver.net.host import CoreThread, tune_collector
from quicksilver.net.interfaces import choose_interface, datagram_bytes_max
from quicksilver.node.errors import (
    AlreadyJoinedError,
    ClosedError,
    CoreFailedError,
    ExcludedError,
    GmsUnreachableError,
    OptionError,
    QueueFullError,
    RefusedError,
)
from quicksilver.node.messages import Batch, Burst, NodeStats, View
from quicksilver.node.options import NodeOptions, parse_gms_address
from quicksilver.wire.ids import NodeId
from quicksilver.wire.packets import KIND_DATA, KIND_HYBRID, Messages


class GroupSink(Protocol):
    """Where a group's messages and views go; called on the core thread."""

    name: str
    sender: GroupSender | None
    joined_batch: int
    echo: bool

    @property
    def is_member(self) -> bool: ...

    def ready_on_core(self, sender: GroupSender) -> None: ...

    def deliver_on_core(self, batch: Batch) -> None: ...

    def view_on_core(self, view: View) -> None: ...

    def fail_on_core(self, error: Exception) -> None:
        """Nothing more will come."""
        ...


class _Switching:
    """The interpreter's switch interval while nodes live, and what it was before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nodes = 0
        self._before = 0.0

    def enter(self, interval_s: float) -> None:
        with self._lock:
            if self._nodes == 0:
                self._before = sys.getswitchinterval()
            self._nodes += 1
            sys.setswitchinterval(interval_s)

    def leave(self) -> None:
        with self._lock:
            self._nodes -= 1
            if self._nodes == 0:
                sys.setswitchinterval(self._before)


SWITCHING = _Switching()


class NodeCore:
    """One node in this process."""

    def __init__(self, gms: str, options: NodeOptions) -> None:
        self.gms = parse_gms_address(gms)
        self.options = options
        self.room = threading.Event()
        """Set when a full lane has room again; for threads that wait in ``send``."""
        interface = choose_interface(options.interface, self.gms[0])
        self.interface = interface
        self.sockets = DatagramSockets(
            interface=interface,
            multicast_port=0,  # until the GMS says which
            port=options.port,
            receive_buffer_bytes=options.receive_buffer_bytes,
            send_buffer_bytes=options.send_buffer_bytes,
            multicast_ttl=options.multicast_ttl,
            plain=options.plain_io,
            faults=options.faults,
            is_data=lambda data: len(data) > 1 and data[1] in (KIND_DATA, KIND_HYBRID),
        )
        limit = datagram_bytes_max(interface)
        config = replace(
            options.engine,
            packet_bytes=min(options.packet_bytes or limit, limit),
            receive_buffer_bytes=self.sockets.receive_buffer_bytes,
        )
        name = options.name or f"{socket.gethostname()}-{os.getpid()}"
        self.engine = Engine(
            name=name,
            address=self.sockets.address,
            config=config,
            upcalls=self,
            seed=int.from_bytes(os.urandom(8), "little"),
            tracer=options.tracer,
        )
        self.idle_lane = Lane(self.engine.outgoing)
        """A lane that takes nothing: where groups point that may not send, or not yet."""
        self.idle_lane.room = -1
        self._control = ControlStream(self.gms)
        self.thread = CoreThread(
            self.engine,
            self.sockets,
            self._control,
            on_drops=self._note_drops,
            on_failure=self._handle_failure,
        )
        self.failure: Exception | None = None
        self.is_closed = False
        self.exclusions = 0
        self.on_excluded: Callable[[str], None] | None = None
        self.on_burst: Callable[[Burst], None] | None = None
        """Takes whole packets on the core thread instead of the groups' queues."""
        self._newest_join = 0
        self._joined: set[int] = set()
        self._sinks: dict[str, GroupSink] = {}
        """Groups that were joined."""
        self._openers: dict[str, GroupSink] = {}
        """Groups that were opened for sending."""
        self._routes: dict[int, GroupSink] = {}
        self._pausing: set[str] = set()
        self._flushing: set[Future[None]] = set()
        self._waiting: dict[str, list[GroupSink]] = {}
        self._views: dict[int, tuple[int, frozenset[NodeId]]] = {}
        self._requests: dict[int, Future[dict[str, int]]] = {}
        self._welcome: Future[int] = Future()
        self._is_started = False

    # Life

    def start(self) -> None:
        """Start the core thread and wait until the GMS has let the node in."""
        options = self.options
        if options.tune_gc:
            tune_collector()
        if options.switch_interval_s is not None:
            SWITCHING.enter(options.switch_interval_s)
        self._is_started = True
        self.thread.start()

    def wait_welcome(self) -> int:
        """Block until the node is in; raises what kept it out."""
        try:
            return self._welcome.result(timeout=self.options.connect_timeout_s)
        except TimeoutError:
            raise self.unreachable() from None

    def unreachable(self) -> GmsUnreachableError:
        cause = self._control.last_error or "no answer"
        return GmsUnreachableError(f"{self.gms[0]}:{self.gms[1]}", cause)

    @property
    def welcome(self) -> Future[int]:
        return self._welcome

    def close(self) -> None:
        """Say goodbye and end the core thread; what was not flushed may be lost."""
        if self.is_closed:
            return
        self.is_closed = True
        done = threading.Event()

        def leave() -> None:
            self.engine.goodbye()
            done.set()

        if self.failure is None and self.thread.is_core():
            leave()
        elif self.failure is None:
            self.thread.submit(leave)
            done.wait(timeout=2)
        self.thread.stop()
        if self.options.switch_interval_s is not None and self._is_started:
            SWITCHING.leave()
        self._end_all(ClosedError("the node"))

    def check_alive(self) -> None:
        if self.failure is not None:
            raise self.failure
        if self.is_closed:
            raise ClosedError("the node")

    def _handle_failure(self, report: str) -> None:
        self.failure = CoreFailedError(report)
        self._end_all(self.failure)

    def _end_all(self, error: Exception) -> None:
        if not self._welcome.done():
            self._welcome.set_exception(error)
        waiting: list[Future[Any]] = [*self._requests.values(), *self._flushing]
        for future in waiting:
            if not future.done():
                future.set_exception(error)
        self._requests.clear()
        self._flushing.clear()
        for sink in [*self._sinks.values(), *self._openers.values()]:
            sink.fail_on_core(error)

    # Groups

    def subscribe(
        self,
        *,
        join: Iterable[GroupSink] = (),
        open_: Iterable[GroupSink] = (),
        leave: Iterable[str] = (),
        close: Iterable[str] = (),
    ) -> Future[dict[str, int]]:
        """Change memberships; the future has the group identifiers."""
        self.check_alive()
        joining, opening = tuple(join), tuple(open_)
        leaving, closing = tuple(leave), tuple(close)
        future: Future[dict[str, int]] = Future()

        def request() -> None:
            for sink in joining:
                if sink.name in self._sinks:
                    future.set_exception(AlreadyJoinedError(sink.name))
                    return
            self._sinks.update((sink.name, sink) for sink in joining)
            self._openers.update((sink.name, sink) for sink in opening)
            try:
                number = self.engine.subscribe(
                    join=tuple(s.name for s in joining),
                    leave=leaving,
                    open_=tuple(s.name for s in opening),
                    close=closing,
                )
            except ValueError as error:
                future.set_exception(error)
                return
            self._requests[number] = future
            for sink in (*joining, *opening):
                self._waiting.setdefault(sink.name, []).append(sink)
            for name in leaving:
                self._forget_on_core(name, member=True)
            for name in closing:
                self._forget_on_core(name, member=False)

        self.thread.submit(request)
        return future

    def _forget_on_core(self, name: str, *, member: bool) -> None:
        """A group was left, or closed for sending; the other kind may stay."""
        sinks = self._sinks if member else self._openers
        sink = sinks.pop(name, None)
        if sink is None:
            return
        if member and sink.sender is not None:
            self._routes.pop(sink.sender.id, None)
            self._joined.discard(sink.sender.id)
            self._pausing.discard(name)
            self.engine.is_paused = bool(self._pausing)
        if name not in self._sinks and name not in self._openers:
            if sink.sender is not None:
                self._views.pop(sink.sender.id, None)
            self.engine.outgoing.forget_sender(name)
        sink.fail_on_core(ClosedError(f"group {name!r}"))

    def call(self, work: Callable[[], None]) -> None:
        """Run something on the core thread soon."""
        self.thread.submit(work)

    def flush(self) -> Future[None]:
        """Wait until all that was sent is on every surviving member."""
        self.check_alive()
        future: Future[None] = Future()
        self._flushing.add(future)

        def done(problem: str | None) -> None:
            self._flushing.discard(future)
            # The caller may have given up, or the node may be closed.
            if future.done() or not future.set_running_or_notify_cancel():
                return
            if problem is None:
                future.set_result(None)
            else:
                future.set_exception(ExcludedError(problem))

        self.thread.submit(lambda: self.engine.outgoing.flush(done))
        return future

    def stats(self) -> NodeStats:
        """Return what was counted so far; asks the core thread."""
        self.check_alive()
        future: Future[NodeStats] = Future()
        self.thread.submit(lambda: future.set_result(self.stats_on_core()))
        try:
            return future.result(timeout=self.options.connect_timeout_s)
        except TimeoutError:
            self.check_alive()
            raise

    def stats_on_core(self) -> NodeStats:
        counters = self.sockets.counters
        return NodeStats(
            node=self.engine.node,
            cluster=self.engine.cluster,
            connected=self._control.is_connected,
            counters={**self.engine.stats(), "turns": self.thread.turns},
            datagrams={name: getattr(counters, name) for name in counters.__slots__},
            warnings=self.sockets.warnings,
        )

    # Back-pressure

    def check_overrun(self, lane: Lane) -> None:
        """A callback sends: it cannot wait for the core it runs on, only be refused."""
        if lane.room < -self.engine.config.queue_bytes_max:
            raise QueueFullError(lane.queued_bytes())

    def pause_on_core(self, sink: GroupSink) -> None:
        """A receive queue is full: leave data in the kernel until it is not."""
        self._pausing.add(sink.name)
        self.engine.is_paused = True

    def resume_on_core(self, sink: GroupSink) -> None:
        self._pausing.discard(sink.name)
        self.engine.is_paused = bool(self._pausing)

    # Upcalls (core thread)

    def on_messages(self, messages: Messages) -> None:
        group = messages.group
        routes = self._routes
        counters = self.engine.counters
        if group is not None:
            sink = routes.get(group)
            if sink is None or messages.batch < sink.joined_batch:
                counters.unwanted_messages += len(messages.payloads)
                return
            counters.delivered_messages += len(messages.payloads)
            if self.on_burst is not None:
                self.on_burst(messages)
                return
            sink.deliver_on_core(
                Batch(
                    sink.name,
                    messages.sender,
                    messages.batch,
                    messages.payloads,
                    messages.first,
                    None,
                    self.engine.cluster,
                )
            )
            return
        on_burst = self.on_burst
        if (
            on_burst is not None
            and messages.batch >= self._newest_join
            and self._joined.issuperset(messages.groups)
        ):
            counters.delivered_messages += len(messages.payloads)
            on_burst(messages)
            return
        self._route_mixed(messages)

    def _route_mixed(self, messages: Messages) -> None:
        """Split a packet of several groups among its sinks, keeping each one's order.

        Runs on every packet of a merged region, so what was not joined costs one
        look-up a group and no more.
        """
        routes = self._routes
        sender, batch = messages.sender, messages.batch
        counters = self.engine.counters
        cluster = self.engine.cluster
        by_group: dict[int, tuple[list[bytes], list[int]]] = {}
        for group, sequence, payload in zip(
            messages.groups, messages.sequences, messages.payloads, strict=True
        ):
            found = by_group.get(group)
            if found is None:
                by_group[group] = ([payload], [sequence])
            else:
                found[0].append(payload)
                found[1].append(sequence)
        for group, (payloads, sequences) in by_group.items():
            sink = routes.get(group)
            if sink is None or batch < sink.joined_batch:
                counters.unwanted_messages += len(payloads)
                continue
            counters.delivered_messages += len(payloads)
            if self.on_burst is not None:
                groups = [group] * len(payloads)
                self.on_burst(
                    Messages(messages.sender, batch, payloads, None, 0, groups, sequences)
                )
                continue
            sink.deliver_on_core(
                Batch(sink.name, sender, batch, payloads, sequences[0], sequences, cluster)
            )

    def on_event(self, event: ClientEvent) -> None:
        if isinstance(event, Welcomed):
            try:
                self.thread.set_multicast_port(event.settings.multicast_port)
            except OSError as error:
                problem = OptionError("multicast port of the cluster", str(error))
                self.failure = self.failure or problem
                self._end_all(problem)
                return
            if not self._welcome.done():
                self._welcome.set_result(event.node)
        elif isinstance(event, SubscriptionCompleted):
            self._handle_subscribed(event)
        elif isinstance(event, ViewsChanged):
            for view in event.groups:
                if self.engine.node in view.members:
                    self._route(view.name, view.id)
                self._tell_view(view)
        elif isinstance(event, WasRefused):
            self._handle_refused(event)
        elif isinstance(event, WasExcluded):
            self.exclusions += 1
            self._routes.clear()
            self._joined.clear()
            self._views.clear()
            if self.on_excluded is not None:
                self.on_excluded(event.reason)

    def _handle_subscribed(self, event: SubscriptionCompleted) -> None:
        for name, group in event.groups.items():
            self._route(name, group)
            if name in self._sinks or name in self._openers:
                view = self.engine.client.directory.groups.get(group)
                if view is not None:
                    self._tell_view(view)
            for waiting in self._waiting.pop(name, []):
                sender = self.engine.outgoing.sender_for(name)
                sender.echo = waiting.echo
                waiting.ready_on_core(sender)
        self.engine.outgoing.refresh_lanes()
        found = self._requests.pop(event.request, None)
        if found is not None and not found.done():
            found.set_result({name: int(group) for name, group in event.groups.items()})

    def _route(self, name: str, group: int) -> None:
        """From now on a group's messages go to its sink, if it was joined."""
        sink = self._sinks.get(name)
        if sink is not None and sink.is_member and self._routes.get(group) is not sink:
            sink.joined_batch = self._newest_join = self.engine.batch
            self._routes[group] = sink
            self._joined.add(group)

    def _handle_refused(self, event: WasRefused) -> None:
        error = RefusedError(event.reason)
        if not self._welcome.done():
            self._welcome.set_exception(error)
        for number in event.requests:
            found = self._requests.pop(number, None)
            if found is not None and not found.done():
                found.set_exception(error)

    def _tell_view(self, view: GroupView) -> None:
        sinks = [s for s in (self._sinks.get(view.name), self._openers.get(view.name)) if s]
        number, before = self._views.get(view.id, (0, frozenset()))
        members = frozenset(view.members)
        if not sinks or view.view <= number:
            return
        self._views[view.id] = (view.view, members)
        news = View(
            group=view.name,
            number=view.view,
            members=view.members,
            joined=tuple(sorted(members - before)),
            left=tuple(sorted(before - members)),
            id=view.id,
        )
        for sink in sinks:
            if not sink.is_member or self.engine.node in members:
                sink.view_on_core(news)

    def _note_drops(self, drops: int) -> None:
        self.engine.kernel_drops = drops
