"""Nodes of a network that flush ask its gateways whether other networks have their messages.

A gateway answers once that is so, however long another network takes: how long to wait is for
whoever flushes to say. It refuses only what it can never answer: it was not there when the
messages were sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from quicksilver.scopes.dissemination.packets import Sender

QUESTIONS_MAX = 1_000
"""Questions that wait at one gateway; past it the oldest is refused."""

HEARD_S = 5.0
"""How long messages may be on their way to a gateway that other members of the group have."""

Ticket = TypeVar("Ticket")

IsEverywhere = Callable[[str, Sender, int], bool | None]
"""Whether all networks have a sender's messages to a topic below a number; None: they have not
all come to this gateway."""


class Answer(NamedTuple, Generic[Ticket]):
    """What came of a question."""

    ticket: Ticket
    problem: str
    """Why it cannot be answered; empty: all is everywhere."""


class _Asked(NamedTuple, Generic[Ticket]):
    ticket: Ticket
    sender: Sender
    marks: dict[str, int]
    """By topic; those that are settled are taken out."""
    heard_until: float


class Questions(Generic[Ticket]):
    """The questions that wait at one gateway.

    The caller's duty: while ``is_asked``, soon after every input and once a second, call
    ``poll_answer`` until it returns None.
    """

    def __init__(self, is_everywhere: IsEverywhere) -> None:
        self._is_everywhere = is_everywhere
        self._asked: deque[_Asked[Ticket]] = deque()
        self._refused: deque[Ticket] = deque()

    @property
    def is_asked(self) -> bool:
        return bool(self._asked)

    def handle_asked(
        self, ticket: Ticket, sender: Sender, marks: dict[str, int], now: float
    ) -> None:
        """A node asks for its own messages; all members of their groups in this network have
        them."""
        if len(self._asked) >= QUESTIONS_MAX:
            self._refused.append(self._asked.popleft().ticket)
        self._asked.append(_Asked(ticket, sender, dict(marks), now + HEARD_S))

    def poll_answer(self, now: float) -> Answer[Ticket] | None:
        if self._refused:
            return Answer(self._refused.popleft(), "too many nodes ask")
        for place, asked in enumerate(self._asked):
            is_heard = True
            for topic, number in list(asked.marks.items()):
                found = self._is_everywhere(topic, asked.sender, number)
                if found:
                    del asked.marks[topic]
                is_heard = is_heard and found is not None
            if not asked.marks or (not is_heard and now >= asked.heard_until):
                del self._asked[place]
                problem = "this gateway has not heard all of it" if asked.marks else ""
                return Answer(asked.ticket, problem)
        return None
