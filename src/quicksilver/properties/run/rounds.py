"""Protocol instances in the rounds of a domain, on the seam that repair uses as well.

``PropertyRounds`` is one node's part in one domain, for agents of any kind (``recovery``). All
instances that a node takes part in share the domain's rounds: a content has a record for each
instance that is awake there. An instance falls asleep in a domain when a round in which everybody
took part has changed nothing; whoever has news of one that sleeps says so in the next content.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from quicksilver.properties.run.program import Program
from quicksilver.properties.run.state import Domain, Output, Report, Word
from quicksilver.properties.run.steps import (
    blank,
    close_round,
    enter_view,
    handle_event,
    make_domain,
    make_node,
    merge,
    open_round,
    visit,
)
from quicksilver.properties.values.kinds import Value
from quicksilver.recovery import domains
from quicksilver.recovery.rounds import Folding, Pace, RoundEnd

Name = domains.Name


class Record(NamedTuple):
    """What a content says of one instance."""

    word: Word
    report: Report


@dataclass(slots=True)
class Content:
    """What the messages of a round carry."""

    view: int
    """Of the domain. A content of another view is nobody's business."""
    records: dict[int, Record]
    """By instance."""
    woken: frozenset[int] = frozenset()
    """Instances that are not in this round, and of which somebody has news."""


@dataclass(slots=True)
class Instance:
    """A protocol at one node."""

    program: Program
    node: Domain
    led: dict[Name, Domain] = field(default_factory=dict)
    """The domains that the node speaks for."""
    fresh: set[Name] = field(default_factory=set)
    """Domains whose rounds have not yet seen what has changed at this member of theirs."""
    awake: set[Name] = field(default_factory=set)
    """Domains that this node leads, and in which something is not agreed on yet."""
    said: dict[Name, object] = field(default_factory=dict)
    """What of those domains could be seen when the newest round began."""

    def member_of(self, below: Name | None) -> Domain | None:
        """Return what this node is to a domain; ``below``: which domain it speaks for."""
        return self.node if below is None else self.led.get(below)


class Placed(NamedTuple):
    """A domain that a node takes part in."""

    domain: domains.Domain
    """Its members are in the same order everywhere. Whoever has been there longest comes first,
    so that newcomers do not lead."""
    view: int
    """A number by which all its members know this view; greater than those before."""


class Participant:
    """A node's part in all its protocol instances, in all its domains."""

    def __init__(
        self, node: int, address: str, incarnation: int, *, certifies: bool = False
    ) -> None:
        self.node = node
        self.address = address
        self.instances: dict[int, Instance] = {}
        self.outputs: deque[tuple[int, Output]] = deque()
        """Events for applications, by instance."""
        self.told: set[Name] = set()
        """Domains led by this node that the domain around them has told something new."""
        self._incarnation = incarnation
        self._certifies = certifies
        self._placed: dict[Name, Placed] = {}
        self._around: dict[Name | None, Name] = {}
        """In which domain the node itself (None), or one that it leads, is a member."""

    def add(self, number: int, program: Program) -> None:
        """Take part in an instance, as a node that has just started."""
        node = make_node(program, self.address, self._incarnation, certifies=self._certifies)
        instance = self.instances[number] = Instance(program, node)
        for placed in self._placed.values():
            self._enter(instance, placed)

    def remove(self, number: int) -> None:
        """Take no part in an instance any longer."""
        del self.instances[number]

    def become_placed(self, placed: list[Placed]) -> None:
        """Be in these domains, lowest first: what was led elsewhere is forgotten."""
        before = self._placed
        self._placed = {each.domain.name: each for each in placed}
        self._around = {}
        below: Name | None = None
        for name in self._placed:
            self._around[below] = name
            below = name
        for instance in self.instances.values():
            for name in [name for name in instance.led if not self._leads(name)]:
                del instance.led[name]
            instance.awake.intersection_update(self._placed)
            instance.fresh.intersection_update(self._placed)
            for each in placed:
                if before.get(each.domain.name) != each:
                    self._enter(instance, each)

    def _leads(self, name: Name) -> bool:
        placed = self._placed.get(name)
        return placed is not None and placed.domain.leader == self.node

    def _enter(self, instance: Instance, placed: Placed) -> None:
        """A domain is new to this node, or has other members."""
        domain, view = placed
        instance.fresh.add(domain.name)
        if not self._leads(domain.name):
            return
        instance.awake.add(domain.name)
        led = instance.led.get(domain.name)
        if led is None:
            self.leading(instance, domain, view)
        else:
            instance.led[domain.name] = enter_view(led, view)

    def handle_event(self, number: int, event: int, arguments: tuple[Value, ...]) -> None:
        """The application says something to an instance."""
        instance = self.instances[number]
        before = instance.node
        instance.node, outputs = handle_event(instance.program, before, event, arguments)
        self.outputs.extend((number, output) for output in outputs)
        if instance.node is not before and None in self._around:
            instance.fresh.add(self._around[None])

    # What rounds ask and tell

    def leading(self, instance: Instance, domain: domains.Domain, view: int) -> Domain:
        """Return a domain that this node leads: from now on, if it did not."""
        led = instance.led.get(domain.name)
        if led is None:
            name = f"{domain.name[0]}.{domain.name[1]}"
            led = make_domain(
                instance.program,
                name,
                domain.name[0] + 1,
                self.address,
                view,
                is_top=domain.parent is None,
            )
            instance.led[domain.name] = led
        return led

    def visit(self, number: int, below: Name | None, word: Word, place: int, count: int) -> Report:
        """Take a word, as a member; ``below``: the domain that the node speaks for."""
        instance = self.instances.get(number)
        member = None if instance is None else instance.member_of(below)
        if instance is None or member is None:
            return not_taking_part(place)
        around = self._around.get(below)
        is_fresh = around in instance.fresh
        member, report, outputs = visit(instance.program, member, word, place, count)
        instance.fresh.discard(around)
        if below is None:
            instance.node = member
            self.outputs.extend((number, output) for output in outputs)
        else:
            instance.led[below] = member
            if report.is_changed:
                instance.awake.add(below)
                self.told.add(below)
        if is_fresh and not report.is_changed:
            report = report._replace(is_changed=True)
        return report

    def close(self, number: int, domain: domains.Domain, record: Record) -> None:
        """End a round that this node led."""
        instance = self.instances[number]
        before = instance.led[domain.name]
        count = len(domain.members)
        after = close_round(
            instance.program,
            before,
            record.word.round,
            record.report,
            count,
            is_top=domain.parent is None,
        )
        instance.led[domain.name] = after
        shown = _shown(after)
        if shown != _shown(before) and domain.name in self._around:
            instance.fresh.add(self._around[domain.name])
        # It may also have been told something while the round was under way.
        is_moved = shown != instance.said.get(domain.name)
        is_complete = record.report.heard == (1 << count) - 1
        is_newest = record.word.round == after.round
        if is_complete and is_newest and not is_moved and not record.report.is_changed:
            instance.awake.discard(domain.name)
        else:
            instance.awake.add(domain.name)


