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
from itertools import groupby

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

        ``living``: the nodes that are counted in. Messages of other kinds are delivered. Those
        of a run have the same envelope, with the number of the first.
        """
        if not envelopes:
            return []
        first = envelopes[0]
        if first is envelopes[-1]:  # as almost always: one run
            return self._pick_run(gateway, first, 0, len(envelopes), living)
        places: list[int] = []
        start = 0
        for _, run in groupby(envelopes, key=id):
            stop = start + sum(1 for _ in run)
            places += self._pick_run(gateway, envelopes[start], start, stop, living)
            start = stop
        return places

    def _pick_run(
        self, gateway: int, envelope: Envelope, start: int, stop: int, living: Container[int]
    ) -> range:
        if envelope.kind is not Kind.CARRIED:
            return range(start, stop)
        headers, number = envelope.headers, envelope.number
        past = number + stop - start
        sender = headers.get(CARRIED_SENDER)
        had = self._had
        known = had.get(sender)
        if known is not None:
            low, followed = known
            if past <= low:
                return range(0)
            is_jump = number > low and gateway != followed and followed in living
            if is_jump and not _begins_by(headers.get(CARRIED_AFTER), low):
                return range(0)
            start += max(low - number, 0)
        elif len(had) >= SENDERS_MAX:
            del had[next(iter(had))]
        had[sender] = past, gateway
        return range(start, stop)


def _begins_by(after: object, low: int) -> bool:
    """Whether a message says that all between a number that was had and itself is lost."""
    is_number = isinstance(after, str) and after.isdecimal() and len(after) < 20
    return is_number and int(str(after)) <= low
