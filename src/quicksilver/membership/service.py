"""The global membership service (GMS), as a machine without sockets or clock.

"Nodes contact GMS to join or leave groups, and GMS monitors their health
through low-volume periodic heartbeat messages, so that at all times, the GMS has
a complete and up to date view of which nodes are running, and what groups they
wish to be members of" (dissertation 4.2.1 A).

This module speaks with nodes: it admits them, checks what they ask for, watches
them, and collects changes. ``batch`` turns a collection into new views,
``store`` makes them durable, ``publication`` cuts them to what each node needs;
always in this order, so that nothing is published that a crash could undo.
"""

from __future__ import annotations

import enum
import ipaddress
from collections import Counter
from dataclasses import dataclass, field
from typing import assert_never

from quicksilver.membership.addresses import AddressPool
from quicksilver.membership.batch import BatchInput, run_batch
from quicksilver.membership.config import ServiceConfig
from quicksilver.membership.connections import (
    Closing,
    Connection,
    ConnectionTable,
    Greeting,
    Inspecting,
    Serving,
)
from quicksilver.membership.names import find_name_problem
from quicksilver.membership.planning.model import Planner
from quicksilver.membership.publication import Publisher
from quicksilver.membership.snapshot import SnapshotMaker
from quicksilver.membership.store import Commit, Store
from quicksilver.membership.tables import NodeRow, Tables
from quicksilver.stdx.rand import Rng
from quicksilver.stdx.timers import TimerTable
from quicksilver.wire import gms
from quicksilver.wire.ids import NodeId

_NODE_NAME_BYTES_MAX = 255
_STATS_MAX = 64
_STAT_CHARS_MAX = 256
_LATE_S = 0.25
"""A timer served later than this: the GMS itself was held up."""


class Timer(enum.Enum):
    """What the service waits for."""

    BATCH = enum.auto()
    GREETING = enum.auto()
    """A connection may be idle for only so long."""
    HEALTH = enum.auto()
    """A node may be silent or disconnected for only so long."""


@dataclass(slots=True)
class Watch:
    """How a node of the cluster is doing; lives as long as its incarnation."""

    row: NodeRow
    conn: int | None
    """None while the node is disconnected, in its grace."""
    heard_at: float
    lost_at: float = 0.0
    grace_s: float = 0.0
    stats: dict[str, int | float | str] = field(default_factory=dict)
    departs: str = ""
    """Not empty: the incarnation ends with the next batch, for this reason."""


