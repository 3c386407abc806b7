"""The virtual network: addresses, multicast domains, partitions, weather.

A datagram leaves a host's card when the card has time for it, takes the link's
latency, queues for the receiver's card, and ends in a kernel buffer or is lost
on the way. Receivers of one multicast share a single event while nothing can
tell them apart, which is what makes hundreds of nodes affordable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from quicksilver.sim.events import EventQueue
from quicksilver.sim.model import LinkModel
from quicksilver.sim.weather import Weather
from quicksilver.stdx.rand import Rng
from quicksilver.wire.ids import Address

Tap = Callable[[float, Address, Address, bytes], None]
"""Sees every datagram once, as it leaves: (time, source, destination, bytes)."""


Loss = Callable[["Attached", bytes], bool]
"""Says whether a datagram is lost on its way to a host: (host, bytes)."""


class Attached(Protocol):
    """A host as the network sees it."""

    index: int
    address: Address
    weather: Weather

    def receive(self, packet: bytes, source: Address, *, is_multicast: bool) -> None:
        """A datagram has reached the host's card."""
        ...


class VirtualNetwork:
    """Carries datagrams between hosts."""

    def __init__(self, events: EventQueue, rng: Rng, link: LinkModel | None = None) -> None:
        self.events = events
        self.link = link or LinkModel()
        self.taps: list[Tap] = []
        self.loss: Loss | None = None
        """Asked about every datagram and every host that it would reach: a scenario that
        loses just what it is about. Loss by chance is a matter of each host's weather."""
        self.mishaps = 0
        """Datagrams that were lost on the way, or may have been, or came at odd times."""
        self.sent_packets = 0
        self.sent_bytes = 0
        self._rng = rng.derive("links")
        self._hosts: dict[Address, Attached] = {}
        self._domains: dict[str, dict[int, Attached]] = {}
        """Who listens to a multicast address, by index."""
        self._ordered: dict[str, tuple[Attached, ...]] = {}
        self._islands: dict[int, int] = {}
        """Which part of a partitioned network a host is in; the mainland is 0."""
        self._cuts: set[tuple[int, int]] = set()
        """Ways, from one host to another, that nothing passes."""

    # Hosts

    def attach(self, host: Attached) -> None:
        self._hosts[host.address] = host

    def detach(self, host: Attached) -> None:
        """The host is gone; what is under way to it is lost."""
        if self._hosts.get(host.address) is host:
            del self._hosts[host.address]
        for name in [n for n, found in self._domains.items() if found.get(host.index) is host]:
            self._leave(host, name)

    def set_memberships(
        self, host: Attached, before: frozenset[str], wanted: frozenset[str]
    ) -> None:
        """A host joins and leaves multicast addresses."""
        for name in sorted(before - wanted):
            self._leave(host, name)
        for name in sorted(wanted - before):
            self._domains.setdefault(name, {})[host.index] = host
            self._ordered.pop(name, None)

    def _leave(self, host: Attached, name: str) -> None:
        members = self._domains.get(name, {})
        if members.get(host.index) is host:
            del members[host.index]
        self._ordered.pop(name, None)

    # Partitions

    def set_island(self, index: int, island: int) -> None:
        """Move a host into a part of the network that only reaches itself."""
        if island:
            self._islands[index] = island
        else:
            self._islands.pop(index, None)

    def cut(self, source: int, target: int) -> None:
        """Nothing passes from one host to another; the other way is untouched."""
        self._cuts.add((source, target))

    def mend(self, source: int, target: int) -> None:
        self._cuts.discard((source, target))

    def heal(self) -> None:
        """No partition and no cut is left."""
        self._islands.clear()
        self._cuts.clear()

    def passes(self, source: int, target: int) -> bool:
        """Whether anything gets from one host to another."""
        if self._cuts and (source, target) in self._cuts:
            return False
        islands = self._islands
        return not islands or islands.get(source, 0) == islands.get(target, 0)

    # Datagrams

    def transmit(
        self, host: Attached, destination: Address, packet: bytes, departs_at: float
    ) -> None:
        """A datagram leaves a host's card at a time, now or later."""
        self.sent_packets += 1
        self.sent_bytes += len(packet)
        for tap in self.taps:
            tap(departs_at, host.address, destination, packet)
        name = destination[0]
        if name in self._domains:
            targets = self._ordered.get(name)
            if targets is None:
                members = self._domains[name]
                targets = self._ordered[name] = tuple(members[i] for i in sorted(members))
            is_multicast = True
        else:
            found = self._hosts.get(destination)
            targets = () if found is None else (found,)
            is_multicast = False
        link = self.link
        arrives_at = departs_at + link.latency_s
        source = host.address
        loss = self.loss
        together: list[Attached] = []
        for target in targets:
            if target is host:
                continue
            if not self.passes(host.index, target.index):
                self.mishaps += 1
                continue
            if loss is not None and loss(target, packet):
                self.mishaps += 1
                continue
            if target.weather.is_fine and not link.jitter_s:
                together.append(target)
                continue
            self.mishaps += 1
            for delay, bytes_ in target.weather.pass_on(packet, arrives_at):
                jitter = link.jitter_s * self._rng.uniform() if link.jitter_s else 0.0
                self.inject(target, bytes_, source, arrives_at + delay + jitter, is_multicast)
        if together:
            self.events.at(arrives_at, lambda: self._arrive(together, packet, source, is_multicast))

    def inject(
        self, target: Attached, packet: bytes, source: Address, when: float, is_multicast: bool
    ) -> None:
        """Let a datagram reach one host, whoever made it."""
        self.events.at(when, lambda: self._arrive([target], packet, source, is_multicast))

    def _arrive(
        self, targets: list[Attached], packet: bytes, source: Address, is_multicast: bool
    ) -> None:
        hosts = self._hosts
        for target in targets:
            if hosts.get(target.address) is target:
                target.receive(packet, source, is_multicast=is_multicast)
