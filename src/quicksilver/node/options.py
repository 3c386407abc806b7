"""What a user may choose when a node connects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Literal, TypedDict, get_args

from quicksilver.multicast.config import EngineConfig
from quicksilver.multicast.sending.behind import Behind
from quicksilver.multicast.sending.empty import EMPTY_CHOICES, Empty
from quicksilver.multicast.sending.unconfirmed import Unconfirmed
from quicksilver.net.faults import FaultPlan
from quicksilver.node.checks import (
    check_bytes,
    check_callback,
    check_choice,
    check_count,
    check_flag,
    check_options,
    check_seconds,
)
from quicksilver.node.errors import AddressError, OptionError
from quicksilver.trace.records import Tracer

Overflow = Literal["block", "drop_oldest", "drop_newest"]
"""What a full receive queue does: hold the senders back, or lose messages."""

OVERFLOW_CHOICES: tuple[str, ...] = get_args(Overflow)


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
    """Kernel buffer to ask for, for datagrams that leave."""

    multicast: bool | None = None
    """Whether this node sends and receives IP multicast; default: if its interface says
    that it can. False where the network carries none (most clouds, containers, Wi-Fi):
    regions with this node then hand packets on from member to member."""

    multicast_ttl: int = 1
    """How many routers multicast packets may pass."""

    packet_bytes: int | None = None
    """Largest datagram; default: what the interface carries in one frame."""

    connect_timeout_s: float = 10.0
    """How long the GMS may take to answer, when the node connects and for each request."""

    queue_bytes: int = 16 << 20
    """Default bound of each group's receive queue (asyncio and synchronous forms)."""

    keep_folder: str | None = None
    """Where packets for absent members go that no longer fit into memory, if
    ``engine.keep_disk_bytes_max`` allows any; None: the system's temporary folder."""

    overflow: Overflow = "block"
    """What a full receive queue does, in groups for which nothing else was chosen."""

    empty: Empty = "wait"
    """What is done with messages to a group that nobody is in, where nothing else was chosen:
    they wait for a member, are dropped, or ``send`` raises ``EmptyGroupError``."""

    switch_interval_s: float | None = None
    """Interpreter switch interval of the whole process while the node lives: how long a busy
    application thread keeps the core waiting. None leaves it as it is (Python's is 5 ms);
    ``quicksilver.tune`` uses 1 ms."""

    tune_gc: bool = False
    """True: freeze what the process has allocated when the node connects, and make its
    garbage collections rare; see ``quicksilver.tune``."""

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
    """Settings of the protocol itself."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise OptionError("name", f"must be text, not {self.name!r}")
        if not self.name.isprintable() or len(self.name.encode("utf-8", "replace")) > 255:
            raise OptionError(
                "name", f"must be printable, of at most 255 bytes: {self.name[:40]!a}"
            )
        if self.interface is not None and not isinstance(self.interface, str):
            raise OptionError("interface", f"must be a name or address, not {self.interface!r}")
        if self.packet_bytes is not None and not 576 <= self.packet_bytes <= 65_507:
            raise OptionError("packet_bytes", f"must be from 576 to 65507, not {self.packet_bytes}")
        check_count("port", self.port, "UDP ports", least=0)
        if self.port > 65535:
            raise OptionError("port", f"must be from 0 to 65535, not {self.port}")
        for option in ("queue_bytes", "receive_buffer_bytes", "send_buffer_bytes"):
            check_bytes(option, getattr(self, option))
        check_count("multicast_ttl", self.multicast_ttl, "routers", least=0)
        check_seconds("connect_timeout_s", self.connect_timeout_s, allow_zero=False)
        check_seconds(
            "switch_interval_s", self.switch_interval_s, allow_none=True, allow_zero=False
        )
        check_choice("overflow", self.overflow, OVERFLOW_CHOICES)
        check_choice("empty", self.empty, EMPTY_CHOICES)
        check_flag("tune_gc", self.tune_gc)
        check_flag("plain_io", self.plain_io)
        if self.multicast is not None:
            check_flag("multicast", self.multicast)
        for option in ("on_unconfirmed", "tracer"):
            if getattr(self, option) is not None:
                check_callback(option, getattr(self, option))
        if not isinstance(self.engine, EngineConfig):
            raise OptionError("engine", f"must be an EngineConfig, not {self.engine!r}")


class OpenChoices(TypedDict, total=False):
    """What can be chosen for a group that is opened for sending."""

    behind: Behind | str | None
    empty: Empty | None
    retain: int


class JoinChoices(OpenChoices, total=False):
    """What can be chosen for a group that is joined."""

    echo: bool
    queue_bytes: int | None
    overflow: Overflow | None


class OptionArguments(TypedDict, total=False):
    """The options as keyword arguments of ``connect``: the fields of ``NodeOptions``."""

    name: str
    interface: str | None
    port: int
    receive_buffer_bytes: int
    send_buffer_bytes: int
    multicast: bool | None
    multicast_ttl: int
    packet_bytes: int | None
    connect_timeout_s: float
    queue_bytes: int
    keep_folder: str | None
    overflow: Overflow
    empty: Empty
    switch_interval_s: float | None
    tune_gc: bool
    plain_io: bool
    faults: FaultPlan | None
    on_unconfirmed: Callable[[Unconfirmed], None] | None
    tracer: Tracer | None
    engine: EngineConfig


def make_options(given: OptionArguments) -> NodeOptions:
    """Return the options that keyword arguments give; raises OptionError."""
    check_options(dict(given), [each.name for each in fields(NodeOptions)])
    return NodeOptions(**given)


def parse_gms_address(text: str) -> tuple[str, int]:
    """Return host and port of ``host:port``; raises AddressError."""
    if not isinstance(text, str):
        raise AddressError(text)
    host, colon, port = text.rpartition(":")
    is_number = port.isascii() and port.isdigit() and len(port) <= 5
    if not colon or not host or not is_number or not 0 < int(port) < 65536:
        raise AddressError(text)
    return host, int(port)
