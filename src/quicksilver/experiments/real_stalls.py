"""The same faults as in ``stalls``, as far as they can be done to processes of this machine.

Crashes and freezes are signals. Cut links and mute members are datagrams that the
node itself drops and a relay on its way to the GMS. Times are of this machine, and no
better than it is idle.
"""

from __future__ import annotations

import signal
import tempfile
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import msgspec

from quicksilver.experiments.base import ExperimentError, Metrics, Value
from quicksilver.experiments.stalls import FAULTS, LOAD, WITNESS, WITNESS_RATE
from quicksilver.lab.local_gms import LocalGms, Relay, Relays
from quicksilver.lab.nodes import DEAF, WHOLE, Harm
from quicksilver.lab.processes import Child, Children
from quicksilver.lab.stalls import (
    Count,
    Counted,
    Finish,
    Listened,
    Published,
    Ready,
    StallListener,
    StallPublisher,
    Time,
)
from quicksilver.lab.worker import start_worker
from quicksilver.stdx.ranges import RangeSet

READY_S = 90.0
ANSWER_S = 90.0
DOWN_S = 1.0
"""How long the GMS is down when it is restarted."""

REAL_FAULTS = tuple(fault for fault in FAULTS if fault != "slow")
"""A processor that is slower for a while is only simulated."""


class _Member:
    """A process and its way to the GMS."""

    def __init__(self, child: Child, relay: Relay) -> None:
        self.child = child
        self.relay = relay

    def cut(self) -> None:
        self.relay.cut()
        self.child.tell(DEAF)

    def mend(self) -> None:
        self.relay.mend()
        self.child.tell(WHOLE)


