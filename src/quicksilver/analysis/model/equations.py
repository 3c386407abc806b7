"""Equations 4.2 to 4.12 of the dissertation (4.3.6), in SI units.

One sender multicasts messages of one size to a group, nothing is lost. Memory at
the sender follows from what waits for acknowledgement, that from the token's
round-trip, and the processor time that memory costs limits the rate.

Two slips of the text are put right: Equation 4.5 defines the round-trip (it says
the interval between tokens), and 4.8 and 4.11 drop terms: what the memory in use
without traffic costs (``σ·m0``, ``α·m0·µ``), and in 4.11 the cost of a message,
``β``. What is here are the exact solutions of 4.2, 4.3, 4.6 and 4.7.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, sqrt

PARTITION_SIZE = 5
"""Nodes of a ring, unless a cluster is set up otherwise (``partition_size``)."""

MEGABYTE = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What the equations are given; the papers' letters are in the comments."""

    base_bytes: float  # m0
    """Memory of the sender that does not depend on traffic."""
    copies: float  # cs
    """Memory in use over bytes that wait for acknowledgement."""
    message_bytes: float  # ds
    latency_s: float  # ΔL
    """From a packet's departure to its arrival."""
    unexplained_s: float  # ΔU
    """What acknowledging takes beyond latency, waiting for a token, and its round-trip."""
    token_interval_s: float  # ΔT
    fixed_hop_s: float  # ΔS1
    """Part of a token's round-trip that does not grow with the number of nodes."""
    hop_s: float  # ΔR1
    """What each further node, or each hop of nested rings, adds to it."""
    idle_load: float = 0.0  # θ0
    load_per_byte: float = 0.0  # σs
    """Part of the processor that a byte in memory takes, without any message."""
    message_s: float  # βs
    """Processor time of a message."""
    message_s_per_byte: float = 0.0  # αs
    """What each byte in memory adds to it."""
    waiting_s: float = 0.0
    """Ours: a saturated sender counts a packet as sent so long before it leaves."""


PAPERS_LIGHT = Parameters(
    base_bytes=20.311e6,
    copies=2.5,
    message_bytes=1000.0,
    latency_s=0.0115,
    unexplained_s=0.122,
    token_interval_s=1.0,
    fixed_hop_s=0.1914,
    hop_s=0.0034,
    load_per_byte=0.003 / MEGABYTE,
    message_s=30e-6,
    message_s_per_byte=3e-6 / MEGABYTE,
)
"""The papers' values for a system that is not saturated."""

PAPERS = replace(PAPERS_LIGHT, message_s=110e-6, message_s_per_byte=0.0)
"""The papers' values for a saturated sender, "the model we settled upon"."""


def ring_hops(nodes: int, ring_size: int = PARTITION_SIZE) -> float:
    """Return the hops that news make up through nested rings.

    Members are cut into rings of at most ``ring_size``, as even as can be, their
    leaders again, up to one ring (``recovery.domains``). A token passes every member
    of a ring; a ring of one needs none.
    """
    hops, count = 0.0, nodes
    while count > 1:
        rings = -(-count // max(2, ring_size))
        size = count / rings
        hops += size if size > 1 else 0.0
        count = rings
    return hops


def round_trip_linear(p: Parameters, nodes: int) -> float:
    """Equation 4.5: the token visits one node after the other."""
    return p.fixed_hop_s + (nodes - 1) * p.hop_s


def round_trip_nested(p: Parameters, nodes: int, ring_size: int = PARTITION_SIZE) -> float:
    """Our own form of 4.5: as many hops as nested rings have, all levels together."""
    return p.fixed_hop_s + ring_hops(nodes, ring_size) * p.hop_s


def acknowledgement_s(p: Parameters, round_trip_s: float) -> float:
    """Equation 4.4: latency, half an interval until the next token, its round-trip."""
    return p.latency_s + p.token_interval_s / 2 + round_trip_s + p.unexplained_s


def pending_messages(p: Parameters, rate: float, ack_s: float) -> float:
    """Equation 4.3: Little's law; what waits to leave is pending, too."""
    return rate * (ack_s + p.waiting_s)


def memory_bytes(p: Parameters, pending: float) -> float:
    """Equation 4.2."""
    return p.base_bytes + pending * p.copies * p.message_bytes


def load(p: Parameters, rate: float, memory: float) -> float:
    """Equations 4.6 and 4.7: part of the sender's processor that a rate takes."""
    message_s = p.message_s_per_byte * memory + p.message_s
    return p.idle_load + message_s * rate + p.load_per_byte * memory


def load_at(p: Parameters, rate: float, ack_s: float) -> float:
    """Equation 4.8, with the terms of ``m0``: load out of the rate alone."""
    return load(p, rate, memory_bytes(p, pending_messages(p, rate, ack_s)))


def saturated_rate(p: Parameters, memory: float) -> float:
    """Equation 4.9: the rate that takes the whole processor, memory being known."""
    message_s = p.message_s_per_byte * memory + p.message_s
    left = 1.0 - p.idle_load - p.load_per_byte * memory
    return max(0.0, left / message_s) if message_s > 0 else inf


def predicted_rate(p: Parameters, ack_s: float) -> float:
    """Equations 4.10 (α = 0) and 4.11: the same, with memory that follows from the rate."""
    growth = p.copies * p.message_bytes * (ack_s + p.waiting_s)
    square = p.message_s_per_byte * growth
    line = p.message_s + p.message_s_per_byte * p.base_bytes + p.load_per_byte * growth
    left = 1.0 - p.idle_load - p.load_per_byte * p.base_bytes
    if left <= 0:
        return 0.0
    if square <= 0:
        return left / line if line > 0 else inf
    return 2 * left / (line + sqrt(line * line + 4 * square * left))


def capped_rate(p: Parameters, ack_s: float, memory_max: float) -> float:
    """Equation 4.12: the rate at which all memory that is allowed is in use."""
    held = p.copies * p.message_bytes * (ack_s + p.waiting_s)
    return max(0.0, memory_max - p.base_bytes) / held if held > 0 else inf
