"""The built-in formalisms: what they read, what implies what, what their monitors see."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.live.formalisms import base
from quicksilver.live.formalisms.base import (
    Broken,
    Formalism,
    FormalismLoadError,
    Formalisms,
    FormulaError,
    Observed,
    UnknownFormalismError,
)
from quicksilver.live.formalisms.cardinality import Cardinality
from quicksilver.live.formalisms.delivery import BEST_EFFORT, STANDARD_PROPERTIES, Delivery
from quicksilver.live.formalisms.security import Security
from quicksilver.live.formalisms.standard import make_formalisms
from quicksilver.live.formalisms.structure import Structure, endpoint_structure, object_structure
from quicksilver.live.formalisms.temporal.formalism import Temporal
from quicksilver.live.formalisms.timing import Timing
from quicksilver.live.types.build import endpoint, event, object_type
from quicksilver.live.types.model import INT, STR

CHANNEL = endpoint(
    [event("send", message=INT)], [event("receive", message=INT), event("view", k=INT, s=STR)]
)
STRUCTURE = endpoint_structure(CHANNEL)
OBJECT = object_structure(object_type({"channel": CHANNEL, "members": endpoint()}))


def implies(
    formalism: Formalism[Any], one: str, other: str, structure: Structure = STRUCTURE
) -> bool:
    return formalism.implies(formalism.parse(one, structure), formalism.parse(other, structure))


class TestDelivery:
    properties = st.frozensets(st.sampled_from(STANDARD_PROPERTIES), max_size=4)

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("fifo", "best effort"),
            ("total", "fifo"),  # 2.1.2: who provides a total order provides FIFO
            ("causal", "fifo"),
            ("virtually-synchronous", "best effort and fifo"),  # 2.1.3, last paragraphs
            ("Virtually_Synchronous", "atomic, at-most-once"),
            ("transactional", "atomic and total"),
            ("at most once and at least once", "exactly once"),
            ("exactly once", "at least once"),
            ("total & at-most-once", "at most once, fifo"),
        ],
    )
    def test_known_facts(self, one: str, other: str) -> None:
        assert implies(Delivery(), one, other)

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("best effort", "fifo"),
            ("fifo", "total"),
            ("total", "causal"),
            ("at most once", "exactly once"),
            ("atomic", "fifo"),
        ],
    )
    def test_no_more_than_is_known(self, one: str, other: str) -> None:
        assert not implies(Delivery(), one, other)

    @given(properties, properties, properties)
    def test_a_lattice(self, a: frozenset[str], b: frozenset[str], c: frozenset[str]) -> None:
        delivery = Delivery()
        meet, join = delivery.conjoin([a, b]), delivery.join(a, b)
        assert delivery.implies(a, a)
        assert delivery.implies(a, frozenset({BEST_EFFORT}))
        assert delivery.implies(meet, a)
        assert delivery.implies(meet, b)
        assert delivery.implies(a, join)
        assert delivery.implies(b, join)
        # Greatest lower and least upper bound.
        if delivery.implies(c, a) and delivery.implies(c, b):
            assert delivery.implies(c, meet)
        if delivery.implies(a, c) and delivery.implies(b, c):
            assert delivery.implies(join, c)
        if delivery.implies(a, b) and delivery.implies(b, c):
            assert delivery.implies(a, c)
        assert delivery.closure(delivery.closure(a)) == delivery.closure(a)

    def test_libraries_add_properties_and_facts(self) -> None:
        delivery = Delivery()
        before = delivery.revision
        delivery.add_property("Gossip-Ordered", implies=["causal"])
        delivery.add_fact(["gossip ordered", "atomic"], "virtually synchronous")
        assert delivery.revision > before
        assert implies(delivery, "gossip_ordered", "fifo")
        assert implies(delivery, "gossip ordered and atomic", "at most once")
        with pytest.raises(ValueError, match="no delivery property is called 'unheard of'"):
            delivery.add_fact(["unheard-of"], "fifo")


class TestCardinality:
    @pytest.mark.parametrize(
        ("one", "other", "holds"),
        [
            ("at most 1", "at most 2 instances", True),
            ("at most 2", "at most 1", False),
            ("exactly 3", "at least 2 and at most 4", True),
            ("at least 2", "at most 4", False),
            ("at least 2 and at most 3", "at least 1", True),
        ],
    )
    def test_intervals(self, one: str, other: str, holds: bool) -> None:
        assert implies(Cardinality(), one, other) == holds

    @given(*(st.tuples(st.integers(0, 4), st.integers(0, 4)) for _ in range(2)))
    def test_implication_is_inclusion_of_numbers(
        self, one: tuple[int, int], other: tuple[int, int]
    ) -> None:
        def formula(bounds: tuple[int, int]) -> str:
            return f"at least {bounds[0]} and at most {bounds[1]}"

        allowed = [set(range(low, high + 1)) for low, high in (one, other)]
        holds = implies(Cardinality(), formula(one), formula(other))
        assert holds == (allowed[0] <= allowed[1])

    def test_code_2_6_can_be_read(self) -> None:
        """Code 2.6, line 03: "at most one instance of Channel can be connected"."""
        cardinality = Cardinality()
        assert cardinality.parse("at most 1 instance of channel can be connected", OBJECT)
        with pytest.raises(FormulaError, match="column 10: say of which endpoint"):
            cardinality.parse("at most 1", OBJECT)

    def test_the_monitor_counts_instances(self) -> None:
        watcher = Cardinality().monitor(Cardinality().parse("at least 1 and at most 2", STRUCTURE))

        def connect(name: str, instance: str) -> Broken | None:
            return watcher.handle_event(Observed("", name, None, instance))

        assert connect("connect", "a") is None
        assert connect("connect", "b") is None
        broken = connect("connect", "c")
        assert broken is not None
        assert [one.instance for one in broken.events] == ["a", "b", "c"]
        assert broken.reason == "3 instances are connected, allowed are 1 to 2"
        assert connect("disconnect", "c") is None
        assert connect("disconnect", "b") is None
        broken = connect("disconnect", "a")
        assert broken is not None
        assert str(broken.events[-1]) == "disconnect() at a"


class TestTiming:
    PROMISE = "in 99% of cases receive within 50 ms of send"

    @pytest.mark.parametrize(
        ("weaker", "holds"),
        [
            (PROMISE, True),
            ("at least 95 % receive within 1 s after send", True),
            ("in 99.5% of the time, receive within 50 ms of send", False),
            ("99% receive within 49999 us of send", False),
            ("99% send within 50 ms of receive", False),
            ("99% receive everywhere within 50 ms of send", False),
        ],
    )
    def test_more_often_and_sooner_is_stronger(self, weaker: str, holds: bool) -> None:
        assert implies(Timing(), self.PROMISE, weaker) == holds

    def test_everywhere_is_more_than_here(self) -> None:
        everywhere = "99% receive everywhere within 50 ms of send"
        assert implies(Timing(), everywhere, self.PROMISE)

    def test_a_window_over_all_instances(self) -> None:
        one, other = (f"90% receive everywhere within {n} s" for n in (1, 2))
        assert implies(Timing(), one, other)
        assert not implies(Timing(), other, one)

    def test_a_late_case_breaks_a_promise_of_all(self) -> None:
        watcher = Timing().monitor(Timing().parse("100% receive within 1 s of send", STRUCTURE))
        assert watcher is not None
        assert watcher.handle_event(Observed("in", "send", 1, time_s=0.0)) is None
        assert watcher.handle_event(Observed("in", "send", 2, time_s=0.1)) is None
        assert watcher.handle_event(Observed("out", "receive", 1, time_s=0.9)) is None
        broken = watcher.handle_event(Observed("out", "receive", 2, time_s=1.5))
        assert broken is not None
        assert [one.value for one in broken.events] == [2, 2]

    def test_a_share_is_judged_over_enough_cases(self) -> None:
        watcher = Timing().monitor(Timing().parse("90% receive within 1 s of send", STRUCTURE))
        assert watcher is not None
        broken: list[int] = []
        for case in range(40):
            start, late = case * 10.0, case % 5 == 0
            watcher.handle_event(Observed("in", "send", case, time_s=start))
            end = start + (3.0 if late else 0.5)
            if watcher.handle_event(Observed("out", "receive", case, time_s=end)):
                broken.append(case)
        assert broken
        assert broken[0] >= 9


class TestSecurity:
    @pytest.mark.parametrize(
        ("one", "other", "holds"),
        [
            ("authenticated from alice", "authenticated", True),
            ("authenticated", "authenticated from alice", False),
            ("authenticated from alice", "authenticated from alice or bob", True),
            ("authenticated from alice, bob", "authenticated from alice", False),
            ("signed by alice", "authenticated from alice and intact", True),
            ("authenticated", "signed", False),
            ("confidential to alice", "confidential to alice or bob", True),
            ("confidential", "confidential to alice", False),
            ("confidential and fresh", "fresh", True),
            ("authenticated", "receive: authenticated", True),
            ("receive: authenticated", "authenticated", False),
            ("receive: authenticated", "receive: intact", True),
            ('authenticated from "alice smith"', "intact", True),
        ],
    )
    def test_clauses(self, one: str, other: str, holds: bool) -> None:
        assert implies(Security(), one, other) == holds

    def test_names_of_two_constraints_are_intersected(self) -> None:
        security = Security()
        formulas = [
            security.parse(f"authenticated from {names}", STRUCTURE)
            for names in ("alice or bob", "bob or carol")
        ]
        both = security.conjoin(formulas)
        assert security.implies(both, security.parse("authenticated from bob", STRUCTURE))


WORDS = """
    send receive view ( ) , . = == -> and or not once since previous somewhere m n 3
    "x" in out % within ms of at most least : authenticated from
