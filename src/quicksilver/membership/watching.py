"""How the nodes of a cluster are doing, and who of them counts as failed.

``health`` judges what the GMS hears of a node, ``suspicion`` what nodes say of each
other. Here both are brought together with the timers that they need.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from quicksilver.core.ports import Noted, Reported
from quicksilver.membership.config import ServiceConfig
from quicksilver.membership.counters import ServiceCounters
from quicksilver.membership.health import FailureDetector, Holding, Judging, Watch
from quicksilver.membership.suspicion import Suspicions
from quicksilver.membership.tables import NodeRow
from quicksilver.membership.timers import Timer, Timers
from quicksilver.stdx.text import printable
from quicksilver.wire.gms import SILENT_NAMED_MAX, ClusterSettings
from quicksilver.wire.ids import NodeId

ASK_S = 0.75
"""How long nodes have to ask others and to say who did not answer, once a heartbeat has
brought them the question: twice what they need when nothing is lost."""


class Watches:
    """The nodes of the cluster, and when to look at each.

    Whoever serves the timers calls ``find_failed`` for a node's ``HEALTH`` and
    ``unreached`` for ``SILENCE``.
    """

    def __init__(
        self,
        timers: Timers,
        counters: ServiceCounters,
        config: ServiceConfig,
        settings: ClusterSettings,
    ) -> None:
        self._timers = timers
        self._counters = counters
        self._config = config
        self.nodes: dict[NodeId, Watch] = {}
        self._awaited: set[NodeId] = set()
        """Nodes that a GMS which started again knows, and that have not resumed yet …"""
        self._awaited_until = 0.0
        """… and until when views wait for them."""
        self.notes: deque[Noted | Reported] = deque()
        """What whoever runs the GMS is to be told."""
        self._detector = FailureDetector(settings.failure_timeout_s, config.silence_s_max)
        self._doubt: Judging | Holding = self._detector.state
        """The detector's state, as far as it has been noted."""
        ask_s = ASK_S + settings.heartbeat_interval_s
        self._suspicions = Suspicions(settings.failure_timeout_s, ask_s)

    # Nodes that come and go

    def add(self, row: NodeRow, conn: int, now: float) -> Watch:
        """Watch a new node."""
        self.nodes[row.id] = watch = Watch(row, conn, now)
        return watch

    def handle_stored(self, row: NodeRow, now: float) -> None:
        """The GMS starts again: a node that it knows has not resumed yet."""
        self.nodes[row.id] = watch = Watch(row, None, now)
        self._detector.handle_stored(watch, self._config.resume_grace_s, now)
        self._time_health(watch)
        self._awaited.add(row.id)
        self._awaited_until = now + self._config.resume_grace_s

    def next_batch_at(self, now: float) -> float:
        """Return when views may change next.

        After a restart they wait until all have resumed, or had time to: whoever missed two
        views in a row could not go on as the node that it was.
        """
        soonest = now + self._config.batch_interval_s
        return max(soonest, self._awaited_until) if self._awaited else soonest

    def _end_awaiting(self, node: NodeId, now: float) -> None:
        if node in self._awaited:
            self._awaited.discard(node)
            if not self._awaited and (Timer.BATCH, 0) in self._timers:
                self._timers.set((Timer.BATCH, 0), self.next_batch_at(now))

    def handle_departing(self, watch: Watch, reason: str, now: float) -> None:
        """A node's incarnation ends with the next batch."""
        watch.departs = reason
        self._end_awaiting(watch.row.id, now)
        self._suspicions.handle_gone(watch.row.id, now)
        self._time_silence()
        self._timers.cancel((Timer.HEALTH, watch.row.id))

    def remove(self, node: NodeId) -> Watch:
        """Watch a node no longer."""
        self._timers.cancel((Timer.HEALTH, node))
        return self.nodes.pop(node)

    # What is heard of them

    def handle_time(self, now: float) -> None:
        """Compare the clock with the next timer: the GMS itself may have been held up."""
        if self._detector.handle_time(now, self._timers.next()):
            self._counters.held_up += 1
            self._suspicions.handle_held_up(now)
            self._time_silence()

    def handle_heard(self, watch: Watch, now: float) -> None:
        """A node gave a sign of life."""
        self._detector.handle_heard(watch, now)
        self._note_doubt(now)

    def handle_welcomed(self, node: NodeId, now: float) -> None:
        """A new node is let in: from now on it has to say that it is there.

        Before, it waits for the GMS, which may put off views for seconds (``next_batch_at``).
        """
        watch = self.nodes[node]
        self._detector.handle_welcomed(watch, now)
        self._time_health(watch)

    def handle_resumed(self, watch: Watch, now: float) -> None:
        """A node is back on another connection."""
        self.handle_heard(watch, now)
        self._time_health(watch)
        self._end_awaiting(watch.row.id, now)

    def handle_lost(self, watch: Watch, now: float, *, is_silent: bool) -> None:
        """A node's connection is gone; ``is_silent``: nothing said so."""
        if is_silent:
            self._detector.handle_mute(watch)
        else:
            self._detector.handle_lost(watch, self._config.disconnect_grace_s, now)
            self._note_doubt(now)
        self._time_health(watch)

    def handle_report(self, reporter: NodeId, silent: Sequence[int], now: float) -> None:
        """A node says which others it does not hear; a list that is full says nothing."""
        named = silent if len(silent) < SILENT_NAMED_MAX else ()
        known = [node for node in named if node in self.nodes]
        before = self._suspicions.accused()
        self._suspicions.handle_report(reporter, known, now)
        self._report_accused(before)
        self._time_silence()

    def disputed(self) -> tuple[int, ...]:
        """Return the nodes whom every node that knows them is to ask."""
        return self._suspicions.disputed()

    def _report_accused(self, before: frozenset[int]) -> None:
        accused = self._suspicions.accused()
        for node in sorted(accused - before):
            reporters = ", ".join(map(str, self._suspicions.accusers_of(node)))
            text = f"{self.describe(NodeId(node))} is suspected: nodes {reporters} do not hear it"
            self.notes.append(Reported(text, is_warning=True))

    def describe(self, node: NodeId) -> str:
        """Return a node's number and name, for people."""
        watch = self.nodes.get(node)
        return f"node {node}" if watch is None else f"node {node} ({printable(watch.row.name)})"

    # Who has failed

    def find_failed(self, node: NodeId, now: float) -> tuple[Watch, str] | None:
        """Look at a node that nothing was heard of; return it if it failed, and why."""
        watch = self.nodes.get(node)
        if watch is None or watch.departs:
            return None
        deadline = self._detector.deadline(watch)
        if now < deadline:
            self._timers.set((Timer.HEALTH, node), deadline)
            return None
        has_failed = self._detector.has_failed(watch, self.nodes.values(), now)
        self._note_doubt(now)
        if not has_failed:
            self._timers.set((Timer.HEALTH, node), self._detector.next_look(watch, now))
            return None
        self._counters.failed += 1
        self._counters.silent += not watch.said_end
        return watch, self._detector.reason(watch)

    def unreached(self, now: float) -> Iterator[tuple[Watch, str]]:
        """Yield the nodes that their peers have not reached for too long, and why they go.

        Let each of them go before the next one is asked for.
        """
        self._suspicions.handle_timeout(now)
        for number, reason in self._suspicions.convicted(now):
            watch = self.nodes.get(NodeId(number))
            if watch is None or watch.departs:
                self._suspicions.handle_gone(number, now)
            else:
                self._counters.unreached += 1
                yield watch, reason
        self._time_silence()

    def served(self) -> int:
        """Return the nodes that are connected, and stay."""
        mask = 0
        for watch in self.nodes.values():
            if watch.conn is not None and not watch.departs:
                mask |= watch.row.bit
        return mask

    def trusted(self, rows: Iterable[NodeRow], now: float) -> int:
        """Return those of some nodes that nobody has reason to think of as failed."""
        mask = 0
        for row in rows:
            watch = self.nodes[row.id]
            if not (self._suspicions.is_accused(row.id) or self._detector.is_silent(watch, now)):
                mask |= row.bit
        return mask

    def held_s(self, now: float) -> float:
        """Return for how long nobody has been judged."""
        state = self._detector.state
        return now - state.since if isinstance(state, Holding) else 0.0

    def _note_doubt(self, now: float) -> None:
        """Tell whoever runs the GMS when it begins to suspect itself, and when that is over."""
        state = self._detector.state
        before, self._doubt = self._doubt, state
        match before, state:
            case Judging(), Holding():
                self._counters.holds += 1
                self.notes.append(
                    Noted(
                        f"{state.silent} of {state.nodes} nodes are silent: this may be the GMS's "
                        f"own link, so nobody is excluded before {self._config.silence_s_max:g} s "
                        "of silence"
                    )
                )
            case Holding(), Judging():
                held_s = now - before.since
                self.notes.append(Noted(f"silent nodes are heard again, after {held_s:.1f} s"))
            case _:
                pass

    def _time_health(self, watch: Watch) -> None:
        self._timers.set((Timer.HEALTH, watch.row.id), self._detector.deadline(watch))

    def _time_silence(self) -> None:
        due = self._suspicions.next_timeout()
        if due is None:
            self._timers.cancel((Timer.SILENCE, 0))
        else:
            self._timers.set((Timer.SILENCE, 0), due)
