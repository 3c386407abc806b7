"""Whoever stays gets everything that whoever stays has."""

from __future__ import annotations

from quicksilver.scopes.dissemination.holdings import STABLE_SHARE
from quicksilver.scopes.dissemination.packets import Gap, Sender
from quicksilver.trials.scopes.cluster import NodeLife, ScopeCluster
from quicksilver.trials.scopes.watch import ScopeWatcher


class Complete(ScopeWatcher):
    """P(X) of dissertation 3.2.9: what one surviving subscriber has, all get in the end.

    Of a sender that survives, all get everything. A subscriber counts for what was sent after
    it had settled in the topic, and until it leaves. After the healing every sender sends once
    more: that arrives at everybody. Who was out of reach may miss what there was no room to keep
    for it, if it is told so. In sessions without repair nothing is owed but word of what is left
    out.
    """

    name = "complete"

    def __init__(self, cluster: ScopeCluster) -> None:
        super().__init__(cluster)
        self._got: dict[tuple[NodeLife, str, Sender], set[int]] = {}
        self._gaps: dict[tuple[NodeLife, str, Sender], list[Gap]] = {}

    def on_delivered(
        self, node: NodeLife, topic: str, sender: Sender, number: int, message: bytes
    ) -> None:
        self._got.setdefault((node, topic, sender), set()).add(number)

    def on_gap(self, node: NodeLife, gap: Gap) -> None:
        self._gaps.setdefault((node, gap.topic, gap.sender), []).append(gap)

    def on_settled(self) -> None:
        living = self.cluster.living()
        senders = {node.sender for node in living}
        size = sum(len(each.message) for sent in self.cluster.sent.values() for each in sent)
        is_all_kept = size < self.cluster.plan.copies_bytes // STABLE_SHARE
        for (topic, sender), sent in self.cluster.sent.items():
            readers = [node for node in living if topic in node.joined and node.sender != sender]
            owed: set[int] = set()
            if sender in senders:
                owed = set(range(len(sent)))
            else:
                for node in readers:
                    owed |= self._got.get((node, topic, sender), set())
            for node in readers:
                since = node.settled_at.get(topic, float("inf"))
                mine = {number for number in owed if sent[number].at >= since}
                mine -= self._got.get((node, topic, sender), set())
                repaired = self.cluster.is_repaired
                missing = sorted(n for n in mine if repaired(topic, sender, n))
                if missing:
                    told = self._gaps.get((node, topic, sender), [])
                    first = missing[0]
                    how = "told" if any(g.first <= first <= g.last for g in told) else "untold"
                    if how == "told" and node.is_disturbed and not is_all_kept:
                        continue
                    self.fail(
                        f"{node} lacks {len(missing)} messages of {sender.node} to {topic}, "
                        f"from {first} on ({how}), sent at {sent[first].at:.3f} s"
                    )
