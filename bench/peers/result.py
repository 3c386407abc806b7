"""What every peer answers, and the two ways in which it may fail to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

ROOT = Path(__file__).parents[2]
"""Children import ``bench`` from here, wherever the command was started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerResult:
    """One run of one peer."""

    name: str
    version: str
    messages_per_second: float
    """Rate at the slowest receiver, over the time in which it was receiving."""

    lost: int
    """Messages sent and never delivered, summed over receivers."""

    note: str = ""
    """What a reader must know to judge the number: transport, reliability, batching."""


class PeerMissingError(Exception):
    """The peer is not installed here."""


class PeerFailedError(Exception):
    """The peer is installed, but did not finish its run."""


class Peer(Protocol):
    """The interface of a peer's module."""

    NAME: str
    INSTALL: str
    """One line: how to install it."""

    def run(self, receivers: int, size: int, seconds: float) -> PeerResult:
        """Measure once. Raises PeerMissingError, PeerFailedError or ChildError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one receiver process says at its end."""

    received: int
    sent: int
    """What the sender said in its last message."""

    elapsed_s: float
    """From the first message that counts to the last."""


def summarize(reports: list[Report]) -> tuple[float, int]:
    """Return the rate of the slowest receiver and the messages lost by all."""
    if not reports:
        raise PeerFailedError("no receiver reported")
    for report in reports:
        if report.received == 0 or report.elapsed_s <= 0:
            raise PeerFailedError("a receiver got nothing")
    rate = min(report.received / report.elapsed_s for report in reports)
    return rate, sum(max(0, report.sent - report.received) for report in reports)


def parse_report(line: str) -> Report:
    """Parse ``report RECEIVED SENT ELAPSED_S``, the last line of a receiver process."""
    fields = line.split()
    if len(fields) != 4 or fields[0] != "report":
        raise PeerFailedError(f"expected a report from a receiver, got {line.strip()!r}")
    try:
        return Report(received=int(fields[1]), sent=int(fields[2]), elapsed_s=float(fields[3]))
    except ValueError:
        raise PeerFailedError(f"a receiver's report does not parse: {line.strip()!r}") from None
