"""Socket options that Python has no names for: buffers, their use, filters."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import socket
import struct
import sys

from quicksilver.stdx.errors import QuicksilverError

IS_LINUX = sys.platform == "linux"

IP_MULTICAST_ALL = 49

_SO_ATTACH_FILTER = 26
_SO_SNDBUFFORCE = 32
_SO_RCVBUFFORCE = 33
_SO_MEMINFO = 55

_FORCED = {socket.SO_RCVBUF: _SO_RCVBUFFORCE, socket.SO_SNDBUF: _SO_SNDBUFFORCE}
"""The options that ignore the system's limit, for those with CAP_NET_ADMIN."""


class PortError(QuicksilverError, OSError):
    """A UDP port could not be bound: which, for what, and what to do."""

    def __init__(self, address: str, port: int, purpose: str, cause: OSError) -> None:
        super().__init__(cause.errno, cause.strerror)
        self.address = address
        self.port = port
        self.purpose = purpose

    def __str__(self) -> str:
        fix = "choose another interface"
        if self.errno == errno.EADDRINUSE:
            fix = "choose another port, or see who has it: ss -ulpn"
        elif self.errno == errno.EACCES:
            fix = "choose a port above 1023"
        where = f"{self.address or '*'}:{self.port}"
        return f"cannot bind {where} for {self.purpose} ({self.strerror}); {fix}"


def bind(sock: socket.socket, address: str, port: int, purpose: str) -> None:
    """Bind ``sock``; raises ``PortError``."""
    try:
        sock.bind((address, port))
    except OSError as error:
        raise PortError(address, port, purpose, error) from error


def set_buffer(sock: socket.socket, option: int, wanted: int) -> int:
    """Ask for a socket buffer, by privilege if possible; return what was granted."""
    try:
        if not IS_LINUX:
            raise OSError(errno.ENOPROTOOPT, "forced buffers are Linux's")
        sock.setsockopt(socket.SOL_SOCKET, _FORCED[option], wanted)
    except OSError:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, option, wanted)
    granted = sock.getsockopt(socket.SOL_SOCKET, option)
    # Linux reports double, because half is meant for its own bookkeeping.
    return granted // 2 if IS_LINUX else granted


def may_exceed_limits() -> bool:
    """True if this process may ask for buffers beyond the system's limit."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 65536)
        except OSError:
            return False
    return IS_LINUX


def read_memory(sock: socket.socket) -> tuple[int, int]:
    """Return (bytes of kernel memory that unread data occupies, datagrams dropped).

    One ``getsockopt``, about a microsecond; zeros where the system does not tell.
    """
    if not IS_LINUX:
        return 0, 0
    try:
        info = sock.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 36)
    except OSError:
        return 0, 0
    if len(info) < 36:  # before Linux 4.12
        return 0, 0
    fields = struct.unpack("9I", info)
    return fields[0], fields[8]


def refuse_unicast(sock: socket.socket) -> None:
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
