"""What a cluster tells those who watch it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from quicksilver.membership.events import ClientEvent

if TYPE_CHECKING:
    from quicksilver.trials.cluster import Cluster
    from quicksilver.trials.node import SimNode

VIOLATIONS_MAX = 20
"""Violations that one watcher reports; more of the same would only hide the first."""


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
        """Report that the property does not hold."""
        if len(self.violations) < VIOLATIONS_MAX:
            self.violations.append(Violation(check=self.name, at=self.cluster.now, what=what))

    def on_sent(self, node: SimNode, group: str, first: int, payloads: tuple[bytes, ...]) -> None:
        """An application sent messages; ``first`` is its number of the first in the group."""

    def on_delivered(
        self, node: SimNode, group: int, sender: int, sequence: int, payload: bytes, batch: int
    ) -> None:
        """An application was given a message that was committed in a batch."""

    def on_event(self, node: SimNode, event: ClientEvent) -> None:
        """A node heard something from the GMS, after its engine had acted on it."""

    def on_left(self, node: SimNode, groups: tuple[str, ...]) -> None:
        """An application asked to leave groups."""

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
