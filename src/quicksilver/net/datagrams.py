"""The sockets of a node: one for sending and unicast, some for multicast.

Everything a node sends, unicast or multicast, leaves from one socket, whose
address names the node; tokens, control and repairs arrive there. Multicast
arrives at sockets of its own, so that a full data buffer cannot cost a token.

A multicast socket is bound to the port alone and would get whatever any
program on this machine has joined; three settings confine it to our groups:
``IP_MULTICAST_ALL=0`` (only groups that this socket joined), memberships by
interface, and a socket filter that refuses datagrams sent to our own unicast
address. The kernel allows a socket 20 memberships by default
(``igmp_max_memberships``): past that, another socket is opened.

Nothing here blocks, and nothing that the network does raises: it is counted.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import ipaddress
import socket
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from quicksilver.net.batching import (
    SOL_UDP,
    UDP_GRO,
    BatchReceiver,
    BatchSender,
    Received,
    probe_abilities,
    receive_plain,
    receive_sourceless,
    run_end,
    send_plain,
)
from quicksilver.net.faults import FaultInjector, FaultPlan, FreezeSchedule, split_segments
from quicksilver.net.interfaces import Interface, datagram_bytes_max
from quicksilver.stdx.units import format_bytes
from quicksilver.wire.ids import Address

_SO_ATTACH_FILTER = 26
_SO_SNDBUFFORCE = 32
_SO_RCVBUFFORCE = 33
_SO_MEMINFO = 55
_IP_MULTICAST_ALL = 49

_IS_LINUX = sys.platform == "linux"

_DRY = frozenset({0, errno.EAGAIN, errno.EWOULDBLOCK})

_BUSY = frozenset({errno.EAGAIN, errno.EWOULDBLOCK, errno.ENOBUFS, errno.EINTR})
"""Nothing is wrong: try again when the socket is writable, or a little later."""

_GSO_REFUSALS = frozenset({errno.EINVAL, errno.EIO, errno.EMSGSIZE, errno.EOPNOTSUPP})
"""What kernels say when this route or card cannot segment; plain sends still work."""

_ERRORS_IN_A_ROW_MAX = 64
"""Pending socket errors read in one call before it gives up for now."""

_BUFFER_SHARE_LOOPBACK = 2
_BUFFER_SHARE = 3
"""Part of a receive buffer that holds payload; the rest is the kernel's overhead.

Measured, memory charged per payload byte: 1.01 for 60 KB datagrams on loopback
and for coalesced ones, 1.57 for 1,472-byte datagrams and for fragments, and up
to 2.9 on cards that use a page per packet.
"""


class MembershipError(OSError):
    """The system refused a multicast membership for another reason than their number."""

    def __init__(self, address: str, interface: str, cause: OSError) -> None:
        super().__init__(cause.errno, cause.strerror)
        self.address = address
        self.interface = interface

    def __str__(self) -> str:
        return (
            f"cannot join {self.address} on {self.interface} ({self.strerror}); "
            "run `quicksilver doctor`, or choose another interface"
        )


@dataclass(slots=True)
class Counters:
    """What happened at the sockets since they were opened."""

    sent: int = 0
    """Packets handed to the kernel."""

    send_busy: int = 0
    """Sends that found the kernel's buffer full; the packets stayed with the caller."""

    send_too_long: int = 0
    """Packets dropped because they exceed what a datagram or the route can carry."""

    send_errors: int = 0
    """Packets dropped for another reason, such as a missing route."""

    gso_refused: int = 0
    """Destinations that went back to plain sends because segmentation was refused."""

    receive_errors: int = 0
    """Errors reported while receiving: a peer's port was closed, a network was gone."""

    last_error: int = 0
    """``errno`` of the latest error that was counted; 0 for none."""


