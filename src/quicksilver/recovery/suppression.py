"""When to ask all, and when to answer all: timers drawn so that one of many speaks (SRM).

Who lacks something waits for a random time before it asks everybody, and who has it waits for
a random time before it answers; whoever hears another one do the same stays silent. Times are
multiples of the measured delay: short ones would let all speak at once, long ones make all
wait. How wide they are drawn follows from what is heard: wider after things were said twice,
narrower while nothing is (Floyd et al., "A reliable multicast framework", the adaptive timers).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from quicksilver.stdx.rand import Rng

ITEMS_MAX = 256
"""Things that are asked for, or to be answered, at once."""

DELAY_S_INITIAL = 0.005
DELAY_S_MIN = 0.0005
DELAY_S_MAX = 1.0
"""The time from one member to another, before it was measured, and at least and at most."""

WIDTH_INITIAL = 2.0
WIDTH_MIN = 1.0
WIDTH_MAX = 32.0
"""Timers are drawn from one to one and so many delays."""

WIDER = 1.5
NARROWER = 0.95

BACKOFF_MAX = 6
"""Doublings of the time until the same thing is asked for again."""

HELD_DELAYS = 3
"""For so many delays after an answer, others who ask for the same thing are not answered."""


class Delays:
    """How far away other members are, by what was measured; of others, the mean is taken."""

    def __init__(self) -> None:
        self._peers: dict[int, float] = {}
        self._mean_s = DELAY_S_INITIAL

    def note(self, peer: int, seconds: float) -> None:
        seconds = min(DELAY_S_MAX, max(DELAY_S_MIN, seconds))
        known = self._peers.get(peer, seconds)
        self._peers[peer] = known + (seconds - known) / 4
        self._mean_s += (seconds - self._mean_s) / 8

    def of(self, peer: int | None) -> float:
        if peer is None:
            return self._mean_s
        return self._peers.get(peer, self._mean_s)


class Width:
    """How wide timers are drawn."""

    def __init__(self) -> None:
        self.delays = WIDTH_INITIAL

    def handle_twice(self) -> None:
        """Two members said the same."""
        self.delays = min(WIDTH_MAX, self.delays * WIDER)

    def handle_once(self) -> None:
        self.delays = max(WIDTH_MIN, self.delays * NARROWER)


@dataclass(slots=True)
class _Wish:
    at: float
    """When to ask …"""
    tries: int = 0
    asked_at: float | None = None
    """… and when this member did last."""


@dataclass(slots=True)
class _Answer:
    at: float
    asked_at: float


class Requests:
    """What one member lacks and what it is asked for, and when to speak of it."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self.delays = Delays()
        self._ask_width = Width()
        self._answer_width = Width()
        self._wishes: dict[Hashable, _Wish] = {}
        self._answers: dict[Hashable, _Answer] = {}
        self._held: dict[Hashable, float] = {}
        """Things that were given a moment ago: until when nobody is answered."""

    # What this member lacks

    def handle_wanted(self, items: Iterable[Hashable], now: float) -> None:
        """These things are lacking; others that were are not any more."""
        wanted = list(dict.fromkeys(items))[:ITEMS_MAX]
        for item in set(self._wishes) - set(wanted):
            del self._wishes[item]
        for item in wanted:
            if item not in self._wishes:
                self._wishes[item] = _Wish(now + self._draw(self._ask_width, None))

    def handle_ask(self, item: Hashable, origin: int, now: float, *, can_give: bool) -> None:
        """Another member asks all for something."""
        wish = self._wishes.get(item)
        if wish is not None:
            if wish.asked_at is not None and now - wish.asked_at < 2 * self.delays.of(origin):
                self._ask_width.handle_twice()
            self._back_off(wish, now)
            return
        is_new = item not in self._answers and now >= self._held.get(item, now)
        if can_give and is_new and len(self._answers) < ITEMS_MAX:
            at = now + self._draw(self._answer_width, origin)
            self._answers[item] = _Answer(at, now)

    def handle_gift(self, item: Hashable, origin: int, waited_s: float, now: float) -> None:
        """Another member gives something to all."""
        if self._answers.pop(item, None) is not None:
            self._answer_width.handle_once()
        elif now < self._held.get(item, 0.0):
            self._answer_width.handle_twice()
        self._hold(item, now)
        wish = self._wishes.pop(item, None)
        if wish is not None and wish.asked_at is not None:
            self._ask_width.handle_once()
            if wish.tries == 1:
                self.delays.note(origin, (now - wish.asked_at - waited_s) / 2)

    def take_asks(self, now: float) -> list[Hashable]:
        """Return what to ask all for now."""
        due = [item for item, wish in self._wishes.items() if now >= wish.at]
        for item in due:
            wish = self._wishes[item]
            wish.asked_at = now
            self._back_off(wish, now)
        return due

    def take_answers(self, now: float) -> list[tuple[Hashable, float]]:
        """Return what to give to all now, and for how long it was kept back."""
        due = [(item, a) for item, a in self._answers.items() if now >= a.at]
        for item, _ in due:
            del self._answers[item]
            self._hold(item, now)
        return [(item, now - answer.asked_at) for item, answer in due]

    def next_timeout(self) -> float | None:
        times = [wish.at for wish in self._wishes.values()]
        times += [answer.at for answer in self._answers.values()]
        return min(times, default=None)

    def _hold(self, item: Hashable, now: float) -> None:
        self._held.pop(item, None)
        self._held[item] = now + HELD_DELAYS * self.delays.of(None)
        if len(self._held) > ITEMS_MAX:
            del self._held[next(iter(self._held))]

    def _back_off(self, wish: _Wish, now: float) -> None:
        """Give others time to answer before this is asked again."""
        wish.tries += 1
        factor = 1 << min(wish.tries, BACKOFF_MAX)
        # An answer waits itself, and comes from as far as the question went.
        pause = 2 * self.delays.of(None) + self._draw(self._answer_width, None)
        wish.at = now + factor * (pause + self._draw(self._ask_width, None))

    def _draw(self, width: Width, peer: int | None) -> float:
        return self.delays.of(peer) * (1.0 + width.delays * self._rng.uniform())
