"""What a network with a GMS has, as its gateways tell the agents of recovery domains.

Inside of the network the rings of its regions recover messages. To the domains of its scope a
gateway speaks for all of its nodes: of messages that came in, it says that it has those which
every member of the topic's group has acknowledged. So when something is stable, every node
that stayed in the group has it, in this network as well.

A gateway that is new to a stream first says how far it is itself, until it is counted in:
members of its group were promised nothing of what came before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from quicksilver.scopes.dissemination.holdings import Holdings, Name, Stream
from quicksilver.scopes.dissemination.packets import Packet, Sender
from quicksilver.scopes.reliability.lower import LowerStream
from quicksilver.stdx.ranges import RangeSet

Confirmed = Callable[[str, Sender], int | None]
"""Below which number the whole network has a stream; None: as far as the gateway itself."""


class _Limited:
    """A stream of which the network has less than the gateway."""

    def __init__(self, stream: Stream, low: int) -> None:
        self.low = low
        self._stream = stream
        self.stable = stream.stable

    @property
    def high(self) -> int:
        return self._stream.high

    @property
    def kept(self) -> int:
        return self._stream.kept

    @property
    def is_begun(self) -> bool:
        return self._stream.is_begun

    def missing(self, high: int) -> RangeSet:
        return self._stream.missing(high)


class NetworkState:
    """The holdings of a gateway, with what its network has as the low marks."""

    def __init__(
        self, holdings: Holdings, confirmed: Confirmed, is_counted: Callable[[Name], bool]
    ) -> None:
        """``is_counted``: whether the gateway was counted in for a stream by its domain."""
        self._holdings = holdings
        self._confirmed = confirmed
        self._is_counted = is_counted

    def find(self, topic: str, sender: Sender) -> LowerStream | None:
        stream = self._holdings.find(topic, sender)
        return None if stream is None else self._limit(Name(topic, sender), stream)

    def of_topic(self, topic: str) -> Mapping[Sender, LowerStream]:
        found = self._holdings.of_topic(topic)
        return {sender: self._limit(Name(topic, sender), each) for sender, each in found.items()}

    def begin(self, topic: str, sender: Sender, first: int) -> object:
        return self._holdings.begin(topic, sender, first)

    def fetched(self, topic: str, sender: Sender) -> RangeSet:
        return self._holdings.fetched(topic, sender)

    def never_here(self, topic: str, sender: Sender, ranges: RangeSet) -> RangeSet:
        return self._holdings.never_here(topic, sender, ranges)

    def copies(self, topic: str, sender: Sender, ranges: RangeSet, bytes_max: int) -> list[Packet]:
        return self._holdings.copies(topic, sender, ranges, bytes_max)

    def handle_stable(self, topic: str, sender: Sender, mark: int) -> None:
        self._holdings.handle_stable(topic, sender, mark)

    def handle_away(self, topic: str, sender: Sender, mark: int) -> None:
        self._holdings.handle_away(topic, sender, mark)

    def _limit(self, name: Name, stream: Stream) -> LowerStream:
        confirmed = self._confirmed(*name)
        if confirmed is None or confirmed >= stream.low or not self._is_counted(name):
            return stream
        return _Limited(stream, confirmed)
