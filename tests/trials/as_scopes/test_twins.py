"""QSM expressed as scopes passes the engine's own trials: its plans, loads, faults and checks."""

from __future__ import annotations

import msgspec
import pytest

from quicksilver.trials import faults
from quicksilver.trials.as_scopes.checks import SCOPES_CHECKS
from quicksilver.trials.as_scopes.cluster import TwinCluster
from quicksilver.trials.as_scopes.plan import (
    CHECKS,
    CHECKS_LEFT_OUT,
    COUNTERPARTS,
    FAULTS_LEFT_OUT,
    NODES_MAX,
    as_scopes,
    strip,
)
from quicksilver.trials.as_scopes.trial import draw, run_trial
from quicksilver.trials.checks import ALL
from quicksilver.trials.draw import draw_plan
from tests.trials.as_scopes.mistakes import MISTAKES, Mistake
from tests.trials.broken.breaking import scene


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 4, 5, 7, 13, 14])
def test_drawn_trial(seed: int) -> None:
    """To look into a failure: ``quicksilver sim --as-scopes --seed``."""
    verdict = run_trial(draw(seed))
    assert not verdict.violations, [f"{v.check}: {v.what}" for v in verdict.violations[:3]]


@pytest.mark.slow
def test_the_same_seed_is_the_same_run() -> None:
    assert run_trial(draw(3)).digest == run_trial(draw(3)).digest != run_trial(draw(1)).digest


every = pytest.mark.parametrize("mistake", MISTAKES, ids=[each.name for each in MISTAKES])


@pytest.mark.slow
@every
def test_a_mistake_is_found_out(mistake: Mistake) -> None:
    found: set[str] = set()
    with mistake.install():
        for seed in range(1, mistake.seeds + 1):
            found |= {each.check for each in run_trial(mistake.scene(seed)).violations}
    assert found >= set(mistake.caught_by)


@pytest.mark.slow
@every
def test_the_same_scene_is_fine_when_nothing_is_broken(mistake: Mistake) -> None:
    for seed in range(1, mistake.seeds + 1):
        verdict = run_trial(mistake.scene(seed))
        assert not verdict.violations, [f"{v.check}: {v.what}" for v in verdict.violations[:3]]


def test_every_check_of_the_engine_is_used_or_has_a_counterpart_or_a_reason() -> None:
    places = [*CHECKS, *COUNTERPARTS, *CHECKS_LEFT_OUT]
    assert sorted(places) == sorted(check.name for check in ALL)
    assert {check.name for check in SCOPES_CHECKS} >= set(COUNTERPARTS.values())


def test_nothing_else_of_a_plan_is_left_out() -> None:
    plans = [draw_plan(seed) for seed in range(1, 200)]
    for plan in plans:
        left = strip(plan)
        assert left.nodes == min(plan.nodes, NODES_MAX)
        assert len(left.memberships) == len(plan.memberships)
        kinds = {type(fault) for fault in plan.faults} - {type(fault) for fault in left.faults}
        if plan.nodes <= NODES_MAX:
            assert left.memberships == plan.memberships
            assert kinds <= FAULTS_LEFT_OUT.keys()
        assert strip(left) == left
    drawn = {type(fault) for plan in plans for fault in strip(plan).faults}
    assert drawn == set(faults.KINDS) - FAULTS_LEFT_OUT.keys()


def test_a_plan_with_multicast_has_regions_and_rings_of_its_partition_size() -> None:
    plan = scene(partition_size=4)(1)
    (scope,) = as_scopes(plan).scopes
    assert (scope.policy, scope.recovery) == ("regions", "ring:4")
    for other in ({"transport": "unicast"}, {"without_multicast": (1,)}):
        (scope,) = as_scopes(msgspec.structs.replace(plan, **other)).scopes
        assert scope.policy == "star"


@pytest.mark.slow
def test_a_message_is_sent_once_to_each_region() -> None:
    """What makes it QSM, and not one message to each member: seen on the network."""
    plan = scene(nodes=9)(1)
    cluster = TwinCluster(plan)
    cluster.start(9)
    for index, node in enumerate(cluster.nodes):
        node.join("g0", *(("g1",) if index < 4 else ()))
    cluster.run(3.0)
    sent: list[str] = []
    cluster.network.taps.append(lambda at, source, target, packet: sent.append(target[0]))
    for group in ("g0", "g1"):
        cluster.nodes[0].send(group, f"{group}/0/0/0/".encode())
        cluster.run(2.0)
        assert len(sent) == len(set(sent)) == {"g0": 2, "g1": 1}[group]
        sent.clear()
    got = {index: sorted(node.delivered.values()) for index, node in enumerate(cluster.nodes)}
    expected = [[], *([1, 1] for _ in range(1, 4)), *([1] for _ in range(4, 9))]
    assert got == dict(enumerate(expected))
