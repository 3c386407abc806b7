"""A gateway's node in its network: what it hears of topics, and what it brings in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

import quicksilver
from quicksilver.node.gateway_lan import Asked, Heard, Lan, LanEvent, TopicEnded, ViewSeen
from quicksilver.node.options import NodeOptions
from quicksilver.scopes.dissemination.packets import Packet, Sender
from quicksilver.scopes.gateway.forms import encode_incoming
from quicksilver.scopes.gateway.messages import FOR_ALL, GROUP, name_node
from quicksilver.wire.envelope import CARRIED_SENDER
from tests.node.service import connect, run, until

pytestmark = [pytest.mark.integration, pytest.mark.slow]

E = TypeVar("E")
BOB = Sender("campus/lan2", "bob", 9)


class Listener:
    """A gateway's node, and what it has heard."""

    def __init__(self, gms: str, name: str = "g1") -> None:
        self.heard: list[LanEvent] = []
        self.is_held = False
        """True: nothing is taken, as by a loop that is busy."""
        self._news = asyncio.Event()
        self.lan = Lan(gms, NodeOptions(name=name_node("campus/lan1", name)), self.take)

    def take(self) -> None:
        while not self.is_held and (event := self.lan.poll_event()) is not None:
            if isinstance(event, Asked):
                # There are no other networks: all of them have everything.
                self.lan.answer(event.request, event.request.answer(FOR_ALL))
            else:
                self.heard.append(event)
        self._news.set()

    async def wait(self, kind: type[E], passes: Callable[[E], bool] = lambda _: True) -> E:
        """Return the first event of a kind that passes; all before it are dropped."""
        async with asyncio.timeout(20):
            while True:
                for at, event in enumerate(self.heard):
                    if isinstance(event, kind) and passes(event):
                        del self.heard[: at + 1]
                        return event
                self._news.clear()
                await self._news.wait()

    async def __aenter__(self) -> Listener:
        await self.lan.start()
        self.lan.set_scopes(["campus", "campus/lan1"])
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.lan.close()


def test_topics_are_heard_without_being_joined_and_end_when_nobody_wants_them(
    gms: str,
) -> None:
    async def work() -> None:
        async with Listener(gms) as gateway, connect(gms, name="alice") as alice:
            view = await gateway.wait(ViewSeen)
            assert (view.group, list(view.members.values())) == (GROUP, ["campus/lan1:g1"])
            group = await alice.join("campus/news")
            await alice.join("news")
            view = await gateway.wait(ViewSeen)
            assert view.group == "campus/news"
            assert sorted(view.members.values()) == ["alice", "campus/lan1:g1"]
            await group.send(b"one")
            await group.send(b"two", headers={"tone": "low"})
            await group.send(b"x" * 200_000)
            heard: dict[int, bytes] = {}
            while len(heard) < 3:
                event = await gateway.wait(Heard)
                assert event.name == "alice"
                heard.update(zip(event.numbers, event.payloads, strict=True))
            assert heard == {0: b"one", 1: b"two", 2: b"x" * 200_000}, "one sequence for all"
            await alice.leave(group)
            assert await gateway.wait(TopicEnded) == TopicEnded("campus/news")

    run(work())


def test_what_one_node_sends_is_taken_together_and_in_order(gms: str) -> None:
    """A loop that is behind makes fewer and longer packets of it, and loses no number."""

    async def work() -> None:
        async with Listener(gms) as gateway, connect(gms, name="alice") as alice:
            group = await alice.join("campus/news")
            await gateway.wait(ViewSeen, lambda view: view.group == "campus/news")
            gateway.is_held = True
            sent = [b"%d" % number + bytes(1000) for number in range(400)]
            for number, payload in enumerate(sent):
                await group.send(payload, headers={"tone": "low"} if number == 200 else None)
            await until(lambda: gateway.lan._waiting_bytes >= sum(map(len, sent)))
            gateway.is_held = False
            gateway.take()
            found: list[tuple[int, bytes]] = []
            counts = []
            while len(found) < len(sent):
                event = await gateway.wait(Heard)
                found += zip(event.numbers, event.payloads, strict=True)
                counts.append(len(event.payloads))
                assert (event.envelopes is None) == (200 not in event.numbers)
            assert found == list(enumerate(sent))
            assert max(counts) > 65, "more than fit into a datagram"
            assert gateway.lan._waiting_bytes == 0

    run(work())


def test_publishers_are_heard_although_nobody_has_joined(gms: str) -> None:
    async def work() -> None:
        async with Listener(gms) as gateway, connect(gms) as alice:
            group = await alice.open("campus/lan1/plans")
            await group.send(b"one")
            event = await gateway.wait(Heard)
            assert (event.group, event.payloads) == ("campus/lan1/plans", [b"one"])

    run(work())


def test_what_is_brought_in_has_the_name_of_its_true_sender(gms: str) -> None:
    async def work() -> None:
        async with (
            Listener(gms) as gateway,
            Listener(gms, "g2") as other,
            connect(gms) as alice,
        ):
            group = await alice.join("campus/news")
            gateway.lan.open("campus/news")
            packet = Packet.of("campus/news", BOB, 7, 0, 0, (), {}, (b"a", b"b", b"c"))
            payloads, _ = encode_incoming(packet, None)
            for _ in range(2):
                # Sent twice, as by a gateway that does not know how far the one before came.
                await until(lambda: gateway.lan.send("campus/news", payloads))
            gateway.lan.nudge()
            failed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            gateway.lan.flush(failed.set_result)
            assert await asyncio.wait_for(failed, 20) is False
            got = [await group.receive(timeout=5) for _ in range(3)]
            assert [message.payload for message in got] == [b"a", b"b", b"c"]
            assert got[0].headers[CARRIED_SENDER] == "campus/lan2:9:bob"
            with pytest.raises(quicksilver.TimedOutError):
                await group.receive(timeout=0.1)
            gateway.lan.say(b"marks")
            heard = await other.wait(Heard, lambda event: event.group == GROUP)
            assert heard.payloads == [b"marks"]

    run(work())
