"""Nobody waits for somebody else's trouble."""

from __future__ import annotations

from collections import defaultdict

from quicksilver.trials.cluster import Cluster
from quicksilver.trials.node import SimNode
from quicksilver.trials.payloads import parse_payload
from quicksilver.trials.watch import Watcher

STALL_S_MAX = 0.3
"""A silent member is noticed after 0.1 s and called for another 0.05; a silent leader is
stood in for after 0.18 s and what is left until the next look. Twice that is no stall that
an application would notice, and far below the failure timeout."""


class Stalls(Watcher):
    """Who is well hears all others who are well without a break, whatever ails the rest.

    While a sender has messages that a member has not delivered, or would have them if it
    could send, something of them is delivered there every ``STALL_S_MAX``. For scenes that
    name in ``sick`` whom their faults happen to; between two who are well nothing may come
    of it. Not part of every trial, where loss and overload happen to anybody.
    """

    name = "stalls"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.sick: set[int] = set()
        """Indices of nodes that may wait, and may be waited for."""
        self.eager: set[int] = set()
        """Indices of nodes that always have something to send: a closed window is a stall."""
        self.longest_s = 0.0
        self._sent: defaultdict[tuple[int, str], int] = defaultdict(int)
        """By sender and group: how many messages it has sent."""
        self._got: defaultdict[tuple[int, str, int], int] = defaultdict(int)
        """By sender, group and receiver: how many of them were delivered there …"""
        self._since: dict[tuple[int, str, int], float] = {}
        """… and when something last was, or when it began to owe any."""

    def on_sent(self, node: SimNode, group: str, first: int, payloads: tuple[bytes, ...]) -> None:
        self._sent[node.index, group] = first + len(payloads)
        if node.index in self.eager:
            return
        for other in self.cluster.alive():
            name = (node.index, group, other.index)
            if other is not node and group in other.ready and self._got[name] >= first:
                self._since[name] = self.cluster.now

    def on_delivered(
        self, node: SimNode, group: int, sender: int, sequence: int, payload: bytes, batch: int
    ) -> None:
        mark = parse_payload(payload)
        if mark is not None:
            name = (mark.node, mark.group, node.index)
            self._judge(name)
            self._got[name] = mark.number + 1
            self._since[name] = self.cluster.now

    def on_look(self) -> None:
        for name in self._since:
            if name[0] in self.eager or self._got[name] < self._sent[name[0], name[1]]:
                self._judge(name)

    def _judge(self, name: tuple[int, str, int]) -> None:
        sender, group, receiver = name
        since = self._since.get(name)
        if since is None or sender in self.sick or receiver in self.sick:
            return
        waited_s = self.cluster.now - since
        if waited_s > STALL_S_MAX and self.longest_s <= STALL_S_MAX:
            self.fail(
                f"node {receiver} got nothing of node {sender} in {group} for {waited_s:.2f} s"
            )
        self.longest_s = max(self.longest_s, waited_s)
