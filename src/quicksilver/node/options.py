"""What a user may choose when a node connects."""

from __future__ import annotations

import os
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
"""What happens when a receive queue is full: senders wait (``block``), or messages are dropped."""

OVERFLOW_CHOICES: tuple[str, ...] = get_args(Overflow)


Links = Literal["tcp", "udp"]
"""How messages come to a node of a scope that do not come by multicast."""

LINKS_CHOICES: tuple[str, ...] = get_args(Links)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """Settings of one node. Each node of a cluster may have its own."""

    name: str = ""
    """The name that other nodes see; by default, host name and process number."""

    interface: str | None = None
    """The name or IPv4 address of the network interface to use; by default, the one that leads to
    the GMS."""

    port: int = 0
    """The node's UDP port, in a scope its TCP port as well; 0: any free port."""

    receive_buffer_bytes: int = 16 << 20
    """The size to ask for of the kernel's receive buffer. The size that the kernel grants limits
    how far senders may run ahead."""

    send_buffer_bytes: int = 4 << 20
    """The size to ask for of the kernel's send buffer."""

    multicast: bool | None = None
    """Whether this node sends and receives IP multicast; by default, if its interface supports it.
    Set it to False where the network carries none (most clouds, containers, Wi-Fi): members of this
    node's regions then hand packets on to each other."""

    multicast_ttl: int = 1
    """The time to live of multicast packets. Each router takes 1 off, so 1 keeps them in the local
    network."""

    packet_bytes: int | None = None
    """The largest datagram to send; by default, and at most, what the interface carries in one
    frame."""

    connect_timeout_s: float = 10.0
    """How many seconds to wait for the GMS, when the node connects and for each later request."""

    queue_bytes: int = 16 << 20
    """How much may wait to be read in each group, unless the group chose otherwise."""

    keep_folder: str | None = None
    """The folder for messages that are kept for absent members and no longer fit into memory; None:
    the system's temporary folder. It is used only if ``engine.keep_disk_bytes_max`` is more than
    0."""

    links: Links = "tcp"
    """How other nodes of a scope send messages to this one. ``"tcp"``: along connections, which
    lose nothing and slow senders down. ``"udp"``: as datagrams, so that one that is lost holds up
    none that come after it on the way; what is lost, recovery repairs. Choose it only where all
    scopes of the topics have recovery. At a GMS it changes nothing."""

    keys_file: str | None = None
    """The file with the keys of sealed sessions, for topics of scopes: lines of a name and 64
    hexadecimal digits. Keys are never sent."""

    overflow: Overflow = "block"
    """What happens when a receive queue is full, unless the group chose otherwise. ``"block"``: the
    node receives nothing, in any group, until messages are read, so senders have to wait.
    ``"drop_oldest"`` or ``"drop_newest"``: messages are dropped and counted in
    ``Group.dropped``."""

    empty: Empty = "wait"
    """What happens to messages while a group has no members, unless the group chose otherwise.
    ``"wait"``: they wait for a member. ``"drop"``: they are dropped. ``"error"``: ``send`` raises
    ``EmptyGroupError``."""

    switch_interval_s: float | None = None
    """How many seconds a busy thread may run while other threads, such as the node's core thread,
    wait (``sys.setswitchinterval``). It applies to the whole process until the node is closed. None
    leaves it unchanged (Python's default is 5 ms); ``quicksilver.tune`` sets 1 ms."""

    tune_gc: bool = False
    """True: when the node connects, exempt all existing objects from garbage collection, and
    collect more rarely, in the whole process; see ``quicksilver.tune``."""

    plain_io: bool = False
    """Use one system call per datagram, for comparisons and old kernels."""

    faults: FaultPlan | None = None
    """Faults to inject into this node's datagrams, for tests."""

    on_unconfirmed: Callable[[Unconfirmed], None] | None = None
    """Called on the core thread as soon as messages may not have reached every member. It must be
    short and must not block. If it is set, ``send`` does not raise ``UnconfirmedError``; ``flush``
    still does."""

    tracer: Tracer | None = None
    """Receives trace records, on the core thread. It must be short and must not block."""

    engine: EngineConfig = field(default_factory=EngineConfig)
    """Settings of the protocol."""

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
        check_choice("links", self.links, LINKS_CHOICES)
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
    """Options of a group that is opened for sending."""

    behind: Behind | str | None
    empty: Empty | None
    retain: int


class JoinChoices(OpenChoices, total=False):
    """Options of a group that is joined."""

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
    links: Links
    keys_file: str | None
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


CONTROLLER_PREFIX = "unix:"


def parse_controller_path(text: object) -> str | None:
    """Return the path in ``unix:/path``, where a controller listens; None: it is no such text.

    ``unix:`` alone is where controllers listen if they are not told otherwise.
    """
    if not isinstance(text, str) or not text.startswith(CONTROLLER_PREFIX):
        return None
    return text.removeprefix(CONTROLLER_PREFIX) or default_controller_path()


def default_controller_path() -> str:
    """Return where the user's controller listens: in a folder that is this user's alone."""
    folder = os.environ.get("XDG_RUNTIME_DIR") or f"/tmp/quicksilver-{os.getuid()}"  # noqa: S108  # made with mode 0700, and checked
    return os.path.join(folder, "quicksilver-controller")


def parse_gms_address(text: str) -> tuple[str, int]:
    """Return host and port of ``host:port``; raises AddressError."""
    if not isinstance(text, str):
        raise AddressError(text)
    host, colon, port = text.rpartition(":")
    is_number = port.isascii() and port.isdigit() and len(port) <= 5
    if not colon or not host or not is_number or not 0 < int(port) < 65536:
        raise AddressError(text)
    return host, int(port)
