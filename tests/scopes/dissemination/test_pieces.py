"""Datagrams in pieces: what a link cannot carry at once arrives all the same, or not at all."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.scopes.dissemination.frames import DATAGRAM_BYTES_MAX, TAG_MAX
from quicksilver.scopes.dissemination.pieces import (
    HEAD_BYTES,
    PART_BYTES,
    TAG,
    WAITING_BYTES_MAX,
    WAITING_MAX,
    Cutter,
    Joiner,
)

ETHERNET = 1472


def datagram(size: int, seed: int = 0) -> bytes:
    """Something that begins like MessagePack's arrays, as all datagrams do."""
    return b"\x94" + random.Random(seed).randbytes(size - 1)


def cutter(bytes_max: int = ETHERNET, node: int = 1) -> Cutter:
    return Cutter(bytes_max, node)


def take_all(joiner: Joiner, pieces: list[bytes]) -> list[bytes]:
    return [whole for piece in pieces for whole in joiner.take(piece)]


@given(
    sizes=st.lists(st.integers(1, DATAGRAM_BYTES_MAX), min_size=1, max_size=4),
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
    assert joiner.take(read, ETHERNET) == [wholes[1], wholes[2]]
    assert joiner.take(pieces[0][-1]) == [wholes[0]]


def test_a_datagram_that_lacks_a_piece_never_comes() -> None:
    cut, joiner = cutter(), Joiner()
    first, second = cut.cut(datagram(10_000)), cut.cut(datagram(10_000, 1))
    del first[3]
    assert take_all(joiner, first + second) == [datagram(10_000, 1)]


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
