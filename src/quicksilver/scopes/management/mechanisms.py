"""Addresses for mechanisms that take messages to all members of a scope by themselves.

A scope that uses IP multicast is configured with a range of addresses, which no other scope
has unless somebody configures it so: ``239.192.7.0/24:7400``. Each topic has one of them to
itself while there are enough, and keeps it for as long as the topic is here. Where topics
outnumber addresses they share, and receivers drop what they did not ask for.

With the policy ``regions`` it is regions that have addresses, the parts of the scope whose
members have the same topics, and a message goes once to each region of its topic, as in QSM
(dissertation 4.1). So there are as many addresses as there are different interests, however
many topics there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from ipaddress import AddressValueError, IPv4Address, IPv4Network, NetmaskValueError

from quicksilver.scopes.dissemination.channels import External
from quicksilver.scopes.management.domains import Party
from quicksilver.scopes.management.messages import REGIONS_MAX
from quicksilver.scopes.management.planning import Regions
from quicksilver.scopes.management.topics import NO_RECOVERY, Topic
from quicksilver.stdx.errors import QuicksilverError

ADDRESSES_MAX = 1 << 16


REGIONS = "regions"
"""The policy by which messages go to regions."""


class BadRangeError(QuicksilverError, ValueError):
    """A text that names no range of multicast addresses."""


class AddressRange:
    """Multicast addresses that belong to one scope, and which topic has which."""

    def __init__(self, text: str) -> None:
        """``text``: as in ``239.192.7.0/24:7400``. Raises ``BadRangeError``, in one line."""
        network, colon, port = text.rpartition(":")
        is_port = port.isascii() and port.isdigit() and 0 < int(port[:6]) < 1 << 16
        if not (colon and is_port):
            raise BadRangeError(f"{text!r} lacks its port: write 239.192.7.0/24:7400, for example")
        try:
            self._network = IPv4Network(network)
        except (AddressValueError, NetmaskValueError, ValueError) as error:
            raise BadRangeError(f"{text!r} is no range of addresses: {error}") from None
        if not self._network.is_multicast:
            raise BadRangeError(f"{network!r} is not multicast: take a part of 239.0.0.0/8")
        self._port = port
        self._count = min(self._network.num_addresses, ADDRESSES_MAX)
        self._of_topic: dict[str, int] = {}
        self._used: Counter[int] = Counter()

    def assign(self, topic: str, before: str = "") -> str:
        """Return the address of a topic; ``before``: the one that it had, if it is free still."""
        known = self._of_topic.get(topic)
        if known is None:
            known = self._choose(topic, before)
            self._of_topic[topic] = known
            self._used[known] += 1
        return self._text(known)

    def release(self, topic: str) -> None:
        """A topic is not here any more; it need not have had an address."""
        number = self._of_topic.pop(topic, None)
        if number is not None:
            self._used[number] -= 1
            if not self._used[number]:
                del self._used[number]

    def _text(self, number: int) -> str:
        return f"{self._network[number]}:{self._port}"

    def _choose(self, topic: str, before: str) -> int:
        digest = blake2b(topic.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        start = int.from_bytes(digest, "little") % self._count
        host, _, port = before.rpartition(":")
        if port == self._port and host:
            number = int(IPv4Address(host)) - int(self._network.network_address)
            if 0 <= number < self._count:
                return number
        if len(self._used) >= self._count:
            return start
        return next(
            number
            for step in range(self._count)
            if (number := (start + step) % self._count) not in self._used
        )


def find_medium(
    mechanism: str, topic: str, protocol: str, addresses: AddressRange | None
) -> External | str | None:
    """Return where a mechanism takes the messages of a topic, or why it cannot.

    None: to its regions, each of which has a mechanism of its own.
    """
    if mechanism == "qsm":
        return External("qsm", topic)
    if mechanism not in ("multicast", REGIONS):
        return f"there is no mechanism {mechanism!r}"
    if addresses is None:
        return "the scope has no range of multicast addresses: configure one"
    if mechanism == REGIONS:
        reason = "regions are domains of recovery, and the scope has none: choose a protocol"
        return reason if protocol == NO_RECOVERY else None
    return External("multicast", addresses.assign(topic))


def find_regions(
    topic: Topic, parts: Mapping[str, Iterable[Party]], addresses: AddressRange
) -> Regions:
    """Return where a topic goes whose messages go to regions; ``parts``: who is in which.

    The topic has an address besides: for members that are in no region, and for everybody
    where there are too many regions to send to each.
    """
    own = External("multicast", addresses.assign(topic.name))
    if len(parts) >= REGIONS_MAX:
        return Regions({}, own, (own,))
    of_member: dict[str, External] = {}
    to: dict[External, None] = {}
    for name, parties in sorted(parts.items()):
        where = External("multicast", addresses.assign(name))
        members = [party.member for party in parties]
        of_member.update(dict.fromkeys(members, where))
        if any(topic.parts[member].subscribes for member in members):
            to[where] = None
    others = [m for m, p in topic.parts.items() if p.is_member and m not in of_member]
    if any(topic.parts[member].subscribes for member in others) or not to:
        to[own] = None
    return Regions(of_member, own, tuple(to))
