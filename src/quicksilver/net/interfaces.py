"""Network interfaces: which there are, and which one a node should use.

A node sends and receives on one interface. It is named, given by its address,
or found as the one whose route leads to the GMS; that last rule is right on
most machines because members and their GMS share a network.

Interfaces are read with ``ioctl``; where that is missing (outside Linux) only
loopback and the address of the default route are known, with a cautious MTU.
"""

from __future__ import annotations

import array
import contextlib
import ipaddress
import socket
import struct
import sys
from dataclasses import dataclass

from quicksilver.stdx.errors import QuicksilverError

if sys.platform == "linux":
    import fcntl

_SIOCGIFCONF = 0x8912
_SIOCGIFFLAGS = 0x8913
_SIOCGIFMTU = 0x8921

_IFF_UP = 0x1
_IFF_LOOPBACK = 0x8
_IFF_MULTICAST = 0x1000

_IFREQ_BYTES = struct.calcsize("16s16s") + 8
"""``struct ifreq`` on 64-bit Linux: a name and a union of 24 bytes."""

_MTU_UNKNOWN = 1400
"""Assumed where the MTU cannot be read: fits Ethernet and common tunnels."""

_IP_UDP_HEADER_BYTES = 28

LOOPBACK_DATAGRAM_BYTES_MAX = 60_000
"""Loopback takes 65,507; 60,000 measured the best rate per byte and leaves headers room."""

_DISCARD_PORT = 9


class InterfaceError(QuicksilverError):
    """No network interface can be used."""

    def __init__(self, problem: str, fix: str) -> None:
        super().__init__(problem, fix)
        self.problem = problem
        """What is wrong."""
        self.fix = fix
        """What to do about it."""

    def __str__(self) -> str:
        return f"{self.problem}; {self.fix}"


@dataclass(frozen=True, slots=True)
class Interface:
    """One IPv4 address of one network interface that is up."""

    name: str
    """As the system calls it, such as ``eth0``."""

    address: str
    """The IPv4 address, in dotted form, that a node binds and announces."""

    mtu: int
    """Largest IP packet, headers included, that leaves in one piece."""

    is_loopback: bool
    """Traffic stays on this machine."""

    supports_multicast: bool
    """The system says so, or it is loopback, which Linux loops without the flag."""


def list_interfaces() -> list[Interface]:
    """Return every IPv4 address of every interface that is up, sorted by name."""
    found = _list_linux() if sys.platform == "linux" else _list_portable()
    return sorted(found, key=lambda some: (some.name, ipaddress.IPv4Address(some.address)))


def choose_interface(spec: str | None = None, towards: str | None = None) -> Interface:
    """Return the interface called ``spec``, or the one that leads ``towards`` an address.

    ``spec`` is a name (``eth0``) or an IPv4 address; ``towards`` an address or name with or
    without ``:port``. With neither, the first interface that can multicast and
    is not loopback is taken, or loopback if there is none. Raises
    ``InterfaceError``.
    """
    interfaces = list_interfaces()
    if spec is not None:
        return _choose_by_spec(spec, interfaces)
    if towards is not None:
        return _choose_by_address(_local_address_towards(towards), interfaces, towards)
    usable = [some for some in interfaces if some.supports_multicast]
    usable.sort(key=lambda some: some.is_loopback)
    if not usable:
        raise InterfaceError(
            "no network interface is up", "bring one up, for example: ip link set lo up"
        )
    return usable[0]


def datagram_bytes_max(interface: Interface) -> int:
    """Return the largest UDP payload that leaves ``interface`` without fragments."""
    payload = interface.mtu - _IP_UDP_HEADER_BYTES
    return min(payload, LOOPBACK_DATAGRAM_BYTES_MAX) if interface.is_loopback else payload


