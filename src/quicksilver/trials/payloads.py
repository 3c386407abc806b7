"""Messages that say what they are, so that a check can judge each by itself."""

from __future__ import annotations

from typing import NamedTuple

from quicksilver.wire.envelope import Envelope


class Mark(NamedTuple):
    """What a trial's message says of itself."""

    group: str
    node: int
    """Which node sent it …"""
    life: int
    """… in which of its lives …"""
    number: int
    """… and how many messages to the group that life had sent before."""


def make_payload(group: str, index: int, life: int, number: int, size: int) -> bytes:
    """Return a message of at least ``size`` bytes that says what it is."""
    head = f"{group}/{index}/{life}/{number}/".encode()
    return (
        head
        + bytes((number + at) & 0xFF for at in range(min(16, size - len(head))))
        + bytes(max(0, size - len(head) - 16))
    )


def parse_payload(payload: bytes) -> Mark | None:
    """Return what a message says of itself, or None where it makes no sense."""
    parts = payload.split(b"/", 4)
    if len(parts) != 5:
        return None
    try:
        return Mark(parts[0].decode(), int(parts[1]), int(parts[2]), int(parts[3]))
    except ValueError:
        return None


def has_envelope(number: int, every: int) -> bool:
    """Whether a trial's message with this number is sent with an envelope."""
    return bool(every) and number % every == 0


def envelope_for(payload: bytes) -> Envelope:
    """Return the envelope that a message is sent with, if it has one."""
    return Envelope(payload[:24], {"size": str(len(payload)), "tail": payload[-4:]})
