"""One trial: draw, build, disturb, heal, wait, judge.

First safety: load and faults together, while the checks watch. Then liveness:
every fault ends, the cluster must come together, what is sent now must arrive,
and in the end no state may be left over and no datagram may be sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec

from quicksilver.membership.config import ServiceConfig
from quicksilver.sim.model import IDEAL, HostModel, LinkModel
from quicksilver.stdx.rand import Rng
from quicksilver.trace.records import Tracer
from quicksilver.trials.checks import ALL
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.draw import Plan, draw_plan
from quicksilver.trials.faults import heal, schedule
from quicksilver.trials.node import SimNode
from quicksilver.trials.samples import sample_cluster
from quicksilver.trials.watch import Violation, Watcher
from quicksilver.trials.workload import send_numbered
from quicksilver.wire.gms import ClusterSettings

LOOK_S = 0.1
CONVERGE_S_MAX = 30.0
"""How long a healed cluster may take to come together."""

FAREWELL_NODES_MAX = 100
"""In larger clusters so many of them speak."""

FLUSH_S = 0.8
"""Mean time between two flushes of a node that sends."""

USE_S = 0.15
"""Mean time between two values of a sender, or two questions of a node that asks."""

FAREWELL_MESSAGES = 3
"""Messages that every sender sends to every group after the healing."""

SILENCE_S_MAX = 9.0
"""Longer than faults last, and short enough for the dead to be cleaned up by the end."""

DRAIN_S = 15.0
SILENCE_S = 15.0
"""Time for what was sent to be delivered and forgotten, and time in which to listen."""

MESSAGES_MIN = 50
SECONDS_MIN = 20.0
"""A trial that sent fewer messages or lasted less long proves nothing, and fails."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a trial: what it did, and the violations found."""

    seed: int
    digest: str
    messages: int
    """Sent by applications."""
    deliveries: int
    faults: int
    faults_by_kind: dict[str, int]
    datagrams: int
    seconds: float
    """Virtual."""
    node_seconds: float
    events: int
    nodes: int
    groups: int
    views: int
    exclusions: int
    violations: tuple[Violation, ...]


class Application:
    """The load of a trial, and what its applications do after a restart."""

    def __init__(self, cluster: Cluster, plan: Plan) -> None:
        self._cluster = cluster
        self._plan = plan
        self._rng = cluster.rng.derive("application")
        self._joins: dict[int, list[str]] = {}
        self._opens: dict[int, list[str]] = {}
        for membership in plan.memberships:
            for index in membership.members:
                self._joins.setdefault(index, []).append(membership.group)
            for index in membership.openers:
                self._opens.setdefault(index, []).append(membership.group)

    def handle_started(self, node: SimNode) -> None:
        """Join and open what the plan says."""
        joins = self._joins.get(node.index, [])
        opens = self._opens.get(node.index, [])
        if joins:
            node.join(*joins)
        if opens:
            node.open(*opens)
        node.values.start()
        node.asking.start()

    def begin(self) -> None:
        """Send again and again to groups that a node is in, or only sends to."""
        pairs = [
            (index, group)
            for index in range(self._plan.nodes)
            for group in [*self._joins.get(index, []), *self._opens.get(index, [])]
        ]
        if self._plan.senders:
            pairs = self._rng.derive("senders").shuffled(pairs)[: self._plan.senders]
        for index, group in pairs:
            self._tick(index, group)
        # Drawn apart, so that flushes change nothing of the load.
        rng = self._rng.derive("flushes")
        for index in sorted({index for index, _ in pairs}):
            self._flush(index, rng.derive(f"{index}"))
        # As apart from the load as these.
        rng = self._rng.derive("features")
        features = self._plan.features
        for index in sorted(features.value_senders | features.askers):
            self._use(index, rng.derive(f"{index}"))

    def _use(self, index: int, rng: Rng) -> None:
        """Let a node send values and ask questions again and again."""
        cluster, features = self._cluster, self._plan.features
        if cluster.now >= self._plan.seconds:
            return
        node = cluster.nodes[index]
        if index in features.value_senders:
            node.values.send()
        if index in features.askers and not node.is_dead:
            node.asking.ask(rng.choice((1, 2, None)))
        cluster.events.after(USE_S * (0.5 + rng.uniform()), lambda: self._use(index, rng))

    def _flush(self, index: int, rng: Rng) -> None:
        """Let a node flush again and again; what it is told is checked in the end."""
        cluster = self._cluster
        if cluster.now >= self._plan.seconds:
            return
        node = cluster.nodes[index]
        if not node.is_dead:
            node.flush(lambda: None)
        cluster.events.after(FLUSH_S * (0.5 + rng.uniform()), lambda: self._flush(index, rng))

    def _tick(self, index: int, group: str) -> None:
        cluster, plan, rng = self._cluster, self._plan, self._rng
        if cluster.now >= plan.seconds:
            return
        node = cluster.nodes[index]
        count, size = 1 + rng.below(plan.burst), rng.choice(plan.sizes)
        # Large messages are for fragments, not for load.
        count = 1 if size > 5000 else count
        if not node.is_dead and group in node.ready and node.planned[group] < 2000:
            send_numbered(node, group, count, size)
        pause = plan.interval_s * (0.5 + rng.uniform()) * (1 + count) / 2
        cluster.events.after(pause, lambda: self._tick(index, group))

    def say_farewell(self) -> None:
        """Let nodes send a few last messages to every group they send to."""
        features = self._plan.features
        for node in self._cluster.alive():
            if features.value_senders and not node.values.is_member:
                node.values.join()
            if node.index in features.askers:
                node.asking.ask(None)
        nodes = self._rng.derive("farewell").shuffled(self._cluster.alive())
        for node in sorted(nodes[:FAREWELL_NODES_MAX], key=lambda node: node.index):
            for group in sorted(node.ready):
                send_numbered(node, group, FAREWELL_MESSAGES)
            node.flush(lambda: None)


