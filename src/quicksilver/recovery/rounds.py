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
from collections.abc import Hashable, Sequence
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


@dataclass(slots=True)
class Report(Generic[Content]):
    """From a member to whoever asked it: what it and those whom it asked report."""

    domain: Name
    round: int
    leader: int
    origin: int
    absent: tuple[int, ...]
    """Members that it asked and that did not answer."""
    content: Content


@dataclass(slots=True)
class Rumours(Generic[Content]):
    """From any member to any other: a round, and what it knows of who has reported."""

    domain: Name
    round: int
    leader: int
    origin: int
    skipped: tuple[int, ...]
    content: Content
    """What the leader says, without anybody's report."""
    reports: tuple[tuple[int, Content], ...]


class Ask(msgspec.Struct, frozen=True):
    """To all members: who has this?"""

    domain: Name
    origin: int
    item: Hashable


class Gift(msgspec.Struct, frozen=True):
    """To all members: here it is."""

    domain: Name
    origin: int
    item: Hashable
    content: object
    waited_s: float
    """For how long it was kept back, in case somebody else gave it first."""


Said = Report[Content] | Rumours[Content] | Ask | Gift
"""What members say to each other that do not just pass on tokens."""

TO_ALL = -1
"""The address of all other members: one multicast, or a message for each."""


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


class Folding(Rounds[Content]):
    """Rounds whose contents can be gathered apart from each other and be put together.

    A ring can do without that: its token visits one member after the other. Agents of other
    kinds send the leader's word to several members, and fold what they answer.
    """

    @abstractmethod
    def blank(self, content: Content) -> Content:
        """Return what a new round says to members, with no report in it."""

    @abstractmethod
    def merge(self, content: Content, other: Content) -> Content:
        """Return the reports of two sets of members, which have nobody in common."""

    def hear(self, content: Content, origin: int, now: float) -> None:
        """Another member's report has come here as well, though the leader asked for it."""

    # Things that members give each other; agents may see to that (``requests``).

    def wanted(self) -> Sequence[Hashable]:
        """Return what this member lacks and others may have."""
        return ()

    def give(self, item: Hashable, now: float) -> object | None:
        """Return something that another member asks for; None: it is not here."""
        return None

    def take(self, item: Hashable, content: object, origin: int, now: float) -> None:
        """Another member gives something, to whoever lacks it."""
