"""Finding a GMS on the local network: one small question by multicast, one small answer.

::

    question  "QSD?" | version u8 | 8 bytes of chance | zeros, 64 bytes in all
    answer    "QSD!" | version u8 | the same 8 bytes | port u16 | length u8, host (ASCII)

An empty host stands for the address that the answer came from. A question is longer than
any answer that a GMS gives, so nobody can use one to send more than was sent to it; and a GMS
answers so many times a second, no more.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import time
from typing import cast

from quicksilver.net.interfaces import list_interfaces
from quicksilver.wire.ids import Address

DISCOVERY_ADDRESS = "239.255.74.1"
DISCOVERY_PORT = 7402
QUESTION_BYTES = 64
ANSWERS_PER_S = 20
VERSION = 1

_NONCE_BYTES = 8
_HEAD = struct.Struct(f"<4sB{_NONCE_BYTES}s")
_ANSWER = struct.Struct("<HB")
_HOST_BYTES_MAX = QUESTION_BYTES - _HEAD.size - _ANSWER.size
_ROUNDS = 3


def encode_question(nonce: bytes) -> bytes:
    return _HEAD.pack(b"QSD?", VERSION, nonce).ljust(QUESTION_BYTES, b"\0")


def parse_question(data: bytes) -> bytes | None:
    """Return what is to be repeated in the answer, or None where there is no question."""
    if len(data) != QUESTION_BYTES:
        return None
    mark, version, nonce = _HEAD.unpack_from(data)
    return nonce if mark == b"QSD?" and version == VERSION else None


def encode_answer(nonce: bytes, host: str, port: int) -> bytes:
    name = host.encode("ascii")[:_HOST_BYTES_MAX]
    return _HEAD.pack(b"QSD!", VERSION, nonce) + _ANSWER.pack(port, len(name)) + name


def parse_answer(data: bytes, nonce: bytes, source: str) -> Address | None:
    """Return where the GMS is that answers a question, or None where there is no answer."""
    if not _HEAD.size + _ANSWER.size <= len(data) <= QUESTION_BYTES:
        return None
    mark, version, repeated = _HEAD.unpack_from(data)
    port, size = _ANSWER.unpack_from(data, _HEAD.size)
    name = data[_HEAD.size + _ANSWER.size :]
    if mark != b"QSD!" or version != VERSION or repeated != nonce or len(name) != size:
        return None
    try:
        host = name.decode("ascii")
    except UnicodeDecodeError:
        return None
    if not port or (host and not host.replace(".", "").replace("-", "").isalnum()):
        return None
    return host or source, port


class Allowance:
    """So many answers a second, and as many at once."""

    def __init__(self, per_s: float) -> None:
        self._per_s = per_s
        self._left = per_s
        self._at = 0.0

    def take(self, now: float) -> bool:
        """Whether another answer may be given."""
        self._left = min(self._per_s, self._left + (now - self._at) * self._per_s)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class Responder(asyncio.DatagramProtocol):
    """Answers for one GMS."""

    def __init__(self, gms: Address) -> None:
        host, self._port = gms
        self._is_local = host.startswith("127.")
        self._host = "" if host == "0.0.0.0" else host
        self._allowance = Allowance(ANSWERS_PER_S)
        self._transport: asyncio.DatagramTransport | None = None
        self.answered = 0
        self.ignored = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, source: tuple[str, int]) -> None:
        """Answer a question, if it is one and the asker could reach the GMS."""
        assert self._transport is not None
        nonce = parse_question(data)
        is_near = not self._is_local or source[0].startswith("127.")
        if nonce is None or not is_near or not self._allowance.take(time.monotonic()):
            self.ignored += 1
            return
        self.answered += 1
        self._transport.sendto(encode_answer(nonce, self._host, self._port), source)


async def answer_questions(gms: Address, port: int = DISCOVERY_PORT) -> asyncio.DatagramTransport:
    """Answer for a GMS until the transport is closed.

    Raises:
        OSError: the port cannot be used.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        # Several GMS of one machine may listen: each gets every question by multicast.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("", port))
        sock.setblocking(False)
        for interface in list_interfaces():
            member = socket.inet_aton(DISCOVERY_ADDRESS) + socket.inet_aton(interface.address)
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(lambda: Responder(gms), sock=sock)
    except BaseException:
        sock.close()
        raise
    return transport


def discover(timeout_s: float = 0.3, port: int = DISCOVERY_PORT) -> list[Address]:
    """Return every GMS that answers on this machine or on the local network, sorted."""
    nonce = os.urandom(_NONCE_BYTES)
    question = encode_question(nonce)
    found: set[Address] = set()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
        sock.bind(("", 0))
        end = time.monotonic() + timeout_s
        for place in range(_ROUNDS):
            # A datagram may be lost: ask again unless somebody has answered.
            if found:
                break
            _ask(sock, question, port)
            until = end - timeout_s * (_ROUNDS - 1 - place) / _ROUNDS
            while (left := until - time.monotonic()) > 0:
                sock.settimeout(left)
                try:
                    data, source = sock.recvfrom(2 * QUESTION_BYTES)
                except OSError:
                    break
                answer = parse_answer(data, nonce, source[0])
                if answer is not None:
                    found.add(answer)
    return sorted(found)


def _ask(sock: socket.socket, question: bytes, port: int) -> None:
    for interface in list_interfaces():
        with contextlib.suppress(OSError):
            own = socket.inet_aton(interface.address)
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, own)
            sock.sendto(question, (DISCOVERY_ADDRESS, port))
    # A GMS on this machine is found even if no interface carries multicast.
    with contextlib.suppress(OSError):
        sock.sendto(question, ("127.0.0.1", port))
