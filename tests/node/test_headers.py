"""Keys and headers, on real sockets, as a user would use them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import quicksilver
from tests.node.networks import Network
from tests.node.service import connect, connect_sync, pair, run, take, take_sync

pytestmark = pytest.mark.integration


class Quote(msgspec.Struct):
    symbol: str


def test_keys_and_headers_arrive_with_the_message(network: Network) -> None:
    async def work() -> None:
        async with pair(network.address) as (sender, receiver):
            group = await receiver.join(network.name("headers"))
            out = await sender.open(network.name("headers"))
            await network.wait_members(out, 1)
            await out.send(b"1.08", key=b"EURUSD", headers={"unit": "USD", "raw": b"\xff"})
            await out.send(b"plain")
            await out.send(b"text key", key="Zürich")
            first, second, third = await take(group, 3)
            assert (first.payload, first.key) == (b"1.08", b"EURUSD")
            assert dict(first.headers) == {"unit": "USD", "raw": b"\xff"}
            assert (second.key, dict(second.headers)) == (None, {})
            assert third.key == "Zürich".encode()

    run(work())


def test_messages_with_and_without_headers_stay_in_order_and_share_numbers(
    network: Network,
) -> None:
    """FIFO per sender holds over both kinds, also within one packet."""

    async def work() -> None:
        async with pair(network.address) as (sender, receiver):
            group = await receiver.join(network.name("mixed"))
            out = await sender.open(network.name("mixed"))
            await network.wait_members(out, 1)
            for number in range(1000):
                key = b"k" if number % 3 == 0 else None
                await out.send(b"%d" % number, key=key)
            got = await take(group, 1000)
            assert [m.payload for m in got] == [b"%d" % n for n in range(1000)]
            assert [m.sequence for m in got] == list(range(1000))
            assert [m.key for m in got] == [b"k" if n % 3 == 0 else None for n in range(1000)]
            await sender.flush()

    run(work())


def test_a_large_message_has_headers_too(network: Network) -> None:
    async def work() -> None:
        async with pair(network.address) as (sender, receiver):
            group = await receiver.join(network.name("large"))
            out = await sender.open(network.name("large"))
            await network.wait_members(out, 1)
            await out.send(bytes(500_000), headers={"size": "500000"})
            (message,) = await take(group, 1)
            assert len(message.payload) == 500_000
            assert message.headers["size"] == "500000"

    run(work())


def test_values_of_typed_groups_have_headers(network: Network) -> None:
    async def work() -> None:
        async with pair(network.address) as (sender, receiver):
            group = await receiver.join(network.name("typed"), Quote)
            out = await sender.open(network.name("typed"), Quote)
            await network.wait_members(out, 1)
            await out.send(Quote("EURUSD"), key="EURUSD")
            async for message in group:
                assert message.payload == Quote("EURUSD")
                assert message.key == b"EURUSD"
                break

    run(work())


def test_own_messages_are_heard_with_their_headers(network: Network) -> None:
    async def work() -> None:
        async with connect(network.address) as node:
            group = await node.join(network.name("own"), echo=True)
            await group.send(b"x", headers={"a": "b"})
            (message,) = await take(group, 1)
            assert message.headers == {"a": "b"}

    run(work())


def test_a_burst_has_the_payload_without_its_envelope(gms: str) -> None:
    """Whoever takes whole packets sees the group's own number and no headers."""

    async def work() -> None:
        import asyncio

        async with pair(gms) as (sender, receiver):
            group = await receiver.join("burst")
            bursts: list[quicksilver.Burst] = []
            loop, came = asyncio.get_running_loop(), asyncio.Event()

            def take_burst(burst: quicksilver.Burst) -> None:
                bursts.append(burst)
                loop.call_soon_threadsafe(came.set)

            receiver.on_burst(take_burst)
            out = await sender.open("burst")
            await out.wait_members(1)
            await out.send(b"x", key=b"k")
            await came.wait()
            assert bursts[0].payloads == [b"x"]
            assert list(bursts[0].groups) == [group.id]

    run(work())


def test_the_synchronous_form_has_them_as_well(network: Network) -> None:
    with connect_sync(network.address) as sender, connect_sync(network.address) as receiver:
        group = receiver.join(network.name("sync-headers"))
        out = sender.open(network.name("sync-headers"))
        network.wait_members_sync(out, 1)
        out.send(b"x", key=b"k", headers={"a": "b"})
        (message,) = take_sync(group, 1)
        assert (message.payload, message.key, dict(message.headers)) == (b"x", b"k", {"a": "b"})


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"key": 5}, "key: must be bytes or text, not int"),
        ({"headers": [("a", "b")]}, "headers: must be a mapping, not list"),
        ({"headers": {"a": 5}}, "headers: must have text as names"),
        ({"headers": {"a": "b" * 40_000}}, "put large values into the payload"),
        ({"headers": {str(n): "" for n in range(65)}}, "the limit is 64"),
    ],
)
def test_what_cannot_be_sent_is_refused_at_the_call(
    gms: str, given: dict[str, Any], problem: str
) -> None:
    async def work() -> None:
        async with connect(gms) as node:
            group = await node.open("refused")
            with pytest.raises(quicksilver.OptionError, match=problem):
                await group.send(b"x", **given)

    run(work())
