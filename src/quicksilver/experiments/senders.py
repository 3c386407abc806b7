"""Applications that send in a simulation: asked whenever there is room, or at a rate."""

from __future__ import annotations

from collections.abc import Sequence

from quicksilver.trials.cluster import Cluster
from quicksilver.trials.node import SimNode

TICK_S = 0.001
"""A sender at a rate wakes this often, or once a message if that is rarer."""

BACKLOG_S = 0.1
"""What an application that was held up may make good afterwards."""


class PullSender:
    """Gives a message whenever it is asked for one."""

    def __init__(self, node: SimNode, groups: Sequence[str], size: int) -> None:
        self.offered = 0
        self._is_stopped = False
        payload = bytes(size)

        def give() -> bytes | None:
            if self._is_stopped:
                return None
            self.offered += 1
            return payload

        for group in groups:
            node.send_from(group, give)

    def stop(self) -> None:
        """Send nothing more."""
        self._is_stopped = True


class PacedSender:
    """Sends at an even rate, to its groups in turn; waits while there is no room.

    What ``send`` does to an application thread: with the queue full it waits, and
    what it would have sent meanwhile it makes good only to a small part.
    """

    def __init__(
        self,
        cluster: Cluster,
        node: SimNode,
        groups: Sequence[str],
        *,
        size: int,
        rate: float,
        phase: float = 0.0,
        is_stamped: bool = False,
    ) -> None:
        """``is_stamped``: messages begin with when they were sent, in nanoseconds."""
        self.offered = 0
        self.sent = 0
        self._cluster = cluster
        self._node = node
        self._groups = groups
        self._rate = rate
        self._size = size
        self._is_stamped = is_stamped
        self._payload = bytes(size)
        self._due = 0.0
        self._turn = 0
        self._is_stopped = False
        self._tick_s = max(TICK_S, 1.0 / rate)
        cluster.events.after(phase * self._tick_s, self._tick)

    def stop(self) -> None:
        """Send nothing more."""
        self._is_stopped = True

    def _tick(self) -> None:
        node = self._node
        if node.is_dead or self._is_stopped:
            return
        self._cluster.events.after(self._tick_s, self._tick)
        wanted = self._rate * self._tick_s
        self._due = min(self._due + wanted, self._rate * BACKLOG_S + wanted)
        self.offered += 1
        room = node.room(self._groups[0])
        count = min(int(self._due + 1e-9), max(0, room // max(1, self._size)))
        if count <= 0:
            return
        self._due -= count
        self.sent += count
        payload = self._payload
        if self._is_stamped:
            payload = int(self._cluster.now * 1e9).to_bytes(8, "little") + payload[8:]
        groups = self._groups
        if len(groups) == 1:
            node.send(groups[0], *([payload] * count))
            return
        for _ in range(count):
            node.send(groups[self._turn], payload)
            self._turn = (self._turn + 1) % len(groups)


Sender = PullSender | PacedSender
