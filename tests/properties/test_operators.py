"""Laws of operators: the shape of a hierarchy must make no difference to what is gathered."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quicksilver.properties.plan import Aggregate, Merge
from quicksilver.properties.values.intset import IntSet
from quicksilver.properties.values.kinds import INT_MAX, INT_MIN, Map
from quicksilver.properties.values.operators import (
    aggregate,
    difference,
    intersection,
    is_subset,
    merged,
    merged_at,
    union,
)

INTS = st.integers(INT_MIN, INT_MAX)
INTSETS = st.lists(st.integers(-20, 20), max_size=6).map(lambda numbers: IntSet.of(*numbers))
MAPS = st.dictionaries(st.sampled_from("abc"), INTSETS).map(lambda d: Map(d.items()))
KINDS = {
    Aggregate.UNION: (INTSETS, MAPS),
    Aggregate.INTERSECTION: (INTSETS, MAPS, st.tuples(INTSETS, INTSETS)),
    Aggregate.MINIMUM: (INTS, st.tuples(INTS, INTS)),
    Aggregate.MAXIMUM: (INTS,),
    Aggregate.SUM: (INTS, st.tuples(INTS, INTS)),
    Aggregate.AND: (st.booleans(),),
    Aggregate.OR: (st.booleans(),),
    Aggregate.TOP: (INTSETS, st.frozensets(st.tuples(st.integers(0, 9), st.sampled_from("ab")))),
}
CASES = [(operator, values) for operator, kinds in KINDS.items() for values in kinds]


@pytest.mark.parametrize(("operator", "values"), CASES, ids=str)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_aggregation_is_associative_and_commutative(
    operator: Aggregate, values: st.SearchStrategy[object], data: st.DataObject
) -> None:
    combine = aggregate(operator, 3)
    a, b, c = (data.draw(values) for _ in range(3))
    assert combine(a, b) == combine(b, a)
    assert combine(combine(a, b), c) == combine(a, combine(b, c))


@given(MAPS, MAPS)
@settings(max_examples=100, deadline=None)
def test_what_is_left_and_what_is_common_make_the_whole(a: Map, b: Map) -> None:
    assert union(difference(a, b), intersection(a, b)) == a or not all(v for _, v in a.items())
    assert is_subset(a, union(a, b))
    assert is_subset(intersection(a, b), a)


@given(INTSETS, INTSETS)
@settings(max_examples=100, deadline=None)
def test_intsets_are_sets(a: IntSet, b: IntSet) -> None:
    x, y = set(a), set(b)
    assert set(a | b) == x | y
    assert set(a & b) == x & y
    assert set(a - b) == x - y
    assert (a <= b) == (x <= y)
    assert a.count() == len(x)
    assert set(a.greatest(3)) == set(sorted(x)[-3:])
    assert (a == b) == (x == y)
    assert a != b or hash(a) == hash(b)


def test_what_is_absent_is_assigned_and_nothing_is_taken_out_of_it() -> None:
    empty = IntSet()
    assert merged(Merge.MAXIMUM, None, 3, 0) == 3
    assert merged(Merge.INSERT, None, 3, empty) == IntSet.of(3)
    assert merged(Merge.REMOVE, None, 3, empty) is None
    assert merged_at(Merge.INSERT, None, "a", 3, empty) == Map([("a", IntSet.of(3))])
