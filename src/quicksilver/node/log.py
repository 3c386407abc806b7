"""What a node writes to ``logging``: stable names and levels, nothing on the hot path.

``quicksilver.node`` tells of the node itself, ``quicksilver.groups`` of its groups, and
``quicksilver.peers`` of other nodes that hold it up. docs/operations.md lists every line. Most
follow from the session's events, which are rare; who is silent or slow, and what queues have
dropped, is looked at with each heartbeat. Names of nodes and groups are other people's text:
they are shown with control characters escaped.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from quicksilver.multicast.events import EmptinessChanged, GroupReady, MessagesWaiting
from quicksilver.multicast.sending.unconfirmed import Unconfirmed
from quicksilver.node.messages import View
from quicksilver.stdx.text import printable
from quicksilver.wire.ids import Address

if TYPE_CHECKING:
    from quicksilver.multicast.session import Session

NODE = logging.getLogger("quicksilver.node")
GROUPS = logging.getLogger("quicksilver.groups")
PEERS = logging.getLogger("quicksilver.peers")

NAMED_MAX = 4
"""Members that one line names."""


class Droppable(Protocol):
    """A group whose queue may lose messages."""

    name: str

    @property
    def dropped(self) -> int:
        """How many it has lost."""
        ...


class NodeLog:
    """Remembers what was logged, so that a state is logged when it begins and when it ends."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._silent: frozenset[int] = frozenset()
        self._slow = 0
        """Whom senders waited for at the last look, and …"""
        self._slow_told = 0
        """… for whom this was logged."""
        self._dropped: dict[str, int] = {}
        self._waiting: set[str] = set()
        """Groups for whose members messages wait."""
        self.droppable: dict[str, Droppable] = {}
        """Joined groups whose queues drop messages when they are full."""

    # The node

    def connected(self, gms: Address, *, is_resumed: bool) -> None:
        what = "connected again" if is_resumed else "connected"
        node, name = self._session.node, printable(self._session.name)
        NODE.info("%s to %s:%d as node %d (%s)", what, *gms, node, name)

    def lost(self, gms: Address, reason: str) -> None:
        NODE.warning("lost the GMS at %s:%d: %s", *gms, printable(reason))

    def refused(self, reason: str) -> None:
        NODE.error("the GMS refused: %s", printable(reason))

    def excluded(self, reason: str) -> None:
        NODE.warning("excluded, and coming back as a new node: %s", printable(reason))

    def failed(self, error: Exception) -> None:
        NODE.error("%s", error)

    def closed(self) -> None:
        NODE.info("closed")

    # Groups

    def ready(self, event: GroupReady, *, is_joined: bool) -> None:
        GROUPS.info("%s %s", "joined" if is_joined else "opened", printable(event.name))

    def left(self, names: Iterable[str]) -> None:
        for name in names:
            self._dropped.pop(name, None)
            self.droppable.pop(name, None)
            self._waiting.discard(name)
            GROUPS.info("left %s", printable(name))

    def view(self, view: View) -> None:
        if GROUPS.isEnabledFor(logging.DEBUG):
            GROUPS.debug(
                "view %d of %s: %d members, %d came, %d went",
                view.number,
                printable(view.group),
                len(view.members),
                len(view.joined),
                len(view.left),
            )

    def waiting(self, event: MessagesWaiting) -> None:
        self._waiting.add(event.name)
        GROUPS.warning("messages to %s wait: nobody is in the group", printable(event.name))

    def emptiness(self, event: EmptinessChanged) -> None:
        if not event.is_empty and event.name in self._waiting:
            self._waiting.discard(event.name)
            GROUPS.info("somebody is in %s: what waited is sent", printable(event.name))

    # Looked at with each heartbeat

    def look(self, stats: dict[str, int | float | str]) -> None:
        """Log what has changed since the last heartbeat."""
        silent = frozenset(self._session.engine.silence.silent())
        if silent != self._silent:
            for node in sorted(silent - self._silent)[:NAMED_MAX]:
                PEERS.info("%s is suspected: it does not answer", self._describe(node))
            for node in sorted(self._silent - silent)[:NAMED_MAX]:
                PEERS.info("%s answers again, or is gone", self._describe(node))
            self._silent = silent
        self._look_at_slow(int(stats.get("waits_for", 0)))
        for name, group in self.droppable.items():
            lost = group.dropped - self._dropped.get(name, 0)
            if lost:
                self._dropped[name] = group.dropped
                GROUPS.warning(
                    "dropped %d messages of %s: its queue is full", lost, printable(name)
                )

    def _look_at_slow(self, slow: int) -> None:
        # At two heartbeats in a row: to wait for a moment is flow control at work.
        if slow and slow == self._slow and slow != self._slow_told:
            self._slow_told = slow
            PEERS.info("%s is the slowest: senders wait for it", self._describe(slow))
        elif not slow and not self._slow and self._slow_told:
            PEERS.info("%s holds nobody up any more", self._describe(self._slow_told))
            self._slow_told = 0
        self._slow = slow

    def _describe(self, node: int) -> str:
        info = self._session.directory.nodes.get(node)  # type: ignore[call-overload]  # a number
        return f"node {node}" if info is None else f"node {node} ({printable(info.name)})"


def log_unconfirmed(messages: Iterable[Unconfirmed]) -> None:
    """Log messages that may be lost."""
    for each in messages:
        if each.reason.is_failure:
            GROUPS.warning("%s", printable(str(each)))