def not_taking_part(place: int) -> Report:
    """Return the report of a member that has no part in an instance: it is told nothing, and
    nobody waits for it."""
    return Report(1 << place, 0, 0, 0, (), (), is_changed=False, compared=())


class PropertyRounds(Folding[Content]):
    """All instances of a node in one domain."""

    def __init__(self, participant: Participant, placed: Placed) -> None:
        self._participant = participant
        self._domain, self._view = placed
        self._place = self._domain.members.index(participant.node)

    @property
    def name(self) -> Name:
        return self._domain.name

    def _below(self) -> Name | None:
        if self.below is None:
            return None
        assert isinstance(self.below, PropertyRounds)
        return self.below.name

    def has_news(self) -> bool:
        name = self._domain.name
        return any(
            name in each.fresh or name in each.awake
            for each in self._participant.instances.values()
        )

    def open_round(self, now: float) -> Content:
        content = Content(self._view, {})
        name = self._domain.name
        for number, instance in self._participant.instances.items():
            if name in instance.fresh or name in instance.awake:
                led = self._participant.leading(instance, self._domain, self._view)
                instance.led[name], word = open_round(instance.program, led)
                instance.said[name] = _shown(led)
                # Until it ends: what members say now they do not say again.
                instance.awake.add(name)
                report = self._visit(number, word)
                content.records[number] = Record(word, report)
        return content

    def visit(self, content: Content, previous: int, now: float) -> Content:
        if content.view != self._view:
            return content
        records: dict[int, Record] = {}
        for number, (word, report) in content.records.items():
            records[number] = Record(word, self._joined(number, report, self._visit(number, word)))
        name = self._domain.name
        woken = {
            number
            for number, instance in self._participant.instances.items()
            if name in instance.fresh and number not in records
        }
        return Content(content.view, records, content.woken | woken)

    def _visit(self, number: int, word: Word) -> Report:
        count = len(self._domain.members)
        return self._participant.visit(number, self._below(), word, self._place, count)

    def _joined(self, number: int, report: Report, other: Report) -> Report:
        instance = self._participant.instances.get(number)
        return merge(None if instance is None else instance.program, report, other)

    def blank(self, content: Content) -> Content:
        records = {
            number: Record(record.word, blank(self._participant.instances[number].program))
            for number, record in content.records.items()
        }
        return Content(content.view, records)

    def merge(self, content: Content, other: Content) -> Content:
        if other.view != content.view:
            return content
        records = dict(content.records)
        for number, record in other.records.items():
            mine = records.get(number)
            if mine is not None and mine.word.round == record.word.round:
                records[number] = Record(
                    mine.word, self._joined(number, mine.report, record.report)
                )
        return Content(content.view, records, content.woken | other.woken)

    def handle_deposed(self) -> None:
        for instance in self._participant.instances.values():
            instance.led.pop(self._domain.name, None)
            instance.awake.discard(self._domain.name)

    def close_round(self, content: Content, end: RoundEnd, now: float) -> Pace:
        if content.view != self._view:
            return Pace.STEADY
        for number, record in content.records.items():
            instance = self._participant.instances.get(number)
            if instance is not None and self._domain.name in instance.led:
                self._participant.close(number, self._domain, record)
        for number in content.woken:
            instance = self._participant.instances.get(number)
            if instance is not None:
                instance.awake.add(self._domain.name)
        name = self._domain.name
        is_awake = any(name in each.awake for each in self._participant.instances.values())
        return Pace.STEADY if is_awake else Pace.QUIET


def _shown(domain: Domain) -> object:
    """Return what others may see of a domain: whether a value is from this view is of interest
    to ``strict`` rules, from which round is not."""
    values = tuple((slot.value, slot.version[:2]) for slot in domain.slots)
    standing = domain.standing, domain.above, domain.is_settled, domain.is_beginning
    return values, standing, domain.compared
