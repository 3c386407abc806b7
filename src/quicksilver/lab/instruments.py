"""What is measured of a run: a process's use of itself, and the age of messages.

A process measures its processor time and memory, sums up its node's records, and
checks the order of messages. Ages of messages, from many processes or from a
simulation, become percentiles and times of repair.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Sequence

import msgspec

from quicksilver.node.samples import resident_bytes
from quicksilver.stdx.bins import count_delays
from quicksilver.trace.records import AckReceived, AnyRecord, NodeSampled, RoundCompleted


class CollectorTime:
    """Adds up the processor time that the cyclic garbage collector takes."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began = 0.0

    def note(self, phase: str, info: dict[str, int]) -> None:
        """Callback for ``gc.callbacks``: a collection begins or ends."""
        del info
        now = time.thread_time()
        if phase == "start":
            self._began = now
        else:
            self.seconds += now - self._began


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Processor time and memory that a process has used."""

    cpu_s: float
    kernel_s: float
    """The part of the processor time that the kernel used for it."""
    collector_s: float
    """The part that the cyclic garbage collector took."""
    switches: int
    """How often it left its core, by itself or not."""
    rss_bytes: int
    """Resident memory now."""
    rss_max_bytes: int

    def since(self, before: Usage) -> Usage:
        """Return what was used in between; memory is as it is now."""
        return msgspec.structs.replace(
            self,
            cpu_s=self.cpu_s - before.cpu_s,
            kernel_s=self.kernel_s - before.kernel_s,
            collector_s=self.collector_s - before.collector_s,
            switches=self.switches - before.switches,
        )


def take_usage(collector: CollectorTime) -> Usage:
    """Return what this process has used so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return Usage(
        cpu_s=used.ru_utime + used.ru_stime,
        kernel_s=used.ru_stime,
        collector_s=collector.seconds,
        switches=used.ru_nvcsw + used.ru_nivcsw,
        rss_bytes=resident_bytes(),
        rss_max_bytes=used.ru_maxrss * 1024,
    )


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """What a node's records say, summed up."""

    rounds: dict[int, tuple[int, float]] = {}
    """By level of rings: how many token rounds, and how long they took on average."""
    round_bins: dict[int, list[tuple[int, int]]] = {}
    slowest_rounds_s: dict[int, list[float]] = {}
    """The slowest tenth."""
    pending_bytes_mean: float = 0.0
    alarm_bins: list[tuple[int, int]] = []
    memory_bytes: list[int] = []


class Observer:
    """Sums of what the node's records say; a tracer."""

    def __init__(self) -> None:
        self._rounds: dict[int, list[float]] = {}
        self._pending: list[int] = []
        self._samples: list[NodeSampled] = []

    def __call__(self, record: AnyRecord) -> None:
        if isinstance(record, RoundCompleted):
            self._rounds.setdefault(record.level, []).append(record.seconds)
        elif isinstance(record, AckReceived):
            self._pending.append(record.pending_bytes)
        elif isinstance(record, NodeSampled):
            self._samples.append(record)

    def clear(self) -> None:
        """Forget the warm-up."""
        self._rounds.clear()
        self._pending.clear()
        self._samples.clear()

    def result(self) -> Observed:
        pending = self._pending
        return Observed(
            rounds={k: (len(some), sum(some) / len(some)) for k, some in self._rounds.items()},
            round_bins={level: count_delays(some) for level, some in self._rounds.items()},
            slowest_rounds_s={
                level: sorted(some)[-max(1, len(some) // 10) :]
                for level, some in self._rounds.items()
            },
            pending_bytes_mean=sum(pending) / len(pending) if pending else 0.0,
            alarm_bins=count_delays(sample.alarm_delay_s for sample in self._samples),
            memory_bytes=[sample.memory_bytes for sample in self._samples],
        )


class OrderCheck:
    """An application that counts messages and checks each group's order, a call a message.

    The same for quicksilver and for the benchmark's ceiling: order and completeness
    are measured, not assumed.
    """

    def __init__(self, groups: int) -> None:
        self.expected = [0] * groups
        """For each group, the number of its next message."""
        self.disorders = 0

    @property
    def count(self) -> int:
        return sum(self.expected)

    def handle(self, place: int, sequence: int, payload: bytes) -> None:
        """The application's callback: one call a message."""
        expected = self.expected
        if sequence != expected[place]:
            self.disorders += 1
        expected[place] = sequence + 1

    def handle_run(self, place: int, first: int, payloads: list[bytes]) -> None:
        """Take consecutive messages of one group."""
        handle = self.handle
        for sequence, payload in enumerate(payloads, first):
            handle(place, sequence, payload)

    def handle_mixed(
        self, places: Sequence[int], sequences: Sequence[int], payloads: list[bytes]
    ) -> None:
        """Take messages of several groups."""
        handle = self.handle
        for place, sequence, payload in zip(places, sequences, payloads, strict=True):
            handle(place, sequence, payload)

    def missing(self, sent: Sequence[int]) -> int:
        """Return how many of the messages that were sent did not arrive."""
        return sum(max(0, s - n) for s, n in zip(sent, self.expected, strict=True))


QUIET_S = 0.1
"""Late messages further apart than this belong to different losses."""


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """A distribution of ages, in seconds."""

    mean_s: float
    p50_s: float
    p90_s: float
    p99_s: float
    p999_s: float
    max_s: float


def summarise_ages(ages_s: Sequence[float]) -> Latency | None:
    """Return mean and percentiles; None without any."""
    ordered = sorted(ages_s)
    if not ordered:
        return None

    def at(part: float) -> float:
        return ordered[min(len(ordered) - 1, int(part * len(ordered)))]

    return Latency(
        mean_s=sum(ordered) / len(ordered),
        p50_s=at(0.5),
        p90_s=at(0.9),
        p99_s=at(0.99),
        p999_s=at(0.999),
        max_s=ordered[-1],
    )


def recovery_s(arrivals: Sequence[tuple[float, float]]) -> tuple[float | None, int]:
    """Return how long losses took to repair, and how many there were.

    ``arrivals`` are times of arrival with ages. A message is late when it is a good
    deal older than the median; the oldest of late messages that come together tells
    how long its loss took to be repaired: that one was lost, the others waited
    behind it.
    """
    if not arrivals:
        return None, 0
    ages = sorted(age for _, age in arrivals)
    late = 3 * ages[len(ages) // 2] + 0.002
    worst: list[float] = []
    last = -1e9
    for at, age in sorted(arrivals):
        if age <= late:
            continue
        if at - last > QUIET_S:
            worst.append(age)
        else:
            worst[-1] = max(worst[-1], age)
        last = at
    if not worst:
        return None, 0
    return sum(worst) / len(worst), len(worst)
