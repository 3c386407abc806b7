"""The ceiling: the same frames, packed and parsed by Python, and no protocol.

No acknowledgement, no repair, no flow control, no threads: the fastest that a
Python program can move these messages through these sockets. What quicksilver
reaches is reported as a part of it.
"""

from __future__ import annotations

import socket
import time

from quicksilver.cli.bench.workload import Tally
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


def run_sender(
    *,
    interface: str,
    address: tuple[str, int],
    groups: int,
    size: int,
    seconds: float,
    packet_bytes: int,
) -> list[int]:
    """Send as fast as the socket takes it; return how many went to each group."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(interface))
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

    end = time.monotonic() + seconds
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
            sock.sendmsg(packets, [(_SOL_UDP, _UDP_SEGMENT, segment)], 0, address)
        else:
            sock.sendto(packets[0], address)
    sock.close()
    return sent


def run_receiver(
    *, interface: str, address: tuple[str, int], groups: int, packet_bytes: int, quiet_s: float
) -> tuple[Tally, float, float]:
    """Receive until nothing comes for a while; return counts, first and last time."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 16 << 20)
    except OSError:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 20)
    sock.bind(address)
    request = socket.inet_aton(address[0]) + socket.inet_aton(interface)
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)
    is_cut = packet_bytes < 10_000
    if is_cut:
        sock.setsockopt(_SOL_UDP, _UDP_GRO, 1)
    sock.settimeout(30)
    tally = Tally(groups)
    started = ended = 0.0
    print('{"ready": true}', flush=True)
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
            sock.settimeout(quiet_s)
        if segment and len(data) > segment:
            for start in range(0, len(data), segment):
                _parse(data[start : start + segment], tally)
        else:
            _parse(data, tally)
    sock.close()
    return tally, started, ended


def _parse(data: bytes, tally: Tally) -> None:
    _, batch = POSITION.unpack_from(data, 20)
    body = parse_body(data, data[2], NodeId(1), batch)
    assert isinstance(body, Messages)
    if body.group is not None:
        tally.handle_run(body.group, body.first, body.payloads)
    else:
        tally.handle_mixed(body.groups, body.sequences, body.payloads)
