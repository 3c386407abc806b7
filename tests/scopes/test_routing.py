"""Routing records: the dissertation's example step by step, and any hierarchy at random."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.scopes.dissemination.policies.base import Policy
from quicksilver.scopes.dissemination.policies.trees import Star, Tree
from quicksilver.scopes.routing import (
    ENTRIES_MAX,
    EVERY,
    Channel,
    Entry,
    Record,
    begin,
    cast,
    describe,
    find_record_problem,
    forwarded,
    heard,
    matches,
)

# Figures 3.14 to 3.18: a campus X with departments P, Q and R, and five laptops in them.
IN_P = Channel("P", ("A",), ("B",), "T", "A")
P_TO_Q = Channel("X", ("P", "B"), ("Q", "C"), "T", "P")
IN_Q = Channel("Q", ("C",), ("D",), "T", "C")
Q_TO_R = Channel("X", ("Q", "D"), ("R", "E"), "T", "P")
AT = {"A": [IN_P], "B": [P_TO_Q], "C": [IN_Q], "D": [Q_TO_R], "E": []}
"""Channels by the node that works their source."""


class TestFigures:
    """Dissertation 3.2.5: "Elements compared against each other are shown as black"."""

    def test_the_flow_of_a_message(self) -> None:
        """Figure 3.18, from laptop A to laptop E: records on the left, channels on the right."""
        lines, node, record = [], "A", begin("P", "A")
        while True:
            lines.append(f"{node} has {describe(record)}")
            onward = [channel for channel in AT[node] if matches(record, channel)]
            if not onward:
                break
            (channel,) = onward
            lines.append(f"  along {channel}")
            record = forwarded(record, channel)
            assert find_record_problem(record, channel) is None
            node = channel.target[-1]
        assert lines == [
            "A has A-A",
            "  along A-B, T:A",
            "B has A-B",
            "  along P:B-Q:C, T:P",
            "C has P-Q, C-C",
            "  along C-D, T:C",
            "D has P-Q, C-D",
            "  along Q:D-R:E, T:P",
            "E has P-R, E-E",
        ]

    def test_no_routing_state_above_until_it_is_needed(self) -> None:
        """ "No entries are included at this point for routing in the scopes above A." """
        assert begin("P", "A") == (Entry("P", "A", "A"),)
        assert forwarded(begin("P", "A"), IN_P) == (Entry("P", "A", "B"),)

    def test_the_origin_at_a_level_does_not_change_within_its_scope(self) -> None:
        """ "The original value of XL, once set, is not changed until the message is
        forwarded out of the scope of which XL is the member." """
        at_q = (Entry("X", "P", "Q"), Entry("Q", "C", "D"))
        assert forwarded(at_q, Q_TO_R) == (Entry("X", "P", "R"), Entry("R", "E", "E"))

    def test_a_message_that_originated_elsewhere_does_not_match(self) -> None:
        """X_L = R must hold: Q forwards to R what came from P, not what its own nodes made."""
        assert not matches(begin("Q", "C"), Q_TO_R)
        assert matches((Entry("X", "P", "Q"), Entry("Q", "C", "D")), Q_TO_R)

    def test_entries_of_wider_scopes_stay(self) -> None:
        """ "Entries for i > L also remain unchanged." """
        wider = Entry("W", "X", "X")
        record = (wider, Entry("X", "P", "Q"), Entry("Q", "C", "D"))
        assert forwarded(record, Q_TO_R)[0] == wider


