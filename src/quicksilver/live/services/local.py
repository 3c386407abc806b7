"""Groups within one process: members on one or several executors, without a network.

A ``LocalNetwork`` is to its members what the GMS and the network are to nodes:
it numbers them, makes views, and carries messages in the order they were sent.
Good for programs that have no network, and for tests.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence

from quicksilver.live.runtime.executors import Executor
from quicksilver.live.services.groups import GroupHub, GroupView


class LocalNetwork:
    """Where local members meet; may be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nodes = itertools.count(1)
        self._groups: dict[str, dict[int, LocalGroups]] = {}
        self._views: dict[str, int] = {}

    def number(self) -> int:
        """Return the number of a new member."""
        return next(self._nodes)

    def change(self, hub: LocalGroups, join: Sequence[str], leave: Sequence[str]) -> None:
        """Let a member into groups and out of others."""
        with self._lock:
            for name in leave:
                members = self._groups.get(name, {})
                if members.pop(hub.node, None) is not None:
                    self._publish(name, members)
                if not members:
                    self._groups.pop(name, None)
            for name in join:
                members = self._groups.setdefault(name, {})
                members[hub.node] = hub
                self._publish(name, members)
            hub.post_subscribed(tuple(join))

    def _publish(self, name: str, members: dict[int, LocalGroups]) -> None:
        number = self._views[name] = self._views.get(name, 0) + 1
        nodes = tuple(sorted(members))
        for node in nodes:
            members[node].post_view(name, GroupView(number, nodes, node))

    def send(self, name: str, sender: int, message: bytes) -> None:
        """Carry a message to all members."""
        with self._lock:
            members = self._groups.get(name, {})
            for node in sorted(members):
                members[node].post_message(name, sender, message)


class LocalGroups(GroupHub):
    """One member of a local network."""

    def __init__(self, network: LocalNetwork, executor: Executor) -> None:
        super().__init__(executor)
        self._network = network
        self.node = network.number()

    def subscribe(self, join: Sequence[str], leave: Sequence[str]) -> None:
        """Make one request."""
        self._network.change(self, join, leave)

    def transmit(self, name: str, message: bytes) -> None:
        """Send to a group."""
        self._network.send(name, self.node, message)

    def post_subscribed(self, names: tuple[str, ...]) -> None:
        """Tell this member on its executor that a request is done."""

        def take() -> None:
            for name in names:
                self.handle_joined(name)
            self.handle_subscribed()

        self._executor.post(take)

    def post_view(self, name: str, view: GroupView) -> None:
        """Tell this member on its executor of a view."""
        self._executor.post(lambda: self.handle_view(name, view))

    def post_message(self, name: str, sender: int, message: bytes) -> None:
        """Give this member a message on its executor."""
        self._executor.post(lambda: self.handle_messages(name, sender, (message,)))

    def close(self) -> None:
        """Leave all groups at once, as a process that ends does."""
        self._network.change(self, (), tuple(sorted(self._groups)))