def _choose_by_spec(spec: str, interfaces: list[Interface]) -> Interface:
    named = [some for some in interfaces if some.name == spec]
    if named:
        return named[0]
    known = ", ".join(f"{some.name} ({some.address})" for some in interfaces) or "none"
    fix = f"choose one of: {known}"
    try:
        address = ipaddress.ip_address(spec)
    except ValueError:
        raise InterfaceError(f"no interface {spec!r} is up with an IPv4 address", fix) from None
    if address.version != 4:
        raise InterfaceError(f"{spec} is an IPv6 address and only IPv4 is supported", fix)
    return _choose_by_address(str(address), interfaces, spec)


def _choose_by_address(address: str, interfaces: list[Interface], asked: str) -> Interface:
    for some in interfaces:
        if some.address == address:
            return some
    if ipaddress.IPv4Address(address).is_loopback:
        # All of 127.0.0.0/8 is local, whether or not the interface lists it.
        for some in interfaces:
            if some.is_loopback:
                return Interface(some.name, address, some.mtu, True, some.supports_multicast)
    known = ", ".join(f"{some.name} ({some.address})" for some in interfaces) or "none"
    raise InterfaceError(
        f"no interface that is up has the address {address} (asked for: {asked})",
        f"choose one of: {known}",
    )


def _local_address_towards(towards: str) -> str:
    """Return our own address on the route to ``towards``; nothing is sent."""
    host = towards
    if towards.count(":") == 1:
        host = towards.partition(":")[0]
    try:
        target = socket.getaddrinfo(host, _DISCARD_PORT, socket.AF_INET, socket.SOCK_DGRAM)[0][4]
    except (OSError, UnicodeError) as error:
        raise InterfaceError(
            f"cannot find an IPv4 address for {host!r} ({error})",
            "check the spelling, or name the interface yourself",
        ) from error
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(target)
        except OSError as error:
            raise InterfaceError(
                f"no route towards {host} ({error.strerror})",
                "check the network with: ip route, or name the interface yourself",
            ) from error
        return str(probe.getsockname()[0])


def _list_linux() -> list[Interface]:
    if sys.platform != "linux":  # lets type checkers skip what follows elsewhere
        return []
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        descriptor = probe.fileno()
        for name, address in _list_addresses(descriptor):
            request = struct.pack("16s24x", name.encode())
            with contextlib.suppress(OSError):  # the interface went away meanwhile
                flags_answer = fcntl.ioctl(descriptor, _SIOCGIFFLAGS, request)
                mtu_answer = fcntl.ioctl(descriptor, _SIOCGIFMTU, request)
                (flags,) = struct.unpack_from("H", flags_answer, 16)
                (mtu,) = struct.unpack_from("i", mtu_answer, 16)
                if flags & _IFF_UP:
                    is_loopback = bool(flags & _IFF_LOOPBACK)
                    multicasts = is_loopback or bool(flags & _IFF_MULTICAST)
                    found.append(Interface(name, address, mtu, is_loopback, multicasts))
    return found


def _list_addresses(descriptor: int) -> list[tuple[str, str]]:
    """Return (interface name, IPv4 address) of every address, aliases included."""
    if sys.platform != "linux":
        return []
    room = 64
    while True:
        table = array.array("B", bytes(room * _IFREQ_BYTES))
        address, length = table.buffer_info()
        answer = fcntl.ioctl(descriptor, _SIOCGIFCONF, struct.pack("iP", length, address))
        (used,) = struct.unpack_from("i", answer)
        if used < length:
            break
        room *= 2  # a full table may have been cut
    entries = table.tobytes()[:used]
    found = []
    for start in range(0, used, _IFREQ_BYTES):
        label = entries[start : start + 16].partition(b"\0")[0].decode()
        packed = entries[start + 20 : start + 24]
        # Aliases are listed as "eth0:1"; the interface is "eth0".
        found.append((label.partition(":")[0], socket.inet_ntoa(packed)))
    return found


def _list_portable() -> list[Interface]:
    found = [Interface("lo", "127.0.0.1", 16384, True, True)]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
        probe.connect(("192.0.2.1", _DISCARD_PORT))
        address = str(probe.getsockname()[0])
        found.append(Interface("default", address, _MTU_UNKNOWN, False, True))
    return found
