"""Datagrams of a node of a scope, on its event loop: to single nodes, and by IP multicast.

Nothing is opened before it is needed, but what others send single datagrams to. Each scope that
uses multicast has a port of its own, and each port has sockets of its own. What is longer than
the interface carries travels in pieces.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import asdict

from quicksilver.net.datagrams import DatagramSockets, MembershipError
from quicksilver.net.interfaces import Interface, datagram_bytes_max
from quicksilver.net.listening import open_listener
from quicksilver.net.sockopts import PortError
from quicksilver.node.log import NODE
from quicksilver.node.options import NodeOptions
from quicksilver.scopes.dissemination.channels import External, Link
from quicksilver.scopes.dissemination.pieces import Cutter, Joined, Joiner
from quicksilver.stdx.text import printable
from quicksilver.wire.ids import Address

RETRY_S = 0.001
"""When to try again after the kernel had no room."""

RECEIVE_MAX = 64
"""Datagrams that are taken from a socket before others have a turn."""

BATCH_MAX = 64
"""Datagrams that are given to the kernel at once."""

NO_MULTICAST = 0
"""In place of a port, where nothing comes by multicast."""

TRIES_MAX = 16
"""Ports that are tried until one is found that is free for connections and for datagrams."""

PORTS_MAX = 64
"""Scopes with multicast that one node can be in."""

ADDRESSES_MAX = 1024
"""Places to send to that are remembered; forgotten together."""

Take = Callable[[bytes], None]
Poll = Callable[[], tuple[Link | External, bytes] | None]


def open_node_port(
    interface: Interface, options: NodeOptions
) -> tuple[socket.socket, DatagramSockets | None]:
    """Listen for connections, and for datagrams at the same port if links are ``"udp"``.

    Raises ``ListenError``, or ``PortError`` if the port is not free for datagrams.
    """
    tries = 0
    while True:
        tries += 1
        listener = open_listener(interface.address, options.port)
        if options.links == "tcp":
            return listener, None
        try:
            port = listener.getsockname()[1]
            return listener, _open_sockets(interface, options, port=port)
        except PortError:
            listener.close()
            if options.port or tries == TRIES_MAX:
                raise


def _open_sockets(
    interface: Interface, options: NodeOptions, *, port: int = 0, multicast_port: int = NO_MULTICAST
) -> DatagramSockets:
    return DatagramSockets(
        interface=interface,
        multicast_port=multicast_port,
        port=port,
        receive_buffer_bytes=options.receive_buffer_bytes,
        send_buffer_bytes=options.send_buffer_bytes,
        multicast_ttl=options.multicast_ttl,
        plain=options.plain_io,
        faults=options.faults,
        is_data=None if multicast_port else lambda _: True,
    )


class ScopedDatagrams:
    """All datagrams of one node; loop's thread only."""

    def __init__(
        self,
        interface: Interface,
        options: NodeOptions,
        *,
        on_datagrams: Callable[[list[Joined]], None],
        poll: Poll,
        unicast: DatagramSockets | None = None,
    ) -> None:
        """``poll`` gives what is to be sent, and is asked again when there is room.

        ``unicast``: what others send this node's datagrams to, if they do; closed at the end.
        """
        self._interface = interface
        self._options = options
        self._on_datagrams = on_datagrams
        self._poll = poll
        self._loop = asyncio.get_running_loop()
        limit = datagram_bytes_max(interface)
        own = int.from_bytes(os.urandom(8), "little")
        self._cutter = Cutter(min(options.packet_bytes or limit, limit), own)
        self._joiner = Joiner()
        self._addresses: dict[Link | External, Address | None] = {}
        """What places to send to were understood as."""
        self._by_port: dict[int, DatagramSockets] = {}
        """By the port of multicast; ``NO_MULTICAST`` for datagrams to this node alone."""
        self._wanted: dict[int, set[str]] = {}
        """Multicast addresses, by port."""
        self._watched: dict[int, list[int]] = {}
        """Descriptors, by port."""
        self._unsent: deque[tuple[Address, list[bytes]]] = deque()
        self._retry: asyncio.TimerHandle | None = None
        self._release: asyncio.TimerHandle | None = None
        self._is_paused = False
        self.refused = 0
        """Addresses that could not be joined or sent to."""
        if unicast is not None:
            self._by_port[NO_MULTICAST] = unicast
            self._watch(NO_MULTICAST)

    def close(self) -> None:
        for handle in (self._retry, self._release):
            if handle is not None:
                handle.cancel()
        for port, sockets in self._by_port.items():
            self._unwatch(port)
            sockets.close()
        self._by_port.clear()

    def counters(self) -> dict[str, int]:
        totals: dict[str, int] = dict(self._joiner.counters)
        for sockets in self._by_port.values():
            for name, count in asdict(sockets.counters).items():
                totals[name] = totals.get(name, 0) + int(count)
        return totals

    # Memberships

    def listen(self, where: External) -> None:
        """Take what is sent to a multicast address, if that is what ``where`` is."""
        address = _parse(where.name)
        if where.mechanism != "multicast" or address is None:
            self.refused += 1
            return
        host, port = address
        self._wanted.setdefault(port, set()).add(host)
        self._update(port)

    def leave(self, where: External) -> None:
        address = _parse(where.name)
        if address is not None and address[0] in self._wanted.get(address[1], ()):
            self._wanted[address[1]].discard(address[0])
            self._update(address[1])

    def _update(self, port: int) -> None:
        sockets = self._sockets(port)
        if sockets is None:
            return
        self._unwatch(port)
        try:
            sockets.set_memberships(frozenset(self._wanted.get(port, ())))
        except MembershipError as error:
            self.refused += 1
            NODE.warning("%s; messages come by repair only", error)
        self._watch(port)

    def _sockets(self, port: int) -> DatagramSockets | None:
        """Return the sockets of a multicast port; None: they cannot be opened."""
        sockets = self._by_port.get(port)
        if sockets is not None:
            return sockets
        if len(self._by_port) >= PORTS_MAX:
            self.refused += 1
            return None
        try:
            sockets = _open_sockets(self._interface, self._options, multicast_port=port)
        except OSError as error:
            self.refused += 1
            NODE.warning("no sockets for multicast port %d: %s", port, error)
            return None
        self._by_port[port] = sockets
        return sockets

    # Receiving

    def pause(self, *, paused: bool) -> None:
        """Leave datagrams in the kernel for a while; what does not fit there is repaired."""
        self._is_paused = paused
        for port in self._by_port:
            self._unwatch(port)
            self._watch(port)

    def _watch(self, port: int) -> None:
        if self._is_paused:
            return
        unicast, multicast = self._by_port[port].filenos()
        self._watched[port] = [unicast, *multicast]
        for fd in self._watched[port]:
            self._loop.add_reader(fd, self._receive, port)

    def _unwatch(self, port: int) -> None:
        for fd in self._watched.pop(port, []):
            self._loop.remove_reader(fd)

    def _receive(self, port: int) -> None:
        sockets = self._by_port[port]
        arrived = sockets.receive_multicast(RECEIVE_MAX) + sockets.receive_unicast(RECEIVE_MAX)
        found: list[Joined] = []
        for data, segment, _ in arrived:
            found += self._joiner.take(data, segment)
        if found:
            self._on_datagrams(found)
        self._watch_faults(port)

    def _watch_faults(self, port: int) -> None:
        """Come back for what injected faults hold back."""
        due = self._by_port[port].next_release()
        if due is not None and self._release is None:
            self._release = self._loop.call_at(due, self._handle_release, port)

    def _handle_release(self, port: int) -> None:
        self._release = None
        self._by_port[port].release()
        self._receive(port)

    # Sending

    def send(self) -> None:
        """Send what there is, as far as the kernel has room."""
        if self._retry is not None:
            return
        while self._unsent or self._fill():
            address, packets = self._unsent[0]
            sockets = self._by_port.get(address[1]) or self._any_sockets(address[1])
            if sockets is None:
                self._unsent.popleft()
                continue
            sent = sockets.send(address, packets)
            if sent < len(packets):
                self._unsent[0] = address, packets[sent:]
                self._retry = self._loop.call_later(RETRY_S, self._send_again)
                return
            self._unsent.popleft()
            for port in self._by_port:
                self._watch_faults(port)

    def _any_sockets(self, port: int) -> DatagramSockets | None:
        return next(iter(self._by_port.values()), None) or self._sockets(port)

    def _send_again(self) -> None:
        self._retry = None
        self.send()

    def _fill(self) -> bool:
        """Take some datagrams, together where they follow each other to one address."""
        for _ in range(BATCH_MAX):
            polled = self._poll()
            if polled is None:
                break
            where, data = polled
            address = self._find_address(where)
            if address is None:
                self.refused += 1
            elif self._unsent and self._unsent[-1][0] == address:
                self._unsent[-1][1].extend(self._cutter.cut(data))
            else:
                self._unsent.append((address, self._cutter.cut(data)))
        return bool(self._unsent)

    def _find_address(self, where: Link | External) -> Address | None:
        try:
            return self._addresses[where]
        except KeyError:
            if len(self._addresses) >= ADDRESSES_MAX:
                self._addresses.clear()
            text = where.address if isinstance(where, Link) else where.name
            address = self._addresses[where] = _parse(text)
            return address


def _parse(text: str) -> Address | None:
    """Return the address that a manager or a peer has named; None: it is none."""
    host, _, port = text.rpartition(":")
    is_port = port.isascii() and port.isdigit() and 0 < int(port[:6]) < 1 << 16
    if not host or not is_port:
        NODE.debug("%s is not an address", printable(text))
        return None
    return host, int(port)