class MembershipService:
    """Serves the nodes of one cluster.

    The caller's duty: after every ``handle_*``, take output until
    ``poll_output`` returns None, then closings until ``poll_close`` does, and
    call ``handle_timeout`` at ``next_timeout``. Connections are numbered by
    the caller; a number is not used again. The only exception that comes out
    is StoreError from ``handle_timeout``: the state on disk can no longer be
    trusted to be ahead of what was published, so the process must end.
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
    ) -> None:
        self.settings = settings
        self.config = config if config is not None else ServiceConfig()
        self.counts: Counter[str] = Counter()
        """How often things worth knowing happened, by name."""
        self._store = store
        self._planner = planner
        self._tables = Tables(pool=pool, hybrid_names=self.config.hybrid_groups)
        self._publisher = Publisher(self._tables)
        self._connections = ConnectionTable()
        self._timers: TimerTable[tuple[Timer, int]] = TimerTable()
        self._watches: dict[NodeId, Watch] = {}
        self._pending = BatchInput()
        self._pending_names: Counter[NodeId] = Counter()
        """How many names the pending requests of a node add, at most."""
        self._new_names: set[str] = set()
        self._is_started = False
        self._now = 0.0
        """Time of the last input."""
        self._forgiven_until = float("-inf")

        image = store.load()
        if image is None:
            self.cluster = Rng(seed).derive("cluster").bits64() >> 1 or 1
            store.commit(
                Commit(cluster=self.cluster, planner=planner.name, counters=self._tables.counters())
            )
        else:
            self.cluster = image.cluster
            self._tables.restore(image, planner)
        self._snapshots = SnapshotMaker(
            self.cluster, self._tables, planner, self.config.report_interval_s
        )

    # -- inputs

    def handle_connected(self, conn: int, now: float) -> None:
        """A stream was opened."""
        self._enter(now)
        connection = self._connections.add(conn)
        if len(self._connections) > self.config.connections_max:
            limit = self.config.connections_max
            self._refuse(connection, f"this GMS serves {limit} connections: try again later")
            return
        self._timers.set((Timer.GREETING, conn), now + self.config.greeting_timeout_s)

    def handle_disconnected(self, conn: int, now: float) -> None:
        """A stream is gone; its number is not used again."""
        self._enter(now)
        connection = self._connections.remove(conn)
        self._timers.cancel((Timer.GREETING, conn))
        if connection is not None and isinstance(connection.role, Serving):
            self._lose(connection.role.node, conn)

    def handle_blocked(self, conn: int, now: float) -> None:
        """A stream cannot take more output at the moment."""
        self._enter(now)
        self._connections.set_blocked(conn, blocked=True)

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
            self._watches[connection.role.node].heard_at = now
        request = gms.parse_request(frame) if len(frame) <= gms.REQUEST_BYTES_MAX else None
        match request:
            case None:
                self.counts["malformed"] += 1
                self._refuse(
                    connection, "this GMS cannot read the frame: is it a quicksilver node?"
                )
            case gms.Hello():
                self._handle_hello(connection, request, now)
            case gms.Subscribe():
                self._handle_subscribe(connection, request)
            case gms.Heartbeat():
                self._handle_heartbeat(connection, request)
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
        due_at = self._timers.next()
        if due_at is not None and now - due_at > _LATE_S:
            # The GMS was held up, and what nodes said meanwhile may still be
            # waiting to be read: its own silence is not theirs.
            self.counts["held_up"] += 1
            self._forgiven_until = now + 2 * self.settings.heartbeat_interval_s
        is_batch_due = False
        for timer, key in self._timers.pop_due(now):
            match timer:
                case Timer.BATCH:
                    is_batch_due = True
                case Timer.GREETING:
                    self._end_idle(key)
                case Timer.HEALTH:
                    self._check_health(NodeId(key), now)
                case _:
                    assert_never(timer)
        if is_batch_due:
            self._run_batch()

    # -- outputs

    def next_timeout(self) -> float | None:
        """Return when to call ``handle_timeout``, or None."""
        if not self._is_started:
            return float("-inf")
        return self._timers.next()

    def poll_output(self) -> tuple[int, bytes] | None:
        """Return a connection and a frame for it, or None."""
        return self._connections.poll_output()

    def poll_close(self) -> int | None:
        """Return a connection to close once its output is sent, or None."""
        return self._connections.poll_close()

    # -- life

    def _enter(self, now: float) -> None:
        """Note the time; at the first moment that has one, stored nodes get their grace."""
        self._now = now
        if self._is_started:
            return
        self._is_started = True
        for row in self._tables.nodes.values():
            self._watches[row.id] = Watch(row, None, now, now, self.config.resume_grace_s)
            self._timers.set((Timer.HEALTH, row.id), now + self.config.resume_grace_s)
        if self._tables.needs_batch:
            self._schedule_batch()

    def _lose(self, node: NodeId, conn: int) -> None:
        """A node's connection broke: it may resume for a while."""
        watch = self._watches.get(node)
        if watch is None or watch.conn != conn:
            return
        watch.conn = None
        self._publisher.forget(watch.row)
        if node not in self._tables.nodes:
            self._abandon(watch)
        elif not watch.departs:
            watch.lost_at = self._now
            watch.grace_s = self.config.disconnect_grace_s
            self._timers.set((Timer.HEALTH, node), watch.lost_at + watch.grace_s)

    def _abandon(self, watch: Watch) -> None:
        """Forget a node that never got its Welcome."""
        node = watch.row.id
        self._pending.arrivals.remove(watch.row)
        self._pending.requests = [r for r in self._pending.requests if r[0] != node]
        self._tables.drop_unborn(watch.row)
        self._timers.cancel((Timer.HEALTH, node))
        del self._watches[node]

    def _check_health(self, node: NodeId, now: float) -> None:
        watch = self._watches.get(node)
        if watch is None or watch.departs:
            return
        if watch.conn is None:
            deadline = watch.lost_at + watch.grace_s
            reason = "the connection broke and the node did not resume"
        else:
            timeout_s = self.settings.failure_timeout_s
            deadline = watch.heard_at + timeout_s
            reason = f"the node was silent for {timeout_s:g} s"
        # Twice the timeout at most, or a GMS that is always busy would keep the dead.
        latest = deadline + self.settings.failure_timeout_s
        deadline = max(deadline, min(self._forgiven_until, latest))
        if now < deadline:
            self._timers.set((Timer.HEALTH, node), deadline)
            return
        self.counts["failed"] += 1
        self._depart(watch, reason)

    def _depart(self, watch: Watch, reason: str) -> None:
        """Let a node's incarnation end with the next batch."""
        if watch.departs:
            return
        if watch.row.id not in self._tables.nodes:
            self._abandon(watch)
            return
        watch.departs = reason
        self._pending.departures.add(watch.row.id)
        self._timers.cancel((Timer.HEALTH, watch.row.id))
        self._schedule_batch()

    def _end_idle(self, conn: int) -> None:
        connection = self._connections.get(conn)
        if connection is not None and not isinstance(connection.role, Serving):
            self.counts["idle"] += 1
            self._connections.close(connection)

    # -- requests

    def _handle_hello(self, connection: Connection, hello: gms.Hello, now: float) -> None:
        if hello.version != gms.PROTOCOL_VERSION:
            self._refuse_version(connection, hello.version)
            return
        if hello.resume is not None:
            self._resume(connection, hello.resume, now)
            return
        if not isinstance(connection.role, Greeting):
            self._refuse(connection, "the node said Hello twice")
            return
        problem = _find_hello_problem(hello)
        if problem is None and len(self._watches) >= self.config.nodes_max:
            problem = f"this GMS serves {self.config.nodes_max} nodes: raise nodes_max or stop some"
        if problem is not None:
            self._refuse(connection, problem)
            return
        row = self._tables.make_node(hello.name, hello.host, hello.port, hello.receive_buffer_bytes)
        self._watches[row.id] = Watch(row, connection.id, now)
        self._serve(connection, row.id, now)
        self._pending.arrivals.append(row)
        self._schedule_batch()

    def _resume(self, connection: Connection, resume: gms.Resume, now: float) -> None:
        node = NodeId(resume.node)
        watch = self._watches.get(node)
        if resume.cluster != self.cluster:
            self._exclude(
                connection, "this GMS began a new cluster: its state was lost or replaced"
            )
            return
        if watch is None or watch.departs or node not in self._tables.nodes:
            self._exclude(connection, (watch and watch.departs) or "the node was counted as failed")
            return
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
        watch.heard_at = now
        self._serve(connection, node, now)
        self.counts["resumed"] += 1
        self._send(connection, self._welcome(node, resumed=True))
        self._send(connection, self._publisher.publish_whole(watch.row))

    def _serve(self, connection: Connection, node: NodeId, now: float) -> None:
        connection.role = Serving(node)
        self._timers.cancel((Timer.GREETING, connection.id))
        self._timers.set((Timer.HEALTH, node), now + self.settings.failure_timeout_s)

    def _handle_subscribe(self, connection: Connection, request: gms.Subscribe) -> None:
        watch = self._watch_of(connection)
        if watch is None:
            self._refuse(connection, "the node did not say Hello")
            return
        if watch.departs:
            return
        problem = self._find_subscribe_problem(watch.row, request)
        if problem is not None:
            self.counts["refused_subscriptions"] += 1
            self._refuse(connection, problem)
            return
        self._pending.requests.append((watch.row.id, connection.id, request))
        self._schedule_batch()

    def _find_subscribe_problem(self, row: NodeRow, request: gms.Subscribe) -> str | None:
        config, ids = self.config, self._tables.group_ids
        wanted = (*request.join, *request.open)
        count = len(wanted) + len(request.leave) + len(request.close)
        if count > config.groups_per_request_max:
            return (
                f"the request names {count} groups, this GMS takes "
                f"{config.groups_per_request_max} at once: split it"
            )
        fresh = []
        added = 0
        for name in wanted:
            group = ids.get(name)
            if group is None:
                problem = find_name_problem(name)
                if problem is not None:
                    return f"group name {name[:40]!a} {problem}"
                fresh.append(name)
                added += 1
            elif group not in row.joined and group not in row.opened:
                added += 1
        used = len(row.joined | row.opened) if added else 0
        if used + self._pending_names[row.id] + added > config.groups_per_node_max:
            return (
                f"the node would use more than {config.groups_per_node_max} groups: "
                "leave some or raise groups_per_node_max"
            )
        if len(ids) + len(self._new_names) + len(fresh) > config.groups_max:
            return f"the cluster would have more than {config.groups_max} groups: raise groups_max"
        self._pending_names[row.id] += added
        self._new_names.update(fresh)
        return None

    def _handle_heartbeat(self, connection: Connection, heartbeat: gms.Heartbeat) -> None:
        watch = self._watch_of(connection)
        if watch is None:
            self._refuse(connection, "the node did not say Hello")
            return
        stats = heartbeat.stats
        if len(stats) > _STATS_MAX or any(
            len(key) > _STAT_CHARS_MAX or (isinstance(value, str) and len(value) > _STAT_CHARS_MAX)
            for key, value in stats.items()
        ):
            self.counts["malformed"] += 1
            self._refuse(connection, f"a heartbeat carries at most {_STATS_MAX} short numbers")
            return
        watch.stats = stats

    def _handle_goodbye(self, connection: Connection) -> None:
        watch = self._watch_of(connection)
        self._connections.close(connection)
        self._timers.cancel((Timer.GREETING, connection.id))
        if watch is not None:
            self.counts["goodbyes"] += 1
            watch.conn = None
            self._publisher.forget(watch.row)
            self._depart(watch, "the node said goodbye")

    def _handle_inspect(self, connection: Connection, request: gms.Inspect, now: float) -> None:
        if request.version != gms.PROTOCOL_VERSION:
            self._refuse_version(connection, request.version)
            return
        if not isinstance(connection.role, Serving):
            connection.role = Inspecting()
            self._timers.set((Timer.GREETING, connection.id), now + self.config.inspect_idle_s)
        snapshot = self._snapshots.make(request.request, self._watches.values(), now)
        self._send(connection, gms.encode(snapshot))

    # -- batches

    def _schedule_batch(self) -> None:
        if (Timer.BATCH, 0) not in self._timers:
            self._timers.set((Timer.BATCH, 0), self._now + self.config.batch_interval_s)

    def _run_batch(self) -> None:
        given, self._pending = self._pending, BatchInput()
        self._pending_names.clear()
        self._new_names.clear()
        outcome = run_batch(self._tables, self._planner, given, cluster=self.cluster)
        self._store.commit(outcome.commit)
        # From here on a crash loses nothing: what follows may be said.
        self.counts["batches"] += 1
        for row in given.arrivals:
            self._send_to(row.id, self._welcome(row.id, resumed=False))
        served = 0
        for watch in self._watches.values():
            if watch.conn is not None and not watch.departs:
                served |= watch.row.bit
        for node, update in self._publisher.publish(outcome, served):
            self._send_to(node, update)
        for (node, conn, request), groups in zip(given.requests, outcome.answers, strict=True):
            # A node that resumed meanwhile sends its unanswered requests again.
            if node in self._watches and self._watches[node].conn == conn:
                self._send_to(node, gms.encode(gms.Subscribed(request.request, groups)))
        for row in outcome.departed:
            watch = self._watches.pop(row.id)
            self._timers.cancel((Timer.HEALTH, row.id))
            connection = None if watch.conn is None else self._connections.get(watch.conn)
            if connection is not None:
                self._exclude(connection, watch.departs)
        self._tables.remove_nodes(outcome.departed)

    def _welcome(self, node: NodeId, *, resumed: bool) -> bytes:
        return gms.encode(
            gms.Welcome(gms.PROTOCOL_VERSION, self.cluster, node, resumed, self.settings)
        )

    # -- output

    def _send_to(self, node: NodeId, frame: bytes) -> None:
        watch = self._watches.get(node)
        if watch is None or watch.conn is None or watch.departs:
            return
        connection = self._connections.get(watch.conn)
        if connection is not None and not isinstance(connection.role, Closing):
            self._send(connection, frame)

    def _send(self, connection: Connection, frame: bytes) -> None:
        self._connections.send(connection, frame)
        if connection.waiting_bytes <= self.config.output_bytes_max and (
            len(frame) <= gms.UPDATE_BYTES_MAX
        ):
            return
        self.counts["slow"] += 1
        reason = "the node does not read what the GMS sends"
        watch = self._watch_of(connection)
        if watch is not None:
            self._depart(watch, reason)
        self._exclude(connection, reason)

    def _watch_of(self, connection: Connection) -> Watch | None:
        if isinstance(connection.role, Serving):
            return self._watches.get(connection.role.node)
        return None

    def _refuse_version(self, connection: Connection, version: int) -> None:
        ours = gms.PROTOCOL_VERSION
        older = "node" if version < ours else "GMS"
        self._refuse(
            connection,
            f"this GMS speaks version {ours}, the node {version}: upgrade the {older}",
        )

    def _refuse(self, connection: Connection, reason: str) -> None:
        self.counts["refused"] += 1
        self._end(connection, gms.encode(gms.Refused(reason)))

    def _exclude(self, connection: Connection, reason: str) -> None:
        self.counts["excluded"] += 1
        self._end(connection, gms.encode(gms.Excluded(reason)))

    def _end(self, connection: Connection, frame: bytes) -> None:
        """Close a connection with a last word; its node, if any, may resume."""
        role = connection.role
        self._timers.cancel((Timer.GREETING, connection.id))
        self._connections.close(connection, frame)
        if isinstance(role, Serving):
            self._lose(role.node, connection.id)


def _find_hello_problem(hello: gms.Hello) -> str | None:
    if not hello.name.isprintable() or len(hello.name.encode()) > _NODE_NAME_BYTES_MAX:
        return f"a node name is printable, with at most {_NODE_NAME_BYTES_MAX} bytes"
    try:
        address = ipaddress.IPv4Address(hello.host)
    except ValueError:
        return f"{hello.host[:40]!r} is not an IPv4 address: give the node's own"
    if address.is_multicast or address.is_unspecified:
        return f"nodes cannot be reached at {hello.host}: give the node's own address"
    if not 0 < hello.port < 65536:
        return f"{hello.port} is not a UDP port"
    if not 0 <= hello.receive_buffer_bytes < 1 << 48:
        return f"{hello.receive_buffer_bytes} is not a buffer size"
    return None
