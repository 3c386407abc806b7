"""The ceiling: the same frames, packed and parsed by Python, and no protocol.

No acknowledgement, no repair, no flow control, no threads: the fastest that a
Python program can move these messages through these sockets. What quicksilver
reaches is reported as a part of it. Each process is this module with a
``CeilingSender`` or a ``CeilingReceiver`` as its argument.
"""

from __future__ import annotations

import resource
import socket
import sys
import time

import msgspec

from quicksilver.lab.child import next_order, run_child, tell
from quicksilver.lab.instruments import OrderCheck
from quicksilver.lab.load import Go, LoadReady
from quicksilver.wire.ids import NodeId
from quicksilver.wire.packets import (
    FLAG_SINGLE,
    HEADER_BYTES,
    KIND_DATA,
    OVERHEAD_SINGLE,
    POSITION,
    Messages,
    encode_mixed,
    encode_prefix,
    encode_single,
    parse_body,
    stream_key,
)

_SO_RCVBUFFORCE = 33
_UDP_SEGMENT = 103
_UDP_GRO = 104
_SOL_UDP = 17


MULTICAST = ("239.192.255.1", 7399)
QUIET_S = 1.0
"""A receiver ends when nothing came for so long."""


class CeilingSender(msgspec.Struct, frozen=True, kw_only=True, tag="sender"):
    """A process that sends."""

    address: str
    """Of the interface to use."""
    groups: int
    size: int
    seconds: float
    packet_bytes: int


class CeilingReceiver(msgspec.Struct, frozen=True, kw_only=True, tag="receiver"):
    """A process that receives."""

    address: str
    groups: int
    packet_bytes: int


class CeilingResult(msgspec.Struct, frozen=True, kw_only=True, tag="done", tag_field="event"):
    """What such a process measured."""

    cpu_s: float
    count: int
    first_at: float = 0.0
    last_at: float = 0.0


def main() -> None:
    """Do what the first argument says, and report."""
    spec = msgspec.json.decode(sys.argv[1], type=CeilingSender | CeilingReceiver)
    if isinstance(spec, CeilingSender):
        tell(LoadReady())
        next_order(Go)
        count, first, last = sum(run_sender(spec)), 0.0, 0.0
    else:
        count, first, last = run_receiver(spec)
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = used.ru_utime + used.ru_stime
    tell(CeilingResult(cpu_s=cpu_s, count=count, first_at=first, last_at=last))


def run_sender(spec: CeilingSender) -> list[int]:
    """Send as fast as the socket takes it; return how many went to each group."""
    groups, size, packet_bytes = spec.groups, spec.size, spec.packet_bytes
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(spec.address))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    key = stream_key(1, 1, 1, 1)
    prefix = {f: encode_prefix(KIND_DATA, f, key) for f in (0, FLAG_SINGLE)}
    overhead = OVERHEAD_SINGLE if groups == 1 else HEADER_BYTES + 8
    each = size if groups == 1 else size + 12
    fit = max(1, (packet_bytes - overhead) // each)
    burst = max(1, 60_000 // packet_bytes)
    is_cut = packet_bytes < 10_000
    queue: list[tuple[int, bytes]] = []
    payload = bytes(size)
    sent = [0] * groups
    number = 0
    place = 0

    def send(group: int, message: bytes) -> None:
        queue.append((group, message))

    end = time.monotonic() + spec.seconds
    while time.monotonic() < end:
        packets = []
        for _ in range(burst):
            for _ in range(fit):
                send(place, payload)
                place += 1
                if place == groups:
                    place = 0
            payloads = [message for _, message in queue]
            sizes = list(map(len, payloads))
            if groups == 1:
                parts = encode_single(0, sent[0], sizes, payloads)
                sent[0] += fit
                flags = FLAG_SINGLE
            else:
                places = [group for group, _ in queue]
                sequences = []
                for group in places:
                    sequences.append(sent[group])
                    sent[group] += 1
                parts = encode_mixed(places, sequences, sizes, payloads)
                flags = 0
            queue.clear()
            packets.append(b"".join([prefix[flags], POSITION.pack(number, 0), *parts]))
            number += 1
        if is_cut:
            segment = len(packets[0]).to_bytes(2, "little")
            sock.sendmsg(packets, [(_SOL_UDP, _UDP_SEGMENT, segment)], 0, MULTICAST)
        else:
            sock.sendto(packets[0], MULTICAST)
    sock.close()
    return sent


def run_receiver(spec: CeilingReceiver) -> tuple[int, float, float]:
    """Receive until nothing comes for a while; return how much, first and last time."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 16 << 20)
    except OSError:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 20)
    sock.bind(MULTICAST)
    request = socket.inet_aton(MULTICAST[0]) + socket.inet_aton(spec.address)
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)
    is_cut = spec.packet_bytes < 10_000
    if is_cut:
        sock.setsockopt(_SOL_UDP, _UDP_GRO, 1)
    sock.settimeout(30)
    check = OrderCheck(spec.groups)
    started = ended = 0.0
    tell(LoadReady())
    while True:
        segment = 0
        try:
            if is_cut:
                data, ancillary, _, _ = sock.recvmsg(65_535, 64)
                for _, _, value in ancillary:
                    segment = int.from_bytes(value[:4], "little")
            else:
                data = sock.recv(65_535)
        except TimeoutError:
            break
        ended = time.monotonic()
        if not started:
            started = ended
            sock.settimeout(QUIET_S)
        if segment and len(data) > segment:
            for start in range(0, len(data), segment):
                _parse(data[start : start + segment], check)
        else:
            _parse(data, check)
    sock.close()
    return check.count, started, ended


def _parse(data: bytes, check: OrderCheck) -> None:
    _, batch = POSITION.unpack_from(data, 20)
    body = parse_body(data, data[2], NodeId(1), batch)
    assert isinstance(body, Messages)
    if body.group is not None:
        check.handle_run(body.group, body.first, body.payloads)
    else:
        check.handle_mixed(body.groups, body.sequences, body.payloads)


if __name__ == "__main__":
    run_child(main)
