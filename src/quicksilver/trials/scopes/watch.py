"""Watchers of a trial of scopes: what they are told, and the violations that they note."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quicksilver.scopes.dissemination.packets import Gap, Packet, Sender
from quicksilver.scopes.node_parts import NodeEvent
from quicksilver.trials.watch import VIOLATIONS_MAX, Violation

if TYPE_CHECKING:
    from quicksilver.trials.scopes.cluster import NodeLife, ScopeCluster


class ScopeWatcher:
    """Base of all checks: override what you want to hear; call ``fail`` when it is wrong."""

    name = "watcher"

    def __init__(self, cluster: ScopeCluster) -> None:
        self.cluster = cluster
        self.violations: list[Violation] = []

    def fail(self, what: str) -> None:
        """Note that the property does not hold."""
        if len(self.violations) < VIOLATIONS_MAX:
            self.violations.append(Violation(check=self.name, at=self.cluster.now, what=what))

    def on_sent(self, node: NodeLife, topic: str, first: int, messages: list[bytes]) -> None:
        """An application sent messages; ``first`` is the number of the first."""

    def on_delivered(
        self, node: NodeLife, topic: str, sender: Sender, number: int, message: bytes
    ) -> None:
        """An application was given a message."""

    def on_packet(self, node: NodeLife, packet: Packet) -> None:
        """An application was given messages, before each of them is told."""

    def on_gap(self, node: NodeLife, gap: Gap) -> None:
        """An application was told that messages are lost."""

    def on_stable(self, node: NodeLife, topic: str, sender: Sender, mark: int) -> None:
        """A node learnt that everybody has a sender's messages below a number."""

    def on_event(self, node: NodeLife, event: NodeEvent) -> None:
        """A node's manager told something."""

    def on_look(self) -> None:
        """Some time has passed: look at what must hold at any moment."""

    def on_healed(self) -> None:
        """No fault is active any more, and what it moved has had time to settle."""

    def on_silent(self) -> None:
        """What was sent has had time to arrive and to be agreed on: silence begins."""

    def on_settled(self) -> None:
        """All has been quiet for long: look at what must hold in the end."""
