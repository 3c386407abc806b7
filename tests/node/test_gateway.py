"""Two networks, each with a GMS and ordinary nodes, under one owner: one topic across both."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import quicksilver
from quicksilver.multicast.sending.unconfirmed import Reason
from quicksilver.node.errors import TimedOutError, UnconfirmedError
from quicksilver.node.gateway import GatewayOptions, OtherScopeError, serve_gateway
from quicksilver.wire.envelope import CARRIED_SENDER
from tests.node.managers import managing
from tests.node.service import connect, run, running_gms, take, until
from tests.node.test_cancellation import cancel_everywhere

pytestmark = [pytest.mark.integration, pytest.mark.slow]

TOPIC = "campus/news"

PROGRAM = """
import sys
from quicksilver.node.gateway import GatewayOptions, run_gateway
run_gateway(
    GatewayOptions(gms=sys.argv[1], manager=sys.argv[2], name=sys.argv[3]),
    lambda name: print(name, flush=True),
)
"""


class Network:
    """A network: its GMS, the manager of its scope, and its gateways as processes."""

    def __init__(self, gms: str, manager: str) -> None:
        self.gms = gms
        self.manager = manager
        self.gateways: dict[str, subprocess.Popen[str]] = {}

    def start(self, name: str) -> None:
        """Start a gateway and wait until it works."""
        command = [sys.executable, "-c", PROGRAM, self.gms, self.manager, name]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.gateways[name] = process
        assert process.stdout is not None
        assert process.stdout.readline().strip() == name

    def kill(self, name: str) -> None:
        process = self.gateways.pop(name)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(10)
        assert process.stdout is not None
        process.stdout.close()

    def pause(self, name: str) -> None:
        """A gateway does nothing any more, and its connections stay."""
        os.kill(self.gateways[name].pid, signal.SIGSTOP)

    def resume(self, name: str) -> None:
        os.kill(self.gateways[name].pid, signal.SIGCONT)

    def close(self) -> None:
        for name in list(self.gateways):
            self.kill(name)


@contextmanager
def networks(*names: str, recovery: str = "none") -> Iterator[list[Network]]:
    """Networks with a GMS each, all members of ``campus``."""
    with (
        managing("campus", recovery=recovery) as campus,
        _members(campus, names, recovery) as found,
    ):
        yield found


@contextmanager
def _members(campus: str, names: tuple[str, ...], recovery: str) -> Iterator[list[Network]]:
    if not names:
        yield []
        return
    with (
        running_gms(addresses=f"239.192.{len(names)}.0/24") as gms,
        managing(names[0], campus, recovery=recovery) as manager,
        _members(campus, names[1:], recovery) as rest,
    ):
        network = Network(gms, manager)
        try:
            yield [network, *rest]
        finally:
            network.close()


class Reader:
    """A subscriber, and what it got of each sender: numbers, in order."""

    def __init__(self, group: quicksilver.Group[bytes]) -> None:
        self.got: dict[str, list[int]] = {}
        self._group = group
        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for message in self._group:
            true = str(message.headers.get(CARRIED_SENDER, f"::{self._name(message)}"))
            self.got.setdefault(true.rpartition(":")[2], []).append(int(message.payload[:9]))

    def _name(self, message: quicksilver.Message) -> str:
        assert self._group.view is not None
        return self._group.view.name_of(message.sender)

    def last(self, sender: str) -> int:
        return self.got[sender][-1] if sender in self.got else -1


class Writer:
    """Sends numbered messages until it is stopped."""

    def __init__(self, group: quicksilver.Group[bytes]) -> None:
        self.next = 0
        self._group = group
        self._is_stopped = False
        self._task = asyncio.create_task(self._write())

    async def _write(self) -> None:
        while not self._is_stopped:
            for _ in range(20):
                await self._group.send(b"%09d" % self.next + bytes(200))
                self.next += 1
            await asyncio.sleep(0.005)

    async def stop(self) -> int:
        """Stop; return how many were sent."""
        self._is_stopped = True
        await self._task
        return self.next


def test_a_message_crosses_with_its_headers_and_its_sender_is_named() -> None:
    """Programs do not change: they join a group whose name is a path."""

    async def work(one: Network, two: Network) -> None:
        async with connect(one.gms, name="alice") as alice, connect(two.gms, name="bob") as bob:
            out, into = await alice.join(TOPIC), await bob.join(TOPIC)
            reader = asyncio.create_task(take(into, 1))
            while not reader.done():
                await out.send(b"hello", key=b"k", headers={"tone": "low"})
                await asyncio.wait((reader,), timeout=0.2)
            message = reader.result()[0]
            assert (message.payload, message.key) == (b"hello", b"k")
            assert message.headers["tone"] == "low"
            assert str(message.headers[CARRIED_SENDER]).startswith("campus/lan1:")
            assert str(message.headers[CARRIED_SENDER]).endswith(":alice")
            local = await (await alice.join("news")).wait_members(1)
            assert local.names == ("alice",), "groups that are no topics are left alone"

    with networks("campus/lan1", "campus/lan2") as (one, two):
        one.start("g1")
        two.start("g2")
        run(work(one, two), 40)


@pytest.mark.parametrize("recovery", ["none", "ring"])
def test_gateways_may_be_killed_while_messages_cross(recovery: str) -> None:
    """Every subscriber gets every message exactly once, in order per true sender."""

    async def work(one: Network, two: Network) -> None:
        names = {one: ("alice", "ann", "abe"), two: ("bob", "bea", "ben")}
        async with asyncio.timeout(80):
            nodes: dict[str, Any] = {}
            groups: dict[str, Any] = {}
            for network, local in names.items():
                for name in local:
                    nodes[name] = await connect(network.gms, name=name)
                    groups[name] = await nodes[name].join(TOPIC)
            readers = {name: Reader(group) for name, group in groups.items()}
            writers = {name: Writer(groups[name]) for name in ("alice", "bob")}

            def heard() -> bool:
                return all(
                    reader.last(writer) >= 0
                    for name, reader in readers.items()
                    for writer in writers
                    if name != writer
                )

            await until(heard)
            for network, name in ((two, "g3"), (one, "g1")):
                await asyncio.sleep(0.5)
                network.kill(name)
                before = {writer: writers[writer].next for writer in writers}
                await until(
                    lambda before=before: all(  # type: ignore[misc]
                        readers[far].last(writer) >= mark
                        for writer, mark in before.items()
                        for far in (names[two] if writer == "alice" else names[one])
                    )
                )
            sent = {name: await writer.stop() for name, writer in writers.items()}
            await until(
                lambda: all(
                    reader.last(writer) == count - 1
                    for name, reader in readers.items()
                    for writer, count in sent.items()
                    if name != writer
                )
            )
            for name, reader in readers.items():
                for writer, count in sent.items():
                    if name != writer:
                        got = reader.got[writer]
                        assert got == list(range(got[0], count)), (name, writer)
                assert set(reader.got) == set(sent) - {name}, "nobody hears its own messages"
            for node in nodes.values():
                await node.close()

    with networks("campus/lan1", "campus/lan2", recovery=recovery) as (one, two):
        for network, name in ((one, "g1"), (one, "g2"), (two, "g3"), (two, "g4")):
            network.start(name)
        run(work(one, two), 100)


def test_a_flush_speaks_for_other_networks() -> None:
    """While another network does not answer, its own goes on and the flush waits."""

    async def work(one: Network, two: Network) -> None:
        async with (
            connect(one.gms, name="alice") as alice,
            connect(one.gms, name="ann") as ann,
            connect(two.gms, name="bob") as bob,
        ):
            out, near, far = (
                await alice.join(TOPIC),
                await ann.join(TOPIC),
                await bob.join(TOPIC),
            )
            readers = [Reader(near), Reader(far)]
            count = 0
            while any(reader.last("alice") < 0 for reader in readers):
                await out.send(b"%09d" % count)
                count += 1
                await asyncio.sleep(0.02)
            await alice.flush(timeout=20)
            two.pause("g2")
            last = count + 500
            for number in range(count, last + 1):
                await out.send(b"%09d" % number)
            flush = asyncio.create_task(alice.flush(timeout=40))
            await until(lambda: readers[0].last("alice") == last)
            await asyncio.wait((flush,), timeout=2)
            assert not flush.done(), "nobody in the other network has them"
            two.resume("g2")
            assert await flush == ()
            await until(lambda: readers[1].last("alice") == last)
            assert await alice.flush(timeout=20) == (), "nothing new, and nobody to ask"

    with networks("campus/lan1", "campus/lan2", recovery="ring") as (one, two):
        one.start("g1")
        one.start("g3")
        two.start("g2")
        run(work(one, two), 60)


def test_a_flush_tells_when_no_gateway_is_left_to_ask() -> None:
    async def work(one: Network, two: Network) -> None:
        async with connect(one.gms, name="alice") as alice, connect(two.gms, name="bob") as bob:
            out, far = await alice.open(TOPIC), Reader(await bob.join(TOPIC))
            count = 0
            while far.last("alice") < 0:
                await out.send(b"%09d" % count)
                count += 1
                await asyncio.sleep(0.02)
            await alice.flush(timeout=20)
            two.pause("g2")
            await out.send(b"%09d" % count)
            with pytest.raises(TimedOutError):
                await alice.flush(timeout=1)
            flush = asyncio.create_task(alice.flush(timeout=40))
            await asyncio.sleep(0.2)
            one.kill("g1")
            with pytest.raises(UnconfirmedError) as caught:
                await flush
            (lost,) = [each for each in caught.value.messages if each.reason is Reason.NETWORKS]
            assert (lost.group, lost.count, lost.ranges) == (TOPIC, 1, ((count, count),))
            assert await alice.flush(timeout=20) == (), "each loss is told once"
            two.resume("g2")

    with networks("campus/lan1", "campus/lan2", recovery="ring") as (one, two):
        one.start("g1")
        two.start("g2")
        run(work(one, two), 60)


def test_a_node_that_closes_tells_what_other_networks_may_lack() -> None:
    async def work(one: Network, two: Network) -> None:
        async with connect(two.gms, name="bob") as bob:
            alice = await connect(one.gms, name="alice")
            out, far = await alice.open(TOPIC), Reader(await bob.join(TOPIC))
            count = 0
            while far.last("alice") < 0:
                await out.send(b"%09d" % count)
                count += 1
                await asyncio.sleep(0.02)
            await alice.flush(timeout=20)
            two.pause("g2")
            await out.send(b"%09d" % count)
            with pytest.raises(UnconfirmedError, match="other networks have them"):
                await alice.close(timeout=1)
            two.resume("g2")

    with networks("campus/lan1", "campus/lan2", recovery="ring") as (one, two):
        one.start("g1")
        two.start("g2")
        run(work(one, two), 60)


def test_a_flush_across_networks_may_be_cancelled_at_any_point() -> None:
    """Also while the gateways are asked: the next flush asks anew."""

    async def work(one: Network, two: Network) -> None:
        async with connect(one.gms, name="alice") as alice, connect(two.gms, name="bob") as bob:
            out, far = await alice.open(TOPIC), Reader(await bob.join(TOPIC))
            count = 0

            async def send() -> None:
                nonlocal count
                await out.send(b"%09d" % count)
                count += 1

            while far.last("alice") < 0:
                await send()
                await asyncio.sleep(0.02)

            async def flush() -> None:
                await send()
                await alice.flush()

            async def after() -> None:
                assert await alice.flush(timeout=10) == ()
                await until(lambda: far.last("alice") == count - 1)

            assert await cancel_everywhere(flush, after) >= 1
            for delay_s in (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3):
                flushing = asyncio.ensure_future(flush())
                await asyncio.wait((flushing,), timeout=delay_s)
                flushing.cancel()
                await asyncio.gather(flushing, return_exceptions=True)
                await after()
            assert not alice.core.requests._pending

    with networks("campus/lan1", "campus/lan2", recovery="ring") as (one, two):
        one.start("g1")
        two.start("g2")
        run(work(one, two), 60)


def test_a_slow_network_slows_the_senders_of_another() -> None:
    """Nothing is dropped on the way: channels wait, then the gateways, then who sends."""

    async def work(one: Network, two: Network) -> None:
        async with connect(one.gms, name="alice") as alice, connect(two.gms) as bob:
            out, into = await alice.open(TOPIC), await bob.join(TOPIC)
            sent = 0

            async def write() -> None:
                nonlocal sent
                while sent < 20_000:
                    await out.send(b"%09d" % sent + bytes(20_000))
                    sent += 1

            writing = asyncio.create_task(write())
            first = int((await into.receive()).payload[:9])
            before = -1
            while sent > before:
                before = sent
                await asyncio.sleep(1.5)
            assert sent < 10_000, "who sends waits while nobody reads"
            got = first
            while got < before + 500:
                got += 1
                assert int((await into.receive()).payload[:9]) == got
            writing.cancel()

    with networks("campus/lan1", "campus/lan2") as (one, two):
        one.start("g1")
        two.start("g2")
        run(work(one, two), 100)


def test_a_network_belongs_to_one_scope() -> None:
    """A second scope's gateway says whose network it is, and goes."""

    async def work(one: Network, two: Network) -> None:
        options = GatewayOptions(gms=one.gms, manager=two.manager)
        with pytest.raises(OtherScopeError, match="belongs to the scope 'campus/lan1'"):
            await serve_gateway(options, asyncio.Event())

    with networks("campus/lan1", "campus/lan2") as (one, two):
        one.start("g1")
        run(work(one, two), 40)
