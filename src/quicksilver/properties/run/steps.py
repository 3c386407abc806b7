"""The steps of a protocol: functions from state and input to state and output.

A round of a domain is ``open_round`` at its leader, ``visit`` at every member, ``merge`` of what
they report, and ``close_round`` at the leader. The network, the simulations and ``verify`` all
call these. What holds across rounds, leaders and views (dissertation 3.2.14 and 3.2.15):

- Only the newest round that a leader opened counts for ``mono`` rules: nobody's value in it is
  older than in the round before, and a member that became regular did so against the values that
  the domain has when the round ends.
- Who did not answer may be regular. So a round that not everybody took part in decides nothing
  for ``all`` rules, and nobody begins in it.
- A new leader knows nothing and asks: members remember whether they are regular, and, while they
  are, whether the domain is regular in the one around it.
"""

from __future__ import annotations

from collections.abc import Iterable

from quicksilver.properties.plan import OnEvent
from quicksilver.properties.run.actions import Node
from quicksilver.properties.run.expressions import NONE, Context
from quicksilver.properties.run.program import Prepared, Program
from quicksilver.properties.run.state import (
    Certificate,
    Domain,
    Gathered,
    Output,
    Report,
    Slot,
    Standing,
    Version,
    Word,
)
from quicksilver.properties.values.kinds import Value
from quicksilver.properties.values.operators import merged, merged_at

NOTHING_GATHERED = Gathered(None, 0)


# How domains come into being


def make_node(
    program: Program, address: str, incarnation: int, *, certifies: bool = False
) -> Domain:
    """Return a node that has just started.

    ``incarnation``: greater than that of any node that had the address before.
    """
    version = Version(0, incarnation, 0)
    certificate = Certificate(address, version, ()) if certifies else None
    slots = tuple(Slot(each.initial, version, certificate) for each in program.plan.properties)
    return Domain(address, 0, address, slots, incarnation, Standing.LIGHT)


def make_domain(
    program: Program, name: str, height: int, address: str, view: int, *, is_top: bool
) -> Domain:
    """Return a domain whose agent has just been created, without a word: all is absent."""
    slot = Slot(None, Version(height, 0, 0))
    slots = (slot,) * len(program.plan.properties)
    standing = Standing.REGULAR if is_top else Standing.UNKNOWN
    return Domain(name, height, address, slots, view, standing)


def enter_view(domain: Domain, view: int) -> Domain:
    """Go on with other members under the same leader."""
    assert view > domain.view
    return domain._replace(view=view, round=0, is_settled=False, is_beginning=False, compared=())


# Rounds


def open_round(program: Program, domain: Domain) -> tuple[Domain, Word]:
    """Begin a round; what was open before counts no more for ``mono`` rules."""
    domain = domain._replace(round=domain.round + 1)
    slots = tuple(domain.slots[at] for at in program.plan.announced)
    standings = (domain.standing, *domain.above)
    word = Word(domain.view, domain.round, domain.is_beginning, standings, slots, domain.compared)
    return domain, word


def blank(program: Program) -> Report:
    """Return the report of nobody."""
    gathered = (NOTHING_GATHERED,) * len(program.gatherings)
    return Report(0, 0, 0, 0, (), gathered, is_changed=False)


def visit(
    program: Program, member: Domain, word: Word, place: int, count: int
) -> tuple[Domain, Report, list[Output]]:
    """Take a leader's word, and report.

    ``place``: the member's among the ``count`` members of the domain.
    """
    number = (word.view, word.round)
    is_first = number > member.seen
    latest = member.seen[1] if member.seen[0] == word.view else 0
    standing, above = member.standing, member.above
    if is_first:
        # Asked twice in a round it answers twice, and it is not known which answer counts: what
        # it is was decided the first time.
        if standing is Standing.LIGHT and _fulfils(program, member, word):
            standing = Standing.REGULAR
        if standing is Standing.REGULAR:
            above = _remembered(above, word.standings)
    before = member.standing, member.above, member.slots
    member = member._replace(standing=standing, above=above, seen=max(number, member.seen))
    member, outputs = _take(program, member, word, (place, count))
    is_changed = (
        standing is not before[0]
        or above != before[1]
        or any(a.value != b.value for a, b in zip(before[2], member.slots, strict=True))
    )
    bit = 1 << place
    compared = program.plan.compared
    report = Report(
        bit,
        bit if standing is Standing.REGULAR else 0,
        bit if standing is Standing.UNKNOWN else 0,
        latest,
        above if standing is Standing.REGULAR else (),
        _given(program, member),
        is_changed,
        ((member.address, tuple(member.slots[at].value for at in compared)),) if compared else (),
    )
    return member, report, outputs


