"""Watchers of a cluster: what they are told, and the violations that they note."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from struct import Struct
from typing import TYPE_CHECKING

import msgspec

from quicksilver.multicast.events import SessionEvent
from quicksilver.wire.envelope import Envelope
from quicksilver.wire.ids import Address

if TYPE_CHECKING:
    from quicksilver.trials.cluster import Cluster
    from quicksilver.trials.node import SimNode

_STAMP = Struct("<dHH")

VIOLATIONS_MAX = 20
"""Violations that one watcher keeps; more of the same would only hide the first."""


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """A property that did not hold."""

    check: str
    at: float
    """Virtual time in seconds."""
    what: str


class Watcher:
    """Base of all checks: override what you want to hear; call ``fail`` when it is wrong."""

    name = "watcher"

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.violations: list[Violation] = []

    def fail(self, what: str) -> None:
        """Note that the property does not hold."""
        if len(self.violations) < VIOLATIONS_MAX:
            self.violations.append(Violation(check=self.name, at=self.cluster.now, what=what))

    def on_sent(self, node: SimNode, group: str, first: int, payloads: tuple[bytes, ...]) -> None:
        """An application sent messages; ``first`` is its number of the first in the group."""

    def on_delivered(
        self, node: SimNode, group: int, sender: int, sequence: int, payload: bytes, batch: int
    ) -> None:
        """An application was given a message that was committed in a batch."""

    def on_envelopes(
        self, node: SimNode, envelopes: Sequence[Envelope], payloads: Sequence[bytes]
    ) -> None:
        """Messages came with envelopes; ``on_delivered`` follows for each."""

    def on_taken(
        self, node: SimNode, group: int, sender: int, sequence: int, payload: bytes
    ) -> None:
        """A message of a queue was given to a member, as its own to handle."""

    def on_value(self, node: SimNode, sender: int, payload: bytes, *, is_retained: bool) -> None:
        """A value came to a member, when it was sent or because it was retained."""

    def on_served(self, node: SimNode, body: bytes) -> None:
        """A question came to a server."""

    def on_answered(self, node: SimNode, number: int, sender: int, body: bytes) -> None:
        """An answer came to whoever had asked."""

    def on_event(self, node: SimNode, event: SessionEvent) -> None:
        """A session had an event, and its engine has acted on it already."""

    def on_flushing(self, node: SimNode, number: int) -> None:
        """An application flushes what it has sent by now; ``FlushEnded`` will name ``number``."""

    def on_left(self, node: SimNode, groups: tuple[str, ...]) -> None:
        """An application has left groups: nothing of them is for it any more."""

    def on_started(self, node: SimNode) -> None:
        """A node was started, for the first time or again."""

    def on_crashed(self, node: SimNode) -> None:
        """A node's process was killed."""

    def on_look(self) -> None:
        """Some time has passed: look at what must hold at any moment."""

    def on_healed(self) -> None:
        """No fault is active any more, and all who live have come together again.

        A node that a fault froze or cut off has learnt by now that it was excluded:
        what is sent from here on must arrive.
        """

    def on_settled(self) -> None:
        """All has been quiet for long: look at what must hold in the end."""


class Watchers(Watcher):
    """All who watch a cluster, as one: what is told to it, each of them is told."""

    name = "all"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.each: list[Watcher] = []

    def on_sent(self, node: SimNode, group: str, first: int, payloads: tuple[bytes, ...]) -> None:
        for watcher in self.each:
            watcher.on_sent(node, group, first, payloads)

    def on_delivered(
        self, node: SimNode, group: int, sender: int, sequence: int, payload: bytes, batch: int
    ) -> None:
        for watcher in self.each:
            watcher.on_delivered(node, group, sender, sequence, payload, batch)

    def on_envelopes(
        self, node: SimNode, envelopes: Sequence[Envelope], payloads: Sequence[bytes]
    ) -> None:
        for watcher in self.each:
            watcher.on_envelopes(node, envelopes, payloads)

    def on_taken(
        self, node: SimNode, group: int, sender: int, sequence: int, payload: bytes
    ) -> None:
        for watcher in self.each:
            watcher.on_taken(node, group, sender, sequence, payload)

    def on_value(self, node: SimNode, sender: int, payload: bytes, *, is_retained: bool) -> None:
        for watcher in self.each:
            watcher.on_value(node, sender, payload, is_retained=is_retained)

    def on_served(self, node: SimNode, body: bytes) -> None:
        for watcher in self.each:
            watcher.on_served(node, body)

    def on_answered(self, node: SimNode, number: int, sender: int, body: bytes) -> None:
        for watcher in self.each:
            watcher.on_answered(node, number, sender, body)

    def on_event(self, node: SimNode, event: SessionEvent) -> None:
        for watcher in self.each:
            watcher.on_event(node, event)

    def on_flushing(self, node: SimNode, number: int) -> None:
        for watcher in self.each:
            watcher.on_flushing(node, number)

    def on_left(self, node: SimNode, groups: tuple[str, ...]) -> None:
        for watcher in self.each:
            watcher.on_left(node, groups)

    def on_started(self, node: SimNode) -> None:
        for watcher in self.each:
            watcher.on_started(node)

    def on_crashed(self, node: SimNode) -> None:
        for watcher in self.each:
            watcher.on_crashed(node)

    def on_look(self) -> None:
        for watcher in self.each:
            watcher.on_look()

    def on_healed(self) -> None:
        for watcher in self.each:
            watcher.on_healed()

    def on_settled(self) -> None:
        for watcher in self.each:
            watcher.on_settled()


class Digest(Watcher):
    """A fingerprint of all datagrams, deliveries and events, and their times."""

    name = "digest"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._digest = blake2b(digest_size=16)
        cluster.network.taps.append(self._note_datagram)

    def value(self) -> str:
        return self._digest.hexdigest()

    def _note_datagram(
        self, at: float, source: Address, destination: Address, packet: bytes
    ) -> None:
        self._digest.update(_STAMP.pack(at, source[1], destination[1]))
        self._digest.update(f"{source[0]}>{destination[0]}".encode())
        self._digest.update(packet)

    def _note(self, node: SimNode, what: str, payload: bytes = b"") -> None:
        self._digest.update(_STAMP.pack(self.cluster.now, node.index & 0xFFFF, node.life))
        self._digest.update(what.encode())
        self._digest.update(payload)

    def on_sent(self, node: SimNode, group: str, first: int, payloads: tuple[bytes, ...]) -> None:
        self._note(node, f"sent {group} {first} {len(payloads)}")

    def on_delivered(
        self, node: SimNode, group: int, sender: int, sequence: int, payload: bytes, batch: int
    ) -> None:
        self._note(node, f"delivered {group}/{sender}/{sequence}", payload)

    def on_event(self, node: SimNode, event: SessionEvent) -> None:
        self._note(node, type(event).__name__)

    def on_left(self, node: SimNode, groups: tuple[str, ...]) -> None:
        self._note(node, f"left {groups}")

    def on_started(self, node: SimNode) -> None:
        self._note(node, "started")

    def on_crashed(self, node: SimNode) -> None:
        self._note(node, "crashed")
