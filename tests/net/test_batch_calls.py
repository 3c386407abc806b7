"""Batches: what may be sent as one run, what was probed, and the plain switch."""

from __future__ import annotations

import errno
import socket
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.net import batch_calls
from quicksilver.net.batch_calls import (
    DATAGRAM_BYTES_MAX,
    GSO_SEGMENTS_MAX,
    PLAIN_VARIABLE,
    BatchReceiver,
    BatchSender,
    Received,
    probe_abilities,
    receive_plain,
    run_end,
)

needs_recvmmsg = pytest.mark.skipif(
    not probe_abilities().recvmmsg, reason="this system has no recvmmsg"
)
needs_sendmmsg = pytest.mark.skipif(
    not probe_abilities().sendmmsg, reason="this system has no sendmmsg"
)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two sockets on loopback, the second connected to the first."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        receiver.bind(("127.0.0.1", 0))
        receiver.setblocking(False)
        sender.bind(("127.0.0.1", 0))
        sender.setblocking(False)
        yield receiver, sender


@given(
    st.lists(st.sampled_from([0, 1, 700, 1472, 1473, 9000, 65_507]), min_size=1, max_size=150),
    st.data(),
)
def test_a_run_is_what_the_kernel_would_cut_back_into_the_same_packets(
    lengths: list[int], data: st.DataObject
) -> None:
    """The kernel cuts by length alone, so equal packets and one shorter tail."""
    packets = [bytes(length) for length in lengths]
    start = data.draw(st.integers(0, len(packets) - 1))
    run = packets[start : run_end(packets, start)]
    size = len(run[0])
    assert 1 <= len(run) <= GSO_SEGMENTS_MAX
    assert len(b"".join(run)) <= DATAGRAM_BYTES_MAX
    if len(run) > 1:
        joined = b"".join(run)
        assert [joined[at : at + size] for at in range(0, len(joined), size)] == run


def test_a_run_is_not_cut_short_without_reason() -> None:
    """Forty-four packets of 1,472 bytes fill one send; sixty-four small ones."""
    assert run_end([bytes(1472)] * 100, 0) == 44
    assert run_end([bytes(10)] * 100, 0) == 64
    assert run_end([bytes(10), bytes(10), bytes(9), bytes(10)], 0) == 3


