"""Datagrams as a service: UDP sockets, and one thread that waits for them."""

from __future__ import annotations

import ipaddress
import select
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from typing import ClassVar

from quicksilver.live.runtime.executors import Executor
from quicksilver.stdx.errors import QuicksilverError

DATAGRAM_BYTES_MAX = 65_507
QUEUED_MAX = 10_000
"""Datagrams that may wait for the executor; more are dropped, as a kernel would."""

Address = tuple[str, int]
OnDatagram = Callable[[bytes], None]


class DatagramAddressError(QuicksilverError, ValueError):
    """An address that datagrams cannot be sent to."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"{self.text!r} is no address: say it as 239.1.2.3:5000, numbers only"


def parse_address(text: str) -> Address:
    """Return address and port; raises DatagramAddressError."""
    host, _, port = text.rpartition(":")
    try:
        number = int(port)
        ipaddress.IPv4Address(host)
    except ValueError:
        raise DatagramAddressError(text) from None
    if not 0 < number < 65536:
        raise DatagramAddressError(text)
    return host, number


class DatagramPort:
    """An open way for datagrams."""

    def send(self, data: bytes) -> None:
        """Send to everybody on the way, oneself included; it may be lost."""
        raise NotImplementedError

    def close(self) -> None:
        """Hear nothing more."""
        raise NotImplementedError


class Datagrams:
    """The service that components ask for."""

    MISSING_HINT: ClassVar[str] = "provide SocketDatagrams(executor)"

    def open(self, local: Address, peers: Sequence[Address], take: OnDatagram) -> DatagramPort:
        """Open a way: to a multicast address if ``local`` is one, else to the peers."""
        raise NotImplementedError


class SocketDatagrams(Datagrams):
    """UDP sockets; while there are any, one thread waits for all of them."""

    def __init__(self, executor: Executor, interface: str = "127.0.0.1", ttl: int = 1) -> None:
        """``interface`` is the address of the interface that multicast goes through."""
        self._executor = executor
        self._interface = interface
        self._ttl = ttl
        self._lock = threading.Lock()
        self._watch: _Watch | None = None

    def open(self, local: Address, peers: Sequence[Address], take: OnDatagram) -> DatagramPort:
        """Open a socket; raises OSError."""
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            is_multicast = ipaddress.IPv4Address(local[0]).is_multicast
            sock.bind(local)
            if is_multicast:
                here = socket.inet_aton(self._interface)
                member = struct.pack("4s4s", socket.inet_aton(local[0]), here)
                sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
                sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, here)
                sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, self._ttl)
                sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
        except OSError:
            sock.close()
            raise
        to = [local] if is_multicast else list(peers)
        port = _SocketPort(self, self._executor, sock, to, take, echoes=not is_multicast)
        with self._lock:
            if self._watch is None:
                self._watch = _Watch()
            self._watch.add(port)
        return port

    def forget(self, port: _SocketPort) -> None:
        """Wait for a socket no more, and close it."""
        with self._lock:
            assert self._watch is not None
            if not self._watch.remove(port):
                self._watch = None
            port.socket.close()


class _Watch:
    """A thread that waits for sockets, until there are none."""

    def __init__(self) -> None:
        self._ports: dict[int, _SocketPort] = {}
        self._poll = select.epoll()
        self._waker, self._woken = socket.socketpair()
        self._poll.register(self._woken.fileno(), select.EPOLLIN)
        self._thread = threading.Thread(target=self._run, name="live-datagrams", daemon=True)
        self._thread.start()

    def add(self, port: _SocketPort) -> None:
        file = port.socket.fileno()
        self._ports[file] = port
        self._poll.register(file, select.EPOLLIN)

    def remove(self, port: _SocketPort) -> bool:
        """Wait for a socket no more; False if none is left, and the watch is over."""
        file = port.socket.fileno()
        del self._ports[file]
        self._poll.unregister(file)
        if not self._ports:
            self._waker.send(b"x")
        return bool(self._ports)

    def _run(self) -> None:
        own = self._woken.fileno()
        with self._poll, self._waker, self._woken:
            while True:
                for file, _ in self._poll.poll():
                    if file == own:
                        return
                    port = self._ports.get(file)
                    if port is not None:
                        port.read()


class _SocketPort(DatagramPort):
    def __init__(
        self,
        owner: SocketDatagrams,
        executor: Executor,
        sock: socket.socket,
        to: list[Address],
        take: OnDatagram,
        *,
        echoes: bool,
    ) -> None:
        self._owner = owner
        self._executor = executor
        self.socket = sock
        self._to = to
        self._take = take
        self._echoes = echoes
        """To peers: the kernel does not give us what we send, so we do."""
        self._came = 0
        self._handed = 0
        self._is_closed = False

    def send(self, data: bytes) -> None:
        for address in self._to:
            try:
                self.socket.sendto(data, address)
            except OSError:
                pass  # a full buffer or an unreachable peer loses datagrams: best effort
        if self._echoes:
            self._hand(data)

    def read(self) -> None:
        """Take what has come; on the thread of the sockets."""
        for _ in range(64):
            try:
                data = self.socket.recv(DATAGRAM_BYTES_MAX + 1)
            except OSError:
                return
            self._hand(data)

    def _hand(self, data: bytes) -> None:
        if self._came - self._handed >= QUEUED_MAX:
            return
        self._came += 1
        self._executor.post(lambda: self._give(data))

    def _give(self, data: bytes) -> None:
        self._handed += 1
        if not self._is_closed:
            self._take(data)

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._owner.forget(self)
