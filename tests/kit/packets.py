"""Samples of every kind of packet, and ways to spoil them."""

from __future__ import annotations

from collections.abc import Iterator

from quicksilver.stdx.rand import Rng
from quicksilver.wire import gms
from quicksilver.wire.control import (
    Ack,
    Challenge,
    Control,
    Extent,
    Gone,
    Hail,
    Nak,
    Overtaken,
    Pull,
    Record,
    Token,
    Wake,
    encode_control,
)
from quicksilver.wire.packets import (
    FLAG_FRAGMENT,
    FLAG_SINGLE,
    FLAG_START,
    KIND_DATA,
    POSITION,
    as_repair,
    encode_fragment,
    encode_hybrid,
    encode_mixed,
    encode_prefix,
    encode_single,
    encode_start,
    stream_key,
)


def data_packet(
    flags: int,
    parts: list[bytes],
    *,
    key: bytes | None = None,
    sequence: int = 7,
    batch: int = 3,
    kind: int = KIND_DATA,
) -> bytes:
    """Return a whole data packet around a body."""
    key = stream_key(1, 2, 3, 4) if key is None else key
    return b"".join([encode_prefix(kind, flags, key), POSITION.pack(sequence, batch), *parts])


def record(sender: int = 2, **changes: object) -> Record:
    fields: dict[str, object] = {
        "sender": sender,
        "high": 90,
        "low": 40,
        "slowest": 3,
        "safe": 39,
        "laggard": 4,
        "missing": (41, 2, 60, 1),
        "missing_limit": 90,
        "wanted": (41, 1),
        "previous": (60, 1),
        "previous_limit": 90,
        "unasked": (60, 1),
        "unkept": (41, 1),
        "unkept_limit": 90,
        "stable": 38,
        "agreed": 39,
        "region_unkept": (40, 2),
        "region_unkept_limit": 80,
        "cut": -1,
    }
    return Record(**(fields | changes))  # type: ignore[arg-type]


def token(**changes: object) -> Token:
    fields: dict[str, object] = {
        "cluster": 1,
        "origin": 5,
        "region": 3,
        "view": 4,
        "level": 0,
        "ring": 0,
        "round": 12,
        "leader": 5,
        "skipped": (6,),
        "direct": False,
        "buffer_bytes": 1 << 20,
        "drops": 2,
        "records": (record(2), record(9)),
    }
    return Token(**(fields | changes))  # type: ignore[arg-type]


def controls() -> list[Control]:
    """One control packet of each kind."""
    return [
        token(),
        Ack(
            cluster=1,
            origin=5,
            region=3,
            view=4,
            low=40,
            safe=39,
            laggard=4,
            high=90,
            missing=(41, 2),
            missing_limit=90,
            slowest=6,
            buffer_bytes=1 << 20,
            drops=0,
            senders=2,
            token_s=0.002,
        ),
        Nak(1, 5, 3, 4, (41, 2, 60, 1)),
        Pull(1, 5, 3, 4, 2, (41, 2)),
        Wake(1, 5, 3, 4, 0, 0),
        Extent(1, 2, 3, 4, 90),
        Hail(1, 5, False),
        Overtaken(1, 5, 2, 3),
        Gone(1, 2, 3, 4, (41, 2)),
        Challenge(1, 5),
    ]


def bodies() -> dict[str, tuple[int, list[bytes]]]:
    """One body of each form, by name: flags and parts."""
    payloads = [b"alpha", b"bravo", b"gamma"]
    uneven = [b"a", b"", b"long one"]
    return {
        "single uniform": (FLAG_SINGLE, encode_single(6, 10, [5, 5, 5], payloads)),
        "single variable": (FLAG_SINGLE, encode_single(6, 10, [1, 0, 8], uneven)),
        "single empty": (FLAG_SINGLE, encode_single(6, 10, [0, 0], [b"", b""])),
        "mixed uniform": (0, encode_mixed([6, 7, 6], [1, 4, 2], [5, 5, 5], payloads)),
        "mixed variable": (0, encode_mixed([6, 7, 6], [1, 4, 2], [1, 0, 8], uneven)),
        "fragment": (FLAG_FRAGMENT, encode_fragment(6, 3, 100_000, 1_000, b"x" * 50)),
        "start": (FLAG_START, encode_start([(3, 1, 20), (8, 2, 5)])),
    }


def datagrams() -> dict[str, bytes]:
    """One whole datagram of every kind, by name."""
    found = {name: data_packet(flags, parts) for name, (flags, parts) in bodies().items()}
    flags, parts = bodies()["single uniform"]
    found["repair"] = as_repair(data_packet(flags, parts))
    found["hybrid"] = encode_hybrid(1, 2, [(3, 4, 7), (8, 1, 2)], flags, 3, b"".join(parts))
    for packet in controls():
        found[type(packet).__name__.lower()] = encode_control(packet)
    return found


def frames() -> dict[str, bytes]:
    """One frame of every message to and from the GMS, by name."""
    settings = gms.ClusterSettings()
    node = gms.NodeInfo(1, "n1", "10.0.0.1", 7000)
    region = gms.RegionChange(1, 2, 1, "239.192.0.1", joined=(2,), left=(1,), senders=(3,))
    group = gms.GroupChange(1, "prices", 2, 1, ((1, 2),), joined=(2,), left=(1,))
    messages: list[gms.Request | gms.Reply] = [
        gms.Hello(
            gms.PROTOCOL_VERSION,
            "n1",
            "10.0.0.1",
            7000,
            1 << 20,
            gms.Resume(7, 1, b"0123456789abcdef"),
        ),
        gms.Subscribe(1, ("a", "b"), ("c",), ("d",), ("e",)),
        gms.Heartbeat({"pending_bytes": 3, "token_ms": 0.5, "waits_for": "n2"}),
        gms.Goodbye(),
        gms.Inspect(4),
        gms.Welcome(gms.PROTOCOL_VERSION, 7, 1, False, settings, b"0123456789abcdef"),
        gms.Refused("no"),
        gms.Excluded("silent"),
        gms.Subscribed(1, (1, 2)),
        gms.Update(9, (node,), (region,), (group,), (4,), (5,), (6,), (1, 2)),
        gms.Snapshot(
            4,
            7,
            9,
            "exact",
            1,
            {"regions": 1.0},
            (gms.NodeStatus(1, "n1", "10.0.0.1", 7000, True, 1, 0.1, {}),),
            (gms.RegionStatus(1, 2, "239.192.0.1", 3, 1),),
        ),
    ]
    return {type(message).__name__.lower(): gms.encode(message) for message in messages}


def truncations(data: bytes) -> Iterator[bytes]:
    """Every proper prefix."""
    for length in range(len(data)):
        yield data[:length]


def mutations(data: bytes, rng: Rng, per_byte: int = 4) -> Iterator[bytes]:
    """Copies with one byte changed: each byte in turn, to extreme and random values."""
    for place, old in enumerate(data):
        values = {0, 0xFF, 0x7F, 0x80, *(rng.below(256) for _ in range(per_byte))} - {old}
        for value in sorted(values):
            yield data[:place] + bytes((value,)) + data[place + 1 :]


def noise(rng: Rng, count: int, length_max: int = 200) -> Iterator[bytes]:
    """Random bytes; half of them begin like a packet of ours."""
    for turn in range(count):
        body = bytes(rng.below(256) for _ in range(rng.below(length_max)))
        yield body if turn % 2 else bytes((0x51, 1 + rng.below(5), rng.below(16), 0)) + body
