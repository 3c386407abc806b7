"""What a sender does about members that do not keep up: silent ones, and slow ones.

A member is *silent* when it does not answer for several rounds of tokens, and *slow* when
senders wait for it and for nobody else. The choice is made for each group by whoever sends.
Groups share streams: what the strictest of them asks for holds for all that share one with it.
"""

from __future__ import annotations

from dataclasses import dataclass

from quicksilver.stdx.units import parse_bytes


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait for every member. A silent member, which does not answer, holds senders up until the GMS
    excludes it."""

    def __str__(self) -> str:
        return "wait"


@dataclass(frozen=True, slots=True)
class Keep:
    """Go on without silent members, which do not answer, and keep messages for their return."""

    bytes: int | None = None
    """How many bytes to keep for them in each region; None: the node's ``engine.keep_bytes_max``. A
    member that comes back and needs more begins again as a new node."""

    slow: bool = False
    """True: also go on without slow members, which answer but hold senders up. False: slow down for
    them."""

    def __post_init__(self) -> None:
        if self.bytes is not None and self.bytes < 0:
            raise ValueError(f"Keep.bytes is {self.bytes}: it must not be negative")

    def __str__(self) -> str:
        size = "" if self.bytes is None else f":{self.bytes}"
        return f"keep{size}{'+slow' if self.slow else ''}"


@dataclass(frozen=True, slots=True)
class Drop:
    """Go on without silent and slow members, and keep nothing for them."""

    def __str__(self) -> str:
        return "drop"


Behind = Wait | Keep | Drop

KEEP = Keep()

FORMS = "wait, keep, keep:BYTES (16MB, 2GiB), keep+slow, keep:BYTES+slow or drop"


def parse_behind(text: str) -> Behind:
    """Return the choice that a text names; raises ValueError with those there are."""
    rest, plus, slow = text.strip().lower().partition("+")
    name, colon, size = rest.partition(":")
    if not plus and not colon and name in ("wait", "drop"):
        return Wait() if name == "wait" else Drop()
    if name == "keep" and (slow == "slow" or not plus) and (size or not colon):
        return Keep(parse_bytes(size) if colon else None, slow=bool(plus))
    raise ValueError(f"{text!r} is no choice for members that are behind: {FORMS}")


@dataclass(frozen=True, slots=True)
class Patience:
    """What a stream does, for all the groups in it."""

    waits_for_silent: bool
    waits_for_slow: bool
    keep_bytes_max: int | None
    """None: no limit but those of the node."""

    @classmethod
    def of(cls, behind: Behind) -> Patience:
        match behind:
            case Wait():
                return cls(waits_for_silent=True, waits_for_slow=True, keep_bytes_max=None)
            case Keep():
                return cls(
                    waits_for_silent=False,
                    waits_for_slow=not behind.slow,
                    keep_bytes_max=behind.bytes,
                )
            case Drop():
                return cls(waits_for_silent=False, waits_for_slow=False, keep_bytes_max=0)

    def joined(self, other: Patience) -> Patience:
        """Return what both ask for at least."""
        limits = (self.keep_bytes_max, other.keep_bytes_max)
        known = [limit for limit in limits if limit is not None]
        return Patience(
            waits_for_silent=self.waits_for_silent or other.waits_for_silent,
            waits_for_slow=self.waits_for_slow or other.waits_for_slow,
            keep_bytes_max=max(known) if len(known) == 2 else None,
        )


LEAST = Patience.of(Drop())
"""The least that anybody asks for."""
