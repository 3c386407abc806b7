"""Whatever peers say, in any order: nothing raises, and what is kept stays within bounds."""

from __future__ import annotations

from random import Random

import pytest

from quicksilver.scopes.dissemination.channels import External, Link
from quicksilver.scopes.dissemination.filters import ALL, Chance, Filter, Modulo
from quicksilver.scopes.dissemination.forwarder import Forwarder
from quicksilver.scopes.dissemination.frames import (
    Begin,
    Carry,
    Cast,
    ChannelFrame,
    CloseChannel,
    Given,
    Have,
    LossyCarry,
    OpenChannel,
    encode,
    parse_datagram,
    parse_frame,
)
from quicksilver.scopes.dissemination.packets import Gap, Packet, Sender
from quicksilver.scopes.management import messages as say
from quicksilver.scopes.management.events import (
    AgentPosted,
    AgentWithdrawn,
    MechanismClosed,
    MechanismOpened,
    SourceClosed,
    SourceOpened,
    TargetClosed,
    TargetOpened,
    TopicLeft,
)
from quicksilver.scopes.posts import DomainId, Post
from quicksilver.scopes.routing import Channel, Entry
from quicksilver.stdx.ranges import VALUE_MAX
from tests.scopes.peers import Alone, source

NAMES = ["lan", "n1", "n2", "campus", "", "x/y", "lan/t", "a b"]
TOPICS = ["lan/t", "campus/t", "bad"]
SEEDS = range(60)


class Liar:
    """Says what managers say, about anything."""

    def __init__(self, seed: int, me: str) -> None:
        self.rng = Random(seed)
        self.me = me

    def path(self) -> tuple[str, ...]:
        return tuple(self.rng.choice(NAMES) for _ in range(self.rng.randint(1, 3)))

    def channel(self) -> Channel:
        choice = self.rng.choice
        mine = (*self.path()[1:], self.me)
        ends = [(self.path(), self.path()), (mine, self.path()), (self.path(), mine)]
        return Channel(choice(NAMES), *choice(ends), choice(TOPICS), choice(NAMES))

    def message(self) -> say.Message:
        rng, choice = self.rng, self.rng.choice
        yes, no = rng.random() < 0.5, rng.random() < 0.5
        sources = tuple(source(self.channel()) for _ in range(rng.randint(0, 2)))
        targets = tuple(
            say.Target(self.channel(), rng.choice(["", "q"])) for _ in range(rng.randint(0, 2))
        )
        places: list[Link | External | say.Referral] = [
            say.Referral("q"),
            Link("tcp", "a", "b"),
            External("qsm", "g"),
        ]
        grace_s = choice([float("nan"), -1.0, 1e300, 0.5])
        messages: list[say.Message] = [
            say.Register(say.PROTOCOL_VERSION, choice(NAMES), "z", yes, grace_s),
            say.Registered(choice(NAMES), self.path()),
            say.Registered("lan", ("campus",)),
            say.Above(self.path()),
            say.Refused("no"),
            say.Alive(),
            say.Subscribe(choice(TOPICS), rng.randint(-5, 1 << 63), yes, no),
            say.TopicRefused(choice(TOPICS), "no"),
            say.Orders(choice(TOPICS), sources, targets, yes, no),
            say.Orders(choice(TOPICS), sources, targets),
            say.RequestChannel(self.channel()),
            say.OfferChannel(self.channel(), choice(places)),
            say.ChannelRefused(self.channel(), "no"),
        ]
        return choice(messages)


@pytest.mark.parametrize("seed", SEEDS)
def test_managers_stand_whatever_peers_say(seed: int) -> None:
    is_node = seed % 2 == 0
    liar = Liar(seed, "n1" if is_node else "lan")
    rng = liar.rng
    alone = Alone(liar.me, "campus", "other", is_node=is_node)
    manager = alone.manager
    conns: list[int] = []
    for number in range(1, 300):
        alone.now += rng.choice([0.0, 0.0, 0.01, 0.5, 4.0])
        what = rng.random()
        if what < 0.1:
            manager.handle_accepted(number, alone.now)
            conns.append(number)
        elif what < 0.25 and alone.dials:
            is_there = rng.random() < 0.8
            manager.handle_dialled(alone.dials.pop(0), number if is_there else None, alone.now)
            conns += [number] * is_there
        elif what < 0.3 and conns:
            manager.handle_closed(conns.pop(rng.randrange(len(conns))), alone.now)
        elif what < 0.45:
            manager.handle_timeout(alone.now)
        elif what < 0.5 and is_node:
            yes, no = rng.random() < 0.6, rng.random() < 0.6
            manager.subscribe(rng.choice(TOPICS), publishes=yes, subscribes=no, now=alone.now)
        elif what < 0.53:
            manager.handle_link_lost(liar.channel(), alone.now)
        elif conns:
            message = say.parse(say.encode(liar.message()))
            assert message is not None
            manager.handle_message(rng.choice(conns), message, alone.now)
        alone.drain()
        conns = [conn for conn in conns if conn not in alone.closed]
    for _, said in alone.said:
        assert say.parse(say.encode(said)) is not None


RULES: list[Filter] = [ALL, Modulo(2, 1), Chance(0.5), Modulo(0, 0)]
LINKS = [Link("tcp", "a", "n2"), Link("tcp", "b", "n3"), Link("udp", "c", "n3")]
OUT = [Channel("lan", ("n1",), (t,), "lan/t", o) for t in ("n2", "n3") for o in ("n1", "n2")]
IN = [Channel("lan", (s,), ("n1",), "lan/t", o) for s in ("n2", "n3") for o in ("n2", "n3")]
GROUP = External("multicast", "239.1.1.1:7000")
POST = Post(DomainId("lan", 1), 1, "ring", ("n1",), (), ("lan/t",), is_top=True)