def merge(program: Program | None, report: Report, other: Report) -> Report:
    """Put two reports together; members that are in both are counted once, or not at all.

    ``program``: None where it is not known. There, two that both have regular members cannot be
    put together, and one of them is as if it had not been heard.
    """
    is_needed = bool(report.regular and other.regular)
    if report.heard & other.heard or (is_needed and program is None):
        return report if report.heard.bit_count() >= other.heard.bit_count() else other
    gathered = report.gathered if report.regular else other.gathered or report.gathered
    if is_needed and program is not None:
        gathered = tuple(
            _put_together(each.combine, a, b)
            for each, a, b in zip(program.gatherings, report.gathered, other.gathered, strict=True)
        )
    return Report(
        report.heard | other.heard,
        report.regular | other.regular,
        report.unknown | other.unknown,
        max(report.latest, other.latest),
        _higher(report.above, other.above),
        gathered,
        report.is_changed or other.is_changed,
        report.compared + other.compared,
    )


def close_round(
    program: Program, domain: Domain, number: int, report: Report, count: int, *, is_top: bool
) -> Domain:
    """End a round of the present view; ``count``: how many members the view has."""
    if report.latest > domain.round:
        # Others led meanwhile. What this leader knows may be older than what they said.
        fresh = make_domain(
            program, domain.name, domain.height, domain.address, domain.view, is_top=is_top
        )
        return fresh._replace(round=report.latest, seen=domain.seen)
    is_complete = report.heard == (1 << count) - 1 and not report.unknown
    is_newest = number == domain.round
    if is_newest:
        domain = _note_members(domain, report, is_complete=is_complete, is_top=is_top)
    version = Version(domain.height, domain.view, number)
    context = Context(domain.address)
    slots = list(domain.slots)
    values = context.here = [slot.value for slot in slots]
    regular = report.regular.bit_count()
    for prepared in program.aggregating:
        rule = prepared.rule
        assert prepared.gathering is not None
        gathered = report.gathered[prepared.gathering]
        if rule.is_mono and not is_newest:
            continue
        if rule.is_all and not (is_complete and gathered.givers == regular):
            continue
        if gathered.givers and (is_top or rule.place.value != "global"):
            assert rule.aggregation is not None
            context.gathered = {rule.aggregation: gathered.value}
            certificate = _certificate(domain.name, version, gathered.certificates)
            _fire(prepared, context, slots, values, Slot(None, version, certificate))
    context.gathered = NONE
    for prepared in program.at_top if is_top else program.at_leaders:
        _fire(prepared, context, slots, values, Slot(None, version))
    return domain._replace(slots=tuple(slots))


# Events at nodes


def handle_event(
    program: Program, node: Domain, event: int, arguments: tuple[Value, ...]
) -> tuple[Domain, list[Output]]:
    """The application of a node says something; ``event``: its position among callbacks."""
    context, values = _context_of(node)
    acting = Node(context, values, [])
    program.bindings.handle_event(acting, event, arguments)
    return _stored(node, node.slots, values), acting.outputs


def takes_event(program: Program, event: int) -> bool:
    """Whether a binding waits for an event."""
    return any(isinstance(b, OnEvent) and b.event == event for b in program.plan.bindings)


# Parts


def _context_of(domain: Domain) -> tuple[Context, list[Value | None]]:
    context = Context(domain.address)
    values = [slot.value for slot in domain.slots]
    context.here = values
    return context, values


def _fulfils(program: Program, member: Domain, word: Word) -> bool:
    """Whether a member may count."""
    context, _ = _context_of(member)
    if word.is_beginning:
        # There is nothing yet that a member could be behind of.
        context.parent = dict(program.initial)
        return all(condition(context) for condition in program.beginning)
    context.parent = _announced(program, word)
    return all(condition(context) for condition in program.conditions)


def _announced(program: Program, word: Word) -> dict[int, Value | None]:
    return {at: slot.value for at, slot in zip(program.plan.announced, word.slots, strict=True)}


def _remembered(above: tuple[Standing, ...], said: tuple[Standing, ...]) -> tuple[Standing, ...]:
    """Return what to remember: a leader that does not know takes nothing away."""
    return tuple(
        above[at] if standing is Standing.UNKNOWN and at < len(above) else standing
        for at, standing in enumerate(said)
    ) + (above[len(said) :] if said and said[-1] is Standing.UNKNOWN else ())


def _higher(a: tuple[Standing, ...], b: tuple[Standing, ...]) -> tuple[Standing, ...]:
    if len(a) < len(b):
        a, b = b, a
    return tuple(max(x, b[at]) if at < len(b) else x for at, x in enumerate(a))


def _take(
    program: Program, member: Domain, word: Word, share: tuple[int, int]
) -> tuple[Domain, list[Output]]:
    """Carry out the rules that are not about members, and what waits for changes."""
    rules = program.at_nodes if member.height == 0 else program.at_members
    if not rules:
        return member, []
    context, values = _context_of(member)
    context.parent = _announced(program, word)
    context.share = share
    freshness = {
        at: slot.version for at, slot in zip(program.plan.announced, word.slots, strict=True)
    }
    sources = dict(zip(program.plan.announced, word.slots, strict=True))
    before = list(values)
    slots = list(member.slots)
    own = Version(member.height, member.view, member.round + (member.height == 0))
    for prepared in rules:
        parts = prepared.from_parent
        version = min(freshness[at] for at in parts) if parts else own
        certificate = sources[parts[0]].certificate if len(parts) == 1 else None
        if prepared.rule.is_between_halves:
            for neighbour in _neighbours(program, word, member.address):
                context.other = neighbour
                _fire(prepared, context, slots, values, Slot(None, own))
        else:
            _fire(prepared, context, slots, values, Slot(None, version, certificate))
    if member.height > 0:
        return member._replace(slots=tuple(slots)), []
    acting = Node(context, values, [])
    if values != before:
        program.bindings.handle_changes(acting, before)
        member = member._replace(round=member.round + 1)
    return _stored(member, tuple(slots), values), acting.outputs