class Starts(Watcher):
    """Hands every started node to the weather and to the application."""

    def __init__(self, cluster: Cluster, plan: Plan, application: Application) -> None:
        super().__init__(cluster)
        self._plan = plan
        self._application = application

    def on_started(self, node: SimNode) -> None:
        plan = self._plan
        if self.cluster.now < plan.seconds:
            node.host.weather.drop_rate = plan.drop_rate
            node.host.weather.duplicate_rate = plan.duplicate_rate
        self._application.handle_started(node)


def build(plan: Plan, tracer: Tracer | None = None) -> Cluster:
    """Return the cluster of a plan, with nobody in it yet."""
    model = HostModel(
        nic_bytes_per_s=125e6,
        unicast_buffer_bytes=plan.buffer_bytes,
        multicast_buffer_bytes=plan.buffer_bytes,
    )
    return Cluster(
        seed=plan.seed,
        config=plan.engine_config(),
        model=model if plan.is_modelled else IDEAL,
        link=LinkModel(latency_s=plan.latency_s, jitter_s=plan.jitter_s),
        settings=ClusterSettings(
            transport=plan.transport,
            fan_out=plan.fan_out,
            partition_size=plan.partition_size,
            replication=plan.replication,
            heartbeat_interval_s=plan.heartbeat_interval_s,
            failure_timeout_s=plan.failure_timeout_s,
            traffic_interval_s=0.4 if plan.is_adapting else 0.0,
        ),
        gms_config=ServiceConfig(
            hybrid="auto" if plan.hybrid == "auto" else frozenset(plan.hybrid),
            hybrid_gain_min=plan.hybrid_gain_min,
            adapt_interval_s=0.6,
            silence_s_max=SILENCE_S_MAX,
        ),
        planner=plan.planner,
        without_multicast=frozenset(plan.without_multicast),
        features=plan.features,
        fresh_ports=plan.fresh_ports,
        tracer=tracer,
        digests=True,
    )


