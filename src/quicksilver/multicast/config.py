"""Settings of one node's engine; what all nodes share is in ``ClusterSettings``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from quicksilver.multicast.receiving.assembly import BYTES_MAX_LEAST
from quicksilver.multicast.sending.behind import KEEP, Behind
from quicksilver.multicast.sending.empty import EMPTY_CHOICES, Empty
from quicksilver.wire.control import RANGES_MAX
from quicksilver.wire.ids import NodeId
from quicksilver.wire.packets import Body, parse_body


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """How one node behaves; nodes of a cluster may differ in all of it."""

    packet_bytes: int = 60_000
    """Largest datagram this node sends, by default
    what its interface carries in one frame."""

    receive_buffer_bytes: int = 1 << 20
    """Bytes of packets the kernel holds for this node; tokens carry it, and
    senders keep less than that in flight."""

    window_bytes_max: int = 14 << 20
    """Most unacknowledged bytes in one region; memory of a sender per region."""

    window_bytes_initial: int = 128 << 10
    """Window before a region's first report says what its receivers can take."""

    span_bytes_max: int = 64 << 20
    """How far past a hole a stream may run; receivers keep that much."""

    queue_bytes_max: int = 4 << 20
    """Messages accepted by ``send`` and not yet packed, per lane; more waits."""

    cache_bytes_max: int = 128 << 20
    """Packets kept for others' repair; past it new ones are not kept."""

    keep_bytes_max: int = 64 << 20
    """Packets kept for members that are not waited for: they are silent, or too slow. At a
    sender this is memory besides the windows, at others a part of ``cache_bytes_max``, half
    of it at most. Past it the oldest are dropped: who needs them is told that they are gone,
    and comes back as a new node. More outlasts longer absences, and nobody waits either way."""

    keep_disk_bytes_max: int = 0
    """Packets that a sender keeps for such members on disk, in an unnamed temporary file, when
    half of ``keep_bytes_max`` is used; 0: none. Only in groups whose choice names no bytes.
    Each takes some 300 bytes of ``keep_bytes_max``: that of 64 MB is enough for 200,000
    packets, 12 GB if they are full."""

    empty: Empty = "wait"
    """What is done with messages to a group that nobody is in, where nothing else was chosen:
    they wait for a member, are dropped, or are an error."""

    waiting_bytes_max: int = 16 << 20
    """Messages that wait for groups to have members, in all; more waits in ``send``."""

    behind: Behind = KEEP
    """What senders do about members that do not keep up, in groups for which nothing else was
    chosen: ``Wait()``, ``Keep(bytes)`` or ``Drop()``."""

    ahead_bytes_max: int = 128 << 20
    """Packets that wait for an earlier one; past it new ones are dropped."""

    assembly_bytes_max: int = 128 << 20
    """Large messages that are not whole yet, of all senders, each counted with all that it
    will take; one past it waits until another is whole, and its stream with it."""

    unknown_bytes_max: int = 8 << 20
    """Packets of views or senders not known yet, kept for ``unknown_s``."""

    unknown_s: float = 2.0

    repair_bytes_per_s: float = 150e6
    """Rate limit of everything this node resends to others."""

    repair_burst_bytes: int = 2 << 20
    repair_peer_bytes_per_s: float = 50e6
    """What one node that asks for repairs gets in the long run, whatever it asks for …"""

    repair_peer_burst_bytes: int = 128 << 20
    """… and at once: all that is kept for others, so that one which stood still catches up
    at the full rate."""

    resend_bytes_per_s: float = 75e6
    """What one stream sends to its whole region again, in the long run; at once a window."""

    token_bytes: int = 2 << 20
    """A ring's leader releases a token after this much data …"""

    token_interval_s: float = 0.05
    """… or after this time while anything is not yet stable …"""

    token_loss_interval_s: float = 0.01
    """… or this, while packets are known to be missing."""

    token_spacing_s: float = 0.001
    token_timeout_s_min: float = 0.1
    """A round that takes this long, and twice as long as any of the last ones, is given up
    and the ring called by roll: who does not answer is no longer waited for …"""

    token_timeout_s: float = 0.25
    """… and so is any that takes longer than this."""

    token_wake_s: float = 0.06
    """A member with news that sees no token for this long, and for twice as long as
    tokens were apart, tells its ring's leader; after three times as long the first of them
    stands in for the leader."""

    stand_in_s: float = 0.15
    """A member that may stand in for a region's leader may acknowledge once the leader has not
    for this long. Less than the time after which members do stand in, and more than that
    after which a leader repeats itself."""

    tokens_in_flight: int = 4
    ranges_told_max: int = 24
    """Ranges of one set of packets in a token, an acknowledgement or a request; the rest
    is told in a later round. At most 256."""

    request_retry_s: float = 0.03
    """A repair asked for and not arrived is asked for again after this."""

    probe_s: float = 0.1
    """A sender that hears no acknowledgement for this long repeats a packet."""

    probe_s_max: float = 2.0
    retire_s: float = 5.0
    """An old view is forgotten this long after its last activity, if nobody lacks
    anything, and else some time after its senders gave up."""

    parse_body: Callable[[bytes, int, NodeId, int], Body | None] = parse_body
    """Cuts packets into messages. Nodes of a simulation may share a parser that
    remembers packets which it has just cut for another one."""

    def __post_init__(self) -> None:
        if self.assembly_bytes_max < BYTES_MAX_LEAST:
            raise ValueError(
                f"assembly_bytes_max is {self.assembly_bytes_max}: the longest message takes "
                f"{BYTES_MAX_LEAST}"
            )
        if not 1 <= self.ranges_told_max <= RANGES_MAX:
            raise ValueError(f"ranges_told_max is {self.ranges_told_max}: 1 to {RANGES_MAX} do")
        if self.empty not in EMPTY_CHOICES:
            raise ValueError(f"empty is {self.empty!r}: it must be wait, drop or error")
        if not isinstance(self.behind, Behind):
            # A text, perhaps: it would end the core at the first message.
            raise ValueError(f"behind is {self.behind!r}: it must be Wait(), Keep() or Drop()")

    def patience_s(self, failure_timeout_s: float) -> float:
        """How long a sender goes on when nobody in an old view acknowledges anything.

        Long enough for the GMS to count as failed whoever has not come back.
        """
        return 2 * max(self.retire_s, failure_timeout_s)

    def alone_s(self) -> float:
        """How long a sender whom nobody answers waits for word from an old view.

        What comes after ``retire_s`` its members cannot take any more, and the news of the
        view may have come to them sooner.
        """
        return 0.6 * self.retire_s

    def closing_probe_s_max(self) -> float:
        """How long a sender waits at most before it repeats a packet to an old view."""
        return min(self.probe_s_max, 0.1 * self.retire_s)
