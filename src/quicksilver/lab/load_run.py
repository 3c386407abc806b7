"""One run of senders and receivers: a GMS, the processes, and what they told."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from quicksilver.lab.load import (
    COMPLETE_S,
    Go,
    LoadReady,
    Receiver,
    ReceiverResult,
    Sender,
    SenderResult,
    Sent,
)
from quicksilver.lab.namespaces import Namespaces
from quicksilver.lab.processes import Child, Children
from quicksilver.lab.worker import start_worker

READY_S = 90.0
"""A machine with fewer cores than processes starts them slowly."""
REPORT_S = 90.0
CLOSE_S = 30.0


@dataclass(frozen=True, kw_only=True)
class LoadRun:
    """Parameters of one run with real senders and receivers."""

    sender: Sender
    """What every sender is told; a rate is that of all of them together."""
    receiver: Receiver
    receivers: int
    regions: int = 1
    """Receivers are divided into so many regions; the GMS must plan exactly."""
    senders: int = 1
    """0: the receivers do nothing, for as long as a sender would send."""
    first_receiver: Mapping[str, Any] = field(default_factory=dict)
    """Fields in which the first receiver differs, such as faults."""
    gms: tuple[str, ...] = ()
    """Further arguments of the GMS."""
    namespaces: Namespaces | None = None
    """Where processes run: senders and GMS in the first, receivers in the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """Results of all processes of one run."""

    sent: list[SenderResult]
    got: list[ReceiverResult]
    seconds: float
    busy_s: float
    """Processor time that all processes of the machine used meanwhile."""


def run_load(run: LoadRun) -> LoadResult:
    """Start a GMS and the processes, measure, and return the results; raises ChildError."""
    spaces = run.namespaces
    with Children() as children:
        host, prefix = ("127.0.0.1", ()) if spaces is None else spaces.place(0)
        gms = children.start_gms(*run.gms, host=host, prefix=prefix)

        def start(spec: Sender | Receiver, place: int, **changes: Any) -> Child:
            inside = () if spaces is None else spaces.place(place)[1]
            mine = msgspec.structs.replace(spec, gms=gms, **changes)
            return start_worker(children, mine, prefix=inside)

        receivers = [
            start(
                run.receiver,
                1 + place,
                name=f"receiver-{place}",
                part=f"part-{place % run.regions}" if run.regions > 1 else "",
                **(run.first_receiver if not place else {}),
            )
            for place in range(run.receivers)
        ]
        _wait_ready(receivers)
        rate = run.sender.rate / max(1, run.senders)
        senders = [
            start(run.sender, 0, name=f"sender-{place}", rate=rate) for place in range(run.senders)
        ]
        _wait_ready(senders)
        began, busy = time.monotonic(), machine_busy_s()
        for child in (*receivers, *senders):
            child.tell(Go())
        if not senders:
            time.sleep(run.sender.seconds)
        patience_s = run.sender.seconds + REPORT_S
        sent = [sender.expect(SenderResult, patience_s) for sender in senders]
        by_group = [sum(counts) for counts in zip(*(one.sent for one in sent), strict=True)]
        for receiver in receivers:
            receiver.tell(Sent(by_group or [0] * run.receiver.groups))
        got = [receiver.expect(ReceiverResult, COMPLETE_S + REPORT_S) for receiver in receivers]
        took, busy = time.monotonic() - began, machine_busy_s() - busy
        for child in (*senders, *receivers):
            child.wait(CLOSE_S)
    return LoadResult(sent=sent, got=got, seconds=took, busy_s=busy)


def _wait_ready(children: list[Child]) -> None:
    for child in children:
        child.expect(LoadReady, READY_S)


def machine_busy_s() -> float:
    """Return the processor time that all processes of this machine have used."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _, _, irq, soft_irq, *_ = map(int, file.readline().split()[1:])
    return (user + nice + system + irq + soft_irq) / os.sysconf("SC_CLK_TCK")