class DatagramSockets:
    """All UDP traffic of one node on one interface. One thread uses it.

    ``faults`` harms datagrams on their way; ``is_data`` then tells what a plan
    for data alone may harm (without it: everything that goes by multicast).

    ``keeps_lock=False`` suits a process whose other threads are idle: reads of
    60 KB datagrams cost 8.5 µs instead of 11.5, but one busy thread makes every
    call wait for up to 5 ms (see ``batching``).
    """

    def __init__(
        self,
        *,
        interface: Interface,
        multicast_port: int,
        port: int = 0,
        receive_buffer_bytes: int = 16 << 20,
        send_buffer_bytes: int = 4 << 20,
        multicast_ttl: int = 1,
        multicast_loop: bool = True,
        plain: bool = False,
        keeps_lock: bool = True,
        faults: FaultPlan | None = None,
        is_data: Callable[[bytes], bool] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.interface = interface
        self.abilities = probe_abilities(plain=plain)
        self.counters = Counters()
        self.receive_buffer_bytes: int
        """Payload that a burst may leave in the kernel before any is lost; conservative."""
        self.warnings: tuple[str, ...] = ()
        """One line each: a limit of the system that costs performance, and its remedy."""
        self._multicast_port = multicast_port
        self._receive_buffer_bytes_asked = receive_buffer_bytes
        self._multicast: list[_MulticastSocket] = []
        self._closed_drops = 0
        # Coalescing pays off where a sender must cut its batches by the MTU. On
        # loopback datagrams are 60 KB, and GRO would join small ones only.
        self._coalesces = self.abilities.gro and self.abilities.recvmmsg
        self._coalesces = self._coalesces and not interface.is_loopback
        self._reads_sources = keeps_lock or self._coalesces or plain
        self._segment_bytes_max = datagram_bytes_max(interface) if self.abilities.gso else 0
        self._gso_refused: set[Address] = set()
        self._receiver = BatchReceiver(keeps_lock=keeps_lock) if self.abilities.recvmmsg else None
        self._sender = BatchSender(keeps_lock=keeps_lock) if self.abilities.sendmmsg else None
        self._clock = clock
        self._install_faults(faults, is_data)
        self._unicast = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._open_unicast(port, send_buffer_bytes, multicast_ttl, multicast_loop)
            self._multicast.append(self._open_multicast())
        except BaseException:
            self.close()
            raise

    # --- opening and closing ------------------------------------------------

    def _open_unicast(self, port: int, send_buffer_bytes: int, ttl: int, loop: bool) -> None:
        unicast = self._unicast
        unicast.setblocking(False)
        unicast.bind((self.interface.address, port))
        unicast.setsockopt(
            socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(self.interface.address)
        )
        unicast.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, ttl)
        unicast.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, int(loop))
        warnings = []
        wanted = self._receive_buffer_bytes_asked
        granted = set_buffer(unicast, socket.SO_RCVBUF, _SO_RCVBUFFORCE, wanted)
        if granted < wanted:
            warnings.append(_buffer_warning("receive", "net.core.rmem_max", granted, wanted))
        share = _BUFFER_SHARE_LOOPBACK if self.interface.is_loopback else _BUFFER_SHARE
        # Linux grants twice what it reports as granted, for its own overhead.
        self.receive_buffer_bytes = (2 * granted if _IS_LINUX else granted) // share
        granted = set_buffer(unicast, socket.SO_SNDBUF, _SO_SNDBUFFORCE, send_buffer_bytes)
        if granted < send_buffer_bytes:
            warnings.append(
                _buffer_warning("send", "net.core.wmem_max", granted, send_buffer_bytes)
            )
        self._enable_coalescing(unicast)
        self.warnings = tuple(warnings)
        host, bound_port = unicast.getsockname()
        self.address: Address = (host, bound_port)

    def _open_multicast(self) -> _MulticastSocket:
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if _IS_LINUX:
                sock.setsockopt(socket.IPPROTO_IP, _IP_MULTICAST_ALL, 0)
                _refuse_unicast(sock)
            elif hasattr(socket, "SO_REUSEPORT"):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            set_buffer(sock, socket.SO_RCVBUF, _SO_RCVBUFFORCE, self._receive_buffer_bytes_asked)
            self._enable_coalescing(sock)
            sock.bind(("", self._multicast_port))
        except BaseException:
            sock.close()
            raise
        return _MulticastSocket(sock)

    def _enable_coalescing(self, sock: socket.socket) -> None:
        if self._coalesces:
            sock.setsockopt(SOL_UDP, UDP_GRO, 1)

    def close(self) -> None:
        """Leave all groups and release the sockets; held datagrams are lost."""
        self._unicast.close()
        for some in self._multicast:
            some.sock.close()
        self._multicast.clear()

    def filenos(self) -> tuple[int, list[int]]:
        """Return the unicast descriptor and those for multicast.

        The latter may change with every ``set_memberships``.
        """
        return self._unicast.fileno(), [some.sock.fileno() for some in self._multicast]

    # --- memberships --------------------------------------------------------

    def set_memberships(self, addresses: frozenset[str]) -> bool:
        """Join and leave until exactly ``addresses`` are joined.

        Returns True if the multicast descriptors changed: poll the new ones, and
        note that old ones are closed already. Raises the first
        ``MembershipError`` after it has joined all that can be.
        """
        before = [some.sock for some in self._multicast]
        joined = frozenset[str]().union(*(some.groups for some in self._multicast))
        for address in sorted(joined - addresses):
            self._leave(address)
        refusals = []
        for address in sorted(addresses - joined):
            try:
                self._join(address)
            except MembershipError as error:
                refusals.append(error)
        for some in self._multicast[1:]:
            if not some.groups:
                self._closed_drops += read_memory(some.sock)[1]
                some.sock.close()
                self._multicast.remove(some)
        if refusals:
            raise refusals[0]
        return before != [some.sock for some in self._multicast]

    def _join(self, address: str) -> None:
        request = self._membership(address)
        for some in self._multicast:
            if some.is_full:
                continue
            try:
                some.sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise MembershipError(address, self.interface.name, error) from error
                some.is_full = True
            else:
                some.groups.add(address)
                return
        fresh = self._open_multicast()
        try:
            fresh.sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)
        except OSError as error:
            fresh.sock.close()
            raise MembershipError(address, self.interface.name, error) from error
        fresh.groups.add(address)
        self._multicast.append(fresh)

    def _leave(self, address: str) -> None:
        for some in self._multicast:
            if address in some.groups:
                some.groups.discard(address)
                some.is_full = False
                # An interface that went away took its memberships with it.
                with contextlib.suppress(OSError):
                    some.sock.setsockopt(
                        socket.IPPROTO_IP, socket.IP_DROP_MEMBERSHIP, self._membership(address)
                    )

    def _membership(self, address: str) -> bytes:
        try:
            return socket.inet_aton(address) + socket.inet_aton(self.interface.address)
        except OSError as error:
            cause = OSError(errno.EINVAL, "not an IPv4 address")
            raise MembershipError(address, self.interface.name, cause) from error

    # --- receiving ----------------------------------------------------------

    def receive_unicast(self, limit: int) -> list[Received]:
        """Return up to ``limit`` reads of what was sent to this node alone.

        Each is (data, segment bytes or 0 if not coalesced, source). Fewer than
        ``limit`` means that the socket is dry.
        """
        items: list[Received] = []
        self._drain(self._unicast, limit, items)
        if self._unicast_faults is not None:
            items = self._unicast_faults.filter(split_segments(items), self._clock())
        return items

    def receive_multicast(self, limit: int) -> list[Received]:
        """Return up to ``limit`` reads of what was sent to the joined groups.

        Like ``receive_unicast``, but with ``keeps_lock=False`` the source may be
        ``NO_SOURCE``: data packets name their sender themselves.
        """
        items: list[Received] = []
        if len(self._multicast) == 1:
            self._drain(self._multicast[0].sock, limit, items)
        else:
            # Begin with another socket each time, or the first could starve the rest.
            self._multicast.append(self._multicast.pop(0))
            for some in self._multicast:
                self._drain(some.sock, limit - len(items), items)
        if self._multicast_faults is not None:
            items = self._multicast_faults.filter(split_segments(items), self._clock())
        return items

    def _drain(self, sock: socket.socket, limit: int, items: list[Received]) -> None:
        end = len(items) + limit
        for _ in range(_ERRORS_IN_A_ROW_MAX):
            if not self._reads_sources and sock is not self._unicast:
                code = receive_sourceless(sock.recv, end - len(items), items)
            elif self._receiver is not None:
                code = self._receiver.receive(sock.fileno(), end - len(items), items)
            else:
                code = receive_plain(sock.recvfrom, end - len(items), items)
            if code in _DRY:
                return
            self.counters.receive_errors += 1
            self.counters.last_error = code

    def receive_drops(self) -> int:
        """Return how many datagrams the kernel discarded: a buffer was full."""
        drops = self._closed_drops + read_memory(self._unicast)[1]
        return drops + sum(read_memory(some.sock)[1] for some in self._multicast)

    def receive_backlog_bytes(self) -> int:
        """Return how much kernel memory unread datagrams occupy, overhead included."""
        backlog = read_memory(self._unicast)[0]
        return backlog + sum(read_memory(some.sock)[0] for some in self._multicast)

    # --- sending ------------------------------------------------------------

    def send(self, destination: Address, packets: list[bytes]) -> int:
        """Return how many of ``packets``, from the first, are off our hands.

        Fewer than all means that the kernel is busy: keep the rest and wait until
        the unicast socket is writable. A packet that cannot be sent at all is
        counted and dropped, as the network would.
        """
        if self._send_faults is None:
            return self._send(destination, packets)
        offered = [(destination, packet) for packet in packets]
        self._send_held(self._send_faults.filter(offered, self._clock()))
        return len(packets)

    def _send(self, destination: Address, packets: list[bytes]) -> int:
        at, total, counters = 0, len(packets), self.counters
        errors = 0
        while at < total:
            segment_bytes_max = self._segment_bytes_max
            if destination in self._gso_refused:
                segment_bytes_max = 0
            start = at
            if self._sender is not None:
                at, code = self._sender.send(
                    self._unicast.fileno(), destination, packets, start, segment_bytes_max
                )
            else:
                at, code = send_plain(self._unicast.sendto, destination, packets, start)
            counters.sent += at - start
            if code == 0:
                continue
            if code in _BUSY:
                counters.send_busy += 1
                break
            is_run = len(packets[at]) <= segment_bytes_max and run_end(packets, at) > at + 1
            if is_run and code in _GSO_REFUSALS:
                # This route or card cannot segment; its packets are not at fault.
                self._gso_refused.add(destination)
                counters.gso_refused += 1
                continue
            counters.last_error = code
            errors += 1
            if code == errno.ECONNREFUSED and errors == 1:
                # The error of an earlier send; this packet has not been tried.
                counters.receive_errors += 1
            elif code == errno.EMSGSIZE:
                counters.send_too_long += 1
                at += 1
            else:
                counters.send_errors += 1
                at += 1
        return at

    def _send_held(self, due: list[tuple[Address, bytes]]) -> None:
        start = 0
        while start < len(due):
            destination = due[start][0]
            end = start
            while end < len(due) and due[end][0] == destination:
                end += 1
            # What the kernel refuses now is lost: faults are on, so nobody minds.
            self._send(destination, [packet for _, packet in due[start:end]])
            start = end

    # --- faults -------------------------------------------------------------

    def _install_faults(
        self, plan: FaultPlan | None, is_data: Callable[[bytes], bool] | None
    ) -> None:
        self._unicast_faults: FaultInjector[Received] | None = None
        self._multicast_faults: FaultInjector[Received] | None = None
        self._send_faults: FaultInjector[tuple[Address, bytes]] | None = None
        self._freezes = None if plan is None else FreezeSchedule(plan, self._clock())
        if plan is None:
            return
        is_partial = plan.kinds == "data"
        if plan.applies_to("receive"):
            spared = None
            if is_partial and is_data is not None:
                spared = _spare_received(is_data)
            self._multicast_faults = FaultInjector(plan, "receive multicast", spared)
            if not is_partial or spared is not None:
                self._unicast_faults = FaultInjector(plan, "receive unicast", spared)
        if plan.applies_to("send"):
            self._send_faults = FaultInjector(
                plan, "send", _spare_sent(is_data) if is_partial else None
            )

    def next_release(self) -> float | None:
        """Return when a datagram that faults hold back is due; call ``release`` then."""
        times = [
            due
            for injector in (self._unicast_faults, self._multicast_faults, self._send_faults)
            if injector is not None and (due := injector.next_release()) is not None
        ]
        return min(times) if times else None

    def release(self) -> None:
        """Send what faults held back until now; arrivals come with the next receive call."""
        if self._send_faults is not None:
            self._send_held(self._send_faults.filter([], self._clock()))

    def freeze_until(self, now: float) -> float | None:
        """Return until when faults want this node to stand still; mostly ``None``."""
        return None if self._freezes is None else self._freezes.freeze_until(now)


