"""What a node records: one type for each thing worth knowing.

Records are facts in the past tense with the time and the node they are about.
They are rare next to packets: per view, per token round, per loss, per second;
never per message. Of packets every ``SAMPLE_EVERY``-th of a stream is recorded
where it is sent and where it arrives, so that clocks can be compared and delays
be told.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

OTHER_GROUPS = 0
"""Stands for the groups that a sample does not tell apart; the GMS counts from 1."""

SAMPLE_EVERY = 64
"""Of a stream's packets one in so many is recorded, by its number: the same ones at
the sender and at every receiver. A power of two."""


class Record(msgspec.Struct, frozen=True, tag=True):
    """Base: ``at`` is the host's clock in seconds, ``node`` the incarnation."""

    at: float
    node: int


class ViewInstalled(Record, frozen=True, tag=True):
    """A region view in which this node is a member begins."""

    region: int
    view: int
    members: int


class ViewRetired(Record, frozen=True, tag=True):
    """Everything committed to a region view was finished, and it was forgotten."""

    region: int
    view: int


class RoundCompleted(Record, frozen=True, tag=True):
    """A token came back to the leader that released it."""

    region: int
    view: int
    level: int
    seconds: float
    senders: int
    missing: int
    """Packets that some member of the ring lacked."""


class AckReceived(Record, frozen=True, tag=True):
    """A region told a sender what it has."""

    region: int
    view: int
    low: int
    pending_bytes: int
    slowest: int
    token_s: float


class PacketsMissed(Record, frozen=True, tag=True):
    """A receiver found that packets of a stream are lost."""

    region: int
    view: int
    sender: int
    packets: int


class PacketsResent(Record, frozen=True, tag=True):
    """A sender repeats what a whole region lost."""

    region: int
    view: int
    packets: int


class RepairsSent(Record, frozen=True, tag=True):
    """A member sends another the packets of a sender that it lacks."""

    region: int
    view: int
    sender: int
    to: int
    """Who lacked them."""
    packets: int


class PacketSent(Record, frozen=True, tag=True):
    """One of the sampled packets of this node's stream left it for the first time."""

    region: int
    view: int
    sequence: int


class PacketArrived(Record, frozen=True, tag=True):
    """One of the sampled packets of a sender's stream arrived, at first or by repair."""

    region: int
    view: int
    sender: int
    sequence: int


class NodeSampled(Record, frozen=True, tag=True):
    """Totals and levels of a node, taken every second."""

    wall_s: float
    """The same moment by the time of day; in a simulation the virtual time."""
    sent_messages: int
    sent_bytes: int
    delivered_messages: int
    delivered_bytes: int
    missing: int
    """Packets found missing so far."""
    repairs_received: int
    repairs_sent: int
    resent: int
    duplicates: int
    kernel_drops: int
    pending_bytes: int
    """Sent and not acknowledged, now."""
    queued_bytes: int
    """Accepted from the application and not sent, now."""
    memory_bytes: int
    """Resident memory of the process; in a simulation the packets that it holds."""
    cpu_s: float
    """Processor time used so far."""
    alarm_delay_s: float
    """How late alarms were since the last sample, at most."""
    inversion_s: float
    """How long an alarm was due while the core went on handling data, at most."""


class GroupSampled(Record, frozen=True, tag=True):
    """What a node sent to a group and received from it since the sample before.

    Only groups with traffic, and of many the busiest: all others are one record with
    the group ``OTHER_GROUPS``.
    """

    group: int
    group_name: str
    regions: tuple[int, ...]
    """Those that the group spans as the node knows it, the first few; none for others."""
    groups: int
    """How many groups the record is about."""
    seconds: float
    """Since the sample before; 0 in a node's first."""
    sent_messages: int
    sent_bytes: int
    """Of messages. Those in packets with several groups have the mean size of all such."""
    received_messages: int
    """Also those of groups that were not joined, which merged regions bring."""
    received_bytes: int
    """Of the packets that brought them; packets with several groups are shared out by
    number of messages."""


class TraceEnded(Record, frozen=True, tag=True):
    """The trace was closed in order; a run without this record was cut off."""

    written: int
    dropped: int
    """Records for which there was no room."""


class NodesFailed(Record, frozen=True, tag=True):
    """The GMS said that incarnations are over."""

    failed: tuple[int, ...]


class WasExcluded(Record, frozen=True, tag=True):
    """This node itself was counted as failed."""

    reason: str


class DatagramRejected(Record, frozen=True, tag=True):
    """Bytes from the network made no sense; ``reason`` is the counter's name."""

    reason: str
    size: int


AnyRecord = (
    ViewInstalled
    | ViewRetired
    | RoundCompleted
    | AckReceived
    | PacketsMissed
    | PacketsResent
    | RepairsSent
    | PacketSent
    | PacketArrived
    | NodeSampled
    | GroupSampled
    | TraceEnded
    | NodesFailed
    | WasExcluded
    | DatagramRejected
)

Tracer = Callable[[AnyRecord], None]
"""Takes records on the core thread; must be quick."""
