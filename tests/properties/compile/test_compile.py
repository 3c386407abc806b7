"""What a program becomes: the same plan as one written by hand from the paper."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quicksilver.properties import plan
from quicksilver.properties.compile.digest import digest
from quicksilver.properties.compile.errors import ArgumentError, UnsoundProgramError
from quicksilver.properties.compile.program import compile_text
from quicksilver.properties.values.intset import IntSet
from quicksilver.properties.values.kinds import EMPTY_MAP, Map
from tests.properties.plans import CLEANUP_PLAN, PHASES_PLAN
from tests.properties.printed import CODE_5_1, CODE_5_2

NOTHING_CLAIMED = {"invariants": (), "eventualities": ()}


def rules_of(rules: str, properties: str) -> tuple[plan.Rule, ...]:
    return compile_text(
        f"protocol P(int n = 3) {{ properties {{ {properties} }} rules {{ {rules} }} }}"
    ).rules


class TestPrintedPrograms:
    def test_code_5_1(self) -> None:
        assert compile_text(CODE_5_1) == replace(CLEANUP_PLAN, **NOTHING_CLAIMED)

    def test_code_5_2(self) -> None:
        assert compile_text(CODE_5_2) == replace(PHASES_PLAN, **NOTHING_CLAIMED)

    def test_ascii_is_the_same_plan(self) -> None:
        ascii_only = CODE_5_1.replace("∩", "intersection").replace("∪", "union")
        assert compile_text(ascii_only.replace("⊆", "subset")) == compile_text(CODE_5_1)


class TestRules:
    def test_halves(self) -> None:
        """Overview paper, Table 2: an entry for the other half is merged into the map."""
        (rule,) = rules_of(
            r"F(x) ∪= <y, C(x) \ R(y)>;", "map<address, intset> F; intset C; intset R;"
        )
        difference = plan.BinaryOperation(
            plan.Binary.DIFFERENCE, plan.Read(1), plan.Read(2, plan.Where.OTHER)
        )
        assert rule.merge is plan.Merge.UNION
        assert rule.value == plan.MakeMap(((plan.Other(), difference),))
        assert rule.is_between_halves

    def test_splitting(self) -> None:
        (rule,) = rules_of("F ∪= parent(select).F;", "intset F;")
        assert rule.value == plan.Read(0, plan.Where.PARENT, is_share=True)

    def test_top(self) -> None:
        (rule,) = rules_of("F := children(top(n + 1)).F;", "intset F;")
        assert rule.aggregation == plan.Children(plan.Aggregate.TOP, 0, 4)

    @pytest.mark.parametrize(
        ("rule", "merge"),
        [
            ("S += 3;", plan.Merge.INSERT),
            ("S += {3};", plan.Merge.UNION),
            ("M += <self, S>;", plan.Merge.INSERT),
            ("N += 3;", plan.Merge.ADD),
            ("N max= 3;", plan.Merge.MAXIMUM),
            ("B |= true;", plan.Merge.OR),
            ("M[self] ∪= S;", plan.Merge.UNION),
        ],
    )
    def test_merges(self, rule: str, merge: plan.Merge) -> None:
        (found,) = rules_of(rule, "intset S; int N; bool B; map<address, intset> M;")
        assert found.merge is merge

    @pytest.mark.parametrize(
        ("expression", "compiled"),
        [
            (
                "{1, 4..n}",
                plan.NumberSet(
                    ((plan.Literal(1), plan.Literal(1)), (plan.Literal(4), plan.Literal(3)))
                ),
            ),
            ("{}", plan.Literal(IntSet())),
            ("M[self]", plan.Lookup(plan.Read(1), plan.Self(), IntSet())),
        ],
    )
    def test_sets_and_maps(self, expression: str, compiled: plan.Expression) -> None:
        (rule,) = rules_of(f"S := {expression};", "intset S; map<address, intset> M;")
        assert rule.value == compiled

    def test_an_empty_map_is_told_from_an_empty_set(self) -> None:
        (rule,) = rules_of("M := {};", "map<int, int> M;")
        assert rule.value == plan.Literal(EMPTY_MAP)

    def test_implication_and_condition(self) -> None:
        (rule,) = rules_of("B := B => (if B then false else B);", "bool B;")
        read = plan.Read(0)
        choice = plan.Choice(read, plan.Literal(value=False), read)
        negated = plan.UnaryOperation(plan.Unary.NOT, read)
        assert rule.value == plan.BinaryOperation(plan.Binary.OR, negated, choice)


class TestParameters:
    TEXT = "protocol P(int n, intset s = {1..3}) { properties { int A = n * 2; intset S = s; } }"

    def test_initial_values_are_computed(self) -> None:
        compiled = compile_text(self.TEXT, {"n": 5})
        assert [one.initial for one in compiled.properties] == [10, IntSet.of(1, 2, 3)]
        assert [(one.name, one.value) for one in compiled.parameters] == [
            ("n", 5),
            ("s", IntSet.of(1, 2, 3)),
        ]

    @pytest.mark.parametrize(
        ("arguments", "problem"),
        [
            ({}, "P: parameter n needs a value of type int"),
            ({"n": True}, "P: parameter n is of type int, not True"),
            ({"n": 1, "m": 2}, "P: parameter m is not declared; there are: n, s"),
        ],
    )
    def test_values_that_do_not_fit(self, arguments: dict[str, int], problem: str) -> None:
        with pytest.raises(ArgumentError) as raised:
            compile_text(self.TEXT, arguments)
        assert str(raised.value) == problem

    def test_a_constant_without_a_value_leaves_the_property_absent(self) -> None:
        compiled = compile_text("protocol P { properties { int A = 1 / 0; map<int, int> M; } }")
        assert [one.initial for one in compiled.properties] == [None, Map()]


def test_errors_are_one_line_and_counted() -> None:
    with pytest.raises(UnsoundProgramError) as raised:
        compile_text("protocol P { rules { A := B; } }", name="p.pl")
    assert str(raised.value) == ("p.pl:1:22: error: there is no property A (and 1 more)")


class TestDigest:
    def test_layout_and_spelling_make_no_difference(self) -> None:
        assert digest(compile_text(CODE_5_1)) == digest(
            compile_text(CODE_5_1.replace("\n", "  \n"))
        )

    @pytest.mark.parametrize(
        ("before", "after"),
        [("mono ,", ""), (", strict", ""), ("global.", ""), ("⊆", "="), ("DoCleanup", "Do")],
    )
    def test_another_meaning_is_another_digest(self, before: str, after: str) -> None:
        changed = compile_text(CODE_5_1.replace(before, after))
        assert digest(changed) != digest(compile_text(CODE_5_1))

    def test_it_is_the_same_on_every_machine(self) -> None:
        assert digest(compile_text(CODE_5_2)) == "e579d3262b91774b339165b9eeace5d7"

    def test_parameters_are_part_of_it(self) -> None:
        text = "protocol P(int n) { properties { int A = n; } }"
        assert digest(compile_text(text, {"n": 1})) != digest(compile_text(text, {"n": 2}))
