"""Messages that gateways bring in from other networks: each is delivered once, in order.

One gateway brings a topic's messages into the group, and another one goes on when it crashes
or gives way. The new one cannot know how far every member got: regions are told the end of a
crashed sender's messages each for itself. So it begins where it is sure that everybody has all
before, and members drop what they have had.

A gateway's own messages arrive in order and without gaps, and it begins at a number up to
which every member has everything. So whoever brings, its next message is one that was had, or
the next, unless the member came in the middle. Such a member follows the gateway that it heard
first: what another one brings from further on is left to the one that it follows, for as long
as that one lives.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from quicksilver.wire.envelope import CARRIED_AFTER, CARRIED_SENDER, Envelope, Kind

SENDERS_MAX = 10_000
"""Senders of other networks that are known in one group; past it the oldest is forgotten."""


class CarriedMessages:
    """What one member of a group has had of senders in other networks."""

    def __init__(self) -> None:
        self._had: dict[object, tuple[int, int]] = {}
        """By sender: the number that comes next, and the gateway that brought the one before."""

    def pick(
        self, gateway: int, envelopes: Sequence[Envelope], living: Container[int]
    ) -> Sequence[int]:
        """Return the places of those messages of a gateway that are to be delivered.

        ``living``: the nodes that are counted in. Messages of other kinds are delivered.
        """
        if not envelopes:
            return []
        first = envelopes[0]
        if first.kind is Kind.CARRIED and _is_run(envelopes) and self._take(gateway, first, living):
            # As almost always, and a fifth of the time that it takes to look at each.
            self._had[first.headers.get(CARRIED_SENDER)] = envelopes[-1].number + 1, gateway
            return range(len(envelopes))
        return [
            place
            for place, envelope in enumerate(envelopes)
            if envelope.kind is not Kind.CARRIED or self._take(gateway, envelope, living)
        ]

    def _take(self, gateway: int, envelope: Envelope, living: Container[int]) -> bool:
        headers, number = envelope.headers, envelope.number
        sender = headers.get(CARRIED_SENDER)
        had = self._had
        known = had.get(sender)
        if known is not None:
            low, followed = known
            if number < low:
                return False
            is_jump = number > low and gateway != followed and followed in living
            if is_jump and not _begins_by(headers.get(CARRIED_AFTER), low):
                return False
        elif len(had) >= SENDERS_MAX:
            del had[next(iter(had))]
        had[sender] = number + 1, gateway
        return True


def _is_run(envelopes: Sequence[Envelope]) -> bool:
    """Whether messages came with one envelope for all, and are numbered consecutively."""
    headers, number = envelopes[0].headers, envelopes[0].number
    for envelope in envelopes:
        if envelope.headers is not headers or envelope.number != number:
            return False
        number += 1
    return True


def _begins_by(after: object, low: int) -> bool:
    """Whether a message says that all between a number that was had and itself is lost."""
    is_number = isinstance(after, str) and after.isdecimal() and len(after) < 20
    return is_number and int(str(after)) <= low
