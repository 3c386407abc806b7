"""In sessions with a total order, everybody delivers in the same order; all sessions end."""

from __future__ import annotations

from quicksilver.scopes.dissemination.packets import Packet, Sender
from quicksilver.scopes.management.events import SessionInstalled
from quicksilver.scopes.node_parts import NodeEvent
from quicksilver.trials.scopes.cluster import NodeLife, ScopeCluster
from quicksilver.trials.scopes.watch import ScopeWatcher

Sequence = list[tuple[Sender, int]]


class OneOrder(ScopeWatcher):
    name = "one order"

    def __init__(self, cluster: ScopeCluster) -> None:
        super().__init__(cluster)
        self._total: set[tuple[str, int]] = set()
        self._got: dict[tuple[str, int], dict[str, Sequence]] = {}

    def on_event(self, node: NodeLife, event: NodeEvent) -> None:
        if isinstance(event, SessionInstalled) and event.flavour.ordering == "total":
            self._total.add((event.topic, event.number))

    def on_packet(self, node: NodeLife, packet: Packet) -> None:
        name = packet.topic, packet.session
        if name in self._total:
            who = f"{node} in stay {node.stays[packet.topic]}"
            got = self._got.setdefault(name, {}).setdefault(who, [])
            got += [(packet.sender, number) for number in range(packet.number, packet.stop)]

    def on_settled(self) -> None:
        for (topic, session), by_node in sorted(self._got.items()):
            names = sorted(by_node)
            for place, one in enumerate(names):
                for other in names[place + 1 :]:
                    self._compare(f"{topic} session {session}", one, other, by_node)
        for name, (_, machine) in sorted(self.cluster.managers.items()):
            for known in machine.manager.topics():
                if known.is_root and known.sessions.is_changing():
                    self.fail(f"{name} is not done with {known.sessions.sessions}")

    def _compare(self, what: str, one: str, other: str, by_node: dict[str, Sequence]) -> None:
        both = set(by_node[one]) & set(by_node[other])
        first = [each for each in by_node[one] if each in both]
        second = [each for each in by_node[other] if each in both]
        for mine, theirs in zip(first, second, strict=False):
            if mine != theirs:
                self.fail(f"{what}: {one} got {mine} where {other} got {theirs}")
                return
