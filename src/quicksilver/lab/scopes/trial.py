"""One topic across three networks while things go wrong, and what everybody got in the end."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quicksilver.lab.lans import Lans
from quicksilver.lab.processes import Children
from quicksilver.lab.scopes.members import Judge, Judged, Send, Sent
from quicksilver.lab.scopes.mishaps import Mishap, Mishaps, choose_victims
from quicksilver.lab.scopes.networks import Campus, Member, Network, campus_networks

FLUSH_S = 60.0
JUDGE_S = 60.0

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What to do."""

    nodes: int = 5
    """Members of each network."""
    seconds: float = 15.0
    rate: float = 300.0
    """Messages a second of each publisher; 0: as fast as they are taken."""
    size: int = 200
    loss: str = "1%"
    mishaps: tuple[Mishap, ...] = ()
    publishers: tuple[int, ...] = (0, 1, 2)
    """Networks in which somebody publishes."""
    networks: tuple[Network, ...] = ()
    """Instead of the usual three."""


@dataclass(slots=True, kw_only=True)
class Hop:
    """How long messages of one publisher took: half of them no longer than this."""

    source: str
    target: str
    inside_s: float | None
    """To the other members of the publisher's own network …"""
    entry_s: float | None
    """… to the member at which they come into another one …"""
    others_s: float | None
    """… and to the other members there."""


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What came of it."""

    scenario: Scenario
    has_nat: bool
    names: dict[int, str]
    """Of members, by tag."""
    networks: dict[int, str]
    """How the network of each member works."""
    sent: dict[int, Sent] = field(default_factory=dict)
    judged: dict[int, Judged] = field(default_factory=dict)
    """Of survivors."""
    mishaps: list[str] = field(default_factory=list)
    hops: list[Hop] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def is_complete(self) -> bool:
        return bool(self.judged) and not any(self.find_faults(tag) for tag in self.judged)

    def total(self, what: str, tag: int | None = None) -> int:
        """Return a sum over what survivors, or one of them, got of every sender."""
        some = self.judged.values() if tag is None else (self.judged[tag],)
        return sum(getattr(each, what) for one in some for each in one.senders.values())

    def find_faults(self, tag: int) -> list[str]:
        """Return what is wrong with what one survivor got."""
        one = self.judged[tag]
        counts = {what: self.total(what, tag) for what in ("missing", "duplicates", "disordered")}
        counts |= {"damaged": one.damaged, "unasked": one.unasked}
        return [f"{count:,} {what}" for what, count in counts.items() if count]

    @property
    def messages(self) -> int:
        return sum(sent.messages for sent in self.sent.values())

    def rate(self) -> float:
        """Messages a second, of all publishers, until the last survivor had the last."""
        first = min(sent.started_at for sent in self.sent.values())
        last = max(each.last_at for one in self.judged.values() for each in one.senders.values())
        return self.messages / max(1e-9, last - first)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            "complete": self.is_complete,
            "subscribers": len(self.judged),
            "messages": self.messages,
            "missing": self.total("missing"),
            "duplicates": self.total("duplicates"),
            "disordered": self.total("disordered"),
            "damaged": sum(one.damaged for one in self.judged.values()),
            "messages_per_second": round(self.rate()),
            "deliveries": self.total("messages"),
            "datagrams_dropped": sum(map(dropped_by, self.judged.values())),
            "loss": self.scenario.loss or "0%",
            "nat": self.has_nat,
            "mishaps": self.mishaps,
            "unconfirmed": {
                self.names[tag]: sent.problem for tag, sent in self.sent.items() if sent.problem
            },
            "hops": [
                {
                    "from": hop.source,
                    "to": hop.target,
                    "own_network_ms": _ms(hop.inside_s),
                    "entry_ms": _ms(hop.entry_s),
                    "others_ms": _ms(hop.others_s),
                }
                for hop in self.hops
            ],
            "wrong": {self.names[t]: f for t in self.judged if (f := self.find_faults(t))},
            "seconds": round(self.seconds, 1),
        }


def dropped_by(one: Judged) -> int:
    """Return how many datagrams were thrown away on purpose."""
    return int(one.stats.get("injected_drops", 0))


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1e3, 2)


@contextmanager
def running_campus(scenario: Scenario, tell: Tell) -> Iterator[Campus]:
    """Have a campus with all its members; raises NamespacesUnavailableError, ChildError."""
    has_nat = shutil.which("nft") is not None
    networks = scenario.networks or campus_networks(has_nat=has_nat)
    nodes = scenario.nodes
    hosts = (*(nodes + 1 + each.gateways for each in networks), 1)
    hidden = frozenset(n for n, each in enumerate(networks) if each.is_behind_nat)
    with (
        tempfile.TemporaryDirectory(prefix="quicksilver-scopes-") as folder,
        Lans(hosts, behind_nat=hidden) as lans,
        Children() as children,
    ):
        tell(f"networks: {len(networks)}, with {sum(hosts)} hosts in namespaces of their own")
        if not has_nat and not scenario.networks:
            tell("no nft here: lan3 is routed like the others, not behind NAT")
        campus = Campus(children, lans, networks, nodes, Path(folder), scenario.loss)
        campus.start()
        for number, network in enumerate(networks, 1):
            tell(f"lan{number}: {nodes} nodes, {network.words}")
        yield campus


def play(scenario: Scenario, tell: Tell) -> Outcome:
    """Run a scenario from the first process to the last account."""
    began = time.monotonic()
    with running_campus(scenario, tell) as campus:
        victims = choose_victims(campus)
        spared = {victims.node.tag, victims.host.tag, victims.entry.tag}
        publishers = [choose_publisher(campus, n, spared) for n in scenario.publishers]
        campus.connect(publishers)
        names = ", ".join(member.name for member in publishers)
        tell(f"{len(campus.members)} members of one topic hear each other; {names} publish")
        if scenario.loss:
            tell(f"each node and gateway loses {scenario.loss} of the datagrams that reach it")
        ways = {n: campus.find_entries(n) for n in range(len(campus.networks))}
        mishaps = Mishaps(campus, victims, tell)
        outcome = Outcome(
            scenario=scenario,
            has_nat=any(network.is_behind_nat for network in campus.networks),
            names={member.tag: member.name for member in campus.members},
            networks={m.tag: campus.networks[m.network].words for m in campus.members},
            mishaps=mishaps.done,
        )
        outcome.sent = publish(scenario, publishers, mishaps)
        for tag, sent in outcome.sent.items():
            problem = f", but {sent.problem}" if sent.problem else ", all confirmed"
            tell(f"{outcome.names[tag]} has sent {sent.messages:,} messages{problem}")
        outcome.judged = judge(campus, outcome.sent)
        outcome.hops = find_hops(campus, publishers, ways, outcome.judged)
    outcome.seconds = time.monotonic() - began
    return outcome


def choose_publisher(campus: Campus, network: int, spared: set[int]) -> Member:
    """Return a member of a network that nothing will happen to."""
    there = [member for member in campus.members if member.network == network]
    return next((member for member in there if member.tag not in spared), there[0])


def publish(
    scenario: Scenario, publishers: list[Member], mishaps: Mishaps | None
) -> dict[int, Sent]:
    """Have messages sent while mishaps happen, evenly spread; return what was sent."""
    began = time.monotonic()
    for member in publishers:
        member.child.tell(Send(scenario.seconds, scenario.rate, scenario.size, FLUSH_S))
    step = scenario.seconds / (len(scenario.mishaps) + 1)
    for number, mishap in enumerate(scenario.mishaps, 1):
        time.sleep(max(0.0, began + number * step - time.monotonic()))
        assert mishaps is not None
        mishaps.perform(mishap)
    patience = scenario.seconds + 2 * FLUSH_S + JUDGE_S
    return {member.tag: member.child.expect(Sent, patience) for member in publishers}


def judge(campus: Campus, sent: dict[int, Sent]) -> dict[int, Judged]:
    """Return what each survivor got."""
    expected = {tag: one.messages for tag, one in sent.items()}
    for member in campus.alive():
        member.child.tell(Judge(expected, JUDGE_S))
    return {member.tag: member.child.expect(Judged, 2 * JUDGE_S) for member in campus.alive()}


def find_hops(
    campus: Campus,
    publishers: list[Member],
    ways: dict[int, dict[str, Member]],
    judged: dict[int, Judged],
) -> list[Hop]:
    """Return how long messages took on each part of their way."""

    def half(publisher: Member, members: list[Member]) -> float | None:
        found = [
            each.latency_s[0]
            for member in members
            if member.tag in judged
            and (each := judged[member.tag].senders.get(publisher.tag)) is not None
            and each.latency_s
        ]
        return statistics.median(found) if found else None

    hops = []
    for publisher in publishers:
        own = campus.networks[publisher.network].name
        near = [m for m in campus.members if m.network == publisher.network and m is not publisher]
        for number, network in enumerate(campus.networks):
            if number == publisher.network:
                continue
            entry = ways[number].get(own)
            there = [m for m in campus.members if m.network == number and m is not entry]
            hops.append(
                Hop(
                    source=own,
                    target=network.name,
                    inside_s=half(publisher, near),
                    entry_s=None if entry is None else half(publisher, [entry]),
                    others_s=half(publisher, there),
                )
            )
    return hops
