"""The sockets of a node: one for sending and unicast, some for multicast.

Everything a node sends, unicast or multicast, leaves from one socket, whose
address names the node; tokens, control and repairs arrive there. Multicast
arrives at sockets of its own, so that a full data buffer cannot cost a token.

Nothing here blocks, and nothing that the network does raises: it is counted.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from quicksilver.net.batch_calls import (
    GSO_SEGMENT_BYTES_MAX,
    SOL_UDP,
    UDP_GRO,
    BatchReceiver,
    BatchSender,
    Received,
    SingleSender,
    is_sendable,
    probe_abilities,
    receive_plain,
    run_end,
    send_plain,
    tune_allocator,
)
from quicksilver.net.faults import FaultInjector, FaultPlan, FreezeSchedule, split_segments
from quicksilver.net.interfaces import Interface, datagram_bytes_max
from quicksilver.net.memberships import MembershipError, MulticastSockets
from quicksilver.net.sockopts import IS_LINUX, PortError, bind, read_memory, set_buffer
from quicksilver.stdx.units import format_bytes
from quicksilver.wire.ids import Address

T = TypeVar("T")

__all__ = ["Counters", "DatagramSockets", "MembershipError", "PortError", "multicast_works"]

_DRY = frozenset({0, errno.EAGAIN, errno.EWOULDBLOCK})

_BUSY = frozenset({errno.EAGAIN, errno.EWOULDBLOCK, errno.ENOBUFS, errno.EINTR})
"""Nothing is wrong: try again when the socket is writable, or a little later."""

_GSO_REFUSALS = frozenset({errno.EINVAL, errno.EIO, errno.EMSGSIZE, errno.EOPNOTSUPP})
"""What kernels say when this route or card cannot segment; plain sends still work."""

_ERRORS_IN_A_ROW_MAX = 64
"""Pending socket errors read in one call before it gives up for now."""

_DESTINATIONS_MAX = 65_536
"""Destinations remembered; forgotten together."""

_BUFFER_SHARE_LOOPBACK = 2
_BUFFER_SHARE = 3
"""One part in so many of a receive buffer holds payload; the rest is overhead.