def test_the_environment_forces_the_plain_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests and users can compare without another system."""
    monkeypatch.setenv(PLAIN_VARIABLE, "1")
    assert not any((probe_abilities().recvmmsg, probe_abilities().gso, probe_abilities().gro))
    monkeypatch.setenv(PLAIN_VARIABLE, "0")
    assert probe_abilities() == batch_calls._probe()
    assert not probe_abilities(plain=True).sendmmsg


@pytest.mark.skipif(sys.platform != "linux", reason="every supported Linux has them")
def test_linux_has_everything() -> None:
    """Otherwise the other tests here would pass without testing anything."""
    abilities = batch_calls._probe()
    assert abilities.recvmmsg
    assert abilities.sendmmsg
    assert abilities.gso
    assert abilities.gro


@needs_recvmmsg
def test_a_batch_receiver_reads_every_datagram_with_its_source(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    """Empty, small and large, more than one batch, in order."""
    receiver, sender = pair
    packets = [bytes([i]) * size for i, size in enumerate([0, 1, 1472, 30_000, 65_507, 3] * 4)]
    batch = BatchReceiver()
    items: list[Received] = []
    for start in range(0, len(packets), 4):
        for packet in packets[start : start + 4]:
            sender.sendto(packet, receiver.getsockname())
        assert batch.receive(receiver.fileno(), 100, items) == errno.EAGAIN
    assert [data for data, _, _ in items] == packets
    assert {(segment, source) for _, segment, source in items} == {(0, sender.getsockname())}


@needs_recvmmsg
def test_a_limit_leaves_the_rest_in_the_kernel(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    """The core decides how much it takes in one turn."""
    receiver, sender = pair
    for i in range(50):
        sender.sendto(bytes([i]), receiver.getsockname())
    batch = BatchReceiver()
    items: list[Received] = []
    assert batch.receive(receiver.fileno(), 40, items) == 0
    assert len(items) == 40
    assert batch.receive(receiver.fileno(), 40, items) == errno.EAGAIN
    assert [data[0] for data, _, _ in items] == list(range(50))


@needs_recvmmsg
@pytest.mark.skipif(not probe_abilities().gro, reason="this system has no GRO")
def test_segment_sizes_are_told_after_datagrams_that_had_none(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    """A lost note would hand forty packets to the engine as one."""
    receiver, sender = pair
    receiver.setsockopt(batch_calls.SOL_UDP, batch_calls.UDP_GRO, 1)
    reader, writer = BatchReceiver(), BatchSender()
    for _ in range(3):
        items: list[Received] = []
        for packets in ([b"a"], [b"bb"], [b"c" * 100] * 9 + [b"d" * 7], [b"ee"], [b"f" * 50] * 3):
            end, code = writer.send(sender.fileno(), receiver.getsockname(), packets, 0, 1000)
            assert (end, code) == (len(packets), 0)
        reader.receive(receiver.fileno(), 100, items)
        assert [(len(data), segment) for data, segment, _ in items] == [
            *[(1, 0), (2, 0), (907, 100), (2, 0), (150, 50)]
        ]
        for size in (60, 70):
            writer.send(sender.fileno(), receiver.getsockname(), [bytes(size)] * 2, 0, 1000)
        items.clear()
        reader.receive(receiver.fileno(), 100, items)
        assert [(len(data), segment) for data, segment, _ in items] == [(120, 60), (140, 70)]


@needs_recvmmsg
def test_sources_are_forgotten_rather_than_piled_up(
    pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody can send with another source; memory must not grow with them."""
    monkeypatch.setattr(batch_calls, "_SOURCES_MAX", 4)
    receiver, _ = pair
    batch = BatchReceiver()
    items: list[Received] = []
    expected = []
    for _ in range(10):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.sendto(b"x", receiver.getsockname())
            expected.append(("127.0.0.1", stranger.getsockname()[1]))
    batch.receive(receiver.fileno(), 100, items)
    assert [source for _, _, source in items] == expected
    assert len(batch._addresses) <= 4


@needs_sendmmsg
def test_a_batch_sender_stops_where_the_kernel_refuses(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    """The packets before the bad one are gone, the caller learns which it was."""
    receiver, sender = pair
    packets = [b"a", b"bb", bytes(65_508), b"c"]
    batch = BatchSender()
    assert batch.send(sender.fileno(), receiver.getsockname(), packets, 0, 0) == (
        2,
        errno.EMSGSIZE,
    )
    assert batch.send(sender.fileno(), receiver.getsockname(), packets, 3, 0) == (4, 0)
    items: list[Received] = []
    assert receive_plain(receiver.recvfrom, 10, items) == errno.EAGAIN
    assert [data for data, _, _ in items] == [b"a", b"bb", b"c"]


@needs_sendmmsg
def test_a_batch_sender_lets_go_of_what_it_sent(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    """Sixteen forgotten packets of 60 KB would be a megabyte per node."""
    receiver, sender = pair
    packets = [bytes([i]) * (1000 + i) for i in range(20)]
    before = [sys.getrefcount(packet) for packet in packets]
    batch = BatchSender()
    assert batch.send(sender.fileno(), receiver.getsockname(), packets, 0, 0) == (20, 0)
    assert [sys.getrefcount(packet) for packet in packets] == before


def test_the_allocator_is_left_alone_where_the_user_has_spoken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Somebody who sets malloc's limits means it."""
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "1")
    assert not batch_calls.tune_allocator.__wrapped__()
