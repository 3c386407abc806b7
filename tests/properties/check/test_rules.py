"""Each rule of the checker: what it finds, where, and that it leaves right programs alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quicksilver.properties.check.program import check
from tests.properties.printed import CODE_5_1, CODE_5_2
from tests.properties.texts import broken_programs, programs

DECLARED = """
interface { callback Get(int m); Put(int m); }
properties {
  int N = 0; int Last; bool B; address Who; intset S; intset T;
  set<address> Names; pair<int, address> Two; map<address, intset> M; map<int, int> Count;
}
"""


def find(text: str, severity: str = "error") -> list[str]:
    """Return ``code: text`` of each finding, with what it is about in brackets."""
    found = check(text).diagnostics
    return [
        f"{one.code}: {one.text} [{text[one.span.start : one.span.end]}]"
        for one in found
        if one.severity == severity
    ]


def errors(rules: str = "", **sections: str) -> list[str]:
    parts = {"rules": rules, **sections}
    written = "".join(f"{name} {{ {text} }}\n" for name, text in parts.items() if text)
    return find(f"protocol P(int size = 3) {{ {DECLARED} {written} }}")


@pytest.mark.parametrize("text", [CODE_5_1, CODE_5_2])
def test_the_printed_programs_are_right(text: str) -> None:
    """Dissertation, Code 5.1 and 5.2: neither errors nor warnings."""
    assert check(text).diagnostics == ()


class TestTypes:
    @pytest.mark.parametrize(
        "rule",
        [
            "N := N + 2 * -N / size;",
            r"S := S ∪ T ∩ {1, 2, 5..9} \ {};",
            "S ∪= if N in T then {N} else {};",
            "N max= |S| + max(S);",
            "B |= S ⊆ T && !(Who = self) || 3 ∈ S;",
            "M[self] ∪= S;",
            "M ∪= <Who, S>;",
            "M := {<Who, S>, <self, {}>};",
            "S := M[Who];",
            "Two := <N, Who>;",
            "Who := Two.second;",
            "B := <1, self> < Two;",
            "Names += self;",
            "Names += {Who, self};",
            "S += 3;",
            "S += T;",
            "M += <self, S>;",
            "Count[3] += 1;",
            "B := {} = S;",
            "B := Who in M;",
            "S := children(top(size)).S;",
            "Count := children(+).Count;",
        ],
    )
    def test_what_fits(self, rule: str) -> None:
        assert errors(rule) == []

    @pytest.mark.parametrize(
        ("rule", "finding"),
        [
            ("N := S;", "types: this is an intset, but an int is needed [S]"),
            ("N := 1 + B;", "types: this is a bool, but an int is needed [B]"),
            ("S := S + T;", "types: + is for numbers; this is an intset [S + T]"),
            ("S := S ∪ Names;", "types: this is a set<address>, but an intset is needed [Names]"),
            ("B := N;", "types: this is an int, but a bool is needed [N]"),
            ("B := N in N;", "types: ∈ looks into a set or a map; this is an int [N]"),
            ("B := S < T;", "types: < is not for sets [S < T]"),
            ("N := Two.first.first;", "types: .first is for pairs; this is an int [Two.first]"),
            ("N := S[3];", "types: [...] looks up in a map; this is an intset [S]"),
            ("N[3] := 1;", "types: N is no map but an int [3]"),
            ("N ∪= 3;", "types: ∪= does not fit N, an int [N]"),
            ("S max= 3;", "types: max= does not fit S, an intset [S]"),
            ("N := |N|;", "types: only sets and maps have a size; this is an int [|N|]"),
            ("B := {} = {};", "types: it cannot be told what {} is empty of [{}]"),
            ("Names += 3;", "types: an int cannot go into a set<address> [3]"),
            (
                "N := parent(select).N;",
                "types: only sets and maps can be split; this is an int [N]",
            ),
            ("N := 9223372036854775808;", "types: numbers have 64 bits [9223372036854775808]"),
            ("B := if N then B else B;", "types: this is an int, but a bool is needed [N]"),
            ("Two := <Who, N>;", "types: this is an address, but an int is needed [Who]"),
        ],
    )
    def test_what_does_not_fit(self, rule: str, finding: str) -> None:
        assert finding in errors(rule)

    @pytest.mark.parametrize(
        ("type_", "finding"),
        [
            ("integer", "types: there is no type integer [integer]"),
            ("set<int>", "types: there are no sets of int [set<int>]"),
            ("map<intset, int>", "types: intset cannot be the key of a map [intset]"),
            (
                "set<pair<int, intset>>",
                "types: pair<int, intset> cannot be the item of a set [pair<int, intset>]",
            ),
            ("pair<int>", "types: pair takes 2 types [pair<int>]"),
            ("int<int>", "types: int takes no types [int<int>]"),
        ],
    )
    def test_types_of_types(self, type_: str, finding: str) -> None:
        assert finding in find(f"protocol P {{ properties {{ {type_} A; }} }}")


class TestNames:
    @pytest.mark.parametrize(
        ("rule", "finding"),
        [
            ("Z := 1;", "undefined: there is no property Z [Z]"),
            ("N := last;", "undefined: last is not declared [last]"),
            ("N := a.N;", "undefined: a is not the name of a node [a]"),
            ("size := 1;", "undefined: there is no property size [size]"),
        ],
    )
    def test_names_that_nobody_declared(self, rule: str, finding: str) -> None:
        assert finding in errors(rule)

    def test_a_close_name_is_suggested(self) -> None:
        found = check("protocol P { properties { int Last; } rules { Last := parent.last; } }")
        assert [one.suggestion for one in found.diagnostics] == ["did you mean Last?"]

    def test_names_are_passed_over_where_their_declaration_could_not_be_read(self) -> None:
        """One mistake is told once."""
        use = "rules { local.Last := 1; }"
        assert len(find(f"protocol P {{ properties {{ int Last := 0; }} {use} }}")) == 1
        assert len(find(f"protocol P {{ properties {{ int L; }} {use} conditions {{ = }} }}")) == 2

    @pytest.mark.parametrize(
        ("binding", "finding"),
        [
            ("on Got(m) : N := m;", "undefined: no event Got comes from the application [Got]"),
            ("on Put(m) : N := m;", "undefined: no event Put comes from the application [Put]"),
            ("on Get() : N := 1;", "types: Get(m) has 1 argument [Get]"),
            ("on Get(m) : Pot(m);", "undefined: no event Pot goes to the application [Pot]"),
            ("on Get(m) : Put();", "types: Put(m) takes 1 argument [Put]"),
            ("on Get(m) : Put(S);", "types: this is an intset, but an int is needed [S]"),
            (
                "on update N(added A) : Put(1);",
                "types: added is for sets and maps; N is an int [N]",
            ),
            (
                "on Get(m) : foreach (k in m) Put(k);",
                "types: foreach goes over a set or a map, not an int [m]",
            ),
            ("on Get(m, m) : N := m;", "duplicates: there is a variable m already [m]"),
        ],
    )
    def test_events_and_variables(self, binding: str, finding: str) -> None:
        assert finding in errors(bindings=binding)

    def test_what_is_declared_twice(self) -> None:
        found = find(
            "protocol P(int A = 1) { properties { int A; int set; } interface { E(); E(); } "
            "rules { A := 1; (R1) } rules { A := 1; (R1) } }"
        )
        assert "duplicates: there is a name A already [A]" in found
        assert "duplicates: there is a event E already [E]" in found
        assert "duplicates: set is the name of a type [set]" in found
        assert any(one.startswith("duplicates: there is a section rules already") for one in found)


class TestPlaces:
    @pytest.mark.parametrize(
        ("sections", "finding"),
        [
            ({"conditions": "children(min).N < N;"}, "places: a condition reads a member"),
            ({"conditions": "global.N < N;"}, "places: a condition reads a member"),
            ({"bindings": "on Get(m) : N := parent.N;"}, "places: a binding reads properties"),
            ({"bindings": "on Get(m) : N := children(min).N;"}, "places: a binding reads"),
            ({"rules": "N := children(min).N + children(max).N;"}, "places: rule 1 gathers twice"),
            ({"rules": "local.N := children(min).N; (R7)"}, "places: R7 is local, and a node"),
            ({"rules": "global.N := parent.N; (R7)"}, "places: R7 is global, and the whole"),
            ({"rules": "N := children(min).N + parent.N;"}, "places: rule 1 reads children and"),
            ({"rules": "N := global.N;"}, "places: a rule cannot read global values"),
            ({"invariants": "invariant N > 0;"}, "places: it is not said whose N is meant"),
            ({"invariants": "invariant forall a : a.N > parent.N;"}, "places: an invariant reads"),
        ],
    )
    def test_what_is_not_known_there(self, sections: dict[str, str], finding: str) -> None:
        assert any(one.startswith(finding) for one in errors(**sections)), errors(**sections)


class TestHalves:
    def test_x_and_y_come_together(self) -> None:
        """Overview paper, Table 2: the rule of two halves."""
        assert errors(r"M(x) ∪= <y, S(x) \ T(y)>;") == []

    @pytest.mark.parametrize(
        ("rule", "finding"),
        [
            ("S(x) ∪= T;", "halves: rule 1 assigns to one half and does not read the other [x]"),
            ("S ∪= T(y);", "types: T(y) means nothing here [y]"),
            ("S(y) ∪= T(x);", "types: there is no half y [y]"),
            ("global.S(x) ∪= T(y);", "halves: rule 1 is global, and compares two members [S]"),
            (
                "S(x) ∪= T(y) ∪ parent.S;",
                "halves: a rule about halves reads the two halves only [parent.S]",
            ),
        ],
    )
    def test_what_halves_cannot_do(self, rule: str, finding: str) -> None:
        assert finding in errors(rule)


class TestConstants:
    def test_parameters_may_be_used(self) -> None:
        assert find("protocol P(int n = 2 + 3) { properties { int A = n * 2; } }") == []

    def test_nothing_else_may(self) -> None:
        found = find(
            "protocol P(int n = 2, int m = n) { properties { int A = B; int B; intset S; } "
            "rules { S := children(top(A)).S; } }"
        )
        assert found == [
            "constants: the default of a parameter is made of constants only [n]",
            "constants: an initial value is made of constants and parameters only [B]",
            "constants: the number of top(...) is made of constants and parameters only [A]",
        ]


class TestModifiers:
    @pytest.mark.parametrize(
        ("rule", "finding"),
        [
            (
                "N := [all] parent.N;",
                "modifiers: all says which members count, and rule 1 asks no members [all]",
            ),
            ("N [mono, mono] := N;", "modifiers: mono stands there twice [mono]"),
        ],
    )
    def test_modifiers_that_say_nothing(self, rule: str, finding: str) -> None:
        assert finding in errors(rule)


class TestAggregation:
    @pytest.mark.parametrize(
        ("rule", "finding"),
        [
            ("N := children(-).N;", "aggregation: - does not put values of members together [-]"),
            (
                r"S := children(\).S;",
                "aggregation: \\ does not put values of members together [\\]",
            ),
            (
                "N := children(avg).N;",
                "aggregation: avg does not put values of members together [avg]",
            ),
            (
                "N := children(∩).N;",
                "aggregation: ∩ does not fit N: it is not for int [children(∩).N]",
            ),
            (
                "S := children(min).S;",
                "aggregation: min does not fit S: it is not for intset [children(min).S]",
            ),
            (
                "Two := children(+).Two;",
                (
                    "aggregation: + does not fit Two: it is not for address "
                    "in a pair<int, address> [children(+).Two]"
                ),
            ),
            ("S := children(top(0)).S;", "aggregation: top(...) keeps at least one item [0]"),
        ],
    )
    def test_operators_that_do_not_fit(self, rule: str, finding: str) -> None:
        """Rounds visit members in any order, so the operator must not care."""
        assert finding in errors(rule)


class TestConflicts:
    def test_two_assignments_in_one_place(self) -> None:
        found = errors("N := 1; (R1) N := 2; (R2)")
        assert found == [
            "conflicts: N is assigned here and by R1, both in nodes [N := 2; (R2)]",
        ]

    @pytest.mark.parametrize(
        "rules",
        [
            "global.N := 1; local.N := 2;",
            "N := children(min).N; local.N := 2;",
            "global.N := 1; N := parent.N;",
            "S ∪= T; S ∪= parent.S;",
            "Count[1] := 1; Count[2] := 2;",
        ],
    )
    def test_rules_that_do_not_meet(self, rules: str) -> None:
        assert errors(rules) == []

    @pytest.mark.parametrize("other", ["local.N := 2;", "N := parent.N;", "global.N := 2;"])
    def test_a_rule_for_everywhere_meets_all_others(self, other: str) -> None:
        assert len(errors(f"N := 1; {other}")) == 1

    def test_an_assignment_after_a_merge_is_pointed_out(self) -> None:
        text = f"protocol P {{ {DECLARED} rules {{ S ∪= T; (R1) S := T; }} }}"
        assert "conflicts: this replaces what R1 has merged into S in nodes [S := T;]" in find(
            text, "warning"
        )


PHASES = "properties { int Last = 0; int Next; int Load; bool Up; intset Seen; } "
LEAST = "Last := [mono, all, strict] children(min).Last; (R1) "


def about(text: str, code: str) -> list[str]:
    found = check("protocol P { interface { callback Set(int v); } " + PHASES + text + " }")
    return [
        f"{one.text}; {one.severity}: {one.why}" for one in found.diagnostics if one.code == code
    ]


class TestMonotonicity:
    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            (
                f"rules {{ {LEAST} local.Last := Load; }} bindings {{ on Set(v) : Load := v; }}",
                "warning: its rules and bindings move it both ways",
            ),
            (
                f"rules {{ {LEAST} }} bindings {{ on Set(v) : Last := v; }}",
                "warning: a binding assigns it any value",
            ),
            (
                "rules { Next := parent.Next; (R2) global.Next := 1; Load [mono] := Next; }",
                "error: R2 assigns it without mono, so an older value can take a newer one's place",
            ),
            (
                "rules { Last := children(min).Last; (R9) Next := [mono] children(max).Last; }",
                "error: R9 assigns it without mono, so an older value can take a newer one's place",
            ),
        ],
    )
    def test_mono_reads_nothing_that_goes_back(self, text: str, reason: str) -> None:
        """Dissertation 3.2.15: each new value is computed from more recent information."""
        assert reason in [one.partition("; ")[2] for one in about(text, "monotonicity")]

    @pytest.mark.parametrize(
        "text",
        [
            f"rules {{ {LEAST} local.Last := Next; Next [mono] := parent.Next; }}",
            "rules { Seen := [mono, all] children(∩).Seen; } bindings { on Set(v) : Seen += v; }",
            "rules { Seen := [mono] children(∪).Seen; } bindings { on Set(v) : Seen += v; }",
            f"rules {{ {LEAST} local.Last max= Load; }} bindings {{ on Set(v) : Load := v; }}",
            f"rules {{ {LEAST} }} bindings {{ on Set(v) : Last max= v; }}",
            (
                "rules { Up := [mono, all] children(∧).Up; local.Up |= Load > 3; } "
                "bindings { on Set(v) : Load := v; }"
            ),
            "rules { Load := [mono] children(+).Load; } bindings { on Set(v) : Load := v; }",
        ],
    )
    def test_what_may_be_mono(self, text: str) -> None:
        assert about(text, "monotonicity") == []


class TestGuards:
    def test_a_decision_without_a_condition_is_pointed_out(self) -> None:
        found = about(f"rules {{ {LEAST} global.Next := Last + 1; }}", "guards")
        assert [one.partition(";")[0] for one in found] == [
            "decisions rest on R1, and no condition guards Last"
        ]

    def test_a_condition_guards_it(self) -> None:
        rules = f"rules {{ {LEAST} global.Next := Last + 1; }}"
        assert about(rules + " conditions { parent.Last ≤ Last; }", "guards") == []


def test_what_is_not_used_is_pointed_out() -> None:
    found = find(
        "protocol P(int n = 1) { interface { callback Get(); Put(); } "
        "properties { int A; int B; int C = 1; int D; } rules { B := C; A := D; } }",
        "warning",
    )
    assert found == [
        "unused: n is not used [n]",
        "unused: no binding waits for Get [Get]",
        "unused: no binding makes the request Put [Put]",
        "unused: nothing reads A [A]",
        "unused: nothing reads B [B]",
        "unused: nothing assigns D [D]",
    ]


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(programs() | broken_programs | st.text(max_size=100))
def test_any_text_is_checked_without_an_exception(text: str) -> None:
    checked = check(text)
    assert checked.context is not None or checked.diagnostics
    for one in checked.diagnostics:
        assert 0 <= one.span.start <= one.span.end <= len(text)