def _neighbours(
    program: Program, word: Word, address: str
) -> Iterable[tuple[str, dict[int, Value | None]]]:
    """Yield whom a member is compared with: who comes before and after it, by address."""
    others = [(name, values) for name, values in word.compared if name != address]
    if not others:
        return
    after = next((at for at, (name, _) in enumerate(others) if name > address), 0)
    for at in sorted({after - 1 if after else len(others) - 1, after}):
        name, values = others[at]
        yield name, dict(zip(program.plan.compared, values, strict=True))


def _fire(
    prepared: Prepared,
    context: Context,
    slots: list[Slot],
    values: list[Value | None],
    like: Slot,
) -> None:
    """Carry out a rule; ``like``: how fresh its result is, and where it comes from."""
    new = prepared.value(context)
    if new is None:
        return
    rule = prepared.rule
    at = rule.target
    old = slots[at]
    version = like.version
    if rule.is_mono and version.height == old.version.height and version < old.version:
        return
    if prepared.key is None:
        result = merged(rule.merge, values[at], new, prepared.empty)
    else:
        key = prepared.key(context)
        if key is None:
            return
        result = merged_at(rule.merge, values[at], key, new, prepared.empty)
    if result is not None:
        values[at] = result
        slots[at] = Slot(result, version, like.certificate)


def _stored(node: Domain, slots: tuple[Slot, ...], values: list[Value | None]) -> Domain:
    """Return a node with the values that its bindings left; each is a change of its own."""
    changed = [at for at, slot in enumerate(slots) if slot.value != values[at]]
    if not changed and slots is node.slots:
        return node
    number = node.round + 1 if changed else node.round
    version = Version(0, node.view, number)
    found = list(slots)
    for at in changed:
        certificate = None
        if node.slots[at].certificate is not None:
            certificate = Certificate(node.name, version, ())
        found[at] = Slot(values[at], version, certificate)
    return node._replace(slots=tuple(found), round=number)


def _given(program: Program, member: Domain) -> tuple[Gathered, ...]:
    if member.standing is not Standing.REGULAR:
        return (NOTHING_GATHERED,) * len(program.gatherings)
    given: list[Gathered] = []
    for gathering in program.gatherings:
        slot = member.slots[gathering.children.property]
        if slot.value is None or (gathering.is_strict and not _is_its_own(member, slot)):
            given.append(NOTHING_GATHERED)
            continue
        certificates = () if slot.certificate is None else (slot.certificate,)
        given.append(Gathered(gathering.own(slot.value), 1, certificates))
    return tuple(given)


def _is_its_own(member: Domain, slot: Slot) -> bool:
    """Whether a member computed a value itself, in the view that it has now."""
    if member.height == 0:
        return True
    version = slot.version
    return member.is_settled and version.height == member.height and version.view == member.view


def _put_together(combine: object, a: Gathered, b: Gathered) -> Gathered:
    if not a.givers:
        return b
    if not b.givers:
        return a
    assert callable(combine)
    certificates = a.certificates + b.certificates
    return Gathered(combine(a.value, b.value), a.givers + b.givers, certificates)


def _certificate(
    name: str, version: Version, members: tuple[Certificate, ...]
) -> Certificate | None:
    return Certificate(name, version, tuple(sorted(members))) if members else None


def _note_members(domain: Domain, report: Report, *, is_complete: bool, is_top: bool) -> Domain:
    """Take what a round says of its members' standing, and so of the domain's own."""
    domain = domain._replace(compared=tuple(sorted(report.compared)))
    if not is_complete:
        return domain._replace(is_beginning=False)
    if not report.regular:
        if is_top:
            return domain._replace(is_settled=True, is_beginning=True, standing=Standing.REGULAR)
        # What members had said who are gone must not make the domain regular around it.
        unsaid = (Slot(None, Version(domain.height, 0, 0)),) * len(domain.slots)
        return domain._replace(
            slots=unsaid, is_settled=True, is_beginning=True, standing=Standing.LIGHT
        )
    domain = domain._replace(is_settled=True, is_beginning=False)
    if domain.standing is Standing.UNKNOWN:
        above = report.above
        is_regular = bool(above) and above[0] is Standing.REGULAR
        standing = Standing.REGULAR if is_regular else Standing.LIGHT
        domain = domain._replace(standing=standing, above=above[1:])
    return domain
