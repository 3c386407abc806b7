"""Data packets: what goes in comes out, and nothing that is not ours gets in."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.stdx.rand import Rng
from quicksilver.wire.packets import (
    FLAG_FRAGMENT,
    FLAG_SINGLE,
    FLAG_START,
    HEADER_BYTES,
    HYBRID_ENTRIES_MAX,
    KIND_DATA,
    KIND_REPAIR,
    MESSAGE_BYTES_MAX,
    OVERHEAD_FRAGMENT,
    OVERHEAD_MIXED,
    OVERHEAD_SINGLE,
    PER_MESSAGE_MIXED,
    PER_MESSAGE_SIZE,
    POSITION,
    SEQUENCE_MAX,
    START_ENTRIES_MAX,
    Fragment,
    Messages,
    Start,
    as_repair,
    encode_fragment,
    encode_hybrid,
    encode_mixed,
    encode_single,
    encode_start,
    hybrid_body,
    parse_body,
    parse_key,
    pick_from_hybrid,
    split_hybrid,
    stream_key,
)
from tests.kit.packets import bodies, data_packet, datagrams, mutations, noise, truncations

u32 = st.integers(0, (1 << 32) - 1)
sequences = st.integers(0, SEQUENCE_MAX)
payload_lists = st.one_of(
    st.lists(st.binary(max_size=40), min_size=1, max_size=30),
    st.tuples(st.integers(1, 30), st.binary(max_size=40)).map(lambda t: [t[1]] * t[0]),
)


def parse(packet: bytes) -> Messages | Fragment | Start | None:
    _, batch = POSITION.unpack_from(packet, 20)
    return parse_body(packet, packet[2], parse_key(packet[4:20])[1], batch)  # type: ignore[arg-type]


class TestRoundTrips:
    """Encoders and parsers agree."""

    @given(st.tuples(u32, u32, u32, u32))
    def test_a_stream_key_names_cluster_sender_region_and_view(
        self, numbers: tuple[int, int, int, int]
    ) -> None:
        """Packets are sorted by these sixteen bytes without being parsed."""
        assert parse_key(stream_key(*numbers)) == numbers

    @given(u32, sequences, payload_lists)
    def test_messages_of_one_group(self, group: int, first: int, payloads: list[bytes]) -> None:
        """A run of one group costs one group and one sequence number."""
        parts = encode_single(group, first, list(map(len, payloads)), payloads)
        packet = data_packet(FLAG_SINGLE, parts)
        body = parse(packet)
        assert isinstance(body, Messages)
        assert (body.group, body.first, body.payloads) == (group, first, payloads)
        assert (body.sender, body.batch, len(body)) == (2, 3, len(payloads))
        extra = len(packet) - OVERHEAD_SINGLE - sum(map(len, payloads))
        assert extra in {0, PER_MESSAGE_SIZE * len(payloads)}

    @given(st.data(), payload_lists)
    def test_messages_of_several_groups(self, data: st.DataObject, payloads: list[bytes]) -> None:
        """Messages of any groups of the region share a packet."""
        count = len(payloads)
        groups = data.draw(st.lists(u32, min_size=count, max_size=count))
        numbers = data.draw(st.lists(sequences, min_size=count, max_size=count))
        packet = data_packet(0, encode_mixed(groups, numbers, list(map(len, payloads)), payloads))
        body = parse(packet)
        assert isinstance(body, Messages)
        assert body.group is None
        assert list(body.groups) == groups
        assert list(body.sequences) == numbers
        assert body.payloads == payloads
        worst = count * (PER_MESSAGE_MIXED + PER_MESSAGE_SIZE)
        assert len(packet) <= OVERHEAD_MIXED + worst + sum(map(len, payloads))

    @given(u32, sequences, st.integers(0, 1 << 20), st.binary(min_size=1, max_size=100))
    def test_a_piece_of_a_large_message(
        self, group: int, sequence: int, offset: int, chunk: bytes
    ) -> None:
        """A piece says where it belongs, so that the whole is checked as it grows."""
        total = offset + len(chunk)
        packet = data_packet(FLAG_FRAGMENT, encode_fragment(group, sequence, total, offset, chunk))
        body = parse(packet)
        assert isinstance(body, Fragment)
        assert (body.group, body.sequence) == (group, sequence)
        assert (body.total, body.offset, body.chunk) == (total, offset, chunk)
        assert len(packet) == OVERHEAD_FRAGMENT + len(chunk)

    @given(st.lists(st.tuples(u32, u32, sequences), max_size=START_ENTRIES_MAX))
    def test_the_opening_of_a_stream(self, after: list[tuple[int, int, int]]) -> None:
        """A stream names the streams that come before it, or none."""
        body = parse(data_packet(FLAG_START, encode_start(after)))
        assert isinstance(body, Start)
        assert body.after == tuple(after)

    @given(
        st.lists(st.tuples(u32, u32, sequences), min_size=1, max_size=HYBRID_ENTRIES_MAX),
        payload_lists,
    )
    def test_a_hybrid_packet_is_every_regions_own_packet(
        self, entries: list[tuple[int, int, int]], payloads: list[bytes]
    ) -> None:
        """Nodes process "the exact same" packet as in the regular case (4.2.1 B)."""
        parts = encode_single(6, 1, list(map(len, payloads)), payloads)
        packet = encode_hybrid(1, 2, entries, FLAG_SINGLE, 3, b"".join(parts))
        heads = split_hybrid(packet)
        assert heads is not None
        assert len(heads) == len(entries)
        for (key, head), (region, view, sequence) in zip(heads, entries, strict=True):
            plain = data_packet(
                FLAG_SINGLE, parts, key=stream_key(1, 2, region, view), sequence=sequence
            )
            assert key == stream_key(1, 2, region, view)
            assert head + hybrid_body(packet) == plain
            first = next(place for place, found in enumerate(heads) if found[0] == key)
            assert pick_from_hybrid(packet, {key}) == heads[first][1] + hybrid_body(packet)
        assert pick_from_hybrid(packet, {b"nobody"}) is None

    def test_a_repair_is_the_same_packet_of_another_kind(self) -> None:
        """Repairs overtake data but carry it unchanged."""
        flags, parts = bodies()["mixed variable"]
        packet = data_packet(flags, parts)
        repair = as_repair(packet)
        assert repair[1] == KIND_REPAIR
        assert packet[1] == KIND_DATA
        assert repair[:1] + repair[2:] == packet[:1] + packet[2:]


class TestBadBytes:
    """Parsers are total: None, never an exception, never more memory than the bytes earn."""

    @pytest.mark.parametrize("name", bodies())
    def test_truncated_packets_are_refused(self, name: str) -> None:
        """Every length is checked against the bytes at hand."""
        flags, parts = bodies()[name]
        packet = data_packet(flags, parts)
        for short in truncations(packet):
            if len(short) < HEADER_BYTES:
                continue
            body = parse(short)
            if name == "fragment":
                whole = parse(packet)
                assert body is None or len(body.chunk) < len(whole.chunk)
            elif name == "start":
                assert body is None or len(body.after) < 2
            else:
                assert body is None

    @pytest.mark.parametrize("name", bodies())
    def test_mutated_packets_do_not_raise(self, name: str) -> None:
        """One wrong byte anywhere gives another packet or none."""
        flags, parts = bodies()[name]
        for spoiled in mutations(data_packet(flags, parts), Rng(1)):
            body = parse(spoiled)
            assert body is None or isinstance(body, Messages | Fragment | Start)

    def test_mutated_and_truncated_hybrid_packets_do_not_raise(self) -> None:
        """The number of region headers is believed only if they are there."""
        packet = datagrams()["hybrid"]
        for spoiled in (*truncations(packet), *mutations(packet, Rng(2))):
            heads = split_hybrid(spoiled)
            keys = {found[0] for found in heads or ()}
            assert (pick_from_hybrid(spoiled, keys) is None) == (heads is None)
            if heads is not None:
                assert 0 < len(heads) <= HYBRID_ENTRIES_MAX
                assert len(hybrid_body(spoiled)) < len(packet)

    @given(st.binary(max_size=300), st.integers(0, 255))
    def test_random_bytes_do_not_raise(self, body: bytes, flags: int) -> None:
        """Whatever follows a header is parsed or refused."""
        found = parse(data_packet(flags, [body]))
        if isinstance(found, Messages):
            assert sum(map(len, found.payloads)) <= len(body)
        elif isinstance(found, Fragment):
            assert found.offset + len(found.chunk) <= found.total <= MESSAGE_BYTES_MAX
        elif isinstance(found, Start):
            assert len(found.after) <= START_ENTRIES_MAX

    def test_noise_is_no_hybrid_packet_with_more_headers_than_bytes(self) -> None:
        """Random bytes that begin like ours."""
        for data in noise(Rng(3), 500):
            heads = split_hybrid(data)
            assert heads is None or len(heads) * 16 <= len(data)

    @pytest.mark.parametrize(
        ("flags", "parts"),
        [
            (FLAG_SINGLE, encode_single(1, SEQUENCE_MAX + 1, [1], [b"x"])),
            (0, encode_mixed([1, 2], [0, SEQUENCE_MAX + 1], [1, 1], [b"x", b"y"])),
            (FLAG_FRAGMENT, encode_fragment(1, SEQUENCE_MAX + 1, 9, 0, b"x")),
            (FLAG_FRAGMENT, encode_fragment(1, 0, MESSAGE_BYTES_MAX + 1, 0, b"x")),
            (FLAG_FRAGMENT, encode_fragment(1, 0, 5, 5, b"x")),
            (FLAG_FRAGMENT, encode_fragment(1, 0, 5, 0, b"")),
            (FLAG_START, [b"\xff" * 16]),
            (FLAG_START, [bytes(16 * (START_ENTRIES_MAX + 1))]),
            (FLAG_SINGLE, [bytes(20)]),
            (0, [bytes(8)]),
        ],
        ids=[
            "single sequence",
            "mixed sequence",
            "fragment sequence",
            "fragment total",
            "fragment past its end",
            "fragment of nothing",
            "start count",
            "start entries",
            "no single message",
            "no mixed message",
        ],
    )
    def test_numbers_out_of_range_are_refused(self, flags: int, parts: list[bytes]) -> None:
        """Sums of accepted numbers stay in 64 bits and sizes within their limits."""
        assert parse(data_packet(flags, parts)) is None

    @pytest.mark.parametrize("flags", [0, FLAG_SINGLE])
    def test_a_declared_count_earns_no_memory(self, flags: int) -> None:
        """65,535 messages declared in a few bytes must not become a large list."""
        count = (0xFFFF).to_bytes(2, "little")
        for uniform in (b"\0\0", b"\1\0"):
            packet = data_packet(flags, [count + uniform + bytes(16)])
            tracemalloc.start()
            parse(packet)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < 128 << 10
