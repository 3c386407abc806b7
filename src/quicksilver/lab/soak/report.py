"""What came of a soak, and whether memory, descriptors or threads of its processes grew."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from statistics import median

import msgspec

from quicksilver.lab.child import PARENT_VARIABLE

PAGE_BYTES = resource.getpagesize()


class Vitals(msgspec.Struct, frozen=True, array_like=True):
    """What one process used at one moment."""

    at: float
    """Seconds since the soak began."""
    rss_bytes: int
    descriptors: int
    threads: int


def read_vitals(pid: int, at: float) -> Vitals | None:
    """Return what a process uses now; None if it is gone."""
    folder = Path(f"/proc/{pid}")
    try:
        pages = int((folder / "statm").read_text(encoding="ascii").split()[1])
        descriptors = len(os.listdir(folder / "fd"))
        threads = len(os.listdir(folder / "task"))
    except (OSError, IndexError):
        return None
    if not pages:
        return None  # it has ended, and nobody has taken note of that yet
    return Vitals(at, pages * PAGE_BYTES, descriptors, threads)


def growth_bytes(samples: list[Vitals]) -> float:
    """Return how much memory grew in the second half, by the line of least squares."""
    half = samples[len(samples) // 2 :]
    if len(half) < 3:
        return 0.0
    middle_at = sum(one.at for one in half) / len(half)
    middle = sum(one.rss_bytes for one in half) / len(half)
    spread = sum((one.at - middle_at) ** 2 for one in half)
    if not spread:
        return 0.0
    slope = sum((one.at - middle_at) * (one.rss_bytes - middle) for one in half) / spread
    return slope * (half[-1].at - half[0].at)


LONG_S = 600.0


def growth_allowed(seconds: float) -> int:
    """Return by how many bytes a process may grow in the second half of a soak of some length.

    In one of less than ten minutes its caches and queues are still filling.
    """
    return (4 if seconds >= LONG_S else 32) << 20


def find_children_left(parent: int) -> list[int]:
    """Return processes that a process of the laboratory started and that still run."""
    mark = f"{PARENT_VARIABLE}={parent}".encode()
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == parent:
            continue
        try:
            if mark in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                found.append(int(name))
        except OSError:
            continue  # gone, or another user's
    return found


LAST = 5
"""So many of the last samples say how a process ended."""
DESCRIPTORS_SPARE = 4
"""Reconnecting takes a descriptor for a moment, and some regions need a socket of their own."""


class ProcessReport(msgspec.Struct, frozen=True, kw_only=True):
    """Memory, descriptors and threads of one process, at first and in the end."""

    name: str
    rss_mb_first: float
    rss_mb_last: float
    rss_mb_max: float
    growth_mb: float
    """In the second half of its life, by the line of least squares."""
    descriptors_max: int
    """In the first half."""
    descriptors_last: int
    threads_max: int
    threads_last: int


class SoakReport(msgspec.Struct, frozen=True, kw_only=True):
    """A whole soak: mishaps, messages, processes and violations."""

    seed: int
    seconds: float
    acts: dict[str, int]
    lives: int
    """Processes there were, of the GMS and of all workers."""
    confirmed_messages: int
    """Messages that flushes have vouched for, …"""
    unconfirmed_messages: int
    """… and those of which flushes said that they cannot."""
    delivered_messages: int
    debts: dict[str, int]
    """Runs of messages owed to members, by how that ended."""
    flush_s_max: float
    flush_problems: dict[str, int]
    exclusions: int
    unprovoked_exclusions: int
    """Of workers to which nothing had happened for ten seconds."""
    processes: list[ProcessReport]
    """Those that were there for half of the soak at least."""
    vitals: dict[str, list[Vitals]]
    happened: list[str]
    violations: list[str]


def summarise_process(name: str, samples: list[Vitals]) -> ProcessReport:
    """Return how a process did, out of all its samples."""
    half, last = samples[: max(1, len(samples) // 2)], samples[-LAST:]
    return ProcessReport(
        name=name,
        rss_mb_first=samples[0].rss_bytes / 1e6,
        rss_mb_last=samples[-1].rss_bytes / 1e6,
        rss_mb_max=max(one.rss_bytes for one in samples) / 1e6,
        growth_mb=growth_bytes(samples) / 1e6,
        descriptors_max=max(one.descriptors for one in half),
        descriptors_last=int(median(one.descriptors for one in last)),
        threads_max=max(one.threads for one in half),
        threads_last=int(median(one.threads for one in last)),
    )


def check_vitals(samples: list[Vitals], growth_bytes_max: int) -> list[str]:
    """Return what a process has too much of in the end."""
    found = []
    one = summarise_process("", samples)
    if one.growth_mb * 1e6 > growth_bytes_max:
        found.append(
            f"memory grew by {one.growth_mb:.0f} MB in the second half, "
            f"{growth_bytes_max / 1e6:.0f} are allowed"
        )
    if one.descriptors_last > one.descriptors_max + DESCRIPTORS_SPARE:
        found.append(f"descriptors grew from {one.descriptors_max} to {one.descriptors_last}")
    if one.threads_last > one.threads_max:
        found.append(f"threads grew from {one.threads_max} to {one.threads_last}")
    return found
