"""Datagrams in pieces: what a link cannot carry at once arrives all the same, or not at all."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.scopes.dissemination.frames import (
    DATAGRAM_BYTES_MAX,
    TAG_MAX,
    Cast,
    encode,
    find_intact,
    parse_datagram,
)
from quicksilver.scopes.dissemination.packets import Packet, Sender
from quicksilver.scopes.dissemination.pieces import (
    HEAD_BYTES,
    PART_BYTES,
    TAG,
    WAITING_BYTES_MAX,
    WAITING_MAX,
    Cutter,
    Joined,
    Joiner,
)
from quicksilver.scopes.routing import Entry
from quicksilver.stdx.ranges import VALUE_MAX

ETHERNET = 1472


def datagram(size: int, seed: int = 0) -> bytes:
    """Something that begins like MessagePack's arrays, as all datagrams do."""
    return b"\x94" + random.Random(seed).randbytes(size - 1)


def cutter(bytes_max: int = ETHERNET, node: int = 1) -> Cutter:
    return Cutter(bytes_max, node)


def take_all(joiner: Joiner, pieces: list[bytes]) -> list[bytes]:
    """Return datagrams that came whole."""
    joined = [each for piece in pieces for each in joiner.take(piece)]
    return [each.data for each in joined if not each.holes]


@given(
    sizes=st.lists(st.integers(1, DATAGRAM_BYTES_MAX), min_size=1, max_size=2),
    bytes_max=st.sampled_from((256, 548, ETHERNET, 8972)),
    seed=st.integers(0, 1 << 30),
)
def test_in_any_order_and_more_than_once(sizes: list[int], bytes_max: int, seed: int) -> None:
    """Each datagram comes out once while its pieces travel, however the network mixes them."""
    rng = random.Random(seed)
    wholes = [datagram(size, number) for number, size in enumerate(sizes)]
    cut, joiner = cutter(bytes_max), Joiner()
    pieces = [piece for whole in wholes for piece in cut.cut(whole)]
    assert max(map(len, pieces)) <= bytes_max
    last = rng.choice(pieces)
    mixed = [piece for piece in pieces for _ in range(rng.choice((1, 1, 2))) if piece != last]
    rng.shuffle(mixed)
    is_short = last[0] != TAG
    found = [each for each in take_all(joiner, mixed) if each[0] != TAG]
    # What fits into one piece travels as it is, and twice if the network repeats it.
    assert set(found) <= set(wholes)
    found += take_all(joiner, [last])
    assert set(found) == set(wholes)
    assert is_short or found.count(found[-1]) == 1


@pytest.mark.parametrize("size", [ETHERNET, ETHERNET + 1, 20_000, DATAGRAM_BYTES_MAX])
def test_pieces_are_equally_long_but_the_last(size: int) -> None:
    """So the kernel takes them in one call; an empty one would vanish there."""
    pieces = cutter().cut(datagram(size))
    assert {len(piece) for piece in pieces[:-1]} <= {ETHERNET}
    assert 0 < len(pieces[-1]) <= ETHERNET
    assert len(pieces) == 1 or len(pieces[-1]) > HEAD_BYTES


def test_the_kernel_gives_pieces_together() -> None:
    """One read has pieces of several datagrams, and short datagrams."""
    cut, joiner = cutter(), Joiner()
    wholes = [datagram(30_000), datagram(ETHERNET), datagram(5_000)]
    pieces = [cut.cut(each) for each in wholes]
    full = pieces[0][:-1], pieces[1], pieces[2]
    read = b"".join(piece for some in full for piece in some)
    assert joiner.take(read, ETHERNET) == [Joined(wholes[1]), Joined(wholes[2])]
    assert joiner.take(pieces[0][-1]) == [Joined(wholes[0])]


def test_what_lacks_pieces_is_given_up_when_later_ones_are_whole() -> None:
    """It comes with holes, in which there are zeros, unless its beginning is missing."""
    cut, joiner = cutter(), Joiner()
    wholes = [datagram(10_000, number) for number in range(5)]
    pieces = [cut.cut(whole) for whole in wholes]
    step = ETHERNET - HEAD_BYTES
    del pieces[0][3], pieces[0][-1], pieces[1][0]
    assert take_all(joiner, pieces[0] + pieces[1]) == []
    assert take_all(joiner, pieces[2][:-1]) == []
    assert take_all(joiner, pieces[3]) == [wholes[3]]
    assert joiner.counters["incomplete_datagrams"] == 2
    assert take_all(joiner, pieces[2][-1:]) == [wholes[2]], "the network has changed the order"
    joiner = Joiner()
    found = [each for some in (*pieces[:1], *pieces[2:]) for p in some for each in joiner.take(p)]
    assert found[1:] == [Joined(whole) for whole in wholes[2:]]
    data, holes = found[0]
    last = (len(wholes[0]) - 1) // step * step
    assert holes == ((3 * step, 4 * step), (last, 10_000))
    expected = bytearray(wholes[0])
    for start, stop in holes:
        expected[start:stop] = bytes(stop - start)
    assert data == expected


A = Sender("P", "A", 1)


