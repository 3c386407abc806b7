"""Something goes wrong under load: who stands still, for how long, and is anything lost?

One node offers load at full rate, or at an even one, and flushes again and again.
Another, the *witness*, sends a hundred messages a second and flushes in the end alone, as
``pub`` does. Both number what they send, so that it is known what they were promised.
Receivers note when messages came and which.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from quicksilver.experiments.base import Context, ExperimentError, Metrics
from quicksilver.experiments.scenario import Run, Scenario, simulating
from quicksilver.experiments.senders import BACKLOG_S, TICK_S
from quicksilver.lab.accounts import NUMBER_BYTES, Hearing, Promises, number_message
from quicksilver.membership.events import ViewsChanged, WasExcluded
from quicksilver.multicast.events import FlushEnded, SessionEvent
from quicksilver.stdx.ranges import RangeSet
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.node import SimNode
from quicksilver.trials.watch import Watcher
from quicksilver.wire.packets import Messages

LOAD, WITNESS = "load", "witness"
WITNESS_RATE = 100.0
FLUSH_S = 0.25
"""Time from the end of a flush to the next one."""
DRAIN_S = 30.0
"""How long all that was sent may take to arrive, when nothing more is sent."""
FAULTS = (
    "none",
    "crash",
    "silent-crash",
    "freeze",
    "mute",
    "slow",
    "gms-cut",
    "gms-restart",
    "publisher-cut",
    "member-cut",
    "loss-20",
    "loss-50",
    "partition",
)


class Publisher:
    """Sends numbered messages, and knows which of them it was told to have arrived."""

    def __init__(self, cluster: Cluster, node: SimNode, group: str, size: int) -> None:
        self.node = node
        self.sent = 0
        """How many were accepted: their numbers are 0 to this."""
        self.promises = Promises()
        self.has_ended = False
        self._cluster = cluster
        self._group = group
        self._tail = bytes(max(0, size - NUMBER_BYTES))
        self._due = 0.0

    # Sending

    def give(self) -> bytes | None:
        """Return the next message; None when no more are to come."""
        if self.has_ended:
            return None
        self.sent += 1
        return number_message(self.sent - 1, self._tail)

    def begin(self, rate: float, *, flushes: bool) -> None:
        """Send at a rate from now on; 0: whenever there is room."""
        if rate:
            self._tick(rate, max(TICK_S, 1.0 / rate))
        else:
            self.node.send_from(self._group, self.give)
        if flushes:
            self._cluster.events.after(FLUSH_S, self.flush)

    def _tick(self, rate: float, tick_s: float) -> None:
        if self.has_ended or self.node.is_dead:
            return
        self._cluster.events.after(tick_s, lambda: self._tick(rate, tick_s))
        self._due = min(self._due + rate * tick_s, rate * (BACKLOG_S + tick_s))
        room = self.node.room(self._group) // (NUMBER_BYTES + len(self._tail))
        count = min(int(self._due + 1e-9), max(0, room))
        self._due -= count
        payloads = [payload for _ in range(count) if (payload := self.give()) is not None]
        if payloads:
            self.node.send(self._group, *payloads)

    # Promises

    def flush(self) -> None:
        """Ask whether all that was sent so far has arrived, unless that was asked already."""
        if not self.promises.is_asked and not self.node.is_dead:
            self.promises.begin_flush(self.sent, self._cluster.now)
            self.node.flush(lambda *_: None)

    def handle_flushed(self, event: FlushEnded) -> None:
        """Note what a flush says, and ask again after a while."""
        now = self._cluster.now
        is_confirmed = not any(each.reason.is_failure for each in event.unconfirmed)
        self.promises.end_flush(self.sent, now, is_confirmed=is_confirmed)
        if not self.has_ended:
            self._cluster.events.after(FLUSH_S, self.flush)

    def unanswered(self) -> int:
        """Return how many messages no flush has spoken of."""
        return self.promises.unanswered(self.sent)


class Trouble:
    """A run with something that goes wrong in it."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.cluster = run.cluster
        self.affected: list[SimNode] = []
        """Nodes that the misfortune happens to; all other receivers are healthy."""
        size = run.scenario.size
        self.load = Publisher(self.cluster, run.senders[0], LOAD, size)
        self.witness = Publisher(self.cluster, run.senders[1], WITNESS, size)
        self.heard = {
            (node.index, group): Hearing() for node in run.receivers for group in (LOAD, WITNESS)
        }
        self.began_at = 0.0
        self.news = News(self)
        self.cluster.watchers.append(self.news)

    @property
    def healthy(self) -> list[SimNode]:
        """Receivers to which nothing happens."""
        return [node for node in self.run.receivers if node not in self.affected]

    def join(self) -> None:
        """Have the receivers in both groups, and the publishers know it."""
        for node in self.run.receivers:
            node.host.submit(partial(self._subscribe, node))
        self.run.senders[0].open(LOAD)
        self.run.senders[1].open(WITNESS)
        if not self.cluster.run(10.0, self._is_complete):
            raise ExperimentError("the cluster did not form within 10 s")

    def _subscribe(self, node: SimNode) -> None:
        # Receivers of their own: the trials' look at each message, of which there are millions.
        node.session.subscribe(
            join={group: partial(self._hear, node, group) for group in (LOAD, WITNESS)}
        )

    def _hear(self, node: SimNode, group: str, messages: Messages) -> None:
        node.host.charge_delivered(len(messages.payloads))
        self.heard[node.index, group].take(messages.payloads, self.cluster.now)

    def _is_complete(self) -> bool:
        for node, group in zip(self.run.senders, (LOAD, WITNESS), strict=True):
            known = node.session.directory.groups.values()
            views = [view for view in known if view.name == group]
            if not views or len(views[0].members) < len(self.run.receivers):
                return False
        return self.cluster.is_settled()

    def heard_by_healthy(self) -> int:
        """Return how many messages of the load the slowest healthy receiver has."""
        return min(self.heard[node.index, LOAD].count for node in self.healthy)

    def lost(self, group: str, numbers: RangeSet) -> int:
        """Return how many messages of these numbers the worst healthy receiver lacks."""
        heard = (self.heard[node.index, group].numbers for node in self.healthy)
        return max((numbers.difference(one).count() for one in heard), default=0)


