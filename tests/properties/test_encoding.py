"""What travels is read as it was written, and nothing else is read at all."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quicksilver.properties.plan import Plan
from quicksilver.properties.run.encoding import encode_message, parse_message
from quicksilver.properties.run.program import Program
from quicksilver.properties.run.rounds import Content, Participant, Placed, PropertyRounds
from quicksilver.properties.values.encoding import encode_value, parse_value
from quicksilver.properties.values.intset import IntSet
from quicksilver.properties.values.kinds import (
    ADDRESS,
    BOOL,
    INT,
    INT_MAX,
    INT_MIN,
    INTSET,
    Kind,
    Map,
    MapKind,
    PairKind,
    SetKind,
)
from quicksilver.recovery.domains import Domain
from quicksilver.recovery.rounds import Receipt, Report, Token, Wake
from tests.properties.plans import CLEANUP_PLAN, FORWARDING_PLAN, PHASES_PLAN

VALUES: list[tuple[Kind, object]] = [
    (INT, INT_MIN),
    (INT, INT_MAX),
    (BOOL, True),
    (ADDRESS, "a"),
    (INTSET, IntSet([(INT_MIN, INT_MIN + 2), (5, 9), (INT_MAX, INT_MAX + 1)])),
    (SetKind(PairKind(INT, ADDRESS)), frozenset({(1, "a"), (2, "b")})),
    (MapKind(ADDRESS, INTSET), Map([("a", IntSet.of(1)), ("b", IntSet())])),
]


@pytest.mark.parametrize(("kind", "value"), VALUES, ids=str)
def test_a_value_is_what_it_was(kind: Kind, value: object) -> None:
    plain = msgspec.msgpack.decode(msgspec.msgpack.encode(encode_value(value)))  # type: ignore[arg-type]
    assert parse_value(plain, kind) == value


@pytest.mark.parametrize(
    ("kind", "plain"),
    [
        (INT, True),
        (INT, INT_MAX + 1),
        (BOOL, 1),
        (ADDRESS, "x" * 1000),
        (INTSET, [1]),
        (INTSET, [5, 3]),
        (INTSET, [5, 6, 1, 2]),
        (PairKind(INT, INT), [1]),
        (MapKind(INT, INT), [[1]]),
        (SetKind(ADDRESS), "ab"),
    ],
)
def test_what_is_not_of_the_kind_is_refused(kind: Kind, plain: object) -> None:
    with pytest.raises(ValueError, match="not"):
        parse_value(plain, kind)


def messages(plan: Plan) -> list[Token[Content] | Report[Content]]:
    """Return a leader's token, what a member made of it, and its report."""
    domain = Domain((0, 0), (1, 2))
    sides = []
    for node in domain.members:
        participant = Participant(node, f"n{node}", node)
        participant.add(0, Program(plan))
        participant.become_placed([Placed(domain, 3)])
        if plan.callbacks:
            participant.handle_event(0, 0, (7,))
        sides.append(PropertyRounds(participant, Placed(domain, 3)))
    leader, member = sides
    content = leader.open_round(0.0)
    token = Token((0, 0), 1, 1, 1, (5,), content, is_confirmed=True)
    visited = member.visit(content, 1, 0.0)
    return [token, Token((0, 0), 1, 1, 2, (), visited), Report((0, 0), 1, 1, 2, (), visited)]


@pytest.mark.parametrize("plan", [CLEANUP_PLAN, PHASES_PLAN, FORWARDING_PLAN], ids=lambda p: p.name)
def test_messages_are_what_they_were(plan: Plan) -> None:
    first, second, report = messages(plan)
    assert parse_message(encode_message(first), {0: plan}) == first
    assert parse_message(encode_message(second), {0: plan}) == second
    read = parse_message(encode_message(report), {0: plan})
    assert isinstance(read, Report)
    assert read.content.records[0].report == report.content.records[0].report
    assert read.content.records[0].word.round == report.content.records[0].word.round
    for said in (Wake((1, 2), 3), Receipt((1, 2), 3, 4, 5)):
        assert parse_message(encode_message(said), {}) == said


def test_instances_that_are_not_known_are_passed_over() -> None:
    read = parse_message(encode_message(messages(CLEANUP_PLAN)[0]), {})
    assert isinstance(read, Token)
    assert read.content is not None
    assert read.content.records == {}


@given(st.binary(max_size=60), st.integers(0, 200), st.integers(0, 2))
@settings(max_examples=300, deadline=None)
def test_damaged_bytes_are_refused_or_read_and_nothing_else(
    junk: bytes, at: int, which: int
) -> None:
    plan = CLEANUP_PLAN
    data = encode_message(messages(plan)[which])
    damaged = data[:at] + junk + data[at + len(junk) :]
    parse_message(damaged, {0: plan})
    parse_message(junk, {0: plan})
    assert parse_message(data, {0: plan}) is not None
