"""Nodes of scopes: the same program, connected to the manager of a scope."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import msgspec
import pytest

import quicksilver
from quicksilver import sync
from quicksilver.lab.processes import free_udp_port
from quicksilver.net.faults import parse_faults
from tests.node.managers import managing
from tests.node.service import connect, connect_sync, run, take, take_sync

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def lan() -> Iterator[str]:
    with managing("lan") as address:
        yield address


class Quote(msgspec.Struct):
    name: str
    price: float


@pytest.mark.slow
def test_a_program_does_not_change_for_a_scope(lan: str) -> None:
    """connect, join, send, async for: everything arrives once and in order."""

    async def main() -> None:
        async with connect(lan, name="one") as one, connect(lan, name="two") as two:
            sending, receiving = await one.join("lan/news"), await two.join("lan/news")
            for number in range(1000):
                await sending.send(b"%d" % number)
            await one.flush(timeout=10)
            found = await take(receiving, 1000)
            assert [message.payload for message in found] == [b"%d" % n for n in range(1000)]
            assert [message.sequence for message in found] == list(range(1000))
            assert {message.source for message in found} == {"lan/one"}
            assert len({message.sender for message in found}) == 1
            # Nobody hears itself unless it asks for it.
            with pytest.raises(quicksilver.TimedOutError):
                await sending.receive(timeout=0.1)

    run(main())


@pytest.mark.slow
def test_threads_use_the_same_verbs(lan: str) -> None:
    """The synchronous form is a shell around the same core."""
    with connect_sync(lan) as one, connect_sync(lan) as two:
        sending, receiving = one.open("lan/sync"), two.join("lan/sync")
        for number in range(100):
            sending.send(b"%d" % number)
        one.flush(timeout=10)
        assert [m.payload for m in take_sync(receiving, 100)] == [b"%d" % n for n in range(100)]
        with pytest.raises(quicksilver.NotJoinedError):
            sending.receive(timeout=0.1)
        one.leave(sending)
        with pytest.raises(quicksilver.ClosedError):
            sending.send(b"late")


@pytest.mark.slow
def test_keys_headers_types_and_echoes_travel(lan: str) -> None:
    """In the order in which they were sent, among plain messages."""

    async def main() -> None:
        async with connect(lan) as one, connect(lan) as two:
            sending = await one.join("lan/quotes", Quote, echo=True)
            receiving = await two.join("lan/quotes", Quote)
            await sending.send(Quote("a", 1.0))
            await sending.send(Quote("b", 2.0), key="k", headers={"unit": "EUR"})
            await sending.send(Quote("c", 3.0))
            for group in (receiving, sending):
                found = [await group.receive(timeout=5) for _ in range(3)]
                assert [m.payload.name for m in found] == ["a", "b", "c"]
                assert [m.sequence for m in found] == [0, 1, 2]
                assert [m.key for m in found] == [None, b"k", None]
                assert dict(found[1].headers) == {"unit": "EUR"}

    run(main())


@pytest.mark.slow
def test_what_only_a_gms_can_do_is_refused_in_one_line(lan: str) -> None:
    """Rather than to wait for something that never comes."""

    async def main() -> None:
        async with connect(lan) as node:
            group = await node.join("lan/limits")
            for asked in (
                lambda: node.join("lan/queue", queue="workers"),
                lambda: node.join("lan/kept", retain=1),
                lambda: node.join("lan.>"),
                lambda: node.open("lan/drop", empty="drop"),
                lambda: node.open("lan/behind", behind="drop"),
                lambda: group.request(b"?"),
                lambda: group.wait_members(1),
            ):
                with pytest.raises(quicksilver.ScopeLimitError, match="not available in scopes"):
                    await asked()
            for ask in (group.views, lambda: node.on_burst(print)):
                with pytest.raises(quicksilver.ScopeLimitError):
                    ask()
            with pytest.raises(quicksilver.OptionError, match="names no scope"):
                await node.join("news")
            with pytest.raises(
                quicksilver.RefusedError, match=r"no owner of 'lan/.*leads to 'elsewhere'"
            ):
                await node.join("elsewhere/news")
            await group.send(b"still alive")
            await node.flush(timeout=10)

    run(main())


@pytest.mark.slow
def test_a_join_that_is_cancelled_has_not_joined(lan: str) -> None:
    """As where there is a GMS; the next one may."""

    async def main() -> None:
        async with connect(lan) as node:
            joining = asyncio.create_task(node.join("lan/cancelled"))
            await asyncio.sleep(0)
            joining.cancel()
            with pytest.raises(asyncio.CancelledError):
                await joining
            group = await node.join("lan/cancelled")
            with pytest.raises(quicksilver.AlreadyJoinedError):
                await node.join("lan/cancelled")
            receiving = asyncio.create_task(group.receive())
            await asyncio.sleep(0)
            receiving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await receiving
            async with connect(lan) as other:
                sending = await other.open("lan/cancelled")
                await sending.send(b"x")
                assert (await group.receive(timeout=5)).payload == b"x"
            await node.leave(group)
            with pytest.raises(quicksilver.ClosedError):
                await group.receive()

    run(main())


@pytest.mark.slow
def test_a_name_that_is_taken_is_refused_and_a_bad_one_named(lan: str) -> None:
    """What the manager says reaches the user."""
    with connect_sync(lan, name="only"):
        with pytest.raises(
            quicksilver.GmsUnreachableError, match="has a member 'lan/only' already"
        ):
            connect_sync(lan, name="only", connect_timeout_s=0.5)
        with pytest.raises(quicksilver.OptionError, match="which no scope's name can have"):
            connect_sync(lan, name="a-b")


@pytest.mark.slow
def test_a_receiver_that_does_not_read_holds_senders_up(lan: str) -> None:
    """Its queue is bounded, and nothing is lost."""
    size, count = 10_000, 8000
    with connect_sync(lan) as one, connect_sync(lan, queue_bytes=1 << 20) as two:
        sending, receiving = one.open("lan/slow"), two.join("lan/slow")
        sent = 0
        while sent < count and sending.post(b"x" * size):
            sent += 1

        def rest() -> None:
            for _ in range(count - sent):
                sending.send(b"x" * size)

        thread = threading.Thread(target=rest)
        thread.start()
        thread.join(timeout=1.0)
        assert thread.is_alive()
        assert receiving.queued_bytes < 4 << 20
        assert len(take_sync(receiving, count)) == count
        thread.join(timeout=10)
        assert not thread.is_alive()


def test_a_node_is_described_by_its_scope(lan: str) -> None:
    """For people who print one."""
    with sync.connect(lan, name="shown", interface="lo") as node:
        assert node.name == "lan/shown"
        group = node.join("lan/shown_topic")
        assert repr(group).startswith("<Group 'lan/shown_topic', joined")
        stats = node.stats()
        assert stats.connected


@pytest.mark.slow
@pytest.mark.parametrize("recovery", ["ring", "star", "tree:2", "gossip:2", "requests"])
def test_what_multicast_loses_is_recovered(recovery: str) -> None:
    """One datagram in twenty is lost at each node: everybody gets everything once, in order."""
    count = 3000
    port = free_udp_port()
    faults = parse_faults("loss=5%")
    settings = {"policy": "multicast", "multicast": f"239.192.77.0/24:{port}"}
    with ExitStack() as stack:
        lan = stack.enter_context(managing("lan", recovery=recovery, **settings))
        nodes = [stack.enter_context(connect_sync(lan, name=name, faults=faults)) for name in "abc"]
        groups = [node.join("lan/lossy") for node in nodes]
        for number in range(count):
            groups[0].send(b"%d" % number)
            if number % 20 == 0:
                time.sleep(0.001)  # many datagrams, not a few large ones
        nodes[0].flush(timeout=20)
        for group in groups[1:]:
            found = take_sync(group, count)
            assert [message.sequence for message in found] == list(range(count))
        assert sum(int(node.stats().counters.get("repaired", 0)) for node in nodes) > 0


@pytest.mark.slow
def test_stability_reaches_across_networks_while_nodes_come() -> None:
    """A network's agent moves to another node when a new leader comes: others ask where it is."""
    with ExitStack() as stack:
        campus = stack.enter_context(managing("campus", recovery="star"))
        lans = [
            stack.enter_context(managing(f"campus/{name}", campus, recovery=recovery))
            for name, recovery in (("lan1", "ring"), ("lan2", "tree:3"))
        ]
        nodes = [
            stack.enter_context(connect_sync(lan, name=name)) for name in "abcd" for lan in lans
        ]
        groups = [node.join("campus/news") for node in nodes]
        for group in groups:
            group.send(b"x")
        for node in nodes:
            node.flush(timeout=20)
        for group in groups:
            assert len({m.source for m in take_sync(group, len(nodes) - 1)}) == len(nodes) - 1


