"""One trial of scopes: build, disturb, heal, wait, judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import assert_never

from quicksilver.scopes.management.config import Config
from quicksilver.scopes.management.messages import Flavour
from quicksilver.scopes.node import ScopeNode
from quicksilver.stdx.rand import Rng
from quicksilver.trials.payloads import make_payload
from quicksilver.trials.scopes import plan as plans
from quicksilver.trials.scopes.checks import ALL
from quicksilver.trials.scopes.cluster import NodeLife, ScopeCluster
from quicksilver.trials.scopes.draw import draw_plan
from quicksilver.trials.scopes.plan import AnyFault, Plan
from quicksilver.trials.scopes.watch import ScopeWatcher
from quicksilver.trials.trial import SeedResult, Verdict, judge_seed
from quicksilver.trials.watch import Violation

LOOK_S = 0.1
START_S = 2.0
"""How long the tree has to come together before the load and the faults begin."""

HEAL_S = 8.0
"""After the last fault: for members to be forgotten, to come back, and for channels to move."""

DRAIN_S = 12.0
SILENCE_S = 8.0
"""Time for what was sent to arrive and to be agreed on, and time in which to listen."""

SESSIONS_S = 180.0
"""Further time for sessions to change and orders to go on: those who said them may be gone."""

MESSAGES_MIN = 20
FAREWELL_MESSAGES = 3

CONFIG = Config(alive_s=0.2, silent_s=1.0, yield_s=0.5, retry_s_max=1.0, answer_s=1.0)
"""Managers of trials notice sooner who is silent."""


def run_trial(
    plan: Plan,
    *,
    checks: tuple[type[ScopeWatcher], ...] = ALL,
    make_node: Callable[..., ScopeNode] = ScopeNode,
) -> Verdict:
    """Run a plan and judge it."""
    cluster = ScopeCluster(plan, checks=checks, make_node=make_node, config=CONFIG)
    cluster.start()
    _run(cluster, START_S)
    load = _Load(cluster)
    load.begin()
    for network in _networks(plan):
        cluster.internet.set_loss(network, plan.drop_rate)
    for fault in plan.faults:
        cluster.events.after(fault.at, _begin(cluster, fault))
        cluster.events.after(fault.at + fault.for_s, _end(cluster, fault))
    last = max((fault.at + fault.for_s for fault in plan.faults), default=0.0)
    _run(cluster, plan.seconds)
    load.is_over = True
    for network in _networks(plan):
        cluster.internet.set_loss(network, 0.0)
    _run(cluster, max(0.0, last - plan.seconds) + HEAL_S)
    for watcher in cluster.watchers:
        watcher.on_healed()
    for node in cluster.living():
        for topic in sorted(node.joined):
            # By now everybody has to be a full member again.
            node.settled_at[topic] = min(node.settled_at[topic], cluster.now)
    load.say_farewell()
    _run(cluster, DRAIN_S)
    waited_s = 0.0
    while waited_s < SESSIONS_S and cluster.is_busy_with_sessions():
        _run(cluster, 1.0)
        waited_s += 1.0
    for watcher in cluster.watchers:
        watcher.on_silent()
    _run(cluster, SILENCE_S)
    for watcher in cluster.watchers:
        watcher.on_settled()
    return _judge(plan, cluster)


class _Load:
    """What the applications of a trial send."""

    def __init__(self, cluster: ScopeCluster) -> None:
        self._cluster = cluster
        self._rng = cluster.rng.derive("load")
        self.is_over = False

    def begin(self) -> None:
        for node in self._cluster.plan.nodes:
            for topic in node.opens:
                self._tick(node.name, topic, self._rng.derive(f"{node.name} {topic}"))

    def _tick(self, name: str, topic: str, rng: Rng) -> None:
        if self.is_over:
            return
        node = self._cluster.nodes[name]
        if not node.host.is_dead:
            count = 1 + rng.below(self._cluster.plan.burst)
            self._send(node, topic, count, rng.choice(self._cluster.plan.sizes))
        pause_s = 2 * self._cluster.plan.interval_s * rng.uniform()
        self._cluster.events.after(pause_s, lambda: self._tick(name, topic, rng))

    def _send(self, node: NodeLife, topic: str, count: int, size: int) -> None:
        known = len(self._cluster.sent.get((topic, node.sender), []))
        index = next(i for i, p in enumerate(self._cluster.plan.nodes) if p is node.plan)
        short = topic.replace("/", "_")
        messages = [
            make_payload(short, index, node.life, known + place, size) for place in range(count)
        ]
        self._cluster.publish(node, topic, messages)

    def say_farewell(self) -> None:
        """Every sender sends once more: this must reach everybody."""
        for node in self._cluster.living():
            for topic in node.plan.opens:
                self._send(node, topic, FAREWELL_MESSAGES, 60)


def _run(cluster: ScopeCluster, seconds: float) -> None:
    end = cluster.now + seconds
    while cluster.now < end:
        cluster.events.run(min(LOOK_S, end - cluster.now))
        for watcher in cluster.watchers:
            watcher.on_look()


def _networks(plan: Plan) -> list[str]:
    return sorted({scope.network for scope in plan.scopes})


def _begin(cluster: ScopeCluster, fault: AnyFault) -> Callable[[], None]:
    def begin() -> None:
        match fault:
            case plans.CrashNode(node=name):
                if not cluster.nodes[name].host.is_dead:
                    cluster.crash_node(name)
            case plans.FreezeNode(node=name):
                cluster.nodes[name].is_disturbed = True
                cluster.nodes[name].host.freeze()
            case plans.CrashManager(scope=name):
                if name in cluster.managers:
                    cluster.kill_manager(name)
            case plans.CutNetworks(network=network):
                _disturb(cluster, network)
                cluster.internet.cut(network)
            case plans.Loss(network=network, rate=rate):
                cluster.internet.set_loss(network, rate)
            case plans.Leave(node=name, topic=topic):
                cluster.leave(cluster.nodes[name], topic)
            case plans.ChangeSession(topic=topic):
                flavour = Flavour(
                    reliability=fault.reliability, ordering=fault.ordering, key=fault.key
                )
                cluster.change_session(topic, flavour)
            case _:
                assert_never(fault)

    return begin


def _end(cluster: ScopeCluster, fault: AnyFault) -> Callable[[], None]:
    def end() -> None:
        match fault:
            case plans.CrashNode(node=name, for_s=for_s):
                if for_s and cluster.nodes[name].host.is_dead:
                    cluster.start_node(name)
            case plans.FreezeNode(node=name):
                cluster.nodes[name].host.thaw()
            case plans.CrashManager(scope=name):
                if name not in cluster.managers:
                    cluster.start_manager(name)
            case plans.CutNetworks(network=network):
                cluster.internet.mend(network)
            case plans.Loss(network=network):
                cluster.internet.set_loss(network, cluster.plan.drop_rate)
            case plans.Leave(node=name, topic=topic):
                if topic in cluster.nodes[name].plan.joins:
                    cluster.join(cluster.nodes[name], topic)
            case plans.ChangeSession():
                pass  # it goes on by itself
            case _:
                assert_never(fault)

    return end


def _disturb(cluster: ScopeCluster, network: str) -> None:
    """Nodes that are cut off, and nodes that are behind a scope that is, may be counted out."""
    for node in cluster.living():
        node.is_disturbed = node.is_disturbed or node.host.network == network


def _judge(plan: Plan, cluster: ScopeCluster) -> Verdict:
    messages = sum(map(len, cluster.sent.values()))
    kinds = Counter(type(fault).__name__ for fault in plan.faults)
    violations = sorted(cluster.violations(), key=lambda violation: violation.at)
    if messages < MESSAGES_MIN:
        what = f"{messages} messages: fewer than {MESSAGES_MIN} prove nothing"
        violations.append(Violation(check="worked", at=cluster.now, what=what))
    return Verdict(
        seed=plan.seed,
        digest=cluster.digest(),
        messages=messages,
        deliveries=sum(node.delivered for node in cluster.lives),
        faults=len(plan.faults),
        faults_by_kind=dict(sorted(kinds.items())),
        datagrams=cluster.internet.network.sent_packets + cluster.internet.frames,
        seconds=round(cluster.now, 3),
        node_seconds=round(cluster.now * len(plan.nodes), 1),
        events=cluster.events.happened,
        nodes=len(plan.nodes),
        groups=len(plan.topics()),
        views=0,
        exclusions=0,
        violations=tuple(violations),
    )


def run_seed(seed: int) -> SeedResult:
    """Run one seed."""
    return judge_seed(seed, lambda: run_trial(draw_plan(seed)))
