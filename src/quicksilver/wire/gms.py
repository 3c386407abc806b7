"""Messages between nodes and the membership service (GMS).

They travel over TCP as frames: a 32-bit little-endian length, then one
MessagePack array. Every message is a frozen struct; what a decoder accepts is
bounded by the frame limits below and by the types themselves.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

PROTOCOL_VERSION = 4
"""Raised whenever an old peer could misread a new message."""

REQUEST_BYTES_MAX = 4 << 20
"""The longest frame a GMS accepts from a node."""

GREETING_BYTES_MAX = 4096
"""The longest frame a GMS accepts from a stranger: a Hello has less than 1,000 bytes."""

UPDATE_BYTES_MAX = 64 << 20
"""The longest frame a node accepts from its GMS."""

GROUP_NAME_BYTES_MAX = 255

TRAFFIC_GROUPS_MAX = 64
"""Groups whose traffic one heartbeat tells."""

SILENT_NAMED_MAX = 256
"""Silent nodes that one heartbeat names at most. One that names so many may have left out
more, and is likelier cut off itself: it counts against nobody."""

DISPUTED_NAMED_MAX = SILENT_NAMED_MAX - 1
"""Nodes that one Heard names at most; whoever reaches none of them can still say so."""

SECRET_BYTES = 16
"""What Welcome carries and Resume must return: too long to be guessed."""


class ClusterSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What every node of a cluster must agree on; the GMS hands it out."""

    multicast_port: int = 7400
    """UDP port of all region and hybrid-group addresses."""

    transport: str = "multicast"
    """``multicast``, or ``unicast``: no region has a multicast address."""

    fan_out: int = 3
    """Without multicast: copies of a packet that one node sends. Members hand it on to
    so many others each; 0: the sender sends to every member by itself."""

    partition_size: int = 5
    """Members of one token ring (dissertation 4.2.1 C)."""

    replication: int = 5
    """Nodes of the caching partition that keep a copy of each packet."""

    heartbeat_interval_s: float = 0.5
    failure_timeout_s: float = 3.0
    """A node silent for this long is excluded."""

    traffic_interval_s: float = 5.0
    """How often a node says which groups it sends most to; 0: never. The GMS plans
    regions for it."""


class Resume(msgspec.Struct, frozen=True, array_like=True):
    """Who a reconnecting node was: accepted while the GMS still counts it in."""

    cluster: int
    node: int
    secret: bytes
    """From the Welcome of this incarnation: nobody else can take its place."""
    batch: int = 1 << 62
    """The last batch that it applied."""


