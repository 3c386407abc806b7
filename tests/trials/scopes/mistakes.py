"""Scopes that are broken on purpose: managers, forwarders and agents with one mistake each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from quicksilver.scopes.dissemination.bundles import bundle
from quicksilver.scopes.dissemination.holdings import Holdings, Stream
from quicksilver.scopes.dissemination.packets import Gap, Packet, Sender
from quicksilver.scopes.management import messages as say
from quicksilver.scopes.management.domains import Domains
from quicksilver.scopes.management.handing import Handing
from quicksilver.scopes.management.saving import Numbers
from quicksilver.scopes.posts import key_of_post
from quicksilver.scopes.reliability.agents import Agents
from quicksilver.scopes.reliability.lower import NodeState
from quicksilver.scopes.reliability.records import Own
from quicksilver.scopes.reliability.repairs import Repairs
from quicksilver.scopes.reliability.rounds import StreamRounds
from quicksilver.scopes.sessions.multiplexer import Multiplexer
from quicksilver.scopes.sessions.ordering import TotalOrder
from quicksilver.trials.scopes.plan import (
    AnyFault,
    ChangeSession,
    CrashManager,
    CrashNode,
    FreezeNode,
    Leave,
    NodePlan,
    Plan,
    ScopePlan,
)
from tests.trials.broken.breaking import all_of, patched, returning

PLANS = Path(__file__).parent / "plans"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """One mistake, as somebody might make it."""

    name: str
    what: str
    install: Callable[[], AbstractContextManager[None]]
    """Breaks scopes for as long as the context lasts."""
    scene: Callable[[int], Plan]
    caught_by: str
    """The check that finds it …"""
    seeds: int = 1
    """… within so many trials, with seeds from 1 on."""


def scene(
    *faults: AnyFault, policy: str = "star", recovery: str = "ring", drop_rate: float = 0.0
) -> Callable[[int], Plan]:
    """Return trials of two networks of three nodes each; in each network one node sends."""
    scopes = [ScopePlan(name="root", network="root", policy="star", recovery=recovery)]
    nodes = []
    for network in ("root/n0", "root/n1"):
        scopes.append(
            ScopePlan(
                name=network, owners=("root",), network=network, policy=policy, recovery=recovery
            )
        )
        for place in range(3):
            opens = ("root/all",) if place == 0 else ()
            name = f"{network}/x{place}"
            nodes.append(NodePlan(name=name, owner=network, joins=("root/all",), opens=opens))

    def draw(seed: int) -> Plan:
        return Plan(
            seed=seed,
            scopes=tuple(scopes),
            nodes=tuple(nodes),
            faults=faults,
            seconds=3.0,
            interval_s=0.05,
            burst=4,
            sizes=(100,),
            drop_rate=drop_rate,
        )

    return draw


def planned(name: str) -> Callable[[int], Plan]:
    """Return the trial that led to a fix, whatever the seed."""
    plan = msgspec.json.decode((PLANS / f"{name}.json").read_bytes(), type=Plan)
    return lambda _: plan


LOSSY = scene(policy="multicast", drop_rate=0.1)
"""Datagrams are lost, and repaired."""

A_DEATH = scene(CrashNode(at=1.0, node="root/n0/x2"))
DEATHS = scene(CrashNode(at=1.0, node="root/n0/x2"), CrashNode(at=1.5, node="root/n0/x1"))
"""Whoever led, another one does now."""

IN_ORDER = scene(ChangeSession(at=0.2, topic="root/all", ordering="total"))
SEALED = scene(ChangeSession(at=0.2, topic="root/all", key="exam"))
A_CHANGE = scene(
    ChangeSession(at=0.5, topic="root/all"),
    ChangeSession(at=1.5, topic="root/all"),
    policy="multicast",
    drop_rate=0.1,
)
A_RESTART = scene(
    CrashManager(at=1.0, for_s=1.0, scope="root/n0"),
    FreezeNode(at=1.5, for_s=2.0, node="root/n0/x1"),
)
A_RETURN = scene(
    CrashNode(at=0.8, for_s=0.7, node="root/n0/x1"),
    CrashNode(at=1.4, for_s=0.7, node="root/n0/x2"),
    Leave(at=0.5, for_s=1.0, node="root/n1/x1", topic="root/all"),
    recovery="none",
)


# Forwarders


def delivers_again() -> AbstractContextManager[None]:
    def take(self: Holdings, packet: Packet) -> Any:
        taken = whole(self, packet)
        again = packet.number % 5 == 0 and not taken.ready
        return taken._replace(ready=[packet]) if again else taken

    whole = Holdings.take
    return patched(Holdings, "take", take)


def delivers_without_order() -> AbstractContextManager[None]:
    def take(self: Holdings, packet: Packet) -> Any:
        taken = whole(self, packet)
        return taken._replace(ready=taken.fresh)

    whole = Holdings.take
    return patched(Holdings, "take", take)


def turns_packets_round() -> AbstractContextManager[None]:
    def moved(self: Packet, record: Any, attributes: Any = None) -> Packet:
        found = whole(self, record, attributes)
        return msgspec.structs.replace(found, bundle=bundle(found.split()[::-1]))

    whole = Packet.moved
    return patched(Packet, "moved", moved)


def keeps_no_copies() -> AbstractContextManager[None]:
    def keep(self: Holdings, stream: Stream, packets: list[Packet]) -> None:
        whole(self, stream, packets)
        while stream.copies:
            self._drop(stream)

    whole = Holdings._keep
    return patched(Holdings, "_keep", keep)


def does_not_resume() -> AbstractContextManager[None]:
    def since(self: Holdings, topic: str, lows: dict[Sender, int]) -> Iterator[Packet]:
        return iter(())

    return patched(Holdings, "since", since)


def keeps_everything() -> AbstractContextManager[None]:
    def init(self: Holdings, bytes_max: int, own: Sender | None = None) -> None:
        whole(self, bytes_max, own)
        self.bytes_max = 2000

    def keep(self: Holdings, stream: Stream, packets: list[Packet]) -> None:
        for packet in packets:
            stream.copies.append(packet)
            self._stable[stream, packet.number] = None

    whole = Holdings.__init__
    return all_of(patched(Holdings, "__init__", init), patched(Holdings, "_keep", keep))


# Agents


def claims_to_have_everything() -> AbstractContextManager[None]:
    def report(self: NodeState, name: Any, agreed: int) -> Own:
        own = whole(self, name, agreed)
        return replace(own, low=own.high, need=max(own.need, own.high))

    whole = NodeState.report
    return patched(NodeState, "report", report)


def takes_stability_back() -> AbstractContextManager[None]:
    def handle_stable(self: Holdings, topic: str, sender: Sender, mark: int) -> None:
        whole(self, topic, sender, mark)
        stream = self.find(topic, sender)
        if stream is not None and mark > 20:
            stream.stable = 10

    whole = Holdings.handle_stable
    return patched(Holdings, "handle_stable", handle_stable)


def answers_no_pulls() -> AbstractContextManager[None]:
    return all_of(
        patched(Repairs, "handle_pull", returning(None)), patched(Repairs, "give", returning(None))
    )


def gives_up_at_once() -> AbstractContextManager[None]:
    def find_lost(self: StreamRounds, topic: Any, record: Any, now: float) -> int:
        return max(int(record.lost), int(record.high))

    return patched(StreamRounds, "_find_lost", find_lost)


def believes_old_words() -> AbstractContextManager[None]:
    def find_lost(self: StreamRounds, topic: Any, record: Any, now: float) -> int:
        topic.cleared = 1 << 60
        return whole(self, topic, record, now)

    whole = StreamRounds._find_lost
    return patched(StreamRounds, "_find_lost", find_lost)


def has_news_for_ever() -> AbstractContextManager[None]:
    def become_viewed(self: StreamRounds, old: StreamRounds) -> None:
        quiet = {name: topic.quiet for name, topic in old.streams.items()}
        whole(self, old)
        if self.seat:
            for name, topic in self.streams.items():
                topic.quiet = quiet[name]

    whole = StreamRounds.become_viewed
    return patched(StreamRounds, "become_viewed", become_viewed)


# Managers


def uses_numbers_again() -> AbstractContextManager[None]:
    def init(self: Numbers, savings: Any) -> None:
        whole(self, savings)
        self._last = self._below = 0

    whole = Numbers.__init__
    return patched(Numbers, "__init__", init)


def hands_nothing_on() -> AbstractContextManager[None]:
    def replace(self: Handing, wanted: Any) -> list[Any]:
        before = {key: member for key, (member, _) in self._handed.items()}
        return [
            (member, message)
            for member, message in whole(self, wanted)
            if not isinstance(message, say.PostAgent)
            or before.get(key_of_post(message.post), member) == member
        ]

    whole = Handing._replace
    return patched(Handing, "_replace", replace)


def keeps_the_dead() -> AbstractContextManager[None]:
    def handle_party(self: Domains, topic: str, party: Any, *, takes_part: bool) -> None:
        if takes_part:
            whole(self, topic, party, takes_part=True)

    whole = Domains.handle_party
    return patched(Domains, "handle_party", handle_party)


# Sessions


def delivers_before_its_turn() -> AbstractContextManager[None]:
    def handle_item(self: TotalOrder, item: Any, now: float, *, follows: bool = False) -> None:
        self.out.append(item)

    return patched(TotalOrder, "handle_item", handle_item)


def drops_the_old_session() -> AbstractContextManager[None]:
    def take(self: Multiplexer, item: Any, now: float) -> None:
        known = self._find(item.topic)
        if isinstance(item, Gap) or item.session >= known.newest:
            whole(self, item, now)

    whole = Multiplexer._take
    return patched(Multiplexer, "_take", take)


def leaves_messages_sealed() -> AbstractContextManager[None]:
    return patched(Multiplexer, "_open", lambda self, stack, packet: [packet])


MISTAKES = (
    Mistake(
        name="delivers-again",
        what="a packet that was here before is delivered once more",
        install=delivers_again,
        scene=scene(FreezeNode(at=1.0, for_s=2.5, node="root/n0/x1"), policy="mesh:2"),
        caught_by="order",
        seeds=3,
    ),
    Mistake(
        name="without-order",
        what="messages are delivered as they come",
        install=delivers_without_order,
        scene=LOSSY,
        caught_by="order",
    ),
    Mistake(
        name="turns-packets-round",
        what="the messages of a packet change places on the way",
        install=turns_packets_round,
        scene=scene(),
        caught_by="content",
    ),
    Mistake(
        name="keeps-no-copies",
        what="copies are dropped before everybody has them",
        install=keeps_no_copies,
        scene=LOSSY,
        caught_by="complete",
    ),
    Mistake(
        name="does-not-resume",
        what="whoever opens a channel anew is given nothing of what it lacks",
        install=does_not_resume,
        scene=A_RETURN,
        caught_by="complete",
        seeds=3,
    ),
    Mistake(
        name="keeps-everything",
        what="no copy is ever dropped",
        install=keeps_everything,
        scene=scene(),
        caught_by="budgets",
    ),
    Mistake(
        name="claims-everything",
        what="a node reports what it lacks as if it were here",
        install=claims_to_have_everything,
        scene=LOSSY,
        caught_by="stability",
    ),
    Mistake(
        name="takes-stability-back",
        what="a mark goes back",
        install=takes_stability_back,
        scene=scene(),
        caught_by="stability",
    ),
    Mistake(
        name="answers-no-pulls",
        what="who is asked for messages gives none",
        install=answers_no_pulls,
        scene=LOSSY,
        caught_by="complete",
    ),
    Mistake(
        name="gives-up-at-once",
        what="what is missing counts as lost before anybody was asked",
        install=gives_up_at_once,
        scene=LOSSY,
        caught_by="complete",
    ),
    Mistake(
        name="believes-old-words",
        what="messages are lost though a network that has them is out of reach",
        install=believes_old_words,
        scene=planned("an-old-word-proves-that-messages-are-lost"),
        caught_by="complete",
    ),
    Mistake(
        name="has-news-for-ever",
        what="who led before goes on to wake the new leader",
        install=has_news_for_ever,
        scene=planned("a-leader-no-more-has-news-for-ever"),
        caught_by="quiescence",
    ),
    Mistake(
        name="answers-nothing-for-the-moved",
        what="who asks for an agent that has moved is not told so",
        install=lambda: patched(Agents, "_refuse", returning(None)),
        scene=planned("an-agent-moves-and-waits-to-be-asked"),
        caught_by="quiescence",
    ),
    Mistake(
        name="silent-behind-nat",
        what="an agent that nobody can dial does not say where it is",
        install=lambda: patched(Agents, "_introduce", returning(None)),
        scene=planned("nobody-knows-the-way-behind-nat"),
        caught_by="quiescence",
    ),
    Mistake(
        name="searches-for-the-hidden",
        what="a part that nobody can dial is said to be found at the manager",
        install=lambda: patched(Domains, "_address_of_part", lambda self, _: self._address),
        scene=planned("a-part-that-nobody-can-dial-is-searched-for"),
        caught_by="quiescence",
    ),
    Mistake(
        name="uses-numbers-again",
        what="a manager that starts again numbers views from the beginning",
        install=uses_numbers_again,
        scene=A_RESTART,
        caught_by="views",
    ),
    Mistake(
        name="keeps-the-dead",
        what="a member that is gone keeps its seat and its agents",
        install=keeps_the_dead,
        scene=A_DEATH,
        caught_by="quiescence",
    ),
    Mistake(
        name="hands-nothing-on",
        what="agents of a host that is gone are posted nowhere else",
        install=hands_nothing_on,
        scene=DEATHS,
        caught_by="quiescence",
    ),
    Mistake(
        name="before-its-turn",
        what="messages of a total order are delivered as they come",
        install=delivers_before_its_turn,
        scene=IN_ORDER,
        caught_by="one order",
    ),
    Mistake(
        name="drops-the-old-session",
        what="what comes after a change, and was sent before it, is dropped",
        install=drops_the_old_session,
        scene=A_CHANGE,
        caught_by="complete",
    ),
    Mistake(
        name="leaves-messages-sealed",
        what="whoever has the key gives messages to the application as they came",
        install=leaves_messages_sealed,
        scene=SEALED,
        caught_by="content",
    ),
)
