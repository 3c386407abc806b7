"""What the parts of one engine share: who the node is, whom it knows, what it may use.

Sending, receiving and repair know this value and not the engine. What they want sent they
add to its feeds, which register with the pull stack; nothing is made before it can leave.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING

from quicksilver.core.ports import DiskPort
from quicksilver.membership.directory import Directory, RegionView
from quicksilver.multicast.config import EngineConfig
from quicksilver.multicast.counters import Counters
from quicksilver.multicast.feeds import ControlFeed, RepairFeed
from quicksilver.multicast.peers import Peers
from quicksilver.multicast.receiving.assembly import AssemblyRoom
from quicksilver.multicast.receiving.memory import Budget, Room
from quicksilver.multicast.receiving.regions import Regions
from quicksilver.multicast.tally import GroupTally
from quicksilver.stdx.rand import Rng
from quicksilver.trace import records as trace
from quicksilver.trace.records import Tracer
from quicksilver.wire.gms import ClusterSettings
from quicksilver.wire.ids import Address, NodeId
from quicksilver.wire.packets import Messages, stream_key

if TYPE_CHECKING:
    from quicksilver.multicast.receiving.relaying import RelayFeed

FAILED_REMEMBERED_MAX = 10_000

STRANGERS_REMEMBERED = 1000
"""Nodes and groups that are gone are forgotten together, when there are so many."""


class Rejection(enum.Enum):
    """Why a datagram was counted and dropped."""

    MALFORMED = "malformed"
    FOREIGN = "foreign"
    """Of another cluster on the same network."""
    REJECTED = "rejected"
    """Of this cluster, but not from where it should come, or not for this node."""


def _ignore(_what: float, _now: float) -> None:
    """Nobody wants to know."""


class Environment:
    """What the parts of one engine share, and the budgets that they draw on together."""

    def __init__(
        self,
        *,
        config: EngineConfig,
        directory: Directory,
        deliver: Callable[[Messages], None],
        control: ControlFeed,
        repairs: RepairFeed,
        relays: RelayFeed,
        counters: Counters,
        seed: int,
        tracer: Tracer | None = None,
        tally: GroupTally | None = None,
        has_multicast: bool = True,
    ) -> None:
        self.config = config
        self.directory = directory
        """The membership as far as it is known."""
        self.deliver = deliver
        """Takes the messages of a packet, in order: the fast path."""
        self.control = control
        self.repairs = repairs
        self.relays = relays
        """Packets to be handed on to other members, where there is no multicast."""
        self.has_multicast = has_multicast
        """Whether this node can send and receive IP multicast."""
        self.counters = counters
        self.rng = Rng(seed)
        self.peers = Peers(seed)
        """Who has shown that it receives at its address."""
        control.stamp = self.peers.stamp
        self.tracer = tracer
        self.tally = tally
        """What goes to groups and comes from them, counted for a trace; None without one."""
        self.settings = ClusterSettings()
        self.node = 0
        """This incarnation as the GMS numbered it; 0 while there is none."""
        self.cluster = 0
        self.batch = 0
        """The newest batch of membership changes that was applied."""
        self.complete_batch = 0
        """All changes up to this batch that concern this node are known; not below ``batch``."""
        self.on_news_wanted: Callable[[], None] = lambda: None
        """Told when packets wait to be delivered until it is known which views there were."""
        self.on_passed_over: Callable[[int, float], None] = _ignore
        """Told of every member that others do not wait for, and when."""
        self.on_unacknowledged: Callable[[float, float], None] = _ignore
        """Told as long as an old view does not acknowledge packets: since when it is old, and
        what time it is."""
        self.drained_at = 0.0
        """When all that had arrived was last handled."""
        self.copies = Budget(config.cache_bytes_max)
        """Packets kept for the repair of others."""
        self.copies_for_absent = Budget(min(config.keep_bytes_max, config.cache_bytes_max // 2))
        """Those of them that only members need whom nobody waits for."""
        self.kept = Budget(config.keep_bytes_max)
        """This node's own packets that only such members lack, in memory …"""
        self.disk: DiskPort | None = None
        """… and where the rest of them goes; None: nowhere."""
        self.waiting = Room(config.ahead_bytes_max)
        """Packets that wait for an earlier one."""
        self.assembly = AssemblyRoom(config.assembly_bytes_max)
        """Large messages that are not whole yet."""
        self.heard_at: dict[int, float] = {}
        """When nodes last sent a control packet to this one."""
        self.gap: str | None = None
        """Why this incarnation has to end: messages due to it can no longer be had."""
        self.regions = Regions()
        """The region views that this node is in, and was in lately."""
        self._failed: dict[int, None] = {}
        self._kernel_drops = 0
        self._drops_reported = 0

    def address_of(self, node: int) -> Address | None:
        info = self.directory.nodes.get(NodeId(node))
        return None if info is None else (info.ip, info.port)

    def uses_multicast(self, sender: int, view: RegionView) -> bool:
        """Whether a sender's packets into a region view go to its multicast address."""
        if not view.address:
            return False
        if sender == self.node:
            return self.has_multicast
        info = self.directory.nodes.get(NodeId(sender))
        return info is None or info.multicast

    def multicast_address(self, view: RegionView) -> Address | None:
        """Return where to send what is for a whole region; None where there is no multicast."""
        if not self.uses_multicast(self.node, view):
            return None
        return (view.address, self.settings.multicast_port)

    def stream_key(self, sender: int, region: int, view: int) -> bytes:
        return stream_key(self.cluster, sender, region, view)

    def end_incarnation(self, reason: str) -> None:
        """Let the next ``handle_timeout`` begin a new incarnation, rather than skip messages."""
        if self.gap is None:
            self.gap = reason

    def reject(self, why: Rejection, data: bytes, now: float) -> None:
        """Count a datagram that is not for this node, or not for anyone."""
        if why is Rejection.MALFORMED:
            self.counters.malformed += 1
        elif why is Rejection.FOREIGN:
            self.counters.foreign += 1
        else:
            self.counters.rejected += 1
        if self.tracer is not None:
            self.tracer(trace.DatagramRejected(now, self.node, why.value, len(data)))

    # Failures

    def is_failed(self, node: int) -> bool:
        return node in self._failed

    def handle_failed(self, node: int) -> None:
        self.heard_at.pop(node, None)
        self.peers.handle_failed(node)
        self._failed[node] = None
        if len(self._failed) > FAILED_REMEMBERED_MAX:
            del self._failed[next(iter(self._failed))]

    def forget_strangers(self) -> None:
        """Nodes come and go: forget those that this node has nothing to do with any more."""
        nodes = self.directory.nodes
        if len(self.heard_at) > 2 * len(nodes) + STRANGERS_REMEMBERED:
            self.heard_at = {n: at for n, at in self.heard_at.items() if NodeId(n) in nodes}

    def become_nobody(self) -> None:
        """The incarnation is over; the next may be in a new cluster, which numbers anew."""
        self.node = 0
        self.complete_batch = 0
        self.peers.become(0)
        self.heard_at.clear()
        self.gap = None
        self._failed.clear()

    # The kernel's buffers

    def receive_share(self) -> int:
        """Return how many bytes one busy region may have under way to this node.

        The receive buffer holds them until they are read. After a loss the packets that
        follow wait for the lost one, so they must fit there as well: what finds no room is
        dropped and has to be sent again. Half of it, because packets take more than their bytes.
        """
        config = self.config
        bytes_max = min(config.receive_buffer_bytes, config.ahead_bytes_max // 2)
        return bytes_max // max(1, self.regions.count_busy())

    def handle_drops(self, drops: int) -> None:
        """The kernel has dropped so many datagrams in all."""
        self._kernel_drops = drops

    def kernel_drops(self) -> int:
        return self._kernel_drops

    def take_drops(self) -> int:
        """Return how many drops no token has told of yet, and count them as told."""
        drops = self._kernel_drops - self._drops_reported
        self._drops_reported = self._kernel_drops
        return max(0, drops)
