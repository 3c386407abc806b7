"""Finding a GMS on the local network: one small question by multicast, one small answer.

::

    question  "QSD?" | version u8 | 8 bytes of chance | zeros, 64 bytes in all
    answer    "QSD!" | version u8 | the same 8 bytes | port u16 | length u8, host (ASCII)

An empty host stands for the address that the answer came from. A question is longer than
any answer that a GMS gives, so nobody can use one to send more than was sent to it; and a GMS
answers so many times a second, no more (``discovery_answers``).
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time

from quicksilver.net.interfaces import list_interfaces
from quicksilver.wire.ids import Address

DISCOVERY_ADDRESS = "239.255.74.1"
DISCOVERY_PORT = 7402
QUESTION_BYTES = 64
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