class _MulticastSocket:
    """One receiving socket and what it joined."""

    __slots__ = ("groups", "is_full", "sock")

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.groups: set[str] = set()
        self.is_full = False
        """The kernel refused a membership, and none was given up since."""


def set_buffer(sock: socket.socket, option: int, option_force: int, wanted: int) -> int:
    """Ask for a socket buffer, by privilege if possible; return what was granted."""
    if _IS_LINUX:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, option_force, wanted)
            return sock.getsockopt(socket.SOL_SOCKET, option) // 2
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, option, wanted)
    granted = sock.getsockopt(socket.SOL_SOCKET, option)
    # Linux reports double, because half is meant for its own bookkeeping.
    return granted // 2 if _IS_LINUX else granted


def read_memory(sock: socket.socket) -> tuple[int, int]:
    """Return (bytes of kernel memory that unread data occupies, datagrams dropped).

    One ``getsockopt``, 0.5 µs; zeros where the system does not tell.
    """
    if not _IS_LINUX:
        return 0, 0
    try:
        info = sock.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 36)
    except OSError:
        return 0, 0
    if len(info) < 36:
        return 0, 0
    fields = struct.unpack("9I", info)
    return fields[0], fields[8]


def multicast_works(interface: Interface, timeout_s: float = 0.25) -> bool:
    """True if a datagram sent to a group on ``interface`` comes back to us.

    It tells whether this machine multicasts on this interface, not whether the
    network between two machines does. Where it is False, regions need unicast
    fan-out.
    """
    group = "239.255.77.77"
    try:
        with (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
        ):
            receiver.bind(("", 0))
            own = socket.inet_aton(interface.address)
            receiver.setsockopt(
                socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group) + own
            )
            sender.bind((interface.address, 0))
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, own)
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 0)
            question = f"quicksilver self-test {sender.getsockname()}".encode()
            sender.sendto(question, (group, receiver.getsockname()[1]))
            deadline = time.monotonic() + timeout_s
            while (left := deadline - time.monotonic()) > 0:
                receiver.settimeout(left)
                if receiver.recv(2048) == question:
                    return True
    except OSError:
        return False
    return False