""".split()  # noqa: SIM905  # words read better without quotes around each


class TestBadFormulas:
    @pytest.mark.parametrize(
        ("formalism", "text", "column", "says"),
        [
            (Delivery(), "", 1, "expected a property, found the end"),
            (Delivery(), "fifo and", 9, "expected a property, found the end"),
            (Delivery(), "fifo or total", 1, "no property 'fifo or total'"),
            (Delivery(), "fifo € total", 6, "unexpected"),
            (Cardinality(), "at best 3", 4, "expected 'most' or 'least', found 'best'"),
            (Cardinality(), "at most many", 9, "expected a number of instances"),
            (Cardinality(), "at most 1.5", 9, "whole"),
            (Timing(), "101% receive within 1 s of send", 1, "at most 100"),
            (Timing(), "50% receive within 0 s of send", 20, "at least a microsecond"),
            (Timing(), "50% receive within 1 s", 23, "without 'everywhere'"),
            (Timing(), "50% recieve within 1 s of send", 5, "no event 'recieve'"),
            (Security(), "authenticated from", 19, "expected a name"),
            (Security(), "trusted", 1, "expected"),
            (Security(), "shout: authenticated", 1, "no event 'shout'"),
            (Temporal(), "send -> once (connect", 22, "expected ')', found the end"),
            (Temporal(), "send -> before connect", 9, "no event 'before'"),
            (Temporal(), "send(1, 2)", 9, "say which field"),
            (Temporal(), "view(x=1)", 6, "no field 'x'; there is k, s"),
            (Temporal(), "send(m) -> n == 3", 12, "no event gives a value to 'n'"),
            (Temporal(), "send(m) -> once m < 3", 17, "say it outside"),
            (Temporal(), "somewhere everywhere send", 11, "inside a quantifier"),
            (Temporal(), "other.send", 1, "no event 'other.send'"),
            (Temporal(), "(" * 500, 41, "nested deeper"),
            (Temporal(), "not " * 500 + "send", 157, "nested deeper"),
            (Temporal(), "send " + "since send " * 100, 446, "nested deeper"),
            (Temporal(), "send(a) and send(b) and send(c) and send(d)", 44, "4 variables"),
        ],
    )
    def test_the_column_is_where_it_goes_wrong(
        self, formalism: Formalism[Any], text: str, column: int, says: str
    ) -> None:
        with pytest.raises(FormulaError) as caught:
            formalism.parse(text, STRUCTURE)
        assert says in caught.value.problem
        assert caught.value.column == column
        assert f"column {column}" in str(caught.value)
        assert caught.value.marked.splitlines()[-1] == " " * (column - 1) + "^"

    @given(
        st.sampled_from([Delivery(), Temporal(), Cardinality(), Timing(), Security()]), st.text()
    )
    def test_no_text_raises_anything_else(self, formalism: Formalism[Any], text: str) -> None:
        try:
            formalism.parse(text, STRUCTURE)
        except FormulaError:
            pass

    @given(
        st.lists(
            st.sampled_from(WORDS),
            max_size=14,
        ).map(" ".join)
    )
    def test_words_in_any_order_raise_nothing_else(self, text: str) -> None:
        for formalism in (Temporal(), Timing(), Security(), Cardinality()):
            try:
                formalism.parse(text, STRUCTURE)
            except FormulaError:
                pass


class _Colours(Formalism[str]):
    identifier = "colours"

    def parse(self, text: str, structure: Structure) -> str:
        return text

    def implies(self, stronger: str, weaker: str) -> bool:
        return weaker in stronger


class TestRegistry:
    def test_a_library_registers_its_own(self) -> None:
        formalisms = make_formalisms(use_entry_points=False)
        with pytest.raises(UnknownFormalismError) as caught:
            formalisms.find("colours")
        assert caught.value.identifier == "colours"
        assert "delivery" in caught.value.known
        before = formalisms.revision
        formalisms.register(_Colours())
        assert formalisms.revision > before
        assert formalisms.find("colours").implies("dark red", "red")

    def test_an_installed_library_is_loaded_when_first_named(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        announced = [
            EntryPoint("colours", f"{__name__}:_Colours", base.ENTRY_POINT_GROUP),
            EntryPoint("broken", "no.such.module:Thing", base.ENTRY_POINT_GROUP),
            EntryPoint("misnamed", f"{__name__}:_Colours", base.ENTRY_POINT_GROUP),
        ]
        monkeypatch.setattr(EntryPoint, "load", _load)
        monkeypatch.setattr(base, "entry_points", lambda group: announced)
        formalisms = Formalisms()
        assert formalisms.identifiers == ("broken", "colours", "misnamed")
        assert isinstance(formalisms.find("colours"), _Colours)
        with pytest.raises(FormalismLoadError, match="'broken' cannot be loaded from no"):
            formalisms.find("broken")
        with pytest.raises(FormalismLoadError, match="not a formalism called 'misnamed'"):
            formalisms.find("misnamed")


def _load(announced: EntryPoint) -> object:
    if announced.name == "broken":
        raise ModuleNotFoundError("no module named 'no'")
    return _Colours
