"""Multicast receive sockets, as many as the memberships need.

A multicast socket is bound to the port alone and would get whatever any
program on this machine has joined; three settings confine it to our groups:
``IP_MULTICAST_ALL=0`` (only groups that this socket joined), memberships by
interface, and a socket filter that refuses datagrams sent to our own unicast
address. The kernel allows a socket 20 memberships by default
(``igmp_max_memberships``): past that, another socket is opened.
"""

from __future__ import annotations

import contextlib
import errno
import socket

from quicksilver.net.batch_calls import SOL_UDP, UDP_GRO
from quicksilver.net.interfaces import Interface
from quicksilver.net.sockopts import (
    IP_MULTICAST_ALL,
    IS_LINUX,
    bind,
    read_memory,
    refuse_unicast,
    set_buffer,
)
from quicksilver.stdx.errors import QuicksilverError


class MembershipError(QuicksilverError, OSError):
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


class _Member:
    """One receiving socket and what it joined."""

    __slots__ = ("groups", "is_full", "sock")

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.groups: set[str] = set()
        self.is_full = False
        """The kernel refused a membership, and none was given up since."""


class MulticastSockets:
    """At least one socket on ``port``; together they are in the wanted groups."""

    def __init__(
        self, interface: Interface, port: int, *, receive_buffer_bytes: int, coalesces: bool
    ) -> None:
        self._interface = interface
        self._port = port
        self._receive_buffer_bytes = receive_buffer_bytes
        self._coalesces = coalesces
        self._closed_drops = 0
        self._members = [self._open()]
        self.sockets: list[socket.socket] = [self._members[0].sock]
        """The open sockets; replaced, never changed, when memberships change it."""

    def _open(self) -> _Member:
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if IS_LINUX:
                sock.setsockopt(socket.IPPROTO_IP, IP_MULTICAST_ALL, 0)
                refuse_unicast(sock)
            elif hasattr(socket, "SO_REUSEPORT"):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            set_buffer(sock, socket.SO_RCVBUF, self._receive_buffer_bytes)
            if self._coalesces:
                sock.setsockopt(SOL_UDP, UDP_GRO, 1)
            bind(sock, "", self._port, "multicast")
        except BaseException:
            sock.close()
            raise
        return _Member(sock)

    def close(self) -> None:
        """Leave all groups."""
        for some in self._members:
            some.sock.close()

    def set_memberships(self, addresses: frozenset[str]) -> bool:
        """Join and leave until exactly ``addresses`` are joined.

        Returns True if ``sockets`` changed. Raises the first ``MembershipError``
        after it has joined all that can be.
        """
        joined = frozenset[str]().union(*(some.groups for some in self._members))
        for address in sorted(joined - addresses):
            self._leave(address)
        refusals = []
        for address in sorted(addresses - joined):
            try:
                self._join(address)
            except MembershipError as error:
                refusals.append(error)
        has_changed = self._settle()
        if refusals:
            raise refusals[0]
        return has_changed

    def read_memory(self) -> tuple[int, int]:
        """Return bytes waiting and datagrams dropped, of all sockets since the start."""
        backlog, drops = 0, self._closed_drops
        for some in self._members:
            one_backlog, one_drops = read_memory(some.sock)
            backlog += one_backlog
            drops += one_drops
        return backlog, drops

    def _settle(self) -> bool:
        """Close sockets without a group, except the last; True if ``sockets`` changed."""
        in_use = [some for some in self._members if some.groups] or self._members[:1]
        for some in self._members:
            if some not in in_use:
                self._closed_drops += read_memory(some.sock)[1]
                some.sock.close()
        self._members = in_use
        before, self.sockets = self.sockets, [some.sock for some in in_use]
        return before != self.sockets

    def _join(self, address: str) -> None:
        request = self._request(address)
        for some in self._members:
            if not some.is_full and self._try_join(some, address, request):
                return
        fresh = self._open()
        self._members.append(fresh)
        if not self._try_join(fresh, address, request):
            cause = OSError(errno.ENOBUFS, "not even one membership is allowed")
            raise MembershipError(address, self._interface.name, cause)

    def _try_join(self, some: _Member, address: str, request: bytes) -> bool:
        """False if the socket has as many memberships as the kernel allows."""
        try:
            some.sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise MembershipError(address, self._interface.name, error) from error
            some.is_full = True
            return False
        some.groups.add(address)
        return True

    def _leave(self, address: str) -> None:
        for some in self._members:
            if address in some.groups:
                some.groups.discard(address)
                some.is_full = False
                # An interface that went away took its memberships with it.
                with contextlib.suppress(OSError):
                    some.sock.setsockopt(
                        socket.IPPROTO_IP, socket.IP_DROP_MEMBERSHIP, self._request(address)
                    )

    def _request(self, address: str) -> bytes:
        try:
            group = socket.inet_pton(socket.AF_INET, address)
            return group + socket.inet_aton(self._interface.address)
        except (OSError, ValueError) as error:
            cause = OSError(errno.EINVAL, "not an IPv4 address")
            raise MembershipError(address, self._interface.name, cause) from error