def _refuse_unicast(sock: socket.socket) -> None:
    """Let only datagrams whose IP destination is a multicast address into ``sock``."""
    load_destination = struct.pack("=HBBI", 0x20, 0, 0, 0xFFF00000 + 16)
    keep_top_bits = struct.pack("=HBBI", 0x54, 0, 0, 0xF0000000)
    skip_unless_multicast = struct.pack("=HBBI", 0x15, 0, 1, 0xE0000000)
    accept = struct.pack("=HBBI", 0x06, 0, 0, 0xFFFFFFFF)
    refuse = struct.pack("=HBBI", 0x06, 0, 0, 0)
    program = ctypes.create_string_buffer(
        load_destination + keep_top_bits + skip_unless_multicast + accept + refuse, 40
    )
    request = struct.pack("HP", 5, ctypes.addressof(program))
    # Some sandboxes forbid filters; the engine drops strangers' packets anyway.
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, request)


def _spare_received(is_data: Callable[[bytes], bool]) -> Callable[[Received], bool]:
    return lambda item: not is_data(item[0])


def _spare_sent(
    is_data: Callable[[bytes], bool] | None,
) -> Callable[[tuple[Address, bytes]], bool]:
    if is_data is not None:
        return lambda item: not is_data(item[1])
    return lambda item: not ipaddress.IPv4Address(item[0][0]).is_multicast


def _buffer_warning(which: str, limit: str, granted: int, wanted: int) -> str:
    return (
        f"the {which} buffer is limited to {format_bytes(granted)}, {format_bytes(wanted)} wanted: "
        f"bursts will be lost sooner; fix: sysctl -w {limit}={wanted}"
    )