def run_trial(
    plan: Plan, *, checks: tuple[type[Watcher], ...] = ALL, tracer: Tracer | None = None
) -> Verdict:
    """Run a plan and judge it; a tracer changes nothing of what happens."""
    cluster = build(plan, tracer)
    if tracer is not None:
        sample_cluster(cluster, tracer)
    application = Application(cluster, plan)
    cluster.watch(*checks)
    cluster.watchers.append(Starts(cluster, plan, application))
    runner = Runner(cluster, cluster.watching.on_look)
    cluster.start(plan.nodes)
    application.begin()
    schedule(cluster, plan.faults, plan.seconds)
    runner.run(plan.seconds)

    heal(cluster, plan.faults)
    # What a freeze or a partition began may still end in an exclusion.
    runner.run(plan.failure_timeout_s + 2 * plan.heartbeat_interval_s)
    if not runner.run_until_settled(CONVERGE_S_MAX):
        late = [f"{n} waits for {sorted((n.joined | n.opened) - n.ready)}" for n in cluster.alive()]
        runner.fail("converged", f"after {CONVERGE_S_MAX} s of health: {'; '.join(late)}")
    cluster.watching.on_healed()
    application.say_farewell()
    runner.run(DRAIN_S)
    runner.run(SILENCE_S)
    cluster.watching.on_settled()
    return _judge(plan, cluster, runner.violations)


class Runner:
    """Advances time in steps, so that checks can look in between."""

    def __init__(self, cluster: Cluster, look: Callable[[], None]) -> None:
        self.violations: list[Violation] = []
        self._cluster = cluster
        self._look = look

    def fail(self, check: str, what: str) -> None:
        self.violations.append(Violation(check=check, at=self._cluster.now, what=what))

    def run(self, seconds: float) -> None:
        end = self._cluster.now + seconds
        while self._cluster.now < end:
            self._cluster.run(min(LOOK_S, end - self._cluster.now))
            self._look()

    def run_until_settled(self, seconds: float) -> bool:
        end = self._cluster.now + seconds
        while not self._cluster.is_settled() and self._cluster.now < end:
            self.run(LOOK_S)
        return self._cluster.is_settled()


def _judge(plan: Plan, cluster: Cluster, found: list[Violation]) -> Verdict:
    messages = sum(sum(node.sent.values()) for node in cluster.lives)
    kinds = Counter(type(fault).__name__ for fault in plan.faults)
    violations = sorted([*found, *cluster.violations()], key=lambda violation: violation.at)
    if messages < MESSAGES_MIN:
        what = f"{messages} messages: fewer than {MESSAGES_MIN} prove nothing"
        violations.append(Violation(check="worked", at=cluster.now, what=what))
    if cluster.now < SECONDS_MIN:
        what = f"{cluster.now:.1f} s: less than {SECONDS_MIN} s prove nothing"
        violations.append(Violation(check="worked", at=cluster.now, what=what))
    return Verdict(
        seed=plan.seed,
        digest=cluster.digest(),
        messages=messages,
        deliveries=sum(sum(node.delivered.values()) for node in cluster.lives),
        faults=len(plan.faults),
        faults_by_kind=dict(sorted(kinds.items())),
        datagrams=cluster.network.sent_packets,
        seconds=round(cluster.now, 3),
        node_seconds=round(cluster.now * plan.nodes, 1),
        events=cluster.events.happened,
        nodes=plan.nodes,
        groups=len(plan.memberships),
        views=max((node.engine.batch for node in cluster.lives), default=0),
        exclusions=sum(node.exclusions for node in cluster.lives),
        violations=tuple(violations),
    )


class SeedResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of the trial that a seed stands for."""

    seed: int
    verdict: Verdict | None = None
    """None: the trial raised."""
    problem: str = ""
    """The first violation, or what was raised; empty when all was well."""


def judge_seed(seed: int, run: Callable[[], Verdict]) -> SeedResult:
    """Run the trial of a seed; a crash of ours is a failure like any other."""
    try:
        verdict = run()
    except Exception as error:  # noqa: BLE001  # an engine that raises has failed its trial
        text = " ".join(f"raised {type(error).__name__}: {error}".split())
        return SeedResult(seed=seed, problem=text)
    first = verdict.violations[0] if verdict.violations else None
    problem = "" if first is None else f"{first.check} at {first.at:.2f} s: {first.what}"
    return SeedResult(seed=seed, verdict=verdict, problem=problem)


def run_seed(seed: int, tracer: Tracer | None = None) -> SeedResult:
    """Run one seed."""
    return judge_seed(seed, lambda: run_trial(draw_plan(seed), tracer=tracer))