class Hello(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """First frame of a node. ``ip`` and ``port`` are its unicast address.

    ``multicast`` says whether it can send and receive IP multicast; regions with a
    member that cannot do without it.
    """

    version: int
    name: str
    ip: str
    port: int
    receive_buffer_bytes: int
    resume: Resume | None = None
    multicast: bool = True


class Subscribe(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Change memberships: many groups in one request, applied in one batch.

    ``open`` and ``close`` are about sending without being a member. ``match`` are patterns:
    the node is in every group that one of them stands for, from the batch on in which there
    is one; ``unmatch`` ends that.
    """

    request: int
    join: tuple[str, ...] = ()
    leave: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    close: tuple[str, ...] = ()
    match: tuple[str, ...] = ()
    unmatch: tuple[str, ...] = ()


class Heartbeat(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Sign of life with the numbers that ``top`` shows.

    ``traffic`` is now and then the groups that the node sent most messages to since it
    last said so, and how many: at most ``TRAFFIC_GROUPS_MAX``.
    """

    stats: dict[str, int | float | str] = {}
    traffic: tuple[tuple[int, int], ...] = ()
    silent: tuple[int, ...] = ()
    """Nodes that do not answer the one who says this, on the data path."""


class Goodbye(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """The node leaves all groups and the cluster."""


class Inspect(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """Ask for a Snapshot; needs no Hello, so that tools can look."""

    request: int
    version: int = PROTOCOL_VERSION


class Applied(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """Answers an Update that is awaited: whatever the node sends from now on goes to its views."""

    batch: int
    """The newest batch that the node has applied."""


Request = Hello | Subscribe | Heartbeat | Goodbye | Inspect | Applied


class Welcome(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """The node is in; ``resumed`` says that its memberships are still there."""

    version: int
    cluster: int
    node: int
    resumed: bool
    settings: ClusterSettings
    secret: bytes
    """Whoever knows it may resume as this node."""


class Refused(msgspec.Struct, frozen=True, array_like=True, tag=12):
    """The request cannot be served; the connection is closed after it."""

    reason: str
    scope: str = ""
    """The scope that is managed here, if this is no GMS but the manager of a scope."""


class Excluded(msgspec.Struct, frozen=True, array_like=True, tag=13):
    """The node was counted as failed; it may come back as a new one."""

    reason: str


class Subscribed(msgspec.Struct, frozen=True, array_like=True, tag=14):
    """Answers Subscribe with the group identifiers, in the order join + open.

    Sent after the Update that installs the resulting views.
    """

    request: int
    groups: tuple[int, ...]


class Heard(msgspec.Struct, frozen=True, array_like=True, tag=17):
    """Answers Heartbeat, unless something else is on its way: the connection is alive."""

    batch: int = 0
    """The newest batch; what it and those before changed for this node was sent already."""
    disputed: tuple[int, ...] = ()
    """Nodes that others do not reach, and those who say so: the node that hears this is to
    ask each that it knows, and to name in its heartbeats who does not answer."""


class NodeInfo(msgspec.Struct, frozen=True, array_like=True):
    """What nodes are told of each other; ``multicast``: it can send and receive it."""

    id: int
    name: str
    ip: str
    port: int
    multicast: bool = True


class RegionChange(msgspec.Struct, frozen=True, array_like=True):
    """One region view, as a difference from ``base`` (0: from nothing).

    Members are ordered by identifier everywhere, so rings agree without talk.
    ``senders`` are the nodes allowed to send that ``base`` did not have;
    ``senders_gone`` those no longer interested.
    ``view == base`` means that only the senders changed.
    ``address`` is empty for a region without multicast.
    """

    id: int
    view: int
    base: int
    address: str
    joined: tuple[int, ...] = ()
    left: tuple[int, ...] = ()
    senders: tuple[int, ...] = ()
    senders_gone: tuple[int, ...] = ()


class GroupChange(msgspec.Struct, frozen=True, array_like=True):
    """One group view, as a difference from ``base`` (0: from nothing).

    ``regions`` are the (region, region view) of the covering list that ``base``
    did not have; ``regions_gone`` the regions that left the list.
    ``name`` may be empty if ``base`` is not 0: groups keep their names.
    ``hybrid`` is the group's own multicast address, at which members listen, or empty;
    senders use it if ``is_hybrid``.
    """

    id: int
    name: str
    view: int
    base: int
    regions: tuple[tuple[int, int], ...]
    joined: tuple[int, ...] = ()
    left: tuple[int, ...] = ()
    hybrid: str = ""
    regions_gone: tuple[int, ...] = ()
    is_hybrid: bool = False


class Update(msgspec.Struct, frozen=True, array_like=True, tag=15):
    """One batch, cut to what the receiving node needs; applied in one step."""

    batch: int
    nodes: tuple[NodeInfo, ...] = ()
    """Nodes that ``regions`` mention and this node had not been told of."""
    regions: tuple[RegionChange, ...] = ()
    groups: tuple[GroupChange, ...] = ()
    regions_gone: tuple[int, ...] = ()
    """Regions that this node no longer needs (not a member, not a sender)."""
    groups_gone: tuple[int, ...] = ()
    nodes_failed: tuple[int, ...] = ()
    """Nodes that left or were excluded: their incarnation is over."""
    alive: tuple[int, ...] = ()
    """Not empty: the Update is complete and replaces everything the node had;
    a node that it knew and that is not listed here has failed meanwhile."""
    is_awaited: bool = False
    """True: somebody's join waits until this node has answered with Applied."""
    joined_in: int = 0
    """In a complete Update, the last batch in which the node came into groups. What it is in
    and had not heard of it is in since then: senders may name that batch, and no later one,
    for as long as their own views stay."""


class EncodedUpdate(msgspec.Struct, frozen=True, array_like=True, tag=15):
    """An Update put together from parts that are already encoded.

    Most parts of a batch go to many nodes; the GMS encodes each of them once.
    Same fields as Update, in the same order.
    """

    batch: int
    nodes: list[msgspec.Raw]
    regions: list[msgspec.Raw]
    groups: list[msgspec.Raw]
    regions_gone: list[int]
    groups_gone: list[int]
    nodes_failed: list[int]
    alive: list[int] | msgspec.Raw
    is_awaited: bool = False
    joined_in: int = 0


class NodeStatus(msgspec.Struct, frozen=True):
    id: int
    name: str
    ip: str
    port: int
    connected: bool
    groups: int
    silence_s: float
    stats: dict[str, int | float | str]


class RegionStatus(msgspec.Struct, frozen=True):
    id: int
    view: int
    address: str
    members: int
    groups: int


class HybridStatus(msgspec.Struct, frozen=True):
    """A group with an address of its own."""

    group: str
    address: str
    members: int
    regions: int
    is_used: bool
    """False: members listen, and senders do not use it yet, or any more."""


class Snapshot(msgspec.Struct, frozen=True, array_like=True, tag=16):
    request: int
    cluster: int
    batch: int
    planner: str
    groups: int
    plan: dict[str, float]
    """What the plan costs: regions per node, per group, unwanted traffic."""
    nodes: tuple[NodeStatus, ...]
    regions: tuple[RegionStatus, ...]
    held_s: float = 0.0
    """For how long the GMS has held its judgement, because most nodes are silent and
    the fault may be its own; 0: it judges."""
    counters: dict[str, int] = {}
    """What happened since the GMS started, by name."""
    hybrid: tuple[HybridStatus, ...] = ()
    """Groups with an address of their own, of many the first hundred."""


Reply = Welcome | Refused | Excluded | Subscribed | Heard | Update | Snapshot

encode = msgspec.msgpack.Encoder().encode
_decode_request: Callable[[bytes], Request] = msgspec.msgpack.Decoder(Request).decode
_decode_reply: Callable[[bytes], Reply] = msgspec.msgpack.Decoder(Reply).decode


def parse_request(frame: bytes) -> Request | None:
    """Return the request in a frame, or None where there is none."""
    try:
        return _decode_request(frame)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def parse_reply(frame: bytes) -> Reply | None:
    """Return the reply in a frame, or None where there is none."""
    try:
        return _decode_reply(frame)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
