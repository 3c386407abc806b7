"""Whatever peers say, in any order: nothing raises, and what is kept stays within bounds."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import msgspec
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
from quicksilver.scopes.management import handing
from quicksilver.scopes.management import messages as say
from quicksilver.scopes.management.config import Config
from quicksilver.scopes.management.events import (
    AgentPosted,
    AgentWithdrawn,
    MechanismClosed,
    MechanismOpened,
    OwnerLost,
    PeerFound,
    PolicyRefused,
    PostRefused,
    Purpose,
    SourceClosed,
    SourceOpened,
    TargetClosed,
    TargetOpened,
    TopicLeft,
)
from quicksilver.scopes.names import PARTS_MAX
from quicksilver.scopes.posts import SEATS_MAX, DomainId, Post, Seat
from quicksilver.scopes.routing import Channel, Entry
from quicksilver.stdx.ranges import VALUE_MAX
from tests.scopes.peers import Alone, source

NAMES = ["lan", "n1", "n2", "campus", "", "x/y", "lan/t", "a b"]
SEATS = [*NAMES, "lan:1", "campus:1", "campus:2"]
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

    def domain(self) -> DomainId:
        return DomainId(self.rng.choice(NAMES), self.rng.choice([-1, 0, 1, 2, 1 << 62]))

    def post(self) -> Post:
        rng, choice = self.rng, self.rng.choice
        path = choice([(self.me,), ("campus", self.me), ("campus:1", self.me), self.path()])
        members = [path[0], *(choice(SEATS) for _ in range(rng.randint(0, 3)))]
        seats = tuple(Seat(m, choice([-1, 0, 1, 2]), choice(["", "q"])) for m in members)
        domain = choice([self.domain(), DomainId("campus", rng.randint(1, 3))])
        return Post(domain, rng.randint(-1, 9), "ring", path, seats, tuple(TOPICS), is_top=True)

    def revision(self) -> say.ReviseAgent:
        post, choice = self.post(), self.rng.choice
        gone = tuple(choice(SEATS) for _ in range(self.rng.randint(0, 3)))
        member = choice([self.me, "campus", "campus:1"])
        views = self.rng.randint(-1, 9), self.rng.randint(-1, 9)
        return say.ReviseAgent(post.domain, member, *views, gone, post.seats)

    def sessions(self) -> tuple[say.Session, ...]:
        numbers = self.rng.sample([-1, 1, 2, 3, 4], self.rng.randint(0, 3))
        flavour = say.Flavour(ordering=self.rng.choice(["fifo", "fifo", "odd"]))
        return tuple(say.Session(n, flavour, self.rng.random() < 0.5) for n in numbers)

    def media(self) -> tuple[say.Medium, ...]:
        where = External("multicast", "239.1.1.1:7")
        names = [self.rng.choice(NAMES) for _ in range(self.rng.randint(0, 2))]
        return tuple(say.Medium(name, where, (name, self.me)) for name in names)

    def message(self) -> say.Message:
        rng, choice = self.rng, self.rng.choice
        yes, no = rng.random() < 0.5, rng.random() < 0.5
        sources = tuple(source(self.channel()) for _ in range(rng.randint(0, 2)))
        targets = tuple(
            say.Target(self.channel(), rng.choice(["", "q"])) for _ in range(rng.randint(0, 2))
        )
        places: list[Any] = [
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
            say.Orders(choice(TOPICS), sources, targets, is_first=yes, is_last=no),
            say.Orders(choice(TOPICS), sources, targets),
            say.Orders(choice(TOPICS), (), (), self.media(), self.sessions(), yes),
            say.RequestChannel(self.channel(), yes),
            say.OfferChannel(self.channel(), choice(places), yes),
            say.ChannelRefused(self.channel(), "no", yes),
            say.PostAgent(self.post()),
            say.PostAgent(self.post()),
            say.WithdrawAgent(self.domain(), choice(SEATS)),
            say.PostsTold(),
            self.revision(),
            self.revision(),
            say.Confirm(choice(TOPICS), rng.randint(-5, 1 << 63), rng.randint(-5, 5)),
            say.RequestAgent(self.domain(), self.path()),
            say.OfferAgent(self.domain(), self.path(), choice(places[:2])),
            say.AgentRefused(self.domain(), self.path(), "no"),
            say.Inspect(choice([*TOPICS, ""]), rng.choice([-1, 0, 1, 1 << 62])),
            say.Inspected("", 0, (), 0),
        ]
        return choice(messages)


@pytest.mark.parametrize("seed", SEEDS)
def test_managers_stand_whatever_peers_say(seed: int) -> None:
    is_node = seed % 2 == 0
    liar = Liar(seed, "n1" if is_node else "lan")
    rng = liar.rng
    recovery = ["none", "ring"][seed % 4 // 2]
    alone = Alone(liar.me, "campus", "other", is_node=is_node, recovery=recovery)
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
            manager.handle_peer_lost(liar.domain(), rng.choice(SEATS), alone.now)
            manager.handle_flushed(rng.choice(TOPICS), rng.randint(-1, 5), alone.now)
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
    return Packet.of("lan/t", draw_sender(rng), number, number, 0, record, {}, messages)


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
        return LossyCarry(rng.choice(IN + OUT), rng.randint(0, 9), VALUE_MAX, draw_packet(rng))
    at = rng.choice(["n1", "n2", "n3"])
    return Cast(rng.choice(["lan", "campus"]), rng.randint(0, 9), VALUE_MAX, draw_packet(rng, at))


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


class TestContained:
    """What one peer says wrongly harms nobody but itself, and is named."""

    def node(self) -> Alone:
        n1 = Alone("n1", "A", "B", is_node=True, config=Config(silent_s=1e9))
        n1.own("A", 1, "R")
        n1.own("B", 2, "S")
        for topic in ("R/t", "S/u"):
            n1.manager.subscribe(topic, publishes=True, subscribes=True, now=n1.now)
        n1.run(0.02)
        n1.clear()
        return n1

    def post(self, scope: str, *topics: str, **changes: Any) -> say.PostAgent:
        seats = Seat("n1", 0, "n1"), Seat("n2", 0, "n2")
        post = Post(DomainId(scope, 1), 1, "ring", ("n1",), seats, topics, is_top=True)
        return say.PostAgent(msgspec.structs.replace(post, **changes))

    @pytest.mark.parametrize(
        ("changes", "says"),
        [
            ({"path": ("n2",)}, "does not lead to 'n1'"),
            ({"path": ("B", "n1")}, "belongs to 'B'"),
            ({"domain": DomainId("B", 1)}, "belongs to 'B'"),
            ({"seats": ()}, "no seat"),
            ({"seats": (Seat("n1", 0, ""),) * 2}, "two seats"),
            ({"seats": (Seat("n1", -7, ""),)}, "no such number"),
            ({"domain": DomainId("A", 0)}, "no such number"),
        ],
    )
    def test_forged_posts_are_refused(self, changes: dict[str, Any], says: str) -> None:
        n1 = self.node()
        n1.tell(1, self.post("A", "R/t", **changes))
        (refused,) = [event for event in n1.events if isinstance(event, PostRefused)]
        assert refused.owner == "A"
        assert says in refused.reason
        assert n1.manager.counters["posts_refused"] == 1
        assert not any(isinstance(event, AgentPosted) for event in n1.events)

    def test_an_owner_has_no_say_in_topics_that_it_was_not_asked_for(self) -> None:
        n1 = self.node()
        n1.tell(1, self.post("A", "R/t", "S/u", "R/unknown"))
        (posted,) = [event for event in n1.events if isinstance(event, AgentPosted)]
        assert posted.post.topics == ("R/t",)
        n1.tell(2, say.WithdrawAgent(DomainId("A", 1), "n1"))
        assert not any(isinstance(event, AgentWithdrawn) for event in n1.events)
        n1.tell(1, say.WithdrawAgent(DomainId("A", 1), "n1"))
        assert n1.events[-1] == AgentWithdrawn(DomainId("A", 1), "n1")

    def test_what_an_owner_does_not_name_again_is_withdrawn(self) -> None:
        """It may have started again without its records; other owners' agents stay."""
        n1 = self.node()
        for number in (1, 2):
            n1.tell(1, self.post("A", "R/t", domain=DomainId("A", number)))
        n1.tell(2, self.post("B", "S/u"))
        n1.manager.handle_closed(1, n1.now)
        n1.run(1.0)
        n1.own("A", 3, "R")
        n1.tell(3, self.post("A", "R/t", domain=DomainId("A", 2)))
        assert not any(isinstance(event, AgentWithdrawn) for event in n1.events)
        n1.tell(3, say.PostsTold())
        gone = [event for event in n1.events if isinstance(event, AgentWithdrawn)]
        assert gone == [AgentWithdrawn(DomainId("A", 1), "n1")]

    def test_posts_from_members_and_strangers_are_counted_and_dropped(self) -> None:
        lan = Alone("lan", recovery="ring")
        lan.join(1, "n1")
        lan.manager.handle_accepted(2, lan.now)
        for conn in (1, 2):
            lan.tell(conn, self.post("lan", "lan/t"))
            lan.tell(conn, say.PostsTold())
        assert lan.manager.counters["unexpected"] == 4

    def test_views_beyond_all_bounds_are_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(handing, "HELD_MAX", 3)
        n1 = self.node()
        for number in range(1, 6):
            n1.tell(1, self.post("A", "R/t", domain=DomainId("A", number)))
        assert len([e for e in n1.events if isinstance(e, AgentPosted)]) == 3
        assert len([e for e in n1.events if isinstance(e, PostRefused)]) == 2
        seats = tuple(Seat(f"n{n}", 0, "x") for n in range(SEATS_MAX + 1))
        assert say.parse(say.encode(self.post("A", "R/t", seats=seats))) is None

    def test_referrals_to_agents_end(self) -> None:
        n1 = self.node()
        n1.tell(1, self.post("A", "R/t"))
        n1.dialled("n2", Purpose.CHANNEL, 100)
        path: tuple[str, ...] = ("n2",)
        for step in range(2 * PARTS_MAX):
            path = (*path, "x")
            offer = say.OfferAgent(DomainId("A", 1), path, say.Referral(f"q{step}"))
            n1.manager.handle_message(100 + step, offer, n1.now)
            n1.dialled(f"q{step}", Purpose.CHANNEL, 101 + step)
        asked = [message for _, message in n1.said if isinstance(message, say.RequestAgent)]
        assert len(asked) == PARTS_MAX
        assert not any(isinstance(event, PeerFound) for event in n1.events)

    def test_agents_that_speak_for_each_other_lead_nowhere(self) -> None:
        """Each is said to stand on the other: it is not handed on, and nothing loops."""
        q = Alone("Q", "X", recovery="ring")
        q.own("X", 1)
        q.join(2, "n1")
        q.tell(2, say.Subscribe("X/t", 0, publishes=True, subscribes=True))
        q.clear()
        for one, other in ((1, 2), (2, 1)):
            name = f"X:{other}"
            seats = (Seat(name, other, "X"),)
            post = Post(DomainId("X", one), 1, "ring", (name, "Q"), seats, ("X/t",), is_top=True)
            q.tell(1, say.PostAgent(post))
        assert not [m for m in q.heard(2) if isinstance(m, say.PostAgent)]

    def test_two_owners_of_one_name_are_not_both_believed(self) -> None:
        """A topic would have two roots."""
        n1 = Alone("n1", "a1", "a2", is_node=True)
        for conn, address in ((1, "a1"), (2, "a2")):
            n1.dialled(address, Purpose.OWNER, conn)
            n1.tell(conn, say.Registered("R", ()))
        (lost,) = [event for event in n1.events if isinstance(event, OwnerLost)]
        assert lost.address == "a2"
        assert "one root" in lost.reason
        assert n1.closed == [2]

    @pytest.mark.parametrize("kind", ["policy", "recovery"])
    def test_choices_that_raise_are_told_and_everybody_is_served(self, kind: str) -> None:
        lan = Alone("lan")

        def broken(topic: str) -> Any:
            raise KeyError(topic)

        arranger = lan.manager._arranger
        arranger._choices = replace(arranger._choices, **{f"{kind}_of": broken})
        for conn in (1, 2):
            lan.join(conn, f"n{conn}")
            lan.tell(conn, say.Subscribe("lan/t", 0, publishes=True, subscribes=True))
        (refused,) = [event for event in lan.events if isinstance(event, PolicyRefused)]
        assert "KeyError" in refused.problem
        last = [m for m in lan.heard(1) if isinstance(m, say.Orders)][-1]
        assert (len(last.sources), len(last.targets)) == (1, 1)

    @pytest.mark.parametrize("number", [-1, -5, 1 << 62])
    def test_a_member_that_lies_about_its_domain_is_alone_with_it(self, number: int) -> None:
        lan = Alone("lan", recovery="ring")
        for conn, domain in ((1, 0), (2, 0), (3, number)):
            lan.join(conn, f"n{conn}")
            lan.tell(conn, say.Subscribe("lan/t", domain, publishes=True, subscribes=True))
        (domain_of_all,) = lan.manager._arranger.domains.by_id.values()
        seats = {seat.member: seat.domain for seat in domain_of_all.seats}
        assert seats == {"n1": 0, "n2": 0} | ({"n3": number} if number >= 0 else {})

    def test_a_member_that_lies_about_sessions_cannot_hurry_the_others(self) -> None:
        lan = Alone("lan")
        for conn in (1, 2):
            lan.join(conn, f"n{conn}")
            lan.tell(conn, say.Subscribe("lan/t", 0, publishes=True, subscribes=True))
        lan.manager.change_session("lan/t", say.Flavour("none"), lan.now)
        lan.tell(1, say.Confirm("lan/t", 1 << 60, 1 << 60))
        lan.tell(1, say.Confirm("lan/none", 1, 1))
        (topic,) = lan.manager.topics()
        assert [session.is_flushing for session in topic.sessions.sessions] == [False, False]
