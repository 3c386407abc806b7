"""Answers for those who look for a GMS on the local network; ``discovery`` has the packets."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from typing import cast

from quicksilver.net.discovery import (
    DISCOVERY_ADDRESS,
    DISCOVERY_PORT,
    encode_answer,
    parse_question,
)
from quicksilver.net.interfaces import list_interfaces
from quicksilver.wire.ids import Address

ANSWERS_PER_S = 20


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
