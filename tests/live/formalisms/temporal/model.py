"""What temporal formulas mean, by the letter: slow, obvious, and made in no other way.

A formula is evaluated at an instance and one of its events by going back over the
whole history, each time anew. Monitors and implication are compared with it.
"""

from __future__ import annotations

from itertools import product

from hypothesis import strategies as st

from quicksilver.live.formalisms.base import Observed
from quicksilver.live.formalisms.structure import Place, endpoint_structure
from quicksilver.live.formalisms.temporal.syntax import (
    And,
    Compares,
    Constant,
    Formula,
    Matches,
    Not,
    Occurs,
    Once,
    Operand,
    Previous,
    Since,
    Somewhere,
    Truth,
    Variable,
    compare,
    variables_of,
)
from quicksilver.live.types.build import endpoint, event
from quicksilver.live.types.model import INT

A, B = Place("", "in", "a"), Place("", "out", "b")
ENDPOINT = endpoint([event("a", INT)], [event("b", INT)])
STRUCTURE = endpoint_structure(ENDPOINT)
M, N = Variable("m"), Variable("n")

History = list[Observed]
Values = dict[Variable, object]


def is_satisfied(formula: Formula, history: History) -> bool:
    """Say whether a formula holds at every event of a history."""
    return first_broken(formula, history) is None


def first_broken(formula: Formula, history: History) -> int | None:
    """Return the first event at which a formula does not hold for all values."""
    broken = (now for now in range(len(history)) if is_broken_at(formula, history, now))
    return next(broken, None)


def is_broken_at(formula: Formula, history: History, now: int) -> bool:
    """Say whether a formula fails at an event, for some values."""
    variables = variables_of(formula)
    seen = [one.value for one in history]
    domain = [*dict.fromkeys(seen), *(("unseen", number) for number in range(len(variables)))]
    return any(
        not _holds(formula, history, now, dict(zip(variables, chosen, strict=True)))
        for chosen in product(domain, repeat=len(variables))
    )


def _holds(formula: Formula, history: History, now: int, values: Values) -> bool:
    """Evaluate at the event ``now`` of its own instance."""
    own = [n for n in range(now + 1) if history[n].instance == history[now].instance]

    def at(part: Formula, when: int) -> bool:
        return _holds(part, history, when, values)

    match formula:
        case Truth():
            return formula.value
        case Occurs():
            return _place(history[now]) == formula.place
        case Matches():
            is_there = _place(history[now]) == formula.place
            return is_there and history[now].value == _value(formula.operand, values)
        case Compares():
            assert formula.operator == "=="
            return _value(formula.left, values) == _value(formula.right, values)
        case Not():
            return not at(formula.body, now)
        case And():
            return all(at(part, now) for part in formula.parts)
        case Once():
            return any(at(formula.body, when) for when in own)
        case Previous():
            return len(own) > 1 and at(formula.body, own[-2])
        case Since():
            return any(
                at(formula.start, when) and all(at(formula.hold, n) for n in own if n > when)
                for when in own
            )
        case Somewhere():
            latest = {history[n].instance: n for n in range(now + 1)}
            return any(at(formula.body, when) for when in latest.values())


def _place(event_: Observed) -> Place:
    return Place("", event_.direction, event_.name)


def _value(operand: Operand, values: Values) -> object:
    return operand.value if isinstance(operand, Constant) else values[operand]


# --- formulas and histories to try ---------------------------------------------

kinds = st.sampled_from([Occurs(A), Occurs(B), Occurs(Place("", "", "connect")), Truth(True)])
operands: st.SearchStrategy[Operand] = st.sampled_from([M, N, Constant("number", 1)])
data_atoms: st.SearchStrategy[Formula] = st.one_of(
    kinds,
    st.builds(lambda place, operand: And((Occurs(place), Matches(place, "", operand))),
              st.sampled_from([A, B]), operands),
)  # fmt: skip


def _operators(inner: st.SearchStrategy[Formula]) -> st.SearchStrategy[Formula]:
    return st.one_of(
        st.builds(Not, inner),
        st.builds(lambda a, b: And((a, b)), inner, inner),
        st.builds(lambda a, b: Not(And((a, b))), inner, inner),
        st.builds(Once, inner),
        st.builds(Previous, inner),
        st.builds(Since, inner, inner),
    )


propositional: st.SearchStrategy[Formula] = st.recursive(kinds, _operators, max_leaves=5)
with_data: st.SearchStrategy[Formula] = st.recursive(data_atoms, _operators, max_leaves=4)


@st.composite
def _quantified(draw: st.DrawFn) -> Formula:
    parts: list[Formula] = [draw(with_data), Somewhere(draw(with_data))]
    if draw(st.booleans()):
        parts.append(Not(Somewhere(draw(with_data))))
    if draw(st.booleans()):
        parts = [Not(one) for one in parts]
    whole: Formula = And(tuple(parts))
    wrapped = draw(st.sampled_from([whole, Not(whole), Once(whole), Not(Previous(whole))]))
    if {M, N} <= set(variables_of(wrapped)) and draw(st.booleans()):
        return Not(And((wrapped, Not(compare("==", M, N)))))
    return wrapped


quantified: st.SearchStrategy[Formula] = _quantified()
formulas = st.one_of(propositional, with_data, quantified)

observed = st.builds(
    lambda kind, value, instance: Observed(*kind, value, instance),
    st.sampled_from([("in", "a"), ("out", "b"), ("", "connect"), ("in", "other")]),
    st.integers(1, 3),
    st.sampled_from(["x", "y"]),
)
histories = st.lists(observed, max_size=7)


def all_histories(length: int, instances: str, values: list[int]) -> list[History]:
    """Return every history up to a length, over two kinds of events and connecting."""
    letters = [
        Observed(place.direction, place.name, value, instance)
        for place in (A, B, Place("", "", "connect"))
        for value in values
        for instance in instances
    ]
    return [
        list(letters_) for size in range(length + 1) for letters_ in product(letters, repeat=size)
    ]
