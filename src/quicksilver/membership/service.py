"""The global membership service (GMS), as a machine without sockets or clock.

"Nodes contact GMS to join or leave groups, and GMS monitors their health
through low-volume periodic heartbeat messages, so that at all times, the GMS has
a complete and up to date view of which nodes are running, and what groups they
wish to be members of" (dissertation 4.2.1 A).

This module speaks with nodes: it admits them and checks what they ask for.
``watching`` says who has failed. ``changes`` collects what happens, turns it into
new views (``batch``) and makes them durable (``store``); then ``publication`` cuts
them to what each node needs. Always in this order, so that nothing is published
that a crash could undo.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from quicksilver.core.ports import FrameTransmit, Reported, ServerEvent
from quicksilver.membership.addresses import AddressPool
from quicksilver.membership.admission import (
    find_address_problem,
    find_hello_problem,
    find_resume_problem,
    find_stats_problem,
)
from quicksilver.membership.answers import Answers
from quicksilver.membership.changes import Changes
from quicksilver.membership.config import ServiceConfig
from quicksilver.membership.connections import (
    Closing,
    Connection,
    ConnectionTable,
    Frame,
    Greeting,
    Inspecting,
    Serving,
    size_of,
)
from quicksilver.membership.counters import ServiceCounters
from quicksilver.membership.health import Watch
from quicksilver.membership.inspection import InspectQueue
from quicksilver.membership.planning.model import Planner
from quicksilver.membership.publication import Publisher, senders_to_ask
from quicksilver.membership.snapshot import SnapshotMaker
from quicksilver.membership.store import Store
from quicksilver.membership.tables import NodeRow, Tables
from quicksilver.membership.timers import Timer, Timers
from quicksilver.membership.watching import Watches
from quicksilver.stdx.timers import TimerTable
from quicksilver.wire import gms
from quicksilver.wire.ids import NodeId

GOODBYE = "the node said goodbye"

CHECKPOINT_S = 1.0
"""How long the planner's assignment of groups to hierarchies may be stored late.
Asking for it costs as much as the plan is large, and a restart that lacks it
only makes the planner move some nodes."""


class MembershipService:
    """Serves the nodes of one cluster.

    The caller's duty: after every ``handle_*``, take frames until
    ``poll_transmit`` returns None, then events until ``poll_event`` does, and
    call ``handle_timeout`` at ``next_timeout``. Connections are numbered by
    the caller; a number is not used again. The only exception that comes out
    is StoreError, from the constructor if what the store holds makes no sense, and
    from ``handle_timeout``: the state on disk can no longer be trusted to be ahead
    of what was published, so the process must end.
    """

    def __init__(
        self,
        *,
        store: Store,
        planner: Planner,
        settings: gms.ClusterSettings,
        pool: AddressPool,
        config: ServiceConfig | None = None,
        seed: int,
        make_secret: Callable[[], bytes],
        on_tables: Callable[[Tables], None] | None = None,
    ) -> None:
        """``make_secret`` returns ``SECRET_BYTES`` that nobody can guess. ``on_tables`` is
        shown the tables before the planner is used: a planner that speaks of names looks
        them up there."""
        self.settings = settings
        self.config = config if config is not None else ServiceConfig()
        self.counters = ServiceCounters()
        self._make_secret = make_secret
        hybrid = self.config.hybrid
        self._tables = Tables(
            pool=pool,
            hybrid_names=hybrid if isinstance(hybrid, frozenset) else frozenset(),
            has_multicast=settings.transport == "multicast",
        )
        if on_tables is not None:
            on_tables(self._tables)
        self._publisher = Publisher(self._tables)
        self._connections = ConnectionTable()
        self._timers: Timers = TimerTable()
        self._watches = Watches(self._timers, self.counters, self.config, settings)
        self.answers = Answers(
            tables=self._tables,
            watches=self._watches,
            timers=self._timers,
            counters=self.counters,
            join_wait_s=self.config.join_wait_s,
            send_to=self._send_to,
        )
        self._inspects = InspectQueue(self.config.inspect_rows_per_s)
        self._is_started = False
        self._now = 0.0
        """Time of the last input."""
        self._changes = Changes(
            store=store,
            planner=planner,
            tables=self._tables,
            config=self.config,
            counters=self.counters,
            traffic_interval_s=settings.traffic_interval_s,
            seed=seed,
        )
        self.cluster = self._changes.cluster
        self._snapshots = SnapshotMaker(
            self.cluster, self._tables, planner, self.counters, self.config.plan_cost_interval_s
        )

    # -- inputs

    def handle_connected(self, conn: int, addresses: frozenset[str], now: float) -> None:
        """A stream was opened; ``addresses`` are those that the other side is known to have."""
        self._enter(now)
        connection = self._connections.add(conn, addresses)
        if len(self._connections) > self.config.connections_max:
            limit = self.config.connections_max
            self._refuse(connection, f"this GMS serves {limit} connections: try again later")
            return
        self._timers.set((Timer.GREETING, conn), now + self.config.greeting_timeout_s)
        if self._connections.count(Greeting) > self.config.greeting_connections_max:
            # Whoever means it greets within a round trip: the oldest is the least likely to.
            oldest = self._connections.oldest_stranger()
            assert oldest is not None
            self.counters.crowded += 1
            self._timers.cancel((Timer.GREETING, oldest.id))
            self._connections.abort(oldest)

    def handle_disconnected(self, conn: int, now: float, *, is_silent: bool = False) -> None:
        """A stream is gone; its number is not used again.

        ``is_silent``: nothing said so; the host gave it up because nothing came.
        """
        self._enter(now)
        connection = self._connections.remove(conn)
        self._timers.cancel((Timer.GREETING, conn))
        self._inspects.discard(conn)
        if connection is not None and isinstance(connection.role, Serving):
            self._lose(connection.role.node, conn, is_silent=is_silent)

    def frame_bytes_max(self, conn: int) -> int:
        """Return how long a frame may be that a stream brings next."""
        connection = self._connections.get(conn)
        if connection is not None and isinstance(connection.role, Serving):
            return gms.REQUEST_BYTES_MAX
        return gms.GREETING_BYTES_MAX

    def handle_blocked(self, conn: int, now: float) -> None:
        """A stream cannot take more output at the moment."""
        self._enter(now)
        self._connections.set_blocked(conn, blocked=True)
        self._keep_to_output_budget()

    def handle_unblocked(self, conn: int, now: float) -> None:
        """A stream can take output again."""
        self._enter(now)
        self._connections.set_blocked(conn, blocked=False)

    def handle_frame(self, conn: int, frame: bytes, now: float) -> None:
        """Take one frame; never raises, whatever it holds."""
        self._enter(now)
        connection = self._connections.get(conn)
        if connection is None or isinstance(connection.role, Closing):
            return
        if isinstance(connection.role, Serving):
            self._watches.handle_heard(self._watches.nodes[connection.role.node], now)
        fits = len(frame) <= self.frame_bytes_max(conn)
        request = gms.parse_request(frame) if fits else None
        match request:
            case None:
                self.counters.malformed += 1
                self._refuse(
                    connection, "this GMS cannot read the frame: is it a quicksilver node?"
                )
            case gms.Hello():
                self._handle_hello(connection, request, now)
            case gms.Subscribe():
                self._handle_subscribe(connection, request, len(frame))
            case gms.Heartbeat():
                self._handle_heartbeat(connection, request)
            case gms.Applied():
                self._handle_applied(connection, request)
            case gms.Goodbye():
                self._handle_goodbye(connection)
            case gms.Inspect():
                self._handle_inspect(connection, request, now)
            case _:
                assert_never(request)

    def handle_timeout(self, now: float) -> None:
        """Serve what is due.

        Raises:
            StoreError: the batch could not be made durable, and is not published.
        """
        self._enter(now)
        is_batch_due = False
        for timer, key in self._timers.pop_due(now):
            match timer:
                case Timer.BATCH:
                    is_batch_due = True
                case Timer.BARRIER:
                    self.answers.handle_timeout(now)
                case Timer.CHECKPOINT:
                    self._changes.store_hierarchies()
                case Timer.GREETING:
                    self._end_idle(key)
                case Timer.HEALTH:
                    failed = self._watches.find_failed(NodeId(key), now)
                    if failed is not None:
                        self._depart(*failed)
                case Timer.TRAFFIC:
                    self._adapt_plan()
                case Timer.INSPECT:
                    self._answer_inspects()
                case Timer.SILENCE:
                    for watch, reason in self._watches.unreached(now):
                        self._depart(watch, reason)
                case _:
                    assert_never(timer)
        if is_batch_due:
            self._run_batch()

    def close(self) -> None:
        """Store what may wait, before a clean end; the store is the caller's to close."""
        self._changes.store_hierarchies()

    # -- outputs

    def next_timeout(self) -> float | None:
        """Return when to call ``handle_timeout``, or None."""
        if not self._is_started:
            return float("-inf")
        return self._timers.next()

    def poll_transmit(self) -> FrameTransmit | None:
        """Return the next frame, and the connection that it is for, or None."""
        return self._connections.poll_transmit()

    def poll_event(self) -> ServerEvent | None:
        """Return a connection to close once its frames are sent, or a note, or None."""
        if self._watches.notes:
            return self._watches.notes.popleft()
        return self._connections.poll_event()

    # -- life

    def _enter(self, now: float) -> None:
        """Note the time; at the first moment that has one, stored nodes get their grace."""
        self._now = now
        self._watches.handle_time(now)
        if self._is_started:
            return
        self._is_started = True
        for row in self._tables.nodes.values():
            self._watches.handle_stored(row, now)
        if self._tables.needs_batch:
            self._schedule_batch()
        if self._changes.needs_look():
            self._schedule_look()
        if self.config.hybrid != "auto" and self._changes.move_named():
            # Whoever runs the GMS may have thought better of it.
            self._schedule_batch()

    def _lose(self, node: NodeId, conn: int, *, is_silent: bool = False) -> None:
        """A node's connection broke: it may resume for a while."""
        watch = self._watches.nodes.get(node)
        if watch is None or watch.conn != conn:
            return
        watch.conn = None
        self._watches.handle_report(node, (), self._now)
        self._publisher.forget(watch.row)
        self.answers.handle_gone(watch)
        if node not in self._tables.nodes:
            self._abandon(watch)
        elif not watch.departs:
            self._watches.handle_lost(watch, self._now, is_silent=is_silent)

    def _abandon(self, watch: Watch) -> None:
        """Forget a node that never got its Welcome."""
        self._changes.withdraw(watch.row)
        self._tables.drop_unborn(watch.row)
        self._watches.remove(watch.row.id)

    def _depart(self, watch: Watch, reason: str) -> None:
        """Let a node's incarnation end with the next batch."""
        if watch.departs:
            return
        if watch.row.id not in self._tables.nodes:
            self._abandon(watch)
            return
        self._watches.handle_departing(watch, reason, self._now)
        self.answers.handle_gone(watch)
        self._changes.handle_departure(watch.row.id)
        self._schedule_batch()

    def _end_idle(self, conn: int) -> None:
        connection = self._connections.get(conn)
        if connection is not None and not isinstance(connection.role, Serving):
            self.counters.idle += 1
            self._inspects.discard(conn)
            self._connections.close(connection)

    # -- requests

    def _handle_hello(self, connection: Connection, hello: gms.Hello, now: float) -> None:
        if hello.version != gms.PROTOCOL_VERSION:
            self._refuse_version(connection, hello.version)
            return
        problem = find_hello_problem(hello)
        if problem is None and not self.config.any_address:
            problem = find_address_problem(hello.ip, connection.addresses)
        if problem is None and hello.resume is not None:
            self._resume(connection, hello, hello.resume, now)
            return
        if not isinstance(connection.role, Greeting):
            problem = "the node said Hello twice"
        if problem is None and len(self._watches.nodes) >= self.config.nodes_max:
            problem = f"this GMS serves {self.config.nodes_max} nodes: raise nodes_max or stop some"
        if problem is not None:
            self._refuse(connection, problem)
            return
        row = self._tables.make_node(hello, self._make_secret())
        watch = self._watches.add(row, connection.id, now)
        self._serve(connection, watch)
        self._watches.handle_heard(watch, now)
        self._changes.handle_arrival(row)
        self._schedule_batch()

    def _resume(
        self, connection: Connection, hello: gms.Hello, resume: gms.Resume, now: float
    ) -> None:
        node = NodeId(resume.node)
        watch = self._watches.nodes.get(node)
        if watch is not None and node not in self._tables.nodes:
            watch = None
        problem = find_resume_problem(hello, resume, watch, self.cluster)
        if problem is not None:
            self.counters.impostors += problem.is_impostor
            self.counters.missed += problem.has_missed
            if watch is not None and problem.ends_incarnation:
                self._depart(watch, problem.reason)
            self._exclude(connection, problem.reason)
            return
        assert watch is not None
        match connection.role:
            case Serving(serving) if serving != node:
                self._refuse(connection, "the node resumed as another one")
                return
            case Serving() | Greeting() | Inspecting() | Closing():
                pass
            case _:
                assert_never(connection.role)
        if watch.conn is not None and watch.conn != connection.id:
            # The node noticed a broken connection before this GMS did.
            former = self._connections.get(watch.conn)
            if former is not None:
                self._connections.close(former)
        watch.conn = connection.id
        self._serve(connection, watch)
        self._watches.handle_resumed(watch, now)
        self.counters.resumed += 1
        self._send(connection, self._welcome(watch.row, resumed=True))
        self._send(connection, self._publisher.publish_whole(watch.row))
        self.answers.ask_resumed(watch.row, now)

    def _serve(self, connection: Connection, watch: Watch) -> None:
        self._connections.set_role(connection, Serving(watch.row.id))
        self._timers.cancel((Timer.GREETING, connection.id))

    def _handle_subscribe(self, connection: Connection, request: gms.Subscribe, size: int) -> None:
        watch = self._watch_of(connection)
        if watch is None:
            self._refuse(connection, "the node did not say Hello")
            return
        if watch.departs:
            return
        if not self._changes.has_room(size):
            self.counters.crowded += 1
            self._connections.close(connection)
            self._lose(watch.row.id, connection.id)
            return
        problem = self._changes.limits.find_problem(watch.row, request)
        if problem is not None:
            self.counters.refused_subscriptions += 1
            self._refuse(connection, problem)
            return
        self._changes.handle_request(watch.row.id, connection.id, request, size)
        self._schedule_batch()

    def _handle_heartbeat(self, connection: Connection, heartbeat: gms.Heartbeat) -> None:
        watch = self._watch_of(connection)
        if watch is None:
            self._refuse(connection, "the node did not say Hello")
            return
        problem = find_stats_problem(heartbeat.stats)
        if problem is not None:
            self.counters.malformed += 1
            self._refuse(connection, problem)
            return
        watch.stats = heartbeat.stats
        if self._changes.handle_traffic(watch.row, heartbeat.traffic, self._now):
            self._schedule_look()
        if not watch.departs:
            self._watches.handle_report(watch.row.id, heartbeat.silent, self._now)
        if connection.is_clear:
            # Whatever else is under way proves the same.
            heard = gms.Heard(self._tables.batch, self._watches.disputed())
            self._connections.send(connection, gms.encode(heard))

    def _handle_applied(self, connection: Connection, applied: gms.Applied) -> None:
        watch = self._watch_of(connection)
        if watch is None:
            self._refuse(connection, "the node did not say Hello")
            return
        self.answers.handle_applied(watch, applied.batch, self._now)

    def _handle_goodbye(self, connection: Connection) -> None:
        watch = self._watch_of(connection)
        self._connections.close(connection)
        self._timers.cancel((Timer.GREETING, connection.id))
        if watch is not None:
            self.counters.goodbyes += 1
            watch.conn = None
            self._publisher.forget(watch.row)
            self._depart(watch, GOODBYE)

    def _handle_inspect(self, connection: Connection, request: gms.Inspect, now: float) -> None:
        if request.version != gms.PROTOCOL_VERSION:
            self._refuse_version(connection, request.version)
            return
        if isinstance(connection.role, Greeting):
            if self._connections.count(Inspecting) >= self.config.inspecting_connections_max:
                self._refuse(connection, "too many tools look at this GMS: try again later")
                return
            self._connections.set_role(connection, Inspecting())
        if isinstance(connection.role, Inspecting):
            self._timers.set((Timer.GREETING, connection.id), now + self.config.inspect_idle_s)
        if not connection.is_clear:
            self.counters.inspects_dropped += 1
            return
        self._inspects.add(connection.id, request.request)
        self._answer_inspects()

    def _answer_inspects(self) -> None:
        """Answer tools as far as the rate allows; the others wait."""
        while (
            found := self._inspects.pop(self._snapshots.rows(self._watches), self._now)
        ) is not None:
            connection = self._connections.get(found[0])
            if connection is not None and not isinstance(connection.role, Closing):
                self.counters.inspects += 1
                self._send(connection, self._snapshots.make(found[1], self._watches, self._now))
        due = self._inspects.next_turn(self._now)
        if due is not None:
            self._timers.set((Timer.INSPECT, 0), due)

    # -- batches

    def _schedule_batch(self) -> None:
        if (Timer.BATCH, 0) not in self._timers:
            self._timers.set((Timer.BATCH, 0), self._watches.next_batch_at(self._now))

    def _schedule_look(self) -> None:
        interval_s = self.config.adapt_interval_s
        if interval_s > 0 and (Timer.TRAFFIC, 0) not in self._timers:
            self._timers.set((Timer.TRAFFIC, 0), self._now + interval_s)

    def _adapt_plan(self) -> None:
        """Move nodes to other regions, if the traffic of late makes that worth while.

        Where they stay, groups may get or lose an address of their own.
        """
        if self._changes.adapt(self._now):
            self._schedule_batch()
        if self._changes.needs_look():
            self._schedule_look()

    def _run_batch(self) -> None:
        given, outcome = self._changes.commit()
        # From here on a crash loses nothing: what follows may be said.
        self.counters.batches += 1
        for row in given.arrivals:
            self._report(f"{self._watches.describe(row.id)} has come, at {row.ip}:{row.port}")
            self._send_to(row.id, self._welcome(row, resumed=False))
            self._watches.handle_welcomed(row.id, self._now)
        served = self._watches.served()
        asked = senders_to_ask(outcome, served)
        # Before they are told: whoever cannot be told is given up, and not waited for.
        self.answers.ask(asked, outcome.batch, self._now)
        for node, update in self._publisher.publish(outcome, served, asked):
            self._send_to(node, update)
        self.answers.answer(given, outcome)
        for row in outcome.departed:
            who, why = self._watches.describe(row.id), self._watches.nodes[row.id].departs
            self._report(f"{who} is out: {why}", is_warning=why != GOODBYE)
            watch = self._watches.remove(row.id)
            connection = None if watch.conn is None else self._connections.get(watch.conn)
            if connection is not None:
                self._exclude(connection, watch.departs)
        self._changes.forget_gone(outcome)
        if self._tables.moved_groups and (Timer.CHECKPOINT, 0) not in self._timers:
            self._timers.set((Timer.CHECKPOINT, 0), self._now + CHECKPOINT_S)

    def _welcome(self, row: NodeRow, *, resumed: bool) -> bytes:
        return gms.encode(
            gms.Welcome(
                gms.PROTOCOL_VERSION, self.cluster, row.id, resumed, self.settings, row.secret
            )
        )

    # -- output

    def _report(self, text: str, *, is_warning: bool = False) -> None:
        self._watches.notes.append(Reported(text, is_warning))

    def _send_to(self, node: NodeId, frame: Frame) -> None:
        watch = self._watches.nodes.get(node)
        if watch is None or watch.conn is None or watch.departs:
            return
        connection = self._connections.get(watch.conn)
        if connection is not None and not isinstance(connection.role, Closing):
            self._send(connection, frame)

    def _send(self, connection: Connection, frame: Frame) -> None:
        self._connections.send(connection, frame)
        if connection.waiting_bytes <= self.config.output_bytes_max and (
            size_of(frame) <= gms.UPDATE_BYTES_MAX
        ):
            self._keep_to_output_budget()
            return
        self._give_up_slow(connection)

    def _give_up_slow(self, connection: Connection) -> None:
        self.counters.slow += 1
        reason = "the node does not read what the GMS sends"
        watch = self._watch_of(connection)
        if watch is not None:
            self._depart(watch, reason)
        self._exclude(connection, reason)

    def _keep_to_output_budget(self) -> None:
        """Give up whoever is furthest behind, until the rest is within the budget."""
        while self._connections.blocked_bytes > self.config.output_bytes_total_max:
            behind = self._connections.furthest_behind()
            assert behind is not None
            self._give_up_slow(behind)
            self._connections.abort(behind)

    def _watch_of(self, connection: Connection) -> Watch | None:
        if isinstance(connection.role, Serving):
            return self._watches.nodes.get(connection.role.node)
        return None

    def _refuse_version(self, connection: Connection, version: int) -> None:
        ours = gms.PROTOCOL_VERSION
        older = "node" if version < ours else "GMS"
        self._refuse(
            connection,
            f"this GMS speaks version {ours}, the node {version}: upgrade the {older}",
        )

    def _refuse(self, connection: Connection, reason: str) -> None:
        self.counters.refused += 1
        self._end(connection, gms.encode(gms.Refused(reason)))

    def _exclude(self, connection: Connection, reason: str) -> None:
        self.counters.excluded += 1
        self._end(connection, gms.encode(gms.Excluded(reason)))

    def _end(self, connection: Connection, frame: bytes) -> None:
        """Close a connection with a last word; its node, if any, may resume."""
        role = connection.role
        self._timers.cancel((Timer.GREETING, connection.id))
        self._connections.close(connection, frame)
        if isinstance(role, Serving):
            self._lose(role.node, connection.id)
