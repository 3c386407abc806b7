"""A node assembled: a session, its sockets and the core thread.

Both forms of the API, asyncio and synchronous, are thin shells around this: what
they ask for runs as requests on the core thread, and futures have the answers.
Methods named ``*_on_core`` run on the core thread; the others may be called from
any thread.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any, assert_never

from quicksilver.membership.events import (
    SubscriptionCompleted,
    ViewsChanged,
    WasExcluded,
    WasRefused,
    Welcomed,
)
from quicksilver.membership.patterns import is_pattern
from quicksilver.multicast.events import (
    EmptinessChanged,
    FlushEnded,
    GroupReady,
    GroupUnmatched,
    GroupViewChanged,
    MessagesArrived,
    MessagesUnconfirmed,
    MessagesWaiting,
    SessionEvent,
)
from quicksilver.multicast.sending.lane import Lane
from quicksilver.multicast.sending.unconfirmed import Unconfirmed
from quicksilver.multicast.session import Session
from quicksilver.net.control import ControlStream
from quicksilver.net.datagrams import DatagramSockets
from quicksilver.net.host import CoreThread
from quicksilver.net.interfaces import (
    Interface,
    InterfaceError,
    choose_interface,
    datagram_bytes_max,
    list_interfaces,
)
from quicksilver.node.core_base import Change, CoreBase
from quicksilver.node.errors import (
    ClosedError,
    CoreFailedError,
    GmsUnreachableError,
    OptionError,
    QueueFullError,
    RefusedError,
    UnconfirmedError,
)
from quicksilver.node.flushes import Flushes
from quicksilver.node.log import NodeLog, log_unconfirmed
from quicksilver.node.messages import NodeStats, View
from quicksilver.node.options import NodeOptions, parse_gms_address
from quicksilver.node.other_networks import OtherNetworks
from quicksilver.node.promises import fail, settle
from quicksilver.node.requests import Requests
from quicksilver.node.sinks import DroppingSink, GroupSink, PatternSink
from quicksilver.stdx.text import printable
from quicksilver.wire.packets import KIND_DATA, KIND_HYBRID

if TYPE_CHECKING:
    from quicksilver.net.spill import SpillFile


class NodeCore(CoreBase[GroupSink]):
    """One node in this process."""

    def __init__(self, gms: str, options: NodeOptions, *, asks_gateways: bool = True) -> None:
        """``asks_gateways``: whether a flush speaks for other networks as well; gateways' own do
        not."""
        super().__init__(options)
        self.gms = parse_gms_address(gms)
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
        self.session = Session(
            name=name,
            address=self.sockets.address,
            config=config,
            seed=int.from_bytes(os.urandom(8), "little"),
            tracer=options.tracer,
            has_multicast=(
                interface.supports_multicast if options.multicast is None else options.multicast
            ),
        )
        self._control = ControlStream(self.gms, int.from_bytes(os.urandom(8), "little"))
        self.thread = CoreThread(
            self.session,
            self.sockets,
            self._control,
            on_events=self._take_events,
            on_failure=self._handle_failure,
            find_interface=self._find_moved,
        )
        self._spill: SpillFile | None = None
        if config.keep_disk_bytes_max:
            from quicksilver.net.spill import SpillFile  # nobody else pays for it at the start

            self._spill = SpillFile(
                folder=options.keep_folder,
                bytes_max=config.keep_disk_bytes_max,
                packet_bytes=config.packet_bytes,
                submit_disk=self.thread.submit_disk,
            )
            self.session.engine.environment.disk = self._spill
        self._log = NodeLog(self.session)
        self.session.client.set_stats(self._stats_of_heartbeat)
        self._control.on_lost = self._handle_lost
        self._waiting: dict[str, list[GroupSink]] = {}
        """Groups that are not ready yet."""
        self._flushes = Flushes(
            self.session, log_unconfirmed, options.on_unconfirmed, self._sinks_of
        )
        self._requests: dict[int, Future[dict[str, int]]] = {}
        self._is_no_gms = False
        """True: what answers is the manager of a scope, and another core takes over."""
        self.requests = Requests(self)
        self._other_networks = OtherNetworks(self, asks=asks_gateways)

    # Life

    def start(self) -> None:
        """Start the core thread and wait until the GMS has let the node in."""
        self._begin()
        self.thread.start()

    def unreachable(self) -> GmsUnreachableError:
        cause = printable(self._control.last_error) or "no answer"
        return GmsUnreachableError(f"{self.gms[0]}:{self.gms[1]}", cause)

    def close(self) -> None:
        """Say goodbye and end the core thread; what was not flushed may be lost.

        ``take_unfinished`` says what that is, if it is asked before.
        """
        if self.is_closed:
            return
        self.is_closed = True
        done = threading.Event()

        def leave() -> None:
            self.session.goodbye()
            done.set()

        if self.failure is None and self.thread.is_core():
            leave()
        elif self.failure is None:
            self.thread.submit(leave)
            done.wait(timeout=2)
        self.thread.stop()
        if self._spill is not None:
            self._spill.close()
        self._end()
        self._end_all(ClosedError("the node"))
        if self._is_started:
            self._log.closed()

    def check_supports(self, what: str) -> None:
        """Raise ScopeLimitError for what this node cannot do: a node of a GMS can do all."""

    def _handle_failure(self, traceback: str) -> None:
        self.failure = CoreFailedError(traceback)
        self._log.failed(self.failure)
        self._end_all(self.failure)

    def _fail_requests(self, error: Exception) -> None:
        super()._fail_requests(error)
        self._requests.clear()
        self._flushes.clear()
        self.requests.fail_all(error)

    # Groups

    def _subscribe_on_core(self, change: Change[GroupSink], future: Future[dict[str, int]]) -> None:
        joining, opening, leaving = change.joining, change.opening, change.leaving
        single = [sink for sink in joining if not is_pattern(sink.name)]
        named = [sink.name for sink in (*single, *opening)]
        behind, queue = change.behind, change.queue
        try:
            number = self.session.subscribe(
                join={sink.name: sink.deliver_on_core for sink in single},
                leave=[name for name in leaving if not is_pattern(name)],
                open_=[sink.name for sink in opening],
                close=change.closing,
                echo=frozenset(sink.name for sink in single if sink.echo),
                behind=None if behind is None else dict.fromkeys(named, behind),
                empty=dict.fromkeys(named, change.empty or self.options.empty),
                on_envelopes={s.name: s.deliver_enveloped_on_core for s in single},
                match={s.name: s.receivers_on_core for s in joining if is_pattern(s.name)},
                unmatch=[name for name in leaving if is_pattern(name)],
                queues={} if queue is None else {sink.name: queue for sink in single},
            )
        except ValueError as error:
            fail(future, error)
            return
        self._requests[number] = future
        self._forget(leaving, change.closing)
        self._note_sinks(change)
        for sink in joining:
            if isinstance(sink, DroppingSink) and sink.may_drop:
                self._log.droppable[sink.name] = sink
        for sink in (*single, *opening):
            self._waiting.setdefault(sink.name, []).append(sink)

    def leave_queues(self, names: Iterable[str]) -> Future[Any]:
        """Take no more messages of groups than were sent so far, and stay in them."""
        self.check_alive()
        future: Future[Any] = self.promises.make()
        leaving = tuple(names)

        def request() -> None:
            self._requests[self.session.leave_queues(leaving)] = future

        self.thread.submit(request)
        return future

    def _withdraw_on_core(self, leaving: list[str], closing: list[str]) -> None:
        self.session.subscribe(
            leave=[name for name in leaving if not is_pattern(name)],
            close=closing,
            unmatch=[name for name in leaving if is_pattern(name)],
        )
        self._forget(leaving, closing)

    def _forget(self, leaving: Iterable[str], closing: Iterable[str]) -> None:
        """Groups are left or closed: nothing more comes from them."""
        gone = self._drop_sinks(leaving, closing)
        self._log.left(left.name for left in gone)
        for left in gone:
            waiting = self._waiting.get(left.name, [])
            if left in waiting:
                waiting.remove(left)
            if not waiting:
                self._waiting.pop(left.name, None)
            left.fail_on_core(ClosedError(f"group {left.name!r}"))
            if not self.has_group(left.name):
                self.requests.forget_on_core(left.name)

    def call(self, work: Callable[[], None]) -> None:
        """Run something on the core thread soon."""
        self.thread.submit(work)

    def _flush_on_core(self, future: Future[tuple[Unconfirmed, ...]]) -> None:
        topics = self._other_networks.topics()
        if not topics:
            self._flushes.begin(future)
            return
        here: Future[tuple[Unconfirmed, ...]] = self.promises.make()
        here.add_done_callback(partial(self._other_networks.handle_flushed, topics, future))
        self._flushes.begin(here)

    def untell(self, future: Future[tuple[Unconfirmed, ...]]) -> None:
        """Whoever waited for a flush is gone: what it would have told, another one tells."""
        told = self._flushes.put_back(future)
        if told:
            self.thread.submit(lambda: self.session.put_back_unconfirmed(told))

    def take_unfinished(self) -> UnconfirmedError | None:
        """Return what is lost if the node ends now; None where nothing is, or it has ended."""
        found = self._ask_unfinished(
            lambda: (*self.session.take_unfinished(), *self._other_networks.unfinished())
        )
        return UnconfirmedError(found) if any(each.reason.is_failure for each in found) else None

    def _count_on_core(self, future: Future[NodeStats]) -> None:
        settle(future, self.stats_on_core())

    def _stats_of_heartbeat(self) -> dict[str, int | float | str]:
        stats = self.session.stats()
        self._log.look(stats)
        return stats

    def stats_on_core(self) -> NodeStats:
        return NodeStats(
            node=self.session.node,
            cluster=self.session.cluster,
            connected=self._control.is_connected,
            counters={**self.session.stats(), "turns": self.thread.turn.count},
            datagrams=asdict(self.sockets.counters),
            warnings=self._warnings(),
        )

    def _warnings(self) -> tuple[str, ...]:
        waits_for = self._control.waits_for
        return (*self.sockets.warnings, *([f"waits for {waits_for}"] if waits_for else []))

    # Back-pressure

    def check_overrun(self, lane: Lane) -> None:
        """Refuse a callback that has queued too much: it runs on the core and cannot wait."""
        if lane.room < -self.session.engine.config.queue_bytes_max:
            raise QueueFullError(lane.queued_bytes())

    # The session's events (core thread)

    def _take_events(self) -> None:
        while (event := self.session.poll_event()) is not None:
            self._handle_event(event)

    def _handle_event(self, event: SessionEvent) -> None:
        if isinstance(event, GroupViewChanged):
            self._handle_view(event)
        elif isinstance(event, MessagesArrived):
            event.deliver()
        elif isinstance(event, GroupUnmatched):
            for sink in map(self._sinks.get, event.patterns):
                if isinstance(sink, PatternSink):
                    sink.unmatched_on_core(event.name)
        elif isinstance(event, FlushEnded):
            self._flushes.handle_ended(event)
        elif isinstance(event, MessagesUnconfirmed):
            self._flushes.handle_unconfirmed(event)
        elif isinstance(event, GroupReady):
            waiting = self._waiting.pop(event.name, [])
            if waiting:
                self._log.ready(event, is_joined=event.name in self._sinks)
            for sink in waiting:
                sink.ready_on_core(event.sender)
        elif isinstance(event, SubscriptionCompleted):
            future = self._requests.pop(event.request, None)
            if future is not None:
                settle(future, {name: int(group) for name, group in event.groups.items()})
        elif isinstance(event, Welcomed):
            self._handle_welcomed(event)
        elif isinstance(event, WasRefused):
            self._handle_refused(event)
        elif isinstance(event, WasExcluded):
            self.exclusions += 1
            self._log.excluded(event.reason)
        elif isinstance(event, EmptinessChanged):
            for each in self._sinks_of(event.name):
                each.emptiness_on_core()
            self.room.set()
            self._log.emptiness(event)
        elif isinstance(event, MessagesWaiting):
            self._log.waiting(event)
        elif isinstance(event, ViewsChanged):
            pass  # what concerns this node's groups is told group by group
        else:
            assert_never(event)

    def _find_moved(self) -> Interface | None:
        """Return where the node is now, if this machine lost the address that it had."""
        own = self.sockets.interface
        if own.is_loopback or any(some.address == own.address for some in list_interfaces()):
            return None
        try:
            return choose_interface(self.options.interface or self._control.local_address())
        except InterfaceError:
            return None  # it was given by its address: that may come back

    def _handle_welcomed(self, event: Welcomed) -> None:
        self._control.set_failure_timeout(event.settings.failure_timeout_s)
        try:
            self.thread.set_multicast_port(event.settings.multicast_port)
        except OSError as error:
            problem = OptionError("multicast port of the cluster", str(error))
            self.failure = self.failure or problem
            self._end_all(problem)
            return
        self._log.connected(self.gms, is_resumed=event.resumed)
        if not self._welcome.done():
            settle(self._welcome, event.node)

    def _handle_lost(self, reason: str) -> None:
        if not self.is_closed and self._welcome.done() and not self._is_no_gms:
            self._log.lost(self.gms, reason)

    def _handle_refused(self, event: WasRefused) -> None:
        if event.scope:
            self._is_no_gms = True
        else:
            self._log.refused(event.reason)
        error = RefusedError(event.reason, event.scope)
        if not self._welcome.done():
            self._welcome.set_exception(error)
        for number in event.requests:
            found = self._requests.pop(number, None)
            if found is not None:
                fail(found, error)

    def _handle_view(self, event: GroupViewChanged) -> None:
        view = event.view
        nodes = self.session.directory.nodes
        news = View(
            group=view.name,
            number=view.view,
            members=view.members,
            joined=event.joined,
            left=event.left,
            id=view.id,
            names=tuple([nodes[m].name if m in nodes else "" for m in view.members]),
        )
        self._log.view(news)
        sink = (self._sinks if event.is_member else self._openers).get(view.name)
        if sink is not None:
            sink.view_on_core(news)
        if event.is_member:
            for pattern in self.session.patterns_for(view.name):
                self._sinks[pattern].view_on_core(news)
