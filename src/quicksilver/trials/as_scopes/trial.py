"""One trial of the engine's on scopes: the plan that its seed stands for, judged alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from quicksilver.scopes.node import ScopeNode
from quicksilver.trials.as_scopes.cluster import TwinCluster
from quicksilver.trials.as_scopes.plan import CHECKS, strip
from quicksilver.trials.checks import ALL
from quicksilver.trials.draw import Plan, draw_plan
from quicksilver.trials.faults import heal, schedule
from quicksilver.trials.scopes.trial import HEAL_S
from quicksilver.trials.trial import (
    CONVERGE_S_MAX,
    DRAIN_S,
    MESSAGES_MIN,
    SILENCE_S,
    Application,
    Runner,
    SeedResult,
    Starts,
    Verdict,
    judge_seed,
)
from quicksilver.trials.watch import Violation


def draw(seed: int) -> Plan:
    """Return the engine's trial that a seed stands for, without what is left out."""
    return strip(draw_plan(seed))


def run_trial(plan: Plan, *, make_node: Callable[..., ScopeNode] = ScopeNode) -> Verdict:
    """Run a plan on scopes, without what is left out, and judge it."""
    plan = strip(plan)
    twins = TwinCluster(plan, make_node=make_node)
    cluster = twins.as_cluster()
    application = Application(cluster, plan)
    twins.watchers += [check(cluster) for check in ALL if check.name in CHECKS]
    twins.watchers.append(Starts(cluster, plan, application))
    runner = Runner(cluster, twins.look)
    twins.start(plan.nodes)
    application.begin()
    schedule(cluster, plan.faults, plan.seconds)
    runner.run(plan.seconds)

    heal(cluster, plan.faults)
    # Members that were forgotten come back, and agents and ends of channels move.
    runner.run(HEAL_S)
    if not runner.run_until_settled(CONVERGE_S_MAX):
        late = [f"{n} waits for {sorted((n.joined | n.opened) - n.ready)}" for n in twins.alive()]
        runner.fail("converged", f"after {CONVERGE_S_MAX} s of health: {'; '.join(late)}")
    twins.handle_healed()
    application.say_farewell()
    runner.run(DRAIN_S)
    runner.run(SILENCE_S)
    twins.handle_settled()
    return _judge(plan, twins, runner.violations)


def _judge(plan: Plan, twins: TwinCluster, found: list[Violation]) -> Verdict:
    messages = sum(sum(node.sent.values()) for node in twins.lives)
    kinds = Counter(type(fault).__name__ for fault in plan.faults)
    violations = sorted([*found, *twins.violations()], key=lambda violation: violation.at)
    if messages < MESSAGES_MIN:
        what = f"{messages} messages: fewer than {MESSAGES_MIN} prove nothing"
        violations.append(Violation(check="worked", at=twins.now, what=what))
    return Verdict(
        seed=plan.seed,
        digest=twins.scopes.digest(),
        messages=messages,
        deliveries=sum(sum(node.delivered.values()) for node in twins.lives),
        faults=len(plan.faults),
        faults_by_kind=dict(sorted(kinds.items())),
        datagrams=twins.network.sent_packets + twins.scopes.internet.frames,
        seconds=round(twins.now, 3),
        node_seconds=round(twins.now * plan.nodes, 1),
        events=twins.events.happened,
        nodes=plan.nodes,
        groups=len(plan.memberships),
        views=0,
        exclusions=0,
        violations=tuple(violations),
    )


def run_seed(seed: int) -> SeedResult:
    """Run one seed."""
    return judge_seed(seed, lambda: run_trial(draw(seed)))