Measured, memory charged per payload byte: 1.01 for 60 KB datagrams on loopback
and for coalesced ones, 1.57 for 1,472-byte datagrams and for fragments; cards
that use a page per packet come to 2.9.
"""


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

    injected_drops: int = 0
    """Datagrams that were thrown away on purpose, as a fault plan says."""

    last_error: int = 0
    """``errno`` of the latest error that was counted; 0 for none."""


class DatagramSockets:
    """All UDP traffic of one node on one interface. One thread uses it.

    ``faults`` harms datagrams on their way; ``is_data`` then tells what a plan
    for data alone may harm (without it: everything that goes by multicast).

    ``multicast_loop=False`` keeps what we send from all of this machine; on the
    loopback interface it does nothing, as everything there comes back.
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
        faults: FaultPlan | None = None,
        is_data: Callable[[bytes], bool] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        tune_allocator()
        self.interface = interface
        self.abilities = probe_abilities(plain=plain)
        self.counters = Counters()
        self.receive_buffer_bytes: int
        """Payload that a burst may leave in the kernel before any is lost; conservative."""
        self.warnings: tuple[str, ...] = ()
        """One line each: a limit of the system that costs performance, and its remedy."""
        # Coalescing pays off where a sender must cut its batches by the MTU. On
        # loopback datagrams are 60 KB, and GRO would join small ones only.
        self._coalesces = self.abilities.gro and self.abilities.recvmmsg
        self._coalesces = self._coalesces and not interface.is_loopback
        self._segment_bytes_max = 0
        if self.abilities.gso:
            self._segment_bytes_max = min(datagram_bytes_max(interface), GSO_SEGMENT_BYTES_MAX)
        self._destinations: set[Address] = set()
        self._gso_refused: set[Address] = set()
        self._receiver = BatchReceiver() if self.abilities.recvmmsg else None
        self.gives_lock = False
        """Set by the host while no other thread of the process computes: reads of
        large multicast datagrams may then give up the interpreter lock."""
        self._sender = BatchSender() if self.abilities.sendmmsg else None
        self._single = SingleSender() if self.abilities.sendmmsg else None
        self._clock = clock
        self._is_data = is_data
        self.set_faults(faults)
        self._receive_buffer_wanted = receive_buffer_bytes
        self._send_buffer_wanted = send_buffer_bytes
        self._port = port
        self._ttl = multicast_ttl
        self._loops = multicast_loop
        # Multicast first: the system then avoids its port when it picks one for unicast.
        self._multicast = self._open_multicast(multicast_port)
        self._turn = 0
        self._open_unicast()

    # --- opening and closing ------------------------------------------------

    def _open_multicast(self, port: int) -> MulticastSockets:
        self._multicast_port = port
        return MulticastSockets(
            self.interface,
            port,
            receive_buffer_bytes=self._receive_buffer_wanted,
            coalesces=self._coalesces,
        )

    def set_multicast_port(self, port: int) -> None:
        """Receive multicast on another port; memberships must be set again."""
        if port != self._multicast_port:
            self._multicast.close()
            self._multicast = self._open_multicast(port)

    def move(self, interface: Interface) -> None:
        """Use another address from now on; all descriptors change, memberships are gone."""
        self.close()
        self.interface = interface
        self._multicast = self._open_multicast(self._multicast_port)
        self._open_unicast()

    def _open_unicast(self) -> None:
        self._unicast = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._bind_unicast(self._unicast, self.interface.address)
            self._size_buffers(self._receive_buffer_wanted, self._send_buffer_wanted)
        except BaseException:
            self.close()
            raise

    def _bind_unicast(self, unicast: socket.socket, own: str) -> None:
        unicast.setblocking(False)
        bind(unicast, own, self._port, "unicast")
        unicast.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(own))
        unicast.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, self._ttl)
        unicast.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, int(self._loops))
        if self._coalesces:
            unicast.setsockopt(SOL_UDP, UDP_GRO, 1)
        host, bound_port = unicast.getsockname()
        self.address: Address = (host, bound_port)

    def _size_buffers(self, receive_wanted: int, send_wanted: int) -> None:
        received = set_buffer(self._unicast, socket.SO_RCVBUF, receive_wanted)
        sent = set_buffer(self._unicast, socket.SO_SNDBUF, send_wanted)
        share = _BUFFER_SHARE_LOOPBACK if self.interface.is_loopback else _BUFFER_SHARE
        # Linux charges its overhead too, and for that allows twice what it grants.
        self.receive_buffer_bytes = (2 * received if IS_LINUX else received) // share
        self.warnings = tuple(
            f"the {which} buffer is limited to {format_bytes(granted)}, "
            f"{format_bytes(wanted)} wanted; fix: sysctl -w {limit}={wanted}"
            for which, limit, granted, wanted in (
                ("receive", "net.core.rmem_max", received, receive_wanted),
                ("send", "net.core.wmem_max", sent, send_wanted),
            )
            if granted < wanted
        )

    def close(self) -> None:
        """Leave all groups and release the sockets; held datagrams are lost."""
        self._unicast.close()
        self._multicast.close()

    def filenos(self) -> tuple[int, list[int]]:
        """Return the unicast descriptor and those for multicast.

        The latter may change with every ``set_memberships``.
        """
        return self._unicast.fileno(), [sock.fileno() for sock in self._multicast.sockets]

    def set_memberships(self, addresses: frozenset[str]) -> bool:
        """Join and leave until exactly ``addresses`` are joined.

        Returns True if the multicast descriptors changed: poll the new ones, and
        note that old ones are closed already. Raises the first
        ``MembershipError`` after it has joined all that can be.
        """
        return self._multicast.set_memberships(addresses)

    # --- receiving ----------------------------------------------------------

    def receive_unicast(self, limit: int) -> list[Received]:
        """Return up to ``limit`` reads of what was sent to this node alone.

        Each is (data, segment bytes or 0 if not coalesced, source). Fewer than
        ``limit`` means that the socket is dry.
        """
        items: list[Received] = []
        self._drain(self._unicast, limit, items)
        if self._send_faults is not None:
            self.release()
        if self._unicast_faults is not None:
            items = self._harm(self._unicast_faults, split_segments(items))
        return items

    def receive_multicast(self, limit: int) -> list[Received]:
        """Return up to ``limit`` reads of what was sent to the joined groups.

        Like ``receive_unicast``.
        """
        items: list[Received] = []
        sockets = self._multicast.sockets
        if len(sockets) == 1:
            self._drain(sockets[0], limit, items)
        else:
            # Begin with another socket each time, or the first could starve the rest.
            self._turn = (self._turn + 1) % len(sockets)
            for sock in sockets[self._turn :] + sockets[: self._turn]:
                self._drain(sock, limit - len(items), items)
        if self._multicast_faults is not None:
            items = self._harm(self._multicast_faults, split_segments(items))
        return items

    def _drain(self, sock: socket.socket, limit: int, items: list[Received]) -> None:
        end = len(items) + limit
        for _ in range(_ERRORS_IN_A_ROW_MAX):
            if self.gives_lock and not self._coalesces and sock is not self._unicast:
                code = receive_plain(sock.recvfrom, end - len(items), items)
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
        return read_memory(self._unicast)[1] + self._multicast.read_memory()[1]

    def receive_backlog_bytes(self) -> int:
        """Return how much kernel memory unread datagrams occupy, overhead included."""
        return read_memory(self._unicast)[0] + self._multicast.read_memory()[0]

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
        self._send_held(self._harm(self._send_faults, offered))
        return len(packets)

    def _send(self, destination: Address, packets: list[bytes]) -> int:
        at, total, counters = 0, len(packets), self.counters
        if destination not in self._destinations:
            # Addresses come from peers: a bad one is their fault, not ours to raise.
            if not is_sendable(destination):
                counters.send_errors += total
                counters.last_error = errno.EINVAL
                return total
            if len(self._destinations) >= _DESTINATIONS_MAX:
                self._destinations.clear()
                self._gso_refused.clear()
            self._destinations.add(destination)
        errors = 0
        while at < total:
            segment_bytes_max = self._segment_bytes_max
            if destination in self._gso_refused:
                segment_bytes_max = 0
            start = at
            packet = packets[at]
            if self._single is not None and (
                total - at == 1 or len(packet) > GSO_SEGMENT_BYTES_MAX
            ):
                # A run's other packets are as long, but for a shorter last one.
                at, code = self._single.send(self._unicast.fileno(), destination, packets, at)
            elif self._sender is not None:
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

    def set_faults(self, plan: FaultPlan | None) -> None:
        """Harm datagrams as a plan says from now on; what an earlier one held back is lost."""
        is_data = self._is_data
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

    def _harm(self, injector: FaultInjector[T], items: list[T]) -> list[T]:
        before = injector.dropped
        left = injector.filter(items, self._clock())
        self.counters.injected_drops += injector.dropped - before
        return left

    def next_release(self) -> float | None:
        """Return when a datagram that faults hold back is due.

        The receive calls let it go; ``receive_unicast`` also sends what was held.
        """
        times = [
            due
            for injector in (self._unicast_faults, self._multicast_faults, self._send_faults)
            if injector is not None and (due := injector.next_release()) is not None
        ]
        return min(times) if times else None

    def release(self) -> None:
        """Send what faults held back until now."""
        if self._send_faults is not None:
            self._send_held(self._send_faults.filter([], self._clock()))

    def freeze_until(self, now: float) -> float | None:
        """Return until when faults want this node to stand still; mostly ``None``."""
        return None if self._freezes is None else self._freezes.freeze_until(now)


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


def _spare_received(is_data: Callable[[bytes], bool]) -> Callable[[Received], bool]:
    return lambda item: not is_data(item[0])


def _spare_sent(
    is_data: Callable[[bytes], bool] | None,
) -> Callable[[tuple[Address, bytes]], bool]:
    if is_data is not None:
        return lambda item: not is_data(item[1])
    return lambda item: not ipaddress.IPv4Address(item[0][0]).is_multicast
