"""Memory, descriptors and threads of processes over time, and whether they grow."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import msgspec

from quicksilver.lab.child import PARENT_VARIABLE

PAGE_BYTES = resource.getpagesize()


class Vitals(msgspec.Struct, frozen=True, array_like=True):
    """One process at one moment."""

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