class News(Watcher):
    """Hears who is counted out, who learns of it, and how flushes end."""

    name = "news"

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(trouble.cluster)
        self.learnt_at: dict[int, float] = {}
        """When nodes learnt that they had been counted out, by index."""
        self.left_at: float | None = None
        """When a healthy receiver was given a view without the first affected node."""
        self.watched = 0
        """Incarnation of that node when its misfortune began."""
        self._trouble = trouble

    def on_event(self, node: SimNode, event: SessionEvent) -> None:
        trouble = self._trouble
        if isinstance(event, FlushEnded):
            for publisher in (trouble.load, trouble.witness):
                if publisher.node is node:
                    publisher.handle_flushed(event)
        elif isinstance(event, WasExcluded):
            self.learnt_at.setdefault(node.index, self.cluster.now)
        elif isinstance(event, ViewsChanged) and self.watched and node in trouble.healthy:
            is_out = any(self.watched not in view.members for view in event.groups)
            if is_out and self.left_at is None:
                self.left_at = self.cluster.now


def do_nothing(trouble: Trouble) -> None:
    """Nothing goes wrong, or what went wrong cannot be mended."""


@dataclass(frozen=True, kw_only=True)
class Misfortune:
    """What goes wrong, and for how long."""

    begin: Callable[[Trouble], None]
    for_s: float
    end: Callable[[Trouble], None] = do_nothing


def run_stall(
    scenario: Scenario, misfortune: Misfortune, after_s: float, context: Context
) -> Metrics:
    """Run load, then load with the misfortune, then load after it; say what was seen."""
    with simulating():
        run = Run(scenario, context)
        try:
            return _measure(Trouble(run), misfortune, after_s)
        finally:
            run.close()


def _measure(trouble: Trouble, misfortune: Misfortune, after_s: float) -> Metrics:
    cluster, scenario = trouble.cluster, trouble.run.scenario
    trouble.join()
    trouble.load.begin(scenario.rate, flushes=True)
    trouble.witness.begin(WITNESS_RATE, flushes=False)
    # Failures are found by heartbeats: how soon depends on when they were due.
    heartbeat_s = cluster.gms.settings.heartbeat_interval_s
    cluster.run(scenario.warmup_s + heartbeat_s * cluster.rng.derive("misfortune").uniform())
    # The first half of the warm-up is for windows to open.
    early = trouble.heard_by_healthy()
    cluster.run(scenario.warmup_s)
    trouble.began_at = cluster.now
    misfortune.begin(trouble)
    trouble.news.watched = trouble.affected[0].id if trouble.affected else 0
    hearing = [trouble.heard[node.index, LOAD] for node in trouble.healthy]
    usual = (trouble.heard_by_healthy() - early) / scenario.warmup_s
    counts = [trouble.heard_by_healthy()]
    for one in hearing:
        one.begin_timing()
    cluster.run(misfortune.for_s)
    counts.append(trouble.heard_by_healthy())
    misfortune.end(trouble)
    cluster.run(after_s)
    counts.append(trouble.heard_by_healthy())
    for one in hearing:
        one.end_timing(cluster.now)
    metrics = _drain(trouble)
    during = (counts[1] - counts[0]) / misfortune.for_s
    learnt = [
        trouble.news.learnt_at[node.index] - trouble.began_at
        for node in trouble.affected
        if node.index in trouble.news.learnt_at
    ]
    left_at = trouble.news.left_at
    return metrics | {
        "stall_s": max(one.gap_s for one in hearing),
        "before_messages_per_second": usual,
        "during_percent": 100 * during / max(1.0, usual),
        "after_percent": 100 * (counts[2] - counts[1]) / after_s / max(1.0, usual),
        "learnt_s": max(learnt) if learnt else None,
        "excluded_s": None if left_at is None else left_at - trouble.began_at,
        "healthy_exclusions": sum(node.exclusions for node in trouble.healthy),
    }


def _drain(trouble: Trouble) -> Metrics:
    """End the load, ask for all of it, and say what did not arrive."""
    cluster = trouble.cluster
    both = (trouble.load, LOAD), (trouble.witness, WITNESS)
    for publisher, _ in both:
        publisher.has_ended = True
    began = cluster.now
    while cluster.now < began + DRAIN_S and any(p.unanswered() for p, _ in both):
        for publisher, _ in both:
            publisher.flush()
        cluster.run(FLUSH_S)
    cluster.run(1.0)
    return {
        "accepted_messages": sum(p.sent for p, _ in both),
        "lost_messages": sum(trouble.lost(g, RangeSet([(0, p.sent)])) for p, g in both),
        "lost_though_confirmed": sum(trouble.lost(g, p.promises.confirmed) for p, g in both),
        "unanswered_messages": sum(p.unanswered() for p, _ in both),
        "flush_s_max": trouble.load.promises.longest_s(cluster.now),
    }
