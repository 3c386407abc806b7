"""A trial is its seed: what is drawn, what happens, and what counts as too little."""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec
import pytest
from msgspec.structs import replace

from quicksilver.trials import faults, trial
from quicksilver.trials.checks import ALL
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.draw import Membership, Plan, draw_plan
from quicksilver.trials.trial import build, run_seed, run_trial
from quicksilver.trials.watch import Watcher
from quicksilver.wire.ids import Address
from quicksilver.wire.packets import KIND_HYBRID
from tests.trials.broken import BROKEN

SMALL = Plan(
    seed=3,
    nodes=3,
    memberships=(Membership(group="g", members=(0, 1), openers=(2,)),),
    faults=(),
    seconds=1.0,
    interval_s=0.02,
    burst=2,
    sizes=(100,),
)


def digest_under(hash_seed: str) -> str:
    """Run one drawn trial in a process of its own and return its digest."""
    code = (
        "from quicksilver.trials.draw import draw_plan\n"
        "from quicksilver.trials.trial import run_trial\n"
        "print(run_trial(draw_plan(50)).digest)"
    )
    env = {**os.environ, "PYTHONHASHSEED": hash_seed}
    run = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    return run.stdout.strip()


@pytest.mark.slow
def test_the_digest_does_not_depend_on_the_order_of_hashes() -> None:
    found = {digest_under(seed) for seed in ("0", "1", "4242")}
    assert len(found) == 1


@pytest.mark.slow
def test_another_seed_is_another_run() -> None:
    other = replace(SMALL, seed=4)
    assert run_trial(SMALL).digest == run_trial(SMALL).digest
    assert run_trial(SMALL).digest != run_trial(other).digest


def test_a_fault_changes_the_digest() -> None:
    """The digest sees what happened on the wire, not only what was delivered."""
    lossy = replace(SMALL, faults=(faults.Loss(at=0.2, for_s=0.5, node=1, rate=0.3),))
    assert run_trial(SMALL).digest != run_trial(lossy).digest


def test_every_kind_of_fault_is_drawn() -> None:
    kinds = {type(fault) for seed in range(200) for fault in draw_plan(seed).faults}
    assert kinds == set(faults.KINDS)


def test_plans_vary() -> None:
    plans = [draw_plan(seed) for seed in range(100)]
    fields = ("planner", "transport", "packet_bytes", "partition_size", "is_modelled")
    for field in (*fields, "hybrid", "hybrid_gain_min"):
        assert len({getattr(plan, field) for plan in plans}) > 1, field


def test_seeds_move_groups_in_and_out_of_hybrid_mode() -> None:
    """By the GMS's choice, under the same faults and checks as all else."""
    hybrid_packets = 0

    class Counting(Watcher):
        name = "counting"

        def __init__(self, cluster: Cluster) -> None:
            super().__init__(cluster)
            cluster.network.taps.append(self._tap)

        def _tap(self, _at: float, _source: Address, _to: Address, packet: bytes) -> None:
            nonlocal hybrid_packets
            hybrid_packets += packet[1] == KIND_HYBRID

    plan = next(
        plan
        for plan in map(draw_plan, range(100))
        if plan.hybrid == "auto" and plan.is_adapting and plan.transport == "multicast"
        if plan.planner == "exact" and not plan.without_multicast and len(plan.memberships) > 1
    )
    verdict = run_trial(plan, checks=(*ALL, Counting))
    assert verdict.violations == ()
    assert hybrid_packets > 0


def test_a_plan_survives_its_file() -> None:
    """``--write-plan`` and ``--plan`` must replay the very same trial."""
    plan = draw_plan(12)
    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan


def test_a_trial_that_did_too_little_fails() -> None:
    idle = replace(SMALL, interval_s=1000.0)
    checks = [violation.check for violation in run_trial(idle).violations]
    assert checks == ["worked"]


def test_violations_are_reported_with_their_time() -> None:
    class Grumbler(Watcher):
        name = "grumbler"

        def on_healed(self) -> None:
            self.fail("never content")

    verdict = run_trial(SMALL, checks=(Grumbler,))
    assert [(v.check, v.what) for v in verdict.violations] == [("grumbler", "never content")]
    assert verdict.violations[0].at >= SMALL.seconds


@pytest.mark.parametrize("kind", faults.KINDS, ids=lambda kind: kind.__name__)
def test_every_fault_begins_and_heals(kind: type[faults.Fault]) -> None:
    """Whatever a fault does to hosts and network is undone by ``heal``."""
    drawn = next(
        fault for seed in range(400) for fault in draw_plan(seed).faults if type(fault) is kind
    )
    fault = replace(drawn, at=0.1, for_s=drawn.for_s and 5.0)
    if hasattr(fault, "group"):
        fault = replace(fault, node=0, group="g")
    elif hasattr(fault, "node"):
        fault = replace(fault, node=1)
    elif hasattr(fault, "island"):
        fault = replace(fault, island=(-1, 1))
    else:
        fault = replace(fault, source=1, targets=(-1, 0)) if hasattr(fault, "source") else fault
    cluster = build(SMALL)
    cluster.start(3)
    cluster.nodes[0].join("g")
    cluster.nodes[1].join("g")
    faults.schedule(cluster, (fault,), 1.0)
    cluster.run(1.0)
    faults.heal(cluster, (fault,))
    assert cluster.settle(20.0)
    for node in cluster.alive():
        assert node.host.weather.is_fine
        assert node.host.frozen_until <= cluster.now
        for other in range(-1, 3):
            assert cluster.network.passes(node.index, other)
    assert not cluster.gms.is_down


def test_the_floor_is_part_of_the_verdict() -> None:
    verdict = run_trial(SMALL)
    assert not verdict.violations
    assert verdict.messages >= trial.MESSAGES_MIN
    assert verdict.seconds >= trial.SECONDS_MIN


class TestSeeds:
    def test_a_good_seed_has_a_report_and_no_problem(self) -> None:
        found = run_seed(16)
        assert found.verdict is not None
        assert found.problem == ""

    def test_a_violation_is_the_problem(self) -> None:
        with BROKEN["never-quiet"].install():
            assert run_seed(16).problem.startswith("quiescence at ")

    def test_what_a_trial_raises_is_the_problem(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: object, **__: object) -> None:
            raise LookupError("no ring")

        monkeypatch.setattr("quicksilver.trials.trial.run_trial", fail)
        found = run_seed(1)
        assert found.verdict is None
        assert found.problem == "raised LookupError: no ring"
