"""Messages as datagrams: to one node, or to all members of a scope at once.

A mechanism of a scope, such as IP multicast, takes the place of its channels: the member at
which a message originated gives it to the mechanism, once, and all others get it from there.
What is lost, or is too long for a datagram, is for recovery.
"""

from __future__ import annotations

from collections import Counter, deque

from quicksilver.scopes.dissemination.channels import External, Link
from quicksilver.scopes.dissemination.frames import (
    DATAGRAM_BYTES_MAX,
    AgentSays,
    Cast,
    Datagram,
    LossyCarry,
    encode,
    with_packet,
)
from quicksilver.scopes.dissemination.packets import CUT_BYTES, Packet
from quicksilver.scopes.management.events import MechanismOpened
from quicksilver.scopes.routing import cast

WAITING_BYTES_MAX = 16 << 20
"""Datagrams that wait to be sent; past it what is to be sent is dropped. A window of what a node
publishes fits in with room to spare (``forwarder.WINDOW_BYTES``)."""

MECHANISM = "multicast"
"""The kind of mechanism that takes datagrams: its name is an address and a port."""


class Datagrams:
    """Datagrams that wait to be sent."""

    def __init__(self, counters: Counter[str]) -> None:
        self._counters = counters
        self._waiting: deque[tuple[Link | External, bytes]] = deque()
        self._bytes = 0

    def send(self, where: Link | External, datagram: Datagram) -> None:
        """Send messages, in as many datagrams as they need, or what an agent says."""
        if isinstance(datagram, AgentSays):
            self._put(where, encode(datagram))
            return
        packet = datagram.packet
        if packet.count > 1 and packet.payload_bytes() > CUT_BYTES:
            self._send_parts(where, datagram, CUT_BYTES)
            return
        data = encode(datagram)
        if len(data) > DATAGRAM_BYTES_MAX and packet.count > 1:
            self._send_parts(where, datagram, packet.payload_bytes() // 2)
        else:
            self._put(where, data)

    def _send_parts(
        self, where: Link | External, datagram: LossyCarry | Cast, bytes_max: int
    ) -> None:
        packet = datagram.packet
        number = packet.number
        for part in packet.bundle.cut(bytes_max):
            moved = packet.cut(number, number + part.count)
            number = moved.stop
            self.send(where, with_packet(datagram, moved))

    def _put(self, where: Link | External, data: bytes) -> None:
        if len(data) > DATAGRAM_BYTES_MAX:
            self._counters["too_long_for_datagram"] += 1
        elif self._bytes + len(data) > WAITING_BYTES_MAX:
            self._counters["datagrams_dropped"] += 1
        else:
            self._bytes += len(data)
            self._waiting.append((where, data))
            self._counters["datagrams_sent"] += 1

    def poll(self) -> tuple[Link | External, bytes] | None:
        if not self._waiting:
            return None
        where, data = self._waiting.popleft()
        self._bytes -= len(data)
        return where, data


class Mechanisms:
    """Mechanisms that a node uses, by topic and scope."""

    def __init__(self, datagrams: Datagrams) -> None:
        self._datagrams = datagrams
        self._by_topic: dict[str, dict[str, MechanismOpened]] = {}

    def open(self, event: MechanismOpened) -> None:
        self._by_topic.setdefault(event.topic, {})[event.scope] = event

    def close(self, topic: str, scope: str) -> None:
        scopes = self._by_topic.get(topic, {})
        if scopes.pop(scope, None) is not None and not scopes:
            del self._by_topic[topic]

    def carry(self, packet: Packet, first: int, missed: int) -> None:
        """Give a packet to the mechanisms of scopes where it originated at this node's member.

        ``first``: where its stream begins for those who have nothing of it; ``missed``: for
        those of them who were away meanwhile.
        """
        for scope, each in self._by_topic.get(packet.topic, {}).items():
            record = cast(packet.record, scope, each.path[0]) if packet.record else None
            if record is None:
                continue
            for where in each.to or (each.where,):
                if where.mechanism == MECHANISM:
                    moved = packet.moved(record)
                    self._datagrams.send(where, Cast(scope, first, missed, moved))

    def knows_any(self, topic: str) -> bool:
        return topic in self._by_topic

    def find(self, topic: str, scope: str) -> MechanismOpened | None:
        return self._by_topic.get(topic, {}).get(scope)
