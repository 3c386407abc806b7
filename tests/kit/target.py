"""A session alone among liars: given views by hand, and datagrams of any kind."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from quicksilver.membership.directory import GroupView, RegionView
from quicksilver.membership.events import ViewsChanged, Welcomed
from quicksilver.multicast.config import EngineConfig
from quicksilver.multicast.receiving.assembly import BYTES_MAX_LEAST
from quicksilver.multicast.session import Session
from quicksilver.wire.control import Control, encode_control, stamp_control
from quicksilver.wire.gms import ClusterSettings, NodeInfo
from quicksilver.wire.ids import Address, GroupId, NodeId

Attack = Iterator[tuple[bytes, Address]]
"""Datagrams, and where they claim to come from."""

CLUSTER = 77
SELF = 50
REGIONS = 12
ALL_REGIONS = list(range(1, REGIONS + 1))
MEMBERS = 10
"""In each region, this node and others; all of them send as well."""

CONFIG = EngineConfig(
    packet_bytes=1400,
    cache_bytes_max=1 << 20,
    ahead_bytes_max=1 << 20,
    unknown_bytes_max=256 << 10,
    assembly_bytes_max=2 * BYTES_MAX_LEAST,
    window_bytes_max=256 << 10,
)


class Target:
    """A session in many region views at once, and nobody honest around it."""

    def __init__(self) -> None:
        self.now = 1.0
        self.session = Session(name="t", address=address_of(SELF), config=CONFIG, seed=9)
        self.engine = self.session.engine
        directory = self.session.directory
        nodes = range(1, 101)
        for node in nodes:
            directory.nodes[NodeId(node)] = NodeInfo(node, f"n{node}", *address_of(node))
        views = []
        for region in range(1, REGIONS + 1):
            others = [node for node in range(region, region + MEMBERS) if node != SELF]
            members = tuple(NodeId(node) for node in sorted([SELF, *others]))
            views.append(
                RegionView(region, 1, f"239.0.0.{region}", members, frozenset(members))  # type: ignore[arg-type]
            )
        group = GroupView(
            GroupId(1),
            "g",
            1,  # type: ignore[arg-type]
            tuple(sorted({member for view in views for member in view.members})),
            tuple((view.id, view.view) for view in views),
            "",
        )
        self.views = {view.id: view for view in views}
        for view in views:
            directory.regions[view.id] = view
        directory.groups[GroupId(1)] = group
        directory.batch = 1
        self.session.subscribe(join={"g": lambda messages: None})
        self.session.handle_news(
            Welcomed(NodeId(SELF), CLUSTER, ClusterSettings(), resumed=False), self.now
        )
        gone = tuple(NodeId(node) for node in range(1000, 9000))
        self.session.handle_news(
            ViewsChanged(tuple(views), (group,), (), (), gone),
            self.now,
        )
        self._drain_events()

    def _drain_events(self) -> None:
        while self.session.poll_event() is not None:
            pass

    def proven(self, liar: int, packet: Control) -> bytes:
        wanted = self.engine.environment.peers.nonce_for(liar)
        return stamp_control(encode_control(packet, SELF), 5, wanted)

    def others(self, region: int) -> list[int]:
        return [member for member in self.views[region].members if member != SELF]  # type: ignore[index]

    def take(self, attack: Attack, count: int) -> None:
        """Let datagrams arrive, some 5,000 a second; now and then the socket is free."""
        for number, (data, source) in enumerate(islice(attack, count)):
            self.now += 0.0002
            self.session.handle_datagram(data, source, self.now)
            if number % 50 == 0:
                self.session.handle_drained(self.now)
                self.session.handle_timeout(self.now)
                for _ in range(20):
                    if self.session.poll_transmit(self.now) is None:
                        break
            self._drain_events()

    def check(self) -> None:
        for name, level in self.session.memory().items():
            assert 0 <= level.used <= level.limit, f"{name}: {level}"


def address_of(node: int) -> Address:
    """Return where a node is."""
    return (f"10.0.{node // 250}.{node % 250 + 1}", 7000)
