"""What a user may choose when a node connects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from quicksilver.multicast.config import EngineConfig
from quicksilver.multicast.sending.behind import Behind, Drop, Keep, Wait, parse_behind
from quicksilver.multicast.sending.unconfirmed import Unconfirmed
from quicksilver.net.faults import FaultPlan
from quicksilver.node.errors import AddressError, OptionError
from quicksilver.trace.records import Tracer

Overflow = Literal["block", "drop_oldest", "drop_newest"]
"""What a full receive queue does: hold the senders back, or lose messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """Settings of one node; nodes of a cluster may differ in all of them."""

    name: str = ""
    """Shown to others; default: host name and process number."""

    interface: str | None = None
    """Name or address of the network interface; default: the one towards the GMS."""

    port: int = 0
    """UDP port of this node; 0 takes a free one."""

    receive_buffer_bytes: int = 16 << 20
    """Kernel buffer to ask for; what is granted bounds how far senders run ahead."""

    send_buffer_bytes: int = 4 << 20
    multicast: bool | None = None
    """Whether this node sends and receives IP multicast; default: if its interface says
    that it can. False where the network carries none (most clouds, containers, Wi-Fi):
    regions with this node then hand packets on from member to member."""

    multicast_ttl: int = 1
    packet_bytes: int | None = None
    """Largest datagram; default: what the interface carries in one frame."""

    connect_timeout_s: float = 10.0
    queue_bytes: int = 16 << 20
    """Default bound of each group's receive queue (asyncio and synchronous forms)."""

    keep_folder: str | None = None
    """Where packets for absent members go that no longer fit into memory, if
    ``engine.keep_disk_bytes_max`` allows any; None: the system's temporary folder."""

    overflow: Overflow = "block"
    switch_interval_s: float | None = 0.001
    """Interpreter switch interval while the node lives: how long a busy
    application thread keeps the core waiting. None leaves Python's 5 ms. Measured
    on a noisy machine: results/2026-11-16-performance.md."""

    tune_gc: bool = True
    """Freeze what start-up allocated and make collections rare."""

    plain_io: bool = False
    """Use one system call a datagram, for comparison and old kernels."""

    faults: FaultPlan | None = None
    """Harm to do to datagrams, for tests and experiments."""

    on_unconfirmed: Callable[[Unconfirmed], None] | None = None
    """Told at once, on the core thread, of messages that may not have reached everyone who
    should have them; it must be short and must not block. ``send`` then does not raise for
    them; ``flush`` does in any case."""

    tracer: Tracer | None = None
    """Takes a record of everything worth knowing, on the core thread."""

    engine: EngineConfig = field(default_factory=EngineConfig)

    def __post_init__(self) -> None:
        if self.packet_bytes is not None and not 576 <= self.packet_bytes <= 65_507:
            raise OptionError("packet_bytes", "must be from 576 to 65507")
        if self.overflow not in ("block", "drop_oldest", "drop_newest"):
            raise OptionError("overflow", "must be block, drop_oldest or drop_newest")
        if self.queue_bytes < 1 or self.receive_buffer_bytes < 1:
            raise OptionError("queue_bytes and receive_buffer_bytes", "must be positive")


def check_behind(behind: Behind | str | None) -> Behind | None:
    """Return a choice given as such or as text; raises OptionError."""
    if behind is None or isinstance(behind, Wait | Keep | Drop):
        return behind
    try:
        return parse_behind(str(behind))
    except ValueError as error:
        raise OptionError("behind", str(error)) from None


def parse_gms_address(text: str) -> tuple[str, int]:
    """Return host and port of ``host:port``; raises AddressError."""
    host, colon, port = text.rpartition(":")
    is_number = port.isascii() and port.isdigit() and len(port) <= 5
    if not colon or not host or not is_number or not 0 < int(port) < 65536:
        raise AddressError(text)
    return host, int(port)