class _Scene:
    """The processes of one run."""

    def __init__(self, stack: ExitStack, given: Mapping[str, Value]) -> None:
        self.children = stack.enter_context(Children())
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        self.gms = LocalGms(self.children, Path(folder) / "gms.sqlite")
        self.gms.start()
        self._relays = stack.enter_context(Relays(self.gms.address))
        self.listeners = [
            self._add(StallListener(name=f"listener-{place}", groups=[LOAD, WITNESS]))
            for place in range(int(given["nodes"]))
        ]
        for listener in self.listeners:
            listener.child.expect(Ready, READY_S)
        size = int(given["size"])
        self.load = self._add(
            StallPublisher(
                name="load", group=LOAD, size=size, rate=float(given["rate"]), flushes=True
            )
        )
        self.witness = self._add(
            StallPublisher(
                name="witness", group=WITNESS, size=size, rate=WITNESS_RATE, flushes=False
            )
        )
        for publisher in (self.load, self.witness):
            publisher.child.expect(Ready, READY_S)
        self.affected: list[_Member] = []

    def _add(self, spec: StallListener | StallPublisher) -> _Member:
        relay = self._relays.add()
        mine = msgspec.structs.replace(
            spec, gms=relay.address, interface="lo", connect_timeout_s=READY_S
        )
        return _Member(start_worker(self.children, mine), relay)

    @property
    def everybody(self) -> list[_Member]:
        return [*self.listeners, self.load, self.witness]

    @property
    def healthy(self) -> list[_Member]:
        return [one for one in self.listeners if one not in self.affected]

    def choose(self) -> _Member:
        """Return the listener in the middle, which is affected from now on."""
        self.affected = [self.listeners[len(self.listeners) // 2]]
        return self.affected[0]

    def heard_by_healthy(self) -> tuple[int, float]:
        """Return how many messages of the load the slowest of them has, and when."""
        for one in self.healthy:
            one.child.tell(Count())
        found = [one.child.expect(Counted, ANSWER_S) for one in self.healthy]
        slowest = min(found, key=lambda one: one.messages)
        return slowest.messages, slowest.at


def run_real_stall(fault: str, given: Mapping[str, Value]) -> Metrics:
    """Run one point with processes of this machine."""
    if fault not in REAL_FAULTS:
        raise ExperimentError(
            f"{fault} cannot be done to real processes; these can: {', '.join(REAL_FAULTS)}"
        )
    with ExitStack() as stack:
        return _measure(_Scene(stack, given), fault, given)


def _measure(scene: _Scene, fault: str, given: Mapping[str, Value]) -> Metrics:
    warmup_s, after_s = float(given["warmup"]), float(given["after"])
    time.sleep(warmup_s)
    counts = [scene.heard_by_healthy()]
    time.sleep(warmup_s)
    began = time.monotonic()
    for_s = _begin(scene, fault, given)
    for one in scene.healthy:
        one.child.tell(Time(is_on=True))
    counts.append(scene.heard_by_healthy())
    time.sleep(max(0.0, began + for_s - time.monotonic()))
    counts.append(scene.heard_by_healthy())
    _end(scene, fault)
    time.sleep(after_s)
    counts.append(scene.heard_by_healthy())
    for one in scene.healthy:
        one.child.tell(Time(is_on=False))
    rates = [
        (later[0] - earlier[0]) / max(1e-9, later[1] - earlier[1])
        for earlier, later in pairwise(counts)
    ]
    metrics = _finish(scene, began)
    return metrics | {
        "before_messages_per_second": rates[0],
        "during_percent": 100 * rates[1] / max(1.0, rates[0]),
        "after_percent": 100 * rates[2] / max(1.0, rates[0]),
    }


def _begin(scene: _Scene, fault: str, given: Mapping[str, Value]) -> float:
    """Let the fault begin; return how long it lasts."""
    match fault:
        case "crash":
            scene.choose().child.kill()
        case "silent-crash":
            scene.choose().cut()
        case "freeze":
            scene.choose().child.send_signal(signal.SIGSTOP)
            return float(given["freeze"])
        case "mute":
            scene.choose().child.tell(DEAF)
            return float(given["freeze"])
        case "gms-cut":
            for one in scene.everybody:
                one.relay.cut()
            return float(given["cut"])
        case "gms-restart":
            scene.gms.kill()
            time.sleep(DOWN_S)
            scene.gms.start()
        case "publisher-cut":
            scene.affected = [scene.witness]
            scene.witness.cut()
            return float(given["cut"])
        case "member-cut":
            scene.choose().cut()
            return float(given["long_cut"])
        case "partition":
            scene.affected = scene.listeners[: len(scene.listeners) // 2]
            for one in scene.affected:
                one.cut()
            return float(given["cut"])
        case "loss-20" | "loss-50":
            rate = fault.removeprefix("loss-")
            for place, one in enumerate(scene.everybody):
                one.child.tell(Harm(f"loss={rate}%,seed={place + 1}"))
            return float(given["lossy"])
    return float(given["watched"])


def _end(scene: _Scene, fault: str) -> None:
    match fault:
        case "freeze":
            scene.affected[0].child.send_signal(signal.SIGCONT)
        case "none" | "crash" | "silent-crash" | "gms-restart":
            pass
        case _:
            for one in scene.everybody:
                one.mend()


def _finish(scene: _Scene, began: float) -> Metrics:
    """Have the publishers end, and say what did not arrive and who learnt what."""
    publishers = {LOAD: scene.load, WITNESS: scene.witness}
    for publisher in publishers.values():
        publisher.child.tell(Finish())
    told = {name: one.child.expect(Published, ANSWER_S) for name, one in publishers.items()}
    time.sleep(1.0)
    heard = _ask(scene.healthy)
    affected: list[Listened | Published] = [
        *_ask(m for m in scene.affected if m in scene.listeners and m.child.exit_code is None)
    ]
    if scene.witness in scene.affected:
        affected.append(told[WITNESS])
    learnt = [one.learnt_at for one in affected if one.learnt_at is not None]
    lost = {
        name: max(_lacking(one, name, [(0, said.sent)]) for one in heard)
        for name, said in told.items()
    }
    broken = {
        name: max(_lacking(one, name, said.confirmed) for one in heard)
        for name, said in told.items()
    }
    for member in scene.everybody:
        if member.child.exit_code is None:
            member.child.close_input()
    return {
        "stall_s": max(one.gap_s for one in heard),
        "accepted_messages": sum(said.sent for said in told.values()),
        "lost_messages": sum(lost.values()),
        "lost_though_confirmed": sum(broken.values()),
        "unanswered_messages": sum(said.unanswered for said in told.values()),
        "flush_s_max": told[LOAD].flush_s_max,
        "learnt_s": max(learnt) - began if learnt else None,
        "excluded_s": None,
        "healthy_exclusions": sum(one.exclusions for one in heard),
    }


def _ask(members: Iterable[_Member]) -> list[Listened]:
    asked = list(members)
    for member in asked:
        member.child.tell(Finish())
    return [member.child.expect(Listened, ANSWER_S) for member in asked]


def _lacking(heard: Listened, group: str, numbers: list[tuple[int, int]]) -> int:
    return RangeSet(numbers).difference(RangeSet(heard.numbers.get(group, []))).count()
