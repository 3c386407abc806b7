"""Tokens on their way to the next member: repeated until it says that it has them.

A token crosses a ring in as many steps as there are members; where one datagram in five is
lost, hardly any would come back. While something is wrong in a ring its leader asks for
receipts: every member tells the one before that it has the token, which else is sent once
more. Where nothing is lost there are none, and a token costs what it did.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from quicksilver.recovery.rounds import Content, Token
from quicksilver.stdx.patience import Patience

TRIES_MAX = 10
"""A member that does not confirm so many copies of a token is its leader's business."""

HOP_S_INITIAL = 0.01
HOP_S_MIN = 0.003
HOP_S_MAX = 0.05
"""How long a receipt is waited for, before any was measured, and at least and at most."""

UNDER_WAY_MAX = 64
"""Tokens that are not confirmed; the oldest is forgotten past it."""

SEEN_MAX = 256
SEEN_S = 1.0
"""Tokens remembered, and for how long: a copy of one is confirmed and goes no further."""

Name = tuple[int, int]
"""Who released a token, and the number of its round."""


@dataclass(slots=True)
class _Hop(Generic[Content]):
    peer: int
    token: Token[Content]
    sent_at: float
    again_at: float
    tries: int = 1


class Hops(Generic[Content]):
    """The tokens of one ring that one member has sent on, and those that it has seen."""

    __slots__ = ("_hops", "_patience", "_seen")

    def __init__(self) -> None:
        self._hops: dict[Name, _Hop[Content]] = {}
        self._seen: dict[Name, float] = {}
        self._patience = Patience(HOP_S_INITIAL, least_s=HOP_S_MIN, most_s=HOP_S_MAX)

    # Sent on

    def handle_sent(self, peer: int, token: Token[Content], now: float) -> None:
        """A token that is to be confirmed was sent to a member."""
        hops = self._hops
        hops[token.leader, token.round] = _Hop(peer, token, now, now + self._patience.seconds)
        if len(hops) > UNDER_WAY_MAX:
            del hops[next(iter(hops))]

    def handle_receipt(self, leader: int, round_: int, origin: int, now: float) -> None:
        """A member says that it has a token."""
        hop = self._hops.get((leader, round_))
        if hop is not None and hop.peer == origin:
            del self._hops[leader, round_]
            if hop.tries == 1:
                self._patience.note(now - hop.sent_at, now)

    def handle_back(self, leader: int, round_: int) -> None:
        """A token is back where it came from: neither it nor older ones matter on the way."""
        for name in [name for name in self._hops if name[0] == leader and name[1] <= round_]:
            del self._hops[name]

    def forget(self) -> None:
        """Nothing that was sent is to be repeated."""
        self._hops.clear()

    def has_any(self) -> bool:
        """Whether a token is on its way that is to be confirmed."""
        return bool(self._hops)

    def next_timeout(self) -> float | None:
        if not self._hops:
            return None
        return min(hop.again_at for hop in self._hops.values())

    def take_due(self, now: float) -> list[tuple[int, Token[Content]]]:
        """Return the tokens to be sent again, and to whom."""
        due = []
        for name, hop in list(self._hops.items()):
            if hop.again_at > now:
                continue
            if hop.tries >= TRIES_MAX:
                del self._hops[name]
                continue
            hop.tries += 1
            hop.again_at = now + self._patience.seconds
            due.append((hop.peer, hop.token))
        return due

    # Seen

    def is_copy(self, token: Token[Content], now: float) -> bool:
        """Whether a token to be confirmed was here before; it is remembered if not."""
        seen, name = self._seen, (token.leader, token.round)
        at = seen.get(name)
        if at is not None and now - at < SEEN_S:
            return True
        seen.pop(name, None)
        seen[name] = now
        if len(seen) > SEEN_MAX:
            del seen[next(iter(seen))]
        return False
