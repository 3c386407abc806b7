"""Faults on purpose: loss, bursts, duplicates, reordering, delay, freezes.

A ``FaultPlan`` says what should go wrong, a ``FaultInjector`` makes it go wrong,
the same way for the same seed and the same arrivals. It opens no socket and
reads no clock, so it is tested without either; ``DatagramSockets`` applies it to
real traffic. Without a plan there is no injector and nothing is paid.

Loss in bursts follows Gilbert: a link is good or bad, loses everything while
bad, and changes state with fixed chances per packet. Real losses come like this
(a full buffer, a descheduled receiver), and bursts are what cooperative caching
is for (dissertation 4.2.1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Generic, Literal, TypeVar

from quicksilver.net.batch_calls import Received
from quicksilver.stdx.errors import QuicksilverError
from quicksilver.stdx.rand import Rng
from quicksilver.stdx.units import parse_seconds

T = TypeVar("T")

Direction = Literal["receive", "send", "both"]
Kinds = Literal["data", "all"]


class FaultError(QuicksilverError, ValueError):
    """A fault description that cannot be used: where, why, and what would do."""

    def __init__(self, part: str, problem: str) -> None:
        super().__init__(part, problem)
        self.part = part
        self.problem = problem

    def __str__(self) -> str:
        return (
            f"fault {self.part!r}: {self.problem}; "
            "write for example loss=1%,burst=10,dup=0.1%,reorder=1%,delay=5ms,sleep=0.5s/5s,seed=7"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPlan:
    """What should go wrong at one node."""

    drop_rate: float = 0.0
    """Fraction of datagrams lost, each independently."""

    burst_rate: float = 0.0
    """Fraction of datagrams lost in bursts, over the long run."""

    burst_length: float = 1.0
    """Mean number of datagrams in a row that one burst takes."""

    duplicate_rate: float = 0.0
    """Fraction of datagrams that arrive twice."""

    reorder_rate: float = 0.0
    """Fraction of datagrams that later ones overtake."""

    reorder_span: int = 3
    """How many later datagrams, at most, overtake a reordered one."""

    reorder_hold_s: float = 0.01
    """Longest time that a reordered datagram waits for others to overtake it."""

    delay_s: float = 0.0
    """Time that every datagram is held back."""

    jitter_s: float = 0.0
    """Further delay, uniform up to this; can change the order of datagrams."""

    freeze_s: float = 0.0
    """The node stops for so long, every ``freeze_period_s``."""

    freeze_period_s: float = 0.0
    """Time from the start of one freeze to the next; the first comes after one period."""

    direction: Direction = "receive"
    """Whether arriving datagrams suffer, departing ones, or both."""

    kinds: Kinds = "all"
    """``data``: tokens, control and repairs are spared."""

    seed: int = 1
    """Start of the random sequence; the same seed does the same damage."""

    def __post_init__(self) -> None:
        for name in ("drop_rate", "burst_rate", "duplicate_rate", "reorder_rate"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise FaultError(name, "a fraction lies between 0 and 1")
        if self.burst_rate == 1.0:
            raise FaultError("burst_rate", "a burst that never ends is drop_rate=1")
        if self.burst_length < 1.0:
            raise FaultError("burst_length", "a burst takes at least one datagram")
        if self.reorder_span < 1:
            raise FaultError("reorder_span", "at least one datagram overtakes")
        for name in ("reorder_hold_s", "delay_s", "jitter_s", "freeze_s", "freeze_period_s"):
            if getattr(self, name) < 0.0:
                raise FaultError(name, "a time is not negative")
        if self.freeze_s and self.freeze_period_s <= self.freeze_s:
            raise FaultError("freeze_s", "a freeze is shorter than its period")

    @property
    def touches_datagrams(self) -> bool:
        """True if any datagram can be harmed; a plan may also only freeze the node."""
        return bool(
            self.drop_rate
            or self.burst_rate
            or self.duplicate_rate
            or self.reorder_rate
            or self.delay_s
            or self.jitter_s
        )

    def applies_to(self, direction: Literal["receive", "send"]) -> bool:
        """True if datagrams that go this way can be harmed."""
        return self.touches_datagrams and self.direction in {direction, "both"}


def parse_faults(text: str) -> FaultPlan:
    """Return the plan that ``text`` describes; raises ``FaultError``.

    Comma-separated parts: ``loss=1%`` (with ``burst=10``: the loss comes in
    bursts of ten), ``drop=1%`` (independent, besides bursts), ``dup=0.1%``,
    ``reorder=1%`` or ``reorder=1%/5`` (span), ``delay=5ms`` or
    ``delay=5ms/1ms`` (jitter), ``sleep=0.5s/5s`` (half a second every five),
    ``direction=receive|send|both``, ``kinds=data|all``, ``seed=7``.
    """
    values: dict[str, object] = {}
    seen: dict[str, str] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not value:
            raise FaultError(part, "a fault is written name=value")
        if key in seen:
            raise FaultError(part, f"{key} is given twice")
        seen[key] = value
        try:
            values.update(_parse_part(key, value))
        except FaultError:
            raise
        except ValueError as error:
            raise FaultError(part, str(error)) from error
    if "burst" in seen:
        if "loss" not in seen:
            raise FaultError(f"burst={seen['burst']}", "a burst needs loss=, the fraction lost")
        values["burst_rate"] = _parse_fraction(seen["loss"])
        if "drop" not in seen:
            del values["drop_rate"]
        else:
            values["drop_rate"] = _parse_fraction(seen["drop"])
    elif "loss" in seen and "drop" in seen:
        raise FaultError(f"drop={seen['drop']}", "without burst=, loss= and drop= are the same")
    return FaultPlan(**values)  # type: ignore[arg-type]  # the keys decide the types


def _parse_part(key: str, value: str) -> dict[str, object]:
    first, slash, second = value.partition("/")
    if slash and key not in {"reorder", "delay", "sleep"}:
        raise FaultError(f"{key}={value}", "only reorder, delay and sleep take a second value")
    match key:
        case "loss" | "drop":
            return {"drop_rate": _parse_fraction(value)}
        case "burst":
            return {"burst_length": float(value)}
        case "dup":
            return {"duplicate_rate": _parse_fraction(value)}
        case "reorder":
            found: dict[str, object] = {"reorder_rate": _parse_fraction(first)}
            return found | ({"reorder_span": int(second)} if slash else {})
        case "delay":
            held: dict[str, object] = {"delay_s": parse_seconds(first)}
            return held | ({"jitter_s": parse_seconds(second)} if slash else {})
        case "sleep":
            if not slash:
                raise FaultError(f"sleep={value}", "how often? write sleep=0.5s/5s")
            return {"freeze_s": parse_seconds(first), "freeze_period_s": parse_seconds(second)}
        case "direction":
            if value not in {"receive", "send", "both"}:
                raise FaultError(f"direction={value}", "use receive, send or both")
            return {"direction": value}
        case "kinds":
            if value not in {"data", "all"}:
                raise FaultError(f"kinds={value}", "use data or all")
            return {"kinds": value}
        case "seed":
            return {"seed": int(value)}
        case _:
            raise FaultError(
                f"{key}={value}",
                "unknown; known are loss, burst, drop, dup, reorder, delay, sleep, direction, "
                "kinds and seed",
            )


def _parse_fraction(text: str) -> float:
    number = float(text.removesuffix("%"))
    return number / 100.0 if text.endswith("%") else number


def split_segments(items: list[Received]) -> list[Received]:
    """Return the same datagrams with coalesced buffers cut into their segments."""
    found: list[Received] = []
    for data, segment_bytes, source in items:
        if segment_bytes:
            found.extend(
                (data[start : start + segment_bytes], 0, source)
                for start in range(0, len(data), segment_bytes)
            )
        else:
            found.append((data, 0, source))
    return found


class FaultInjector(Generic[T]):
    """Harms a stream of datagrams as a plan says; any item is one datagram.

    ``label`` separates streams of one plan, so that traffic on one does not
    change the damage on another. ``is_spared`` exempts items from every fault.
    """

    def __init__(
        self, plan: FaultPlan, label: str = "", is_spared: Callable[[T], bool] | None = None
    ) -> None:
        self._plan = plan
        self._rng = Rng(plan.seed).derive(label)
        self._is_spared = is_spared
        self._is_bad = False
        # Gilbert: leaving the bad state with 1/L makes bursts L long on average;
        # entering it with this chance makes the bad share of packets burst_rate.
        self._leave_bad = 1.0 / plan.burst_length
        self._enter_bad = plan.burst_rate * self._leave_bad / (1.0 - plan.burst_rate)
        self._held: list[tuple[float, int, T]] = []
        """A heap of delayed items by due time, then by number of arrival."""
        self._overtaken: list[tuple[int, float, T]] = []
        """Reordered items: how many may still pass, when patience ends, the item."""
        self._arrivals = 0
        self.dropped = 0
        self.duplicated = 0
        self.reordered = 0

    def filter(self, items: list[T], now: float) -> list[T]:
        """Return what is delivered now: what is left of ``items``, and what was held.

        ``now`` never goes back. Call it with no items when ``next_release`` is due.
        """
        through: list[T] = []
        held = self._held
        while held and held[0][0] <= now:
            through.append(heappop(held)[2])
        if self._overtaken:
            waiting = self._overtaken
            self._overtaken = [entry for entry in waiting if entry[1] > now]
            through.extend(entry[2] for entry in waiting if entry[1] <= now)
        for item in items:
            if self._is_spared is not None and self._is_spared(item):
                through.append(item)
            else:
                self._harm(item, now, through)
        return through

    def next_release(self) -> float | None:
        """Return when a held item becomes due; ``None`` when none is held."""
        times = [entry[1] for entry in self._overtaken]
        if self._held:
            times.append(self._held[0][0])
        return min(times) if times else None

    def _harm(self, item: T, now: float, through: list[T]) -> None:
        plan, rng = self._plan, self._rng
        if self._is_lost():
            self.dropped += 1
            return
        copies = 1
        if plan.duplicate_rate and rng.chance(plan.duplicate_rate):
            copies = 2
            self.duplicated += 1
        for _ in range(copies):
            self._arrivals += 1
            is_late = bool(plan.reorder_rate) and rng.chance(plan.reorder_rate)
            self.reordered += is_late
            if plan.delay_s or plan.jitter_s:
                # Everything waits anyway; a reordered item waits longer.
                due = now + plan.delay_s + (plan.jitter_s and rng.uniform() * plan.jitter_s)
                due += plan.reorder_hold_s if is_late else 0.0
                heappush(self._held, (due, self._arrivals, item))
            elif is_late:
                span = 1 + rng.below(plan.reorder_span)
                self._overtaken.append((span, now + plan.reorder_hold_s, item))
            else:
                through.append(item)
                if self._overtaken:
                    self._let_pass(through)

    def _is_lost(self) -> bool:
        plan, rng = self._plan, self._rng
        if plan.burst_rate:
            # Decide on the state of this packet first, so that a burst has at
            # least one, and its length is geometric with the planned mean.
            if self._is_bad:
                self._is_bad = not rng.chance(self._leave_bad)
            else:
                self._is_bad = rng.chance(self._enter_bad)
            if self._is_bad:
                return True
        return bool(plan.drop_rate) and rng.chance(plan.drop_rate)

    def _let_pass(self, through: list[T]) -> None:
        """One item has passed: release those that no more items may overtake."""
        waiting = self._overtaken
        self._overtaken = []
        for span, patience, item in waiting:
            if span <= 1:
                through.append(item)
            else:
                self._overtaken.append((span - 1, patience, item))


class FreezeSchedule:
    """When the node stands still, as if the system had stopped its process."""

    def __init__(self, plan: FaultPlan, now: float) -> None:
        self._freeze_s = plan.freeze_s
        self._period_s = plan.freeze_period_s
        self._start = now

    def freeze_until(self, now: float) -> float | None:
        """Return when the freeze that covers ``now`` ends; ``None`` outside of one."""
        if not self._freeze_s:
            return None
        periods, into = divmod(now - self._start, self._period_s)
        if periods >= 1 and into < self._freeze_s:
            return now + self._freeze_s - into
        return None