def draw_sender(rng: Random) -> Sender:
    return Sender("lan", rng.choice(["n1", "n2", "n3"]), rng.randint(0, 2))


def draw_packet(rng: Random, at: str = "n1") -> Packet:
    """Return a packet that came along one of the channels, or could not have."""
    number = rng.choice([0, 1, 2, 3, 5, VALUE_MAX - 1])
    record = (Entry("lan", rng.choice(["n2", "n3"]), at),)
    messages = tuple(b"x" * rng.choice([0, 50]) for _ in range(rng.choice([1, 1, 2, 5])))
    return Packet("lan/t", draw_sender(rng), number, number, 0, record, {}, messages)


def lie(rng: Random) -> ChannelFrame:
    """Return what a node may say about a channel that ends at n1, or begins there."""
    channel = rng.choice(IN + OUT)
    sender = draw_sender(rng)
    number = rng.choice([0, 1, 2, 3, 5, VALUE_MAX - 1])
    frames: list[ChannelFrame] = [
        OpenChannel(channel),
        Have(channel, ((sender, number),)),
        Begin(channel, sender, number),
        Given(channel, ((sender, number),), is_answer=rng.random() < 0.5),
        CloseChannel(channel),
    ]
    carry = Carry(channel, draw_packet(rng))
    return rng.choice([*frames, carry, carry, carry])


def lie_in_datagram(rng: Random) -> LossyCarry | Cast:
    if rng.random() < 0.5:
        return LossyCarry(rng.choice(IN + OUT), rng.randint(0, 9), draw_packet(rng))
    at = rng.choice(["n1", "n2", "n3"])
    return Cast(rng.choice(["lan", "campus"]), rng.randint(0, 9), draw_packet(rng, at))


def lie_to_recovery(rng: Random, node: Forwarder, now: float) -> None:
    """What agents may do to a node whose peers lie to them."""
    sender, mark = draw_sender(rng), rng.choice([0, 1, 4, 1 << 62])
    match rng.randrange(4):
        case 0:
            node.handle_repair(rng.choice(IN), draw_packet(rng), now)
        case 1:
            node.holdings.handle_stable("lan/t", sender, mark)
        case 2:
            node.pass_over("lan/t", sender, mark)
        case _:
            node.handle_event(rng.choice([AgentPosted(POST), AgentWithdrawn(POST.domain, "n1")]))


@pytest.mark.parametrize("seed", SEEDS)
def test_nodes_stand_whatever_peers_say(seed: int) -> None:
    """And each message of a sender is delivered or told as missing, in order, once."""
    rng = Random(seed)
    node = Forwarder(scope="lan", node="n1", life=1, copies_bytes_max=3_000, patience_s=0.5)
    got: dict[Sender, int] = {}
    now = 0.0
    for _ in range(700):
        now += 0.01
        what = rng.random()
        if what < 0.1:
            rule = rng.choice(RULES)
            node.handle_event(SourceOpened(rng.choice(OUT), (rule,), rng.choice(LINKS)))
        elif what < 0.13:
            node.handle_event(SourceClosed(rng.choice(OUT)))
        elif what < 0.2:
            node.handle_event(TargetOpened(rng.choice(IN)))
        elif what < 0.24:
            opened = MechanismOpened("lan/t", "lan", GROUP, ("n1",))
            node.handle_event(rng.choice([opened, MechanismClosed("lan/t", "lan")]))
        elif what < 0.26:
            node.handle_event(TargetClosed(rng.choice(IN)))
        elif what < 0.27:
            node.handle_event(TopicLeft("lan/t"))
            got.clear()
        elif what < 0.35:
            sizes = rng.choices([0, 100, 5_000], k=rng.randint(0, 3))
            node.publish("lan/t", [b"x" * size for size in sizes], None, now)
        elif what < 0.38:
            node.handle_link_lost(rng.choice(LINKS))
        elif what < 0.4:
            node.handle_link_closed(rng.randint(1, 2))
        elif what < 0.44:
            rng.choice([node.handle_blocked, node.handle_writable])(rng.choice(LINKS))
        elif what < 0.5:
            lie_to_recovery(rng, node, now)
        elif what < 0.6:
            node.handle_answer(rng.choice(LINKS), lie(rng))
        elif what < 0.7:
            node.handle_datagram(lie_in_datagram(rng), now)
        elif what < 0.75:
            node.handle_timeout(now)
        else:
            node.handle_frame(rng.randint(1, 2), lie(rng), now)
        assert 0 <= node.holdings.early_bytes <= node.holdings.bytes <= 3_000
        node.may_publish("lan/t")
        node.is_stable("lan/t", node.flush_mark("lan/t"))
        node.poll_opened()
        while (out := node.poll_transmit()) is not None:
            assert parse_frame(encode(out[1])) == out[1]
        while (answer := node.poll_answer()) is not None:
            assert parse_frame(encode(answer[1])) == answer[1]
        while (datagram := node.poll_datagram()) is not None:
            assert parse_datagram(datagram[1]) is not None
        while (told := node.poll_delivery()) is not None:
            first, last = (
                (told.first, told.last) if isinstance(told, Gap) else (told.number, told.stop - 1)
            )
            assert got.get(told.sender, first) == first
            got[told.sender] = last + 1