@pytest.mark.slow
def test_what_was_flushed_arrives_although_its_sender_is_gone(lan: str) -> None:
    """Also where nobody recovers messages: a flush waits for channels that are being opened."""
    with connect_sync(lan) as receiver:
        group = receiver.join("lan/brief")
        for number in range(10):
            with connect_sync(lan) as sender:
                sending = sender.open("lan/brief")
                for _ in range(50):
                    sending.send(b"%d" % number * 20_000)
                sender.flush(timeout=10)
                sender.close(timeout=0)
            found = take_sync(group, 50)
            assert {message.payload for message in found} == {b"%d" % number * 20_000}


@pytest.mark.slow
def test_a_member_that_hangs_holds_a_join_up_and_does_not_prevent_it(
    lan: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its channel does not open; what it sends later comes nevertheless."""
    release = threading.Event()
    with connect_sync(lan) as hung, connect_sync(lan) as other, connect_sync(lan) as late:
        stuck = hung.join("lan/hangs")
        entered = threading.Event()

        def hang(message: quicksilver.Message[bytes]) -> None:
            entered.set()
            release.wait(20)

        stuck.on_message(hang)
        sending = other.open("lan/hangs")
        try:
            sending.send(b"x")
            assert entered.wait(10)
            group = late.join("lan/hangs")
            assert "not all channels of lan/hangs are open" in caplog.text
            sending.send(b"y")
            found: list[bytes] = []
            while b"y" not in found:
                found += [message.payload for message in take_sync(group, 1)]
        finally:
            release.set()
        stuck.send(b"z")
        while b"z" not in found:
            found += [message.payload for message in take_sync(group, 1)]


@pytest.mark.slow
def test_links_may_be_datagrams(caplog: pytest.LogCaptureFixture) -> None:
    """What is lost on the way is repaired, so everything arrives once and in order."""
    count = 400
    options = {"links": "udp", "faults": parse_faults("loss=30%")}
    with managing("lan", recovery="ring") as lan, ExitStack() as stack:
        nodes = [stack.enter_context(connect_sync(lan, **options)) for _ in range(3)]
        groups = [node.join("lan/lossy") for node in nodes]
        for number in range(count):
            groups[0].send(b"%d" % number * 2000)
        nodes[0].flush(timeout=30)
        for node, group in zip(nodes[1:], groups[1:], strict=True):
            found = take_sync(group, count)
            assert [m.payload for m in found] == [b"%d" % n * 2000 for n in range(count)]
            assert node.stats().counters["missing"] == 0
        stats = [node.stats() for node in nodes]
        assert sum(each.datagrams["injected_drops"] for each in stats) > 0
        assert sum(each.counters.get("repaired", 0) for each in stats) > 0


def test_a_port_may_be_chosen_and_is_named_if_it_is_taken(lan: str) -> None:
    """For connections and for datagrams: behind a firewall both have to be open."""
    port = free_udp_port()
    with connect_sync(lan, port=port, links="udp") as node:
        assert node.name
        with pytest.raises(quicksilver.QuicksilverError, match=str(port)):
            connect_sync(lan, port=port, links="udp")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", port))
        with pytest.raises(quicksilver.QuicksilverError, match=f"{port} for unicast"):
            connect_sync(lan, port=port, links="udp")
    with pytest.raises(quicksilver.OptionError, match="links"):
        connect_sync(lan, links="carrier pigeon")