class TestMechanisms:
    """A scope whose members all hear what one of them gives to a mechanism (3.2.4)."""

    def test_the_flow_of_a_message_that_is_multicast_in_q(self) -> None:
        """Figure 3.18 once more; now C gives it to a mechanism, and D hears it from there."""
        entered = forwarded(forwarded(begin("P", "A"), IN_P), P_TO_Q)
        lines = [f"C has {describe(entered)}"]
        given = cast(entered, "Q", "C")
        assert given is not None
        lines.append(f"  to the mechanism of Q with {describe(given)}")
        for node in "CDF":
            record = heard(given, "Q", (node,))
            if record is None:
                lines.append(f"{node} takes no notice")
                continue
            lines.append(f"{node} has {describe(record)}")
            if cast(record, "Q", node) is None:
                lines.append("  and does not give it to the mechanism again")
            if node == "D" and matches(record, Q_TO_R):
                record = forwarded(record, Q_TO_R)
                assert find_record_problem(record, Q_TO_R) is None
                lines += [f"  along {Q_TO_R}", f"E has {describe(record)}"]
        assert lines == [
            "C has P-Q, C-C",
            "  to the mechanism of Q with P-Q, C-C",
            "C takes no notice",
            "D has P-Q, C-D",
            "  and does not give it to the mechanism again",
            "  along Q:D-R:E, T:P",
            "E has P-R, E-E",
            "F has P-Q, C-F",
            "  and does not give it to the mechanism again",
        ]

    def test_a_mechanism_may_be_of_a_scope_of_scopes(self) -> None:
        """P and Q are members of X; node B stands for P in X's mechanism, and C for Q."""
        given = cast(forwarded(begin("P", "A"), IN_P), "X", "P")
        assert given == (Entry("X", "P", "P"),)
        assert heard(given, "X", ("Q", "C")) == (Entry("X", "P", "Q"), Entry("Q", "C", "C"))
        assert heard(given, "X", ("P", "B")) is None

    def test_a_node_gives_its_own_messages_to_the_mechanism_of_any_of_its_scopes(self) -> None:
        assert cast(begin("P", "A"), "P", "A") == (Entry("P", "A", "A"),)
        assert cast(begin("P", "A"), "room", "A") == (Entry("room", "A", "A"),)

    @pytest.mark.parametrize(
        "record",
        [
            (),
            (Entry("P", "A", "A"),),
            (Entry("Q", "C", "D"),),
            (Entry("Q", "C", "C"), Entry("C", "x", "x")),
            (Entry("X", "P", "R"), Entry("Q", "C", "C")),
            tuple(Entry(str(i), "a", str(i + 1)) for i in range(ENTRIES_MAX + 1)),
        ],
    )
    def test_forged_records_bring_nothing(self, record: Record) -> None:
        assert heard(record, "Q", ("D",)) is None


class TestEveryOrigin:
    """One channel for all origins, in place of one for each."""

    THERE = Channel("X", ("P", "B"), ("Q", "C"), "T", EVERY)
    BACK = Channel("X", ("Q", "D"), ("P", "A"), "T", EVERY)
    ON = Channel("X", ("Q", "D"), ("R", "E"), "T", EVERY)

    def test_messages_of_all_origins_are_carried(self) -> None:
        assert matches(begin("P", "A"), self.THERE)
        assert matches((Entry("X", "S", "P", "S"), Entry("P", "A", "B")), self.THERE)

    def test_none_goes_back_to_who_brought_it_nor_to_its_origin(self) -> None:
        came = forwarded((Entry("X", "S", "P", "S"), Entry("P", "A", "B")), self.THERE)
        assert came == (Entry("X", "S", "Q", "P"), Entry("Q", "C", "C"))
        assert not matches(came, self.BACK)
        assert matches(came, self.ON)
        to_origin = Channel("X", ("Q", "D"), ("S", "F"), "T", EVERY)
        assert not matches(came, to_origin)

    def test_what_arrives_is_checked_as_ever_but_for_the_origin(self) -> None:
        came = forwarded(begin("P", "A"), self.THERE)
        assert find_record_problem(came, self.THERE) is None
        assert find_record_problem(came, self.ON) is not None


# Any hierarchy, any policies: every node gets a message once.


