"""What a protocol does with the rounds of a domain.

An agent sees to it that rounds take place: it releases tokens, passes them on and notices
who does not answer. What a token carries is the business of a ``Rounds`` object, of which
every agent has one. It has three interfaces (dissertation 3.2.11–3.2.13): *below*, the
rounds of the domain that the agent speaks for (None: the node itself); its *peers*, whose
reports are folded into the content of a token as it comes by; and what it shows to the
rounds of the domain above, which are free to ask it for anything.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from quicksilver.recovery.domains import Name

Content = TypeVar("Content")
"""What a token carries, round after round."""


class Pace(enum.Enum):
    """How soon a domain is to have its next round."""

    QUIET = enum.auto()
    """All is agreed on: the next one when there is news."""
    STEADY = enum.auto()
    """Something is not agreed on yet."""
    TROUBLED = enum.auto()
    """Something is wrong, and rounds help to mend it."""


@dataclass(slots=True)
class Token(Generic[Content]):
    """Goes from member to member of a domain and gathers what they report."""

    domain: Name
    round: int
    leader: int
    """Who released it; its way ends there."""
    origin: int
    """Who sent it on last."""
    skipped: tuple[int, ...]
    """Members that the round passes over because they did not answer."""
    content: Content | None
    """None in a roll call: answer the leader instead of passing it on."""
    is_confirmed: bool = False
    """True: whoever gets it tells the member before, which else sends it again."""


class Wake(msgspec.Struct, frozen=True):
    """From a member to its leader: there is news, and no token comes by."""

    domain: Name
    origin: int


class Receipt(msgspec.Struct, frozen=True):
    """From a member to the one before: the token has arrived."""

    domain: Name
    origin: int
    leader: int
    round: int


class RoundEnd(msgspec.Struct, frozen=True):
    """How a round went that is complete."""

    last: int
    """The member visited last; the leader itself if there is no other."""
    skipped: tuple[int, ...]
    """Members that were not asked: what they said in earlier rounds still counts."""
    seconds: float


class Rounds(ABC, Generic[Content]):
    """One protocol in one domain, on one node."""

    below: Rounds[Content] | None = None
    """The rounds of the domain that the node speaks for; None: it speaks for itself."""

    @abstractmethod
    def has_news(self) -> bool:
        """Return whether there is anything to agree on."""

    @abstractmethod
    def open_round(self, now: float) -> Content:
        """Return what a new token carries, from the leader's own report."""

    @abstractmethod
    def visit(self, content: Content, previous: int, now: float) -> Content:
        """Take what a token says, and return it with this member's report folded in.

        ``previous`` is the member visited before: neighbours may compare.
        """

    def handle_deposed(self) -> None:
        """This node stood in for the leader, which is back: forget what leaders know."""

    @abstractmethod
    def close_round(self, content: Content, end: RoundEnd, now: float) -> Pace:
        """Take what all have reported; on the leader only."""
