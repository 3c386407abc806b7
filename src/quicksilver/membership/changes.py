"""What changes in a cluster: collected for a while, then planned and made durable.

Changes come from nodes that arrive, ask for groups and go, and from the traffic: a plan
that fits it better, or groups that get an address of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from quicksilver.membership.admission import SubscriptionLimits
from quicksilver.membership.batch import BatchInput, BatchOutcome, run_batch
from quicksilver.membership.config import ServiceConfig
from quicksilver.membership.counters import ServiceCounters
from quicksilver.membership.hybrid import HybridMode, find_moves, find_named_moves
from quicksilver.membership.planning.model import Planner
from quicksilver.membership.soundness import find_image_problem
from quicksilver.membership.store import Commit, Store, StoredPlacement, StoreError
from quicksilver.membership.tables import NodeRow, Tables
from quicksilver.membership.traffic import TrafficMeter
from quicksilver.stdx.rand import Rng
from quicksilver.wire import gms
from quicksilver.wire.ids import GroupId, NodeId


class Changes:
    """Collects changes until ``commit``; whoever adds some sees to it that this follows."""

    def __init__(
        self,
        *,
        store: Store,
        planner: Planner,
        tables: Tables,
        config: ServiceConfig,
        counters: ServiceCounters,
        traffic_interval_s: float,
        seed: int,
    ) -> None:
        """Fill ``tables`` from the store, or begin a cluster there.

        Raises:
            StoreError: what the store holds makes no sense.
        """
        self._store = store
        self._planner = planner
        self._tables = tables
        self._config = config
        self._counters = counters
        self._pending = BatchInput()
        self._pending_bytes = 0
        self._traffic = TrafficMeter(traffic_interval_s)
        self.limits = SubscriptionLimits(tables, config)
        """What nodes may ask for."""
        image = store.load()
        if image is None:
            self.cluster = Rng(seed).derive("cluster").bits64() >> 1 or 1
            self._store_placements({})
        else:
            problem = find_image_problem(image, planner.name)
            if problem is not None:
                raise StoreError(store.path, f"{problem}: restore a copy or start anew")
            self.cluster = image.cluster
            tables.restore(image, planner)

    # Of nodes

    def handle_arrival(self, row: NodeRow) -> None:
        self._pending.arrivals.append(row)

    def has_room(self, size: int) -> bool:
        """Whether a request of so many bytes may wait for the next batch."""
        waiting = self._pending_bytes
        return not waiting or waiting + size <= self._config.request_bytes_max

    def handle_request(self, node: NodeId, conn: int, request: gms.Subscribe, size: int) -> None:
        self._pending_bytes += size
        self._pending.requests.append((node, conn, request))

    def handle_departure(self, node: NodeId) -> None:
        self._pending.departures.add(node)

    def withdraw(self, row: NodeRow) -> None:
        """A node that arrived since the last batch is gone, with all it asked for."""
        self._pending.arrivals.remove(row)
        self._pending.requests = [r for r in self._pending.requests if r[0] != row.id]

    # Of traffic

    def handle_traffic(self, row: NodeRow, traffic: Iterable[tuple[int, int]], now: float) -> bool:
        """Add what a node says it sent; True if it counts for anything."""
        return self._traffic.handle_report(row, traffic, now)

    def adapt(self, now: float) -> bool:
        """Move nodes to other regions, if the traffic of late makes that worth while.

        Where they stay, groups may get or lose an address of their own. True if
        anything changes.
        """
        rates = self._traffic.take_rates(now)
        for group in self._tables.aside.intersection(rates):
            del rates[group]
        if self._planner.adapt(rates):
            self._counters.adapted += 1
            self._pending.is_adapted = True
            return True
        if self._config.hybrid == "auto":
            return self._move_hybrid(find_moves(self._tables, rates, self._config))
        return False

    def needs_look(self) -> bool:
        """Whether to look at the traffic again even if nobody tells of any.

        Without it nobody would tell that an address is not worth it any more.
        """
        if self._config.hybrid != "auto":
            return False
        return bool(self._pending.hybrid or self._tables.hybrid_groups)

    def move_named(self) -> bool:
        """Move the groups that an operator names, or no longer does; True if there are any."""
        return self._move_hybrid(find_named_moves(self._tables))

    def _move_hybrid(self, moves: dict[GroupId, HybridMode]) -> bool:
        self._counters.hybrid_moves += len(moves)
        self._pending.hybrid.update(moves)
        return bool(moves)

    # Batches

    def commit(self) -> tuple[BatchInput, BatchOutcome]:
        """Turn what was collected into new views; return both.

        Raises:
            StoreError: they could not be made durable, and must not be published.
        """
        given, self._pending = self._pending, BatchInput()
        self._pending_bytes = 0
        self.limits.handle_batch()
        given.groups_per_node_max = self._config.groups_per_node_max
        given.group_bytes_per_node_max = self._config.group_bytes_per_node_max
        given.memberships_max = self._config.memberships_max
        outcome = run_batch(self._tables, self._planner, given, cluster=self.cluster)
        self._store.commit(outcome.commit)
        self._counters.patterns_cut += outcome.left_out
        return given, outcome

    def forget_gone(self, outcome: BatchOutcome) -> None:
        """A batch is published: forget the nodes and groups that it ended."""
        self._tables.remove_nodes(outcome.departed)
        for step in outcome.groups:
            if step.is_gone:
                self._traffic.forget(step.row.id)

    def store_hierarchies(self) -> None:
        """Store how the planner assigned groups to hierarchies, if that changed."""
        placements = self._tables.note_hierarchies(self._planner.state().hierarchies)
        if placements:
            self._store_placements(placements)

    def _store_placements(self, placements: Mapping[GroupId, StoredPlacement | None]) -> None:
        self._store.commit(
            Commit(
                cluster=self.cluster,
                planner=self._planner.name,
                counters=self._tables.counters(),
                placements=placements,
            )
        )
