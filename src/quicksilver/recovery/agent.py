"""An agent: how the peers of a domain come to a round.

Domains may differ in that. In a ring a token circulates (``ring``); the leader of a ``star``
asks every member itself; in a ``tree`` members ask others for it; they may ``gossip``, or talk
to all at once and ask all for what they lack (``requests``). Whatever they do, the rounds that
they hold are the same to the protocol, and the domains above and below do not notice.
"""

from __future__ import annotations

from typing import Protocol

from quicksilver.recovery.domains import Domain
from quicksilver.recovery.rounds import Content, Receipt, Rounds, Said, Token, Wake

Message = Token[Content] | Wake | Receipt | Said[Content]
"""What agents of one domain say to each other."""


class Upper(Protocol):
    """What an agent needs to know of those that speak for its domain one level up."""

    def handle_news(self, now: float, *, urgent: bool) -> None: ...

    def expect_token(self, now: float) -> None: ...


class Agent(Protocol[Content]):
    """The part of one node in the rounds of one domain."""

    domain: Domain
    above: Upper | None
    """The agent that speaks for the domain in the one above; has news after every round."""

    @property
    def rounds(self) -> Rounds[Content]: ...

    def handle_news(self, now: float, *, urgent: bool) -> None:
        """There is something to agree on: have a round in due time, or at once."""
        ...

    def expect_token(self, now: float) -> None:
        """This node has news: see to it that a round takes place."""
        ...

    def handle_token(self, token: Token[Content], now: float) -> None: ...

    def handle_wake(self, wake: Wake, now: float) -> None: ...

    def handle_receipt(self, receipt: Receipt, now: float) -> None:
        """A peer has what this node sent it."""
        ...

    def handle_message(self, message: Said[Content], now: float) -> None:
        """A peer says what is neither a token nor about one."""
        ...

    def handle_timeout(self, now: float) -> None: ...

    def next_timeout(self) -> float | None: ...

    def has_messages(self) -> bool: ...

    def passing_count(self) -> int:
        """Return how many tokens of others wait to be passed on; ``PASSING_MAX`` at most."""
        ...

    def poll_message(self, now: float) -> tuple[int, Message[Content]] | None:
        """Return whom to send what, made from the state of this moment; ``TO_ALL``: all others."""
        ...
