"""A healed cluster comes together."""

from __future__ import annotations

from collections import defaultdict

from quicksilver.membership.events import WasExcluded
from quicksilver.multicast.events import SessionEvent
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.node import SimNode
from quicksilver.trials.payloads import parse_payload
from quicksilver.trials.watch import Watcher
from quicksilver.wire.ids import GroupId

GRACE_S = 1.0
"""For timers that are looked at now and then, and clocks that drift."""


class Convergence(Watcher):
    """Once nothing is broken any more, everything works again.

    Liveness after the healing (STYLE.md, TigerBeetle: "safety under faults, then
    liveness with a healed core"; DESIGN.md, semantics and incarnations): every
    node that runs is in all that it joined, all have the views that the GMS has,
    nobody is counted out later than the failure timeout, and whatever is sent
    reaches everybody who was in the sender's view and stays, which after the
    timeout is everybody who is in the group.
    """

    name = "convergence"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._healed_at: float | None = None
        self._owed: defaultdict[tuple[SimNode, SimNode, str], set[int]] = defaultdict(set)
        """By (sender, receiver, group): messages that have not arrived."""
        self._incarnations: dict[tuple[SimNode, SimNode, str], tuple[int, int]] = {}
        self._lives: dict[tuple[int, int], SimNode] = {}

    @property
    def _excludes_until(self) -> float:
        """Until when a fault may still have a node excluded."""
        assert self._healed_at is not None
        gms = self.cluster.gms
        grace = max(
            gms.settings.failure_timeout_s,
            gms.config.resume_grace_s,
            gms.config.disconnect_grace_s,
            # It may have taken the death of most nodes for a fault of its own link.
            gms.config.silence_s_max if gms.service.counters.holds else 0.0,
        )
        return self._healed_at + grace + GRACE_S

    def on_healed(self) -> None:
        self._healed_at = self.cluster.now

    def on_event(self, node: SimNode, event: SessionEvent) -> None:
        if (
            isinstance(event, WasExcluded)
            and self._healed_at is not None
            and self.cluster.now > self._excludes_until
        ):
            after = self.cluster.now - self._healed_at
            self.fail(f"{node} is counted out {after:.1f} s after the healing: {event.reason}")

    def on_sent(self, node: SimNode, group: str, first: int, payloads: tuple[bytes, ...]) -> None:
        if self._healed_at is None or group not in node.ready:
            return
        view = node.session.directory.groups.get(GroupId(node.senders[group].id))
        members = frozenset(view.members) if view is not None else frozenset()
        is_late = self.cluster.now > self._excludes_until
        self._lives[node.index, node.life] = node
        for other in self.cluster.alive():
            if other is node or group not in other.ready or group not in other.joined:
                continue
            if other.id not in members:
                if is_late:
                    self.fail(f"{node} sends to {group} and does not know that {other} is in it")
                continue
            name = (node, other, group)
            self._owed[name].update(range(first, first + len(payloads)))
            self._incarnations[name] = (node.id, other.id)

    def on_delivered(
        self, node: SimNode, group: int, sender: int, sequence: int, payload: bytes, batch: int
    ) -> None:
        if self._healed_at is None:
            return
        mark = parse_payload(payload)
        life = self._lives.get((mark.node, mark.life)) if mark is not None else None
        if mark is not None and life is not None:
            self._owed[life, node, mark.group].discard(mark.number)

    def on_settled(self) -> None:
        if self._healed_at is not None:
            for node in self.cluster.alive():
                self._check_member(node)
            self._check_arrived()

    def _check_member(self, node: SimNode) -> None:
        missing = sorted((node.joined | node.opened) - node.ready)
        if missing:
            self.fail(f"{node} still waits for {missing}")
        published = self.cluster.gms.service._tables
        views = node.session.directory.groups
        for name in sorted(node.joined | node.opened):
            group = published.group_ids.get(name)
            row = None if group is None else published.groups[group]
            view = None if group is None else views.get(group)
            if row is None or not row.members:
                if name in node.joined:
                    self.fail(f"the GMS has nobody in {name}, which {node} joined")
                continue
            members = published.ids_of(row.members)
            if view is None or (view.view, view.members) != (row.view, members):
                self.fail(f"{node}: {name} is {view}, at the GMS it is view {row.view}, {members}")
            elif name in node.joined and node.id not in view.members:
                self.fail(f"{node} joined {name} and is not in its view")

    def _check_arrived(self) -> None:
        for (sender, receiver, group), numbers in self._owed.items():
            if not numbers or sender.is_dead or receiver.is_dead or group not in receiver.joined:
                continue
            if self._incarnations[sender, receiver, group] == (sender.id, receiver.id):
                what = f"messages {sorted(numbers)[:5]} of {sender} to {group}"
                self.fail(f"{receiver} never got {what}, sent after the healing")
