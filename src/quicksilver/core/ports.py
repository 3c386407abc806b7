"""The ports between a session, its host, and the host's I/O.

A session opens no socket, starts no thread and reads no clock. A host (real
sockets in ``net``, virtual ones in ``sim``) feeds it datagrams, control frames
and time, and polls what it wants to transmit; nothing is created before the
host is ready for it (dissertation 4.2.2, the pull stack).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from quicksilver.wire.ids import Address

Arrival = tuple[bytes, int, Address]
"""A datagram, its segment size when the kernel coalesced several (else 0), its source."""


class Transmit:
    """Packets for one destination, created the moment they are polled.

    ``packets`` are whole datagrams. A host may send a run of equally long ones
    in one system call.
    """

    __slots__ = ("destination", "packets")

    def __init__(self, destination: Address, packets: list[bytes]) -> None:
        self.destination = destination
        self.packets = packets


class SessionPort(Protocol):
    """What a host drives: a node's session, with its engine. All calls come from one thread."""

    def classify(self, data: bytes) -> int:
        """Priority of an arrived datagram: 0 tokens, 1 control and repair, 2 data."""
        ...

    def handle_datagram(self, data: bytes, source: Address, now: float) -> None: ...

    def handle_segments(self, data: bytes, segment_bytes: int, source: Address, now: float) -> None:
        """Several datagrams of one source, coalesced by the kernel (UDP_GRO)."""
        ...

    def handle_drained(self, now: float) -> None:
        """Everything that had arrived by ``now``, a little ago, has been handled."""
        ...

    def handle_drops(self, drops: int) -> None:
        """So many datagrams in all did not fit into the kernel's receive buffers."""
        ...

    def handle_timeout(self, now: float) -> None: ...

    def next_timeout(self) -> float | None: ...

    def handle_turn(self) -> None:
        """The host begins to transmit: take up what application threads queued."""
        ...

    def has_outgoing(self) -> bool:
        """True when application threads queued something that can leave now."""
        ...

    def has_transmits(self) -> bool:
        """False when ``poll_transmit`` would have nothing, after ``handle_turn``."""
        ...

    def poll_transmit(self, now: float) -> Transmit | None: ...

    def handle_control_opened(self, now: float) -> None:
        """The stream to the GMS is up; ``poll_control`` gives the greeting."""
        ...

    def handle_control_frame(self, frame: bytes, now: float) -> None: ...

    def handle_control_closed(self, reason: str, now: float) -> None: ...

    def has_control(self) -> bool:
        """True when ``poll_control`` has a frame, or ``poll_control_close`` a reason."""
        ...

    def poll_control(self, now: float) -> bytes | None:
        """Next frame for the GMS (without its length prefix)."""
        ...

    def poll_control_close(self) -> str | None:
        """Return why the stream to the GMS is to be closed and opened anew, or None."""
        ...

    def handle_address(self, address: Address, now: float) -> None:
        """The node's unicast address is another one from now on."""
        ...

    def has_events(self) -> bool:
        """True when its application has something to take, before more is handled."""
        ...

    def multicast_addresses(self) -> frozenset[str]:
        """Addresses whose traffic this node wants now; compared by identity."""
        ...

    def is_receiving_paused(self) -> bool:
        """True while data should stay in the kernel: the application is behind."""
        ...


class DiskPort(Protocol):
    """Room on disk for packets that no longer fit into memory; for the core thread."""

    def write(self, packet: bytes, done: Callable[[int | None], None]) -> None:
        """Write a packet; ``done`` gets its place, or None if there is no room or no disk.

        ``done`` is called later, among the core's disk completions: after all network I/O.
        """
        ...

    def read(self, place: int) -> bytes | None:
        """Return the packet in a place; None if it cannot be read."""
        ...

    def free(self, place: int) -> None:
        """Give a place back."""
        ...


class ControlOpened(msgspec.Struct, frozen=True):
    """The stream to the GMS is up."""


class ControlFrame(msgspec.Struct, frozen=True):
    """The GMS sent a frame (without its length prefix)."""

    frame: bytes


class ControlClosed(msgspec.Struct, frozen=True):
    """The stream to the GMS is gone."""

    reason: str


ControlEvent = ControlOpened | ControlFrame | ControlClosed


class FrameTransmit(msgspec.Struct, frozen=True):
    """A frame that a server without sockets has for one of its connections."""

    connection: int
    frame: bytes


class ConnectionFinished(msgspec.Struct, frozen=True):
    """A server's last frame for a connection was taken: close it once that is sent."""

    connection: int
    at_once: bool = False
    """Do not wait for that: whoever is there does not read."""


class Noted(msgspec.Struct, frozen=True):
    """A line for whoever runs a server: something is unusual, or over."""

    text: str


class Reported(msgspec.Struct, frozen=True):
    """Something happened that belongs in a log; the host writes it there."""

    text: str
    is_warning: bool = False


ServerEvent = ConnectionFinished | Noted | Reported


class DialWanted(msgspec.Struct, frozen=True):
    """A connection is to be made; ``handle_dialled`` is told how that went."""

    address: str
    """``host:port``, perhaps as a peer wrote it: what makes no sense cannot be reached."""
    dial: object
    """What the handler knows it by."""


class HostIO(Protocol):
    """Sockets and clock of a host, as the turn uses them; nothing here waits."""

    def clock(self) -> float: ...

    def receive_unicast(self, count: int, /) -> list[Arrival]:
        """Return at most so many datagrams of the unicast socket."""
        ...

    def receive_multicast(self, count: int, /) -> list[Arrival]:
        """Return at most so many of the multicast sockets, which carry nothing but data."""
        ...

    def send(self, destination: Address, packets: list[bytes], /) -> int:
        """Send packets; return how many there was room for."""
        ...

    def next_writable(self, now: float) -> float:
        """Return when to try again after there was no room."""
        ...

    def is_control_open(self) -> bool:
        """True while frames can be sent to the GMS."""
        ...

    def send_control(self, frame: bytes, /) -> None: ...

    def close_control(self, reason: str, now: float, /) -> None:
        """End the stream to the GMS; ControlClosed follows, and a new attempt."""
        ...

    def poll_control_event(self, now: float) -> ControlEvent | None:
        """Read and write the stream to the GMS; return the next event of it, or None."""
        ...

    def set_memberships(self, addresses: frozenset[str], /) -> None:
        """Receive what is sent to these multicast addresses, and no other."""
        ...
