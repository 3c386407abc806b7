"""How fast one topic is across three networks, against one network alone with as many members."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from quicksilver.lab.scopes.networks import Campus, Network
from quicksilver.lab.scopes.trial import (
    Hop,
    Outcome,
    Scenario,
    choose_publisher,
    judge,
    play,
    publish,
    running_campus,
)

NETWORKS = 3
HOP_SECONDS = 5.0
HOP_RATE = 100.0
"""Latency is measured where nothing waits for anything."""

ALONE_QSM = "one network alone, with a GMS"
ALONE_MULTICAST = "one network alone, scope with multicast"
ACROSS = "three networks, from the one with a GMS"
ACROSS_BACK = "three networks, from the one with multicast"

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Speed:
    """Messages a second until the last receiver had the last; and what went wrong."""

    name: str
    rate: float
    processor_us: float
    """Time of processors that a message takes, in all processes together, from sender to all."""
    wrong: int


def arms(nodes: int, seconds: float, size: int) -> dict[str, Scenario]:
    """Return what is compared: the same members, in one network or in three."""
    alone = Scenario(
        nodes=nodes * NETWORKS, seconds=seconds, rate=0, size=size, loss="", publishers=(0,)
    )
    across = Scenario(nodes=nodes, seconds=seconds, rate=0, size=size, loss="", publishers=(0,))
    gms = Network(name="campus/lan1", policy="star", recovery="ring", has_gms=True)
    cast = Network(name="campus/lan1", policy="multicast", recovery="requests")
    return {
        ALONE_QSM: replace(alone, networks=(gms,)),
        ACROSS: across,
        ALONE_MULTICAST: replace(alone, networks=(cast,)),
        ACROSS_BACK: replace(across, publishers=(1,)),
    }


def measure(name: str, scenario: Scenario, tell: Tell) -> Speed:
    """Send as fast as messages are taken; nothing goes wrong on purpose."""

    def quiet(text: str) -> None:
        del text

    with running_campus(scenario, quiet) as campus:
        outcome, processor_s = _load(campus, scenario)
    wrong = sum(len(outcome.find_faults(tag)) for tag in outcome.judged)
    speed = Speed(name, outcome.rate(), 1e6 * processor_s / max(1, outcome.messages), wrong)
    faults = f", {wrong} things wrong" if wrong else ""
    tell(
        f"{name}: {speed.rate:,.0f} messages a second, {speed.processor_us:.0f} µs of processor "
        f"time for each{faults}"
    )
    return speed


def _load(campus: Campus, scenario: Scenario) -> tuple[Outcome, float]:
    """Return what came of it, and the time of processors that it took."""
    publishers = [choose_publisher(campus, n, set()) for n in scenario.publishers]
    campus.connect(publishers)
    before = _processor_s(campus)
    sent = publish(scenario, publishers, None)
    judged = judge(campus, sent)
    outcome = Outcome(
        scenario=scenario,
        has_nat=False,
        names={member.tag: member.name for member in campus.members},
        networks={},
        sent=sent,
        judged=judged,
    )
    return outcome, _processor_s(campus) - before


def _processor_s(campus: Campus) -> float:
    """Return the time of processors that all processes took so far."""
    ticks = 0
    for child in campus.children.running:
        text = Path(f"/proc/{child.pid}/stat").read_text(encoding="utf-8")
        # What is in brackets is a name; user and system time are the 14th and 15th field.
        ticks += sum(map(int, text.rpartition(")")[2].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def measure_hops(nodes: int, size: int, tell: Tell) -> list[Hop]:
    """Return how long messages take on each part of their way, without load and loss."""
    scenario = Scenario(nodes=nodes, seconds=HOP_SECONDS, rate=HOP_RATE, size=size, loss="")
    return play(scenario, tell).hops


def compare(rounds: list[dict[str, Speed]]) -> dict[str, float]:
    """Return medians of each arm, and what is left of the speed of one network alone."""

    def median(name: str, what: str) -> float:
        return float(statistics.median(getattr(each[name], what) for each in rounds))

    rates = {name: median(name, "rate") for name in rounds[0]}
    costs = {f"{name}, µs": median(name, "processor_us") for name in rounds[0]}
    ratios = {
        "ratio": rates[ACROSS] / rates[ALONE_QSM],
        "ratio_multicast": rates[ACROSS_BACK] / rates[ALONE_MULTICAST],
    }
    return rates | costs | ratios
