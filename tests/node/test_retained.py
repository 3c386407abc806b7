"""Last values for late joiners, on real sockets and as a store."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

import quicksilver
from quicksilver.node.headers import enveloped
from quicksilver.node.retained import Retained
from quicksilver.wire.envelope import ENVELOPE_BYTES_MAX, Kind, parse_enveloped
from quicksilver.wire.packets import MESSAGE_BYTES_MAX
from tests.node.service import connect, connect_sync, run, take, take_sync


@pytest.mark.integration
def test_a_late_joiner_gets_the_last_value_before_newer_ones(gms: str) -> None:
    async def work() -> None:
        async with connect(gms) as sender, connect(gms) as early, connect(gms) as late:
            first = await early.join("v1")
            out = await sender.open("v1", retain=1)
            await out.wait_members(1)
            for number in range(5):
                await out.send(b"%d" % number)
            assert [m.payload for m in await take(first, 5)] == [b"%d" % n for n in range(5)]
            second = await late.join("v1")
            await out.wait_members(2)
            await out.send(b"5")
            got = await take(second, 2)
            assert [(m.payload, m.is_retained) for m in got] == [(b"4", True), (b"5", False)]
            got = await take(first, 1)
            assert [(m.payload, m.is_retained) for m in got] == [(b"5", False)]

    run(work())


@pytest.mark.integration
def test_values_are_kept_for_each_key_with_their_headers(gms: str) -> None:
    async def work() -> None:
        async with connect(gms) as sender, connect(gms) as late:
            out = await sender.open("v2", retain=2)
            for number in range(4):
                for key in ("EURUSD", "GBPUSD"):
                    await out.send(b"%d" % number, key=key, headers={"n": str(number)})
            group = await late.join("v2")
            got = await take(group, 4)
            assert [(m.key, m.payload, m.headers["n"]) for m in got] == [
                (b"EURUSD", b"2", "2"),
                (b"GBPUSD", b"2", "2"),
                (b"EURUSD", b"3", "3"),
                (b"GBPUSD", b"3", "3"),
            ]
            assert all(m.is_retained for m in got)

    run(work())


@pytest.mark.integration
def test_joins_one_after_the_other_get_values_each_once(gms: str) -> None:
    """While the sender goes on: a newcomer begins with the retained value, or with the newest
    itself if that was still to be sent; numbers rise, and what follows has no holes."""

    async def work() -> None:
        async with connect(gms) as sender:
            out = await sender.open("v3", retain=1)
            await out.send(b"0")
            stop = asyncio.Event()

            async def send() -> None:
                number = 1
                while not stop.is_set():
                    await out.send(b"%d" % number)
                    number += 1
                    await asyncio.sleep(0.001)

            sending = asyncio.create_task(send())
            nodes = [connect(gms) for _ in range(3)]
            groups = []
            for node in nodes:
                await node.__aenter__()
                groups.append(await node.join("v3"))
            for group in groups:
                got = await take(group, 50)
                live = [int(m.payload) for m in got if not m.is_retained]
                assert not any(m.is_retained for m in got[1:])
                assert live == list(range(live[0], live[0] + len(live)))
                if got[0].is_retained:
                    # Sent in the very moment of the join, it may come both ways.
                    assert live[0] - int(got[0].payload) in (0, 1)
            stop.set()
            await sending
            for node in nodes:
                await node.close(0)

    run(work())


@pytest.mark.integration
def test_the_synchronous_form_and_posting(gms: str) -> None:
    with connect_sync(gms) as sender, connect_sync(gms) as late:
        out = sender.open("v4", retain=1)
        out.send(b"x")
        group = late.join("v4")
        (message,) = take_sync(group, 1)
        assert (message.payload, message.is_retained) == (b"x", True)

    async def work() -> None:
        async with connect(gms) as sender, connect(gms) as late:
            out = await sender.open("v5", retain=1)
            assert out.post(b"y")
            group = await late.join("v5")
            assert (await take(group, 1))[0].payload == b"y"
            with pytest.raises(quicksilver.OptionError, match="retain: keeps what is sent"):
                out.send_from(lambda: None)
            with pytest.raises(quicksilver.OptionError, match="retain: must be a number"):
                await sender.open("v6", retain=-1)

    run(work())


@pytest.mark.integration
def test_values_go_with_their_sender(gms: str) -> None:
    async def work() -> None:
        async with connect(gms) as late:
            async with connect(gms) as sender:
                out = await sender.open("v7", retain=1)
                await out.send(b"gone")
            async with connect(gms) as another:
                group = await late.join("v7")
                out = await another.open("v7")
                await out.wait_members(1)
                await out.send(b"live")
                assert [m.payload for m in await take(group, 1)] == [b"live"]

    run(work())


def bodies(found: list[bytes]) -> list[bytes]:
    parsed = [parse_enveloped(payload) for payload in found]
    assert all(each is not None and each[0].kind == Kind.RETAINED for each in parsed)
    return [each[1] for each in parsed if each is not None]


@given(
    st.integers(1, 3),
    st.lists(st.tuples(st.sampled_from([None, b"a", b"b"]), st.binary(min_size=2, max_size=8))),
)
def test_the_last_of_each_key_are_kept_in_order(
    count: int, sent: list[tuple[bytes | None, bytes]]
) -> None:
    """Against the obvious way: keep everything, and look at the end."""
    retained = Retained(count)
    for key, body in sent:
        if key is None:
            retained.add(body, is_enveloped=False)
        else:
            retained.add(enveloped(body, key, None), is_enveloped=True)
    expected = [
        body
        for at, (key, body) in enumerate(sent)
        if [other for other, _ in sent[at + 1 :]].count(key) < count
    ]
    assert bodies(retained.replay(7, ())) == expected


@given(st.lists(st.integers(0, 60), max_size=60))
def test_memory_is_bounded(sizes: list[int]) -> None:
    retained = Retained(100, bytes_max=1000)
    for place, size in enumerate(sizes):
        retained.add(enveloped(bytes(size), b"%d" % place, None), is_enveloped=True)
        assert retained.used_bytes <= 1000
    assert len(retained.replay(0, ())) + retained.dropped == len(sizes)


def test_what_waits_to_be_sent_is_not_sent_twice() -> None:
    retained = Retained(5)
    payloads = [b"one", b"two"]
    for payload in payloads:
        retained.add(payload, is_enveloped=False)
    assert bodies(retained.replay(0, {id(payloads[1])})) == [b"one"]


def test_what_could_not_be_sent_again_is_refused_when_it_is_sent() -> None:
    """The envelope of a value grows when newcomers get it; that must not fail on the core."""
    kept = Retained(1)
    accepted = refused = 0
    for size in range(ENVELOPE_BYTES_MAX - 40, ENVELOPE_BYTES_MAX):
        try:
            payload = enveloped(b"x", None, {"h": b"a" * size})
        except quicksilver.OptionError:
            break
        try:
            kept.add(payload, is_enveloped=True)
            accepted += 1
        except quicksilver.OptionError:
            refused += 1
        assert len(kept.replay((1 << 62) - 1, ())) == 1
    assert accepted
    assert refused


def test_a_value_must_leave_room_for_its_envelope() -> None:
    kept = Retained(1, bytes_max=2 * MESSAGE_BYTES_MAX)
    with pytest.raises(quicksilver.MessageTooLargeError):
        kept.add(bytes(MESSAGE_BYTES_MAX), is_enveloped=False)
    kept.add(bytes(MESSAGE_BYTES_MAX - 100), is_enveloped=False)
    assert len(kept.replay(1000, ())[0]) <= MESSAGE_BYTES_MAX
