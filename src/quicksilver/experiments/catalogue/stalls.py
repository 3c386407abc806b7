"""Every fault once: how long do those stand still to whom nothing happened?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from quicksilver.experiments.base import (
    Column,
    Context,
    Experiment,
    ExperimentError,
    Finding,
    Metrics,
    Point,
    Row,
    Value,
    choose,
)
from quicksilver.experiments.catalogue.simulated import SETTINGS, make_scenario
from quicksilver.experiments.real_stalls import REAL_FAULTS, run_real_stall
from quicksilver.experiments.stalls import FAULTS, Misfortune, Trouble, do_nothing, run_stall
from quicksilver.sim.network import Attached
from quicksilver.trials.gms import GMS_INDEX
from quicksilver.trials.node import SimNode
from quicksilver.wire.ids import Address

ISLAND = 1

GOALS_S: Mapping[str, float] = {"loss-20": 0.5, "loss-50": 2.0}
"""The longest stall that the healthy may have, where it is not …"""
GOAL_S = 0.3


class Stalls(Experiment):
    """The longest gap between deliveries at nodes to which nothing happens.

    ``edition`` is a name for the version that was measured: points of several, in one
    folder, are drawn next to each other.
    """

    name = "stalls"
    figures = "–"
    title = "longest stall for each fault"
    varies = "what goes wrong; messages per second"
    places = ("sim", "real")
    claims = {
        "–": "The papers have no such figure: a receiver that freezes stops the multicast until "
        "it catches up (4.62), a crash slows it for some ten seconds (4.63)",
    }
    sweep = {"fault": FAULTS, "rate": (0.0, 100.0)}
    quick = {"fault": ("none", "crash", "gms-restart"), "rate": (0.0,)}
    settings = {
        **SETTINGS,
        "machine": "gigabit",
        "nodes": 8,
        "warmup": 1.0,
        "freeze": 10.0,
        "cut": 6.0,
        "long_cut": 30.0,
        "lossy": 15.0,
        "watched": 6.0,
        "after": 6.0,
        "edition": "now",
    }
    quick_settings = {"nodes": 4, "warmup": 0.3, "after": 1.0}
    columns = (
        Column("stall_s", "stall, s", "{:.3f}"),
        Column("before_messages_per_second", "before/s"),
        Column("during_percent", "during %"),
        Column("after_percent", "after %"),
        Column("lost_messages", "lost"),
        Column("lost_though_confirmed", "lost though confirmed"),
        Column("unanswered_messages", "unanswered"),
        Column("excluded_s", "excluded, s", "{:.2f}"),
        Column("learnt_s", "learnt, s", "{:.2f}"),
        Column("healthy_exclusions", "healthy excluded"),
        Column("flush_s_max", "flush, s", "{:.2f}"),
    )

    def points(self, **asked: Any) -> Iterator[Point]:
        """Leave out what cannot be done to real processes."""
        for point in super().points(**asked):
            if point.place == "sim" or point.parameters["fault"] in REAL_FAULTS:
                yield point

    def run(self, point: Point, context: Context) -> Metrics:
        given = point.parameters
        if point.place == "real":
            return run_real_stall(str(given["fault"]), given)
        misfortune = make_misfortune(str(given["fault"]), given)
        scenario = make_scenario(point, context, senders=2)
        return run_stall(scenario, misfortune, float(given["after"]), context)

    def findings(self, rows: Sequence[Row]) -> list[Finding]:
        found = []
        kinds = dict.fromkeys((row["edition"], row["fault"], row["rate"]) for row in rows)
        for edition, fault, rate in kinds:
            chosen = choose(rows, edition=edition, fault=fault, rate=rate)
            kind = f"{edition}: {fault}, " + (f"{rate:,.0f}/s" if rate else "full rate")
            goal = GOALS_S.get(fault, GOAL_S)
            stall_s = max(row["stall_s"] for row in chosen)
            broken = max(row["lost_though_confirmed"] for row in chosen)
            found.append(
                Finding(
                    f"{kind}: the healthy stand still for {goal} s at most",
                    f"{stall_s:.3f} s",
                    stall_s <= goal,
                )
            )
            found.append(
                Finding(
                    f"{kind}: nothing is lost that was promised", f"{broken:,} lost", not broken
                )
            )
        return found


def make_misfortune(fault: str, given: Mapping[str, Value]) -> Misfortune:
    """Return how to begin and end a fault in the simulator."""
    cut_s = float(given["cut"])
    # How long a fault that never ends is looked at.
    watched_s = float(given["watched"])
    match fault:
        case "none":
            return Misfortune(begin=do_nothing, for_s=watched_s)
        case "crash":
            return Misfortune(begin=lambda t: choose_member(t).crash(), for_s=watched_s)
        case "silent-crash":
            return Misfortune(begin=lambda t: set_off(t, choose_member(t)), for_s=watched_s)
        case "freeze":
            freeze_s = float(given["freeze"])
            return Misfortune(begin=lambda t: choose_member(t).freeze(freeze_s), for_s=freeze_s)
        case "mute":
            return Misfortune(
                begin=lambda t: mute(t, choose_member(t)),
                for_s=float(given["freeze"]),
                end=unmute,
            )
        case "slow":
            return Misfortune(begin=slow_down, for_s=float(given["freeze"]), end=speed_up)
        case "gms-cut":
            return Misfortune(
                begin=lambda t: t.cluster.network.set_island(GMS_INDEX, ISLAND),
                for_s=cut_s,
                end=heal,
            )
        case "gms-restart":
            return Misfortune(begin=lambda t: t.cluster.gms.restart(1.0), for_s=watched_s)
        case "publisher-cut":
            return Misfortune(begin=cut_publisher, for_s=cut_s, end=heal)
        case "member-cut":
            return Misfortune(
                begin=lambda t: set_off(t, choose_member(t)),
                for_s=float(given["long_cut"]),
                end=heal,
            )
        case "loss-20" | "loss-50":
            rate = int(fault.removeprefix("loss-")) / 100
            return Misfortune(
                begin=lambda t: set_loss(t, rate),
                for_s=float(given["lossy"]),
                end=lambda t: set_loss(t, 0.0),
            )
        case "partition":
            return Misfortune(begin=divide, for_s=cut_s, end=heal)
        case _:
            known = ", ".join(FAULTS)
            raise ExperimentError(f"there is no fault {fault[:40]!r}; there are {known}")


def choose_member(trouble: Trouble) -> SimNode:
    """Return a receiver, another one for each seed, which is affected from now on."""
    node = trouble.cluster.rng.derive("choice").choice(trouble.run.receivers)
    trouble.affected = [node]
    return node


def set_off(trouble: Trouble, node: SimNode) -> None:
    """Nothing reaches a node any more and nothing comes from it."""
    trouble.cluster.network.set_island(node.index, ISLAND)


def heal(trouble: Trouble) -> None:
    """Everything passes again."""
    trouble.cluster.network.heal()


def mute(trouble: Trouble, node: SimNode) -> None:
    """No datagram reaches a node or comes from it, while its stream to the GMS works."""
    network = trouble.cluster.network
    source: list[Address] = [node.address]

    def note_source(at: float, sender: Address, destination: Address, packet: bytes) -> None:
        # The network tells of a datagram before it asks whom it reaches.
        del at, destination, packet
        source[0] = sender

    def is_lost(host: Attached, packet: bytes) -> bool:
        del packet
        return host.address == node.address or source[0] == node.address

    network.taps.append(note_source)
    network.loss = is_lost


def unmute(trouble: Trouble) -> None:
    """Datagrams pass again."""
    trouble.cluster.network.loss = None


def slow_down(trouble: Trouble) -> None:
    """A receiver's processor manages half of what arrives."""
    node = choose_member(trouble)
    load = node.host.counters.busy_s / trouble.cluster.now
    node.host.set_slowness(2.0 / max(1e-3, load))


def speed_up(trouble: Trouble) -> None:
    """The slowed receiver is as quick as before."""
    trouble.affected[0].host.set_slowness(1.0)


def cut_publisher(trouble: Trouble) -> None:
    """Nothing comes from the witness or reaches it."""
    trouble.affected = [trouble.witness.node]
    set_off(trouble, trouble.witness.node)


def divide(trouble: Trouble) -> None:
    """Half of the receivers are cut off from the rest, which has the GMS and the publishers."""
    receivers = trouble.run.receivers
    trouble.affected = receivers[: len(receivers) // 2]
    for node in trouble.affected:
        set_off(trouble, node)


def set_loss(trouble: Trouble, rate: float) -> None:
    """Datagrams to every node are lost, each by itself."""
    for node in trouble.cluster.nodes:
        node.host.weather.drop_rate = rate