@dataclass
class Branch:
    """A scope: its members, or none if it is a node."""

    name: str
    members: list[Branch] = field(default_factory=list)
    policy: Policy = field(default_factory=Star)

    def nodes(self) -> list[str]:
        return [n for m in self.members for n in m.nodes()] if self.members else [self.name]

    def scopes(self) -> list[Branch]:
        return [self, *(s for m in self.members for s in m.scopes())] if self.members else []


@st.composite
def branches(draw: st.DrawFn, name: str = "X", depth: int = 3) -> Branch:
    """Members of one scope may be nodes and scopes of any depth side by side."""
    count = draw(st.integers(1, 4)) if depth else 0
    if depth < 3 and draw(st.booleans()):
        count = 0
    members = [draw(branches(f"{name}{i}", depth - 1)) for i in range(count)]
    policies: list[Policy] = [Star(), Tree(1), Tree(2), Tree(3)]
    return Branch(name, members, draw(st.sampled_from(policies)))


def chain_into(branch: Branch, data: st.DataObject) -> tuple[str, ...]:
    """Return a scope, and whom it hands a channel's end down to."""
    chain = [branch.name]
    while branch.members:
        branch = data.draw(st.sampled_from(branch.members))
        chain.append(branch.name)
    return tuple(chain)


def channels_of(scope: Branch, data: st.DataObject) -> list[Channel]:
    by_name = {member.name: member for member in scope.members}
    return [
        Channel(
            scope.name,
            chain_into(by_name[edge.source], data),
            chain_into(by_name[edge.target], data),
            "T",
            origin,
        )
        for origin in by_name
        for edge in scope.policy.edges(tuple(by_name), origin)
    ]


@given(branches(), st.data())
def test_every_node_gets_a_message_once(tree: Branch, data: st.DataObject) -> None:
    """Scopes decide by themselves how to forward; what comes of it is one structure."""
    if not tree.members:
        return
    channels = [channel for scope in tree.scopes() for channel in channels_of(scope, data)]
    by_node: dict[str, list[Channel]] = {}
    for channel in channels:
        by_node.setdefault(channel.source[-1], []).append(channel)
    parents = {m.name: scope.name for scope in tree.scopes() for m in scope.members}
    publisher = data.draw(st.sampled_from(tree.nodes()))
    got: Counter[str] = Counter()
    ahead: list[tuple[str, Record]] = [(publisher, begin(parents[publisher], publisher))]
    while ahead:
        node, record = ahead.pop()
        got[node] += 1
        assert sum(got.values()) <= len(tree.nodes()), "it goes in circles"
        for channel in by_node.get(node, []):
            if matches(record, channel):
                after = forwarded(record, channel)
                assert find_record_problem(after, channel) is None
                ahead.append((channel.target[-1], after))
    assert got == Counter(tree.nodes())


@pytest.mark.parametrize(
    "record",
    [
        (),
        (Entry("X", "P", "Q"),),
        (Entry("X", "P", "R"), Entry("R", "E", "E")),
        (Entry("X", "R", "Q"), Entry("Q", "C", "C")),
        (Entry("X", "P", "Q"), Entry("Q", "D", "C")),
        (Entry("X", "P", "Q"), Entry("Q", "C", "D")),
        (Entry("X", "P", "Q"), Entry("Z", "C", "C")),
        (Entry("W", "X", "V"), Entry("X", "P", "Q"), Entry("Q", "C", "C")),
        tuple(Entry(str(i), "a", str(i + 1)) for i in range(ENTRIES_MAX + 1)),
    ],
)
def test_forged_records_are_named(record: Record) -> None:
    """What arrives along P:B-Q:C must have crossed it; a liar is caught at the next scope."""
    assert find_record_problem(record, P_TO_Q)


def test_records_travel_as_short_arrays() -> None:
    record = (Entry("X", "P", "Q"), Entry("Q", "C", "C"))
    data = msgspec.msgpack.encode(record)
    assert msgspec.msgpack.decode(data, type=Record) == record
    assert len(data) < 20
