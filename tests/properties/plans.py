"""Programs of the papers as plans, written by hand."""

from __future__ import annotations

from quicksilver.properties.plan import (
    Aggregate,
    Aspect,
    Binary,
    BinaryOperation,
    Children,
    Claim,
    Condition,
    Event,
    Expression,
    ForEach,
    Literal,
    Merge,
    OnEvent,
    OnUpdate,
    Other,
    Place,
    Plan,
    Property,
    Quantified,
    Read,
    ReadAt,
    Request,
    Rule,
    Store,
    Variable,
    Where,
)
from quicksilver.properties.values.intset import IntSet
from quicksilver.properties.values.kinds import ADDRESS, EMPTY_MAP, INT, INTSET, MapKind

STABLE, CLEANUP = 0, 1
LAST, NEXT = 0, 1


def parent(at: int) -> Read:
    return Read(at, Where.PARENT)


def both(operator: Binary, left: Expression, right: Expression) -> BinaryOperation:
    return BinaryOperation(operator, left, right)


A, B = Quantified("a"), Quantified("b")

CLEANUP_PLAN = Plan(
    "Cleanup",
    (Property("Stable", INTSET, IntSet()), Property("Cleanup", INTSET, IntSet())),
    (
        Rule(
            "R1",
            Place.EVERYWHERE,
            STABLE,
            Merge.ASSIGN,
            Children(Aggregate.INTERSECTION, STABLE),
            is_mono=True,
            is_all=True,
            is_strict=True,
        ),
        Rule("R2", Place.GLOBAL, CLEANUP, Merge.ASSIGN, Read(STABLE)),
        Rule("R3", Place.EVERYWHERE, CLEANUP, Merge.UNION, parent(CLEANUP)),
    ),
    callbacks=(Event("Receive", (("m", INT),)),),
    requests=(Event("DoCleanup", (("m", INT),)),),
    bindings=(
        OnEvent("B1", 0, ("m",), Store(STABLE, Merge.INSERT, Variable("m"))),
        OnUpdate(
            "B2",
            CLEANUP,
            Aspect.ADDED,
            "A",
            ForEach("m", Variable("A"), Request(0, (Variable("m"),))),
        ),
    ),
    conditions=(Condition("C1", both(Binary.SUBSET, parent(STABLE), Read(STABLE))),),
    invariants=(
        Claim("I1", (A, B), both(Binary.SUBSET, ReadAt("a", CLEANUP), ReadAt("b", STABLE))),
    ),
    eventualities=(
        Claim("E1", (A, B), both(Binary.EQUAL, ReadAt("a", CLEANUP), ReadAt("b", CLEANUP))),
    ),
)

PHASES_PLAN = Plan(
    "CoordinatedPhases",
    (Property("Last", INT, 0), Property("Next", INT, None)),
    (
        Rule(
            "R1",
            Place.EVERYWHERE,
            LAST,
            Merge.ASSIGN,
            Children(Aggregate.MINIMUM, LAST),
            is_mono=True,
            is_all=True,
            is_strict=True,
        ),
        Rule("R2", Place.GLOBAL, NEXT, Merge.ASSIGN, both(Binary.ADD, Read(LAST), Literal(1))),
        Rule("R3", Place.EVERYWHERE, NEXT, Merge.ASSIGN, parent(NEXT), is_mono=True),
        Rule("R4", Place.LOCAL, LAST, Merge.ASSIGN, Read(NEXT)),
    ),
    requests=(Event("Phase", (("k", INT),)),),
    bindings=(OnUpdate("B1", NEXT, Aspect.ASSIGNED, "k", Request(0, (Variable("k"),))),),
    conditions=(Condition("C1", both(Binary.LESS_EQUAL, parent(LAST), Read(LAST))),),
    invariants=(
        Claim(
            "I1",
            (A, B),
            both(
                Binary.LESS_EQUAL,
                ReadAt("a", NEXT),
                both(Binary.ADD, ReadAt("b", LAST), Literal(1)),
            ),
        ),
    ),
)

RECEIVED, CACHED, CLEANED, FORWARD = 0, 1, 2, 3

FORWARDING_PLAN = Plan(
    "Forwarding",
    (
        Property("Received", INTSET, IntSet()),
        Property("Cached", INTSET, IntSet()),
        Property("Cleaned", INTSET, IntSet()),
        Property("Fwd", MapKind(ADDRESS, INTSET), EMPTY_MAP),
    ),
    (
        Rule("R0", Place.EVERYWHERE, RECEIVED, Merge.ASSIGN, Children(Aggregate.UNION, RECEIVED)),
        Rule(
            "R1",
            Place.EVERYWHERE,
            CACHED,
            Merge.ASSIGN,
            both(Binary.DIFFERENCE, Read(RECEIVED), Read(CLEANED)),
        ),
        Rule(
            "R2",
            Place.EVERYWHERE,
            FORWARD,
            Merge.ASSIGN,
            both(Binary.DIFFERENCE, Read(CACHED), Read(RECEIVED, Where.OTHER)),
            key=Other(),
        ),
        Rule("R3", Place.EVERYWHERE, FORWARD, Merge.UNION, Read(FORWARD, Where.PARENT, True)),
    ),
    callbacks=(Event("Receive", (("m", INT),)),),
    bindings=(OnEvent("B1", 0, ("m",), Store(RECEIVED, Merge.INSERT, Variable("m"))),),
)
