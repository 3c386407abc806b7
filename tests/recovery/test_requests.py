"""Questions and answers to all: each is said about once, however many could say it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

import pytest

from quicksilver.recovery.domains import Domain
from quicksilver.recovery.requests import RequestsAgent
from quicksilver.recovery.rounds import TO_ALL, Ask, Folding, Gift, Pace, RoundEnd, Token
from quicksilver.recovery.suppression import (
    DELAY_S_INITIAL,
    ITEMS_MAX,
    WIDTH_MAX,
    WIDTH_MIN,
    Requests,
    Width,
)
from quicksilver.stdx.rand import Rng
from tests.recovery.minimum import TIMING

Books = frozenset[int]


class Shelf(Folding[Books]):
    """Each member has some books, and wants all that it hears of."""

    def __init__(self) -> None:
        self.has: set[int] = set()
        self.heard: set[int] = set()

    def has_news(self) -> bool:
        return True

    def open_round(self, now: float) -> Books:
        return frozenset(self.has)

    def visit(self, content: Books, previous: int, now: float) -> Books:
        self.heard |= content
        return content | self.has

    def hear(self, content: Books, origin: int, now: float) -> None:
        self.heard |= content

    def blank(self, content: Books) -> Books:
        return frozenset()

    def merge(self, content: Books, other: Books) -> Books:
        return content | other

    def close_round(self, content: Books, end: RoundEnd, now: float) -> Pace:
        self.heard |= content
        return Pace.STEADY

    def wanted(self) -> list[Hashable]:
        return sorted(self.heard - self.has)  # type: ignore[return-value]  # numbers are hashable

    def give(self, item: Hashable, now: float) -> object | None:
        return f"book {item}" if item in self.has else None

    def take(self, item: Hashable, content: object, origin: int, now: float) -> None:
        assert content == f"book {item}"
        assert isinstance(item, int)
        self.has.add(item)


class Counts:
    tokens_released = 0
    roll_calls = 0


class Library:
    """Members that reach all others at once, each at its own distance."""

    def __init__(self, members: int, *, loss: float = 0.0, delay_s: float = 0.001) -> None:
        nodes = tuple(range(1, members + 1))
        self.shelves = {node: Shelf() for node in nodes}
        self.agents = {
            node: RequestsAgent(
                node=node,
                domain=Domain((0, 0), nodes),
                rounds=self.shelves[node],
                timing=TIMING,
                counters=Counts(),
                seed=3,
            )
            for node in nodes
        }
        self.rng = Rng(11)
        self.loss = loss
        self.delay_s = delay_s
        self.now = 0.0
        self.said: Counter[type] = Counter()
        self.flight: list[tuple[float, int, object]] = []
        self.agents[1].handle_news(0.0, urgent=True)

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while True:
            times = [at for at, _, _ in self.flight]
            times += [t for a in self.agents.values() if (t := a.next_timeout()) is not None]
            if not times or min(times) > end:
                break
            self.now = max(self.now, min(times))
            due = [each for each in self.flight if each[0] <= self.now]
            self.flight = [each for each in self.flight if each[0] > self.now]
            for _, to, message in due:
                if isinstance(message, Token):
                    self.agents[to].handle_token(message, self.now)
                else:
                    self.agents[to].handle_message(message, self.now)  # type: ignore[arg-type]
            for node, agent in self.agents.items():
                agent.handle_timeout(self.now)
                while (out := agent.poll_message(self.now)) is not None:
                    self.said[type(out[1])] += 1
                    peers = self.agents if out[0] == TO_ALL else [out[0]]
                    for peer in peers:
                        if peer != node and self.rng.uniform() >= self.loss:
                            at = self.now + self.delay_s * (0.5 + self.rng.uniform())
                            self.flight.append((at, peer, out[1]))
        self.now = end

    def is_complete(self) -> bool:
        everything = set().union(*(shelf.has for shelf in self.shelves.values()))
        return all(shelf.has == everything for shelf in self.shelves.values())


@pytest.mark.slow
def test_one_of_many_asks_and_one_of_many_answers() -> None:
    """All but a few lack the same thing: about one question and one answer, not twenty."""
    asks, gifts = 0, 0
    for book in range(4):
        library = Library(20)
        library.run(0.5)
        library.agents[1].requests.delays.note(2, 0.001)
        library.said.clear()
        for node in (3, 8, 15):
            library.shelves[node].has.add(book)
        library.run(1.0)
        assert library.is_complete()
        asks += library.said[Ask]
        gifts += library.said[Gift]
    assert 4 <= asks <= 16
    assert 4 <= gifts <= 8


@pytest.mark.slow
@pytest.mark.parametrize("loss", [0.05, 0.3])
def test_everybody_gets_everything_in_spite_of_loss(loss: float) -> None:
    library = Library(12, loss=loss)
    for node, shelf in library.shelves.items():
        shelf.has |= set(range(10 * node, 10 * node + 5))
    library.run(10.0)
    assert library.is_complete()


def test_nobody_talks_about_books_while_all_have_them() -> None:
    library = Library(6)
    for shelf in library.shelves.values():
        shelf.has.add(1)
    library.run(2.0)
    assert library.said[Ask] == library.said[Gift] == 0


def test_what_nobody_has_any_more_is_asked_for_ever_more_rarely() -> None:
    """Twice as long after each question, up to a limit."""
    library = Library(4)
    library.run(0.2)
    library.shelves[2].heard.add(99)
    library.said.clear()
    library.run(20.0)
    assert 5 <= library.said[Ask] <= 80


def test_the_delay_is_measured() -> None:
    library = Library(2, delay_s=0.02)
    for book in range(20):
        library.shelves[1].has.add(book)
        library.run(0.5)
    assert library.is_complete()
    measured = library.agents[2].requests.delays.of(1)
    assert measured > 2 * DELAY_S_INITIAL
    assert 0.008 <= measured <= 0.035


def test_timers_are_drawn_wider_after_duplicates_and_narrower_without() -> None:
    width = Width()
    for _ in range(100):
        width.handle_twice()
    assert width.delays == WIDTH_MAX
    for _ in range(1000):
        width.handle_once()
    assert width.delays == WIDTH_MIN


def test_no_more_is_remembered_than_there_is_room_for() -> None:
    requests = Requests(Rng(1))
    requests.handle_wanted(range(10 * ITEMS_MAX), 0.0)
    for item in range(10 * ITEMS_MAX):
        requests.handle_ask(("x", item), 2, 0.0, can_give=True)
        requests.handle_gift(("y", item), 2, 0.0, 0.0)
    assert len(requests._wishes) <= ITEMS_MAX
    assert len(requests._answers) <= ITEMS_MAX
    assert len(requests._held) <= ITEMS_MAX