@given(
    sizes=st.lists(st.integers(0, 3_000), min_size=1, max_size=40),
    is_even=st.booleans(),
    seed=st.integers(0, 1 << 30),
)
def test_messages_between_holes_are_taken(sizes: list[int], is_even: bool, seed: int) -> None:
    """Those that are all there, each as it was; nothing if the head of the datagram is missing."""
    rng = random.Random(seed)
    sizes = sizes[:1] * len(sizes) if is_even else sizes
    messages = [bytes(rng.choices(b"abc", k=size)) for size in sizes]
    packet = Packet.of("P/T", A, 100, 7, 0, (Entry("P", "A", "A"),), {"k": "v"}, messages)
    whole = encode(Cast("P", 5, VALUE_MAX, packet))
    if not ETHERNET < len(whole) <= DATAGRAM_BYTES_MAX:
        return
    pieces = cutter().cut(whole)
    lost = sorted(rng.sample(range(len(pieces)), rng.randint(1, len(pieces) - 1)))
    cut, joiner = cutter(), Joiner()
    found: list[Joined] = []
    assert cut.cut(whole) == pieces
    for at, piece in enumerate(pieces):
        if at not in lost:
            found += joiner.take(piece)
    for _ in range(2):
        found += [each for piece in cut.cut(datagram(2_000)) for each in joiner.take(piece)]
    assert joiner.counters["incomplete_datagrams"] == 1
    if 0 in lost:
        assert len(found) == 2
        return
    data, holes = found[1]
    parsed = parse_datagram(data)
    assert isinstance(parsed, Cast)
    intact = find_intact(parsed, data, holes)
    head = len(whole) - sum(sizes)
    step = ETHERNET - HEAD_BYTES
    gone = [(at * step, (at + 1) * step) for at in lost]
    expected = {}
    at = head
    for number, message in enumerate(messages, 100):
        end = at + len(message)
        is_whole = all(end <= start or at >= stop or at == end for start, stop in gone)
        if is_whole and not any(start < head for start, _ in gone):
            expected[number] = message
        at = end
    got = {
        number: message
        for part in intact
        for number, message in enumerate(part.packet.split(), part.packet.number)
    }
    # An empty message inside of a hole may be taken or not: there is nothing to it.
    empty = {number for number, message in expected.items() if not message}
    assert {n: m for n, m in got.items() if n not in empty} == {
        n: m for n, m in expected.items() if n not in empty
    }
    for part in intact:
        assert isinstance(part, Cast)
        assert (part.scope, part.first, part.packet.serial) == ("P", 5, 7)


def test_nodes_do_not_take_each_others_pieces() -> None:
    joiner = Joiner()
    one, two = cutter(node=1).cut(datagram(3_000)), cutter(node=2).cut(datagram(3_000, 1))
    mixed = [piece for pair in zip(one, two, strict=True) for piece in pair]
    assert take_all(joiner, mixed) == [datagram(3_000), datagram(3_000, 1)]


def test_what_never_becomes_whole_is_forgotten() -> None:
    """Lost pieces, or a liar's, take bounded memory; later datagrams still come."""
    joiner = Joiner()
    for number in range(20 * WAITING_MAX):
        (first, *_) = cutter(node=number).cut(datagram(DATAGRAM_BYTES_MAX))
        assert joiner.take(first) == []
    assert len(joiner._waiting) <= WAITING_MAX
    assert joiner.counters["incomplete_datagrams"] == 19 * WAITING_MAX
    assert take_all(joiner, cutter(node=1 << 40).cut(datagram(9_000))) == [datagram(9_000)]


def test_pieces_of_one_byte_cost_what_they_take() -> None:
    joiner = Joiner()
    for number in range(WAITING_MAX // 2):
        head = cutter(node=number).cut(datagram(DATAGRAM_BYTES_MAX))[0][: HEAD_BYTES - 2]
        for at in range(1000):
            joiner.take(head + at.to_bytes(2, "little") + b"x")
    parts = sum(len(each.parts) for each in joiner._waiting.values())
    assert parts * (PART_BYTES + 1) == joiner._bytes <= WAITING_BYTES_MAX


@pytest.mark.parametrize("seed", range(20))
def test_whatever_comes_is_no_reason_to_stop(seed: int) -> None:
    """Pieces that a liar made, or that were damaged, are counted and dropped."""
    rng, joiner = random.Random(seed), Joiner()
    pieces = cutter().cut(datagram(6_000))
    for _ in range(2_000):
        piece = bytearray(rng.choice(pieces))
        for _ in range(rng.randrange(4)):
            piece[rng.randrange(len(piece))] = rng.randrange(256)
        data = bytes(piece[: rng.choice((len(piece), rng.randrange(len(piece) + 1)))])
        joiner.take(data, rng.choice((0, 1, 18, 500)) if data else 0)
    assert joiner._bytes <= WAITING_BYTES_MAX
    assert joiner._bytes == sum(each.memory() for each in joiner._waiting.values())


def test_pieces_that_overlap_are_no_datagram() -> None:
    joiner = Joiner()
    name = cutter().cut(datagram(3_000))[0][: HEAD_BYTES - 2]
    assert joiner.take(name + (0).to_bytes(2, "little") + b"a" * 2_000) == []
    assert joiner.take(name + (1_000).to_bytes(2, "little") + b"b" * 1_000) == []
    assert joiner.counters["malformed_pieces"] == 1


def test_no_whole_datagram_looks_like_a_piece() -> None:
    """MessagePack leaves this byte out, so the decoder refuses it."""
    assert TAG == 0xC1
    assert TAG > 0x9F > TAG_MAX
