"""Recovery domains: who takes part in which, who leads, and what a change costs."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from quicksilver.scopes.management.domains import TOPICS_BYTES_MAX, Domains, Party
from quicksilver.scopes.management.handing import find_host
from quicksilver.scopes.management.saving import Numbers, Savings
from quicksilver.scopes.posts import DomainId, Post, Seat, parse_part


class Scope:
    """Domains whose members a test names."""

    def __init__(self, saved: dict[str, bytes] | None = None) -> None:
        self.savings = Savings(saved or {})
        self.records = dict(saved or {})
        self.dialable: dict[str, str] = {}
        numbers = Numbers(self.savings)
        self.domains = Domains("L", "L", self._address_of, numbers, self.savings, dissolve_s=60.0)

    def _address_of(self, member: str) -> str:
        return self.dialable.get(member, member)

    def want(self, member: str, *topics: str, domain: int = 0, protocol: str = "ring") -> None:
        """Topics are rooted in the scope, or in C above it."""
        for topic in topics:
            self.domains.handle_topic(topic, protocol, is_top=topic.startswith("L/"))
            self.domains.handle_party(topic, Party(member, domain), takes_part=True)

    def leave(self, member: str, *topics: str, domain: int = 0) -> None:
        for topic in topics:
            self.domains.handle_party(topic, Party(member, domain), takes_part=False)

    def update(self, now: float = 0.0) -> list[DomainId]:
        changed = self.domains.update(now)
        while (saved := self.savings.poll()) is not None:
            if saved.value is None:
                del self.records[saved.name]
            else:
                self.records[saved.name] = saved.value
        return changed

    def shape(self) -> dict[tuple[str, ...], set[str]]:
        """Return who is in which domain, parts under the names of their topics."""
        found = {}
        for domain in self.domains.by_id.values():
            kind = () if domain.is_part else ("topic",)
            found[*kind, *domain.topics] = {self.readable(seat.member) for seat in domain.seats}
        return found

    def readable(self, member: str) -> str:
        part = parse_part(member)
        return member if part is None else "+".join(self.domains.by_id[part].topics)


def test_members_with_the_same_topics_share_a_domain_that_serves_them_all() -> None:
    """3.2.10: "a single recovery domain may perform recovery for multiple topics"."""
    scope = Scope()
    for member in "ABC":
        scope.want(member, "L/x", "L/y")
    scope.update()
    assert scope.shape() == {("L/x", "L/y"): {"A", "B", "C"}}
    (domain,) = scope.domains.by_id.values()
    assert domain.is_top
    assert scope.domains.number_for("L/x") == scope.domains.number_for("L/y") == domain.id.number


def test_a_topic_of_several_parts_has_a_domain_of_its_own() -> None:
    """Figure 3.25: A has subscribed to X, B and C to X and Y. L:Y would have one member, the
    part RXY, which stands for it."""
    scope = Scope()
    scope.want("A", "C/x")
    for member in "BC":
        scope.want(member, "C/x", "C/y")
    scope.update()
    assert scope.shape() == {
        ("C/x",): {"A"},
        ("C/x", "C/y"): {"B", "C"},
        ("topic", "C/x"): {"C/x", "C/x+C/y"},
    }
    both = next(d for d in scope.domains.by_id.values() if len(d.topics) == 2)
    assert scope.domains.number_for("C/y") == both.id.number
    shared = next(d for d in scope.domains.by_id.values() if not d.is_part)
    assert scope.domains.number_for("C/x") == shared.id.number


def test_a_part_has_two_domains_where_only_some_of_its_topics_go_on_above() -> None:
    """A domain either has another above it or not, for all that it serves."""
    scope = Scope()
    for member in "AB":
        scope.want(member, "L/local", "C/wide")
    scope.update()
    assert scope.shape() == {("L/local",): {"A", "B"}, ("C/wide",): {"A", "B"}}
    tops = {domain.topics: domain.is_top for domain in scope.domains.by_id.values()}
    assert tops == {("L/local",): True, ("C/wide",): False}
    scope.domains.handle_topic("C/wide", "ring", is_top=True)
    scope.update()
    assert scope.shape() == {("C/wide", "L/local"): {"A", "B"}}


def test_what_is_above_a_part_may_be_in_the_same_scope() -> None:
    """Of a topic that is rooted here and has two parts, its own domain alone is at the top."""
    scope = Scope()
    scope.want("A", "L/x")
    scope.want("B", "L/x", "L/y")
    scope.update()
    tops = {(d.is_part, d.topics): d.is_top for d in scope.domains.by_id.values()}
    assert tops == {(True, ("L/x",)): False, (True, ("L/y",)): True, (False, ("L/x",)): True}


def test_an_agent_goes_where_the_agent_is_that_leads_what_it_speaks_for() -> None:
    """X has given its part 5 and 6 to Q both, and the one that leads X's domain 7 counts."""
    scope = Scope()
    scope.want("A", "C/x")
    scope.want("B", "C/y")
    scope.update()
    own = {d.seats[0].member: d.id.number for d in scope.domains.by_id.values()}
    parts = {5: own["A"], 6: own["B"]}
    held: dict[DomainId, list[Post]] = {}
    for number, below in parts.items():
        domain = DomainId("X", number)
        seats = (Seat("L", below, "L"),)
        held[domain] = [Post(domain, 1, "ring", ("L",), seats, ("C/x",), is_top=False)]
    both = tuple(Seat(f"X:{number}", number, "X") for number in (6, 5))
    seven = DomainId("X", 7)
    held[seven] = [
        Post(seven, 1, "ring", (f"X:{number}", "L"), both, ("C/x",), is_top=False)
        for number in (5, 6)
    ]
    above = Post(
        DomainId("W", 1), 1, "ring", ("X", "L"), (Seat("X", 7, "X"),), ("C/x",), is_top=True
    )
    assert find_host("L", scope.domains, held, above) == "B", "part 6 leads"
    assert find_host("L", scope.domains, held, held[seven][0]) == "A"


def test_topics_with_other_protocols_have_other_domains() -> None:
    scope = Scope()
    for member in "AB":
        scope.want(member, "C/x", protocol="ring")
        scope.want(member, "C/y", protocol="gossip:2")
    scope.update()
    protocols = {domain.topics: domain.protocol for domain in scope.domains.by_id.values()}
    assert protocols == {("C/x",): "ring", ("C/y",): "gossip:2"}


def test_domains_of_one_member_are_parties_of_their_own() -> None:
    """A scope inside may recover its topics in several domains."""
    scope = Scope()
    scope.want("P", "C/x", domain=7)
    scope.want("P", "C/y", domain=8)
    scope.want("Q", "C/x", "C/y", domain=3)
    scope.update()
    parts = [domain for domain in scope.domains.by_id.values() if domain.is_part]
    seats = {d.topics: [(s.member, s.domain) for s in d.seats] for d in parts}
    assert seats == {
        ("C/x",): [("P", 7)],
        ("C/y",): [("P", 8)],
        ("C/x", "C/y"): [("Q", 3)],
    }


def test_who_joins_or_leaves_moves_nobody_else() -> None:
    """The leader's crash makes another one lead, and the rest stay in their order."""
    scope = Scope()
    for number in range(20):
        scope.want(f"n{number}", "C/x")
    scope.update()
    (domain,) = scope.domains.by_id.values()
    before, view = [seat.member for seat in domain.seats], domain.view
    scope.leave(before[0], "C/x")
    assert scope.update() == [domain.id]
    assert [seat.member for seat in domain.seats] == before[1:]
    assert domain.view > view


def test_those_who_can_be_dialled_lead() -> None:
    scope = Scope()
    scope.dialable = {f"n{number}": "" for number in range(9)}
    for number in range(10):
        scope.want(f"n{number}", "C/x")
    scope.update()
    (domain,) = scope.domains.by_id.values()
    assert domain.seats[0].member == "n9"


def test_the_domain_of_a_topic_outlives_its_second_part_for_a_while() -> None:
    """To give it up costs a message above; members that come and go are not worth it."""
    scope = Scope()
    scope.want("A", "C/x")
    scope.want("B", "C/x", "C/y")
    scope.update(0.0)
    number = scope.domains.number_for("C/x")
    scope.leave("A", "C/x")
    scope.update(1.0)
    assert scope.domains.number_for("C/x") == number
    assert scope.domains.next_timeout() == 61.0
    scope.want("A", "C/x")
    scope.update(2.0)
    assert scope.domains.number_for("C/x") == number
    assert scope.domains.next_timeout() is None
    scope.leave("A", "C/x")
    scope.update(3.0)
    assert scope.domains.dissolve(63.0) == ["C/x"]
    scope.update(63.0)
    assert scope.shape() == {("C/x", "C/y"): {"B"}}


def test_more_topics_than_fit_into_a_post_are_cut_into_several_domains() -> None:
    scope = Scope()
    topics = [f"C/{'x' * 190}{number:04}" for number in range(2 * TOPICS_BYTES_MAX // 200)]
    for member in "AB":
        scope.want(member, *topics)
    scope.update()
    served = [topic for domain in scope.domains.by_id.values() for topic in domain.topics]
    assert sorted(served) == sorted(topics)
    assert 2 <= len(scope.domains.by_id) <= 3


def test_numbers_survive_a_restart_and_are_never_used_again() -> None:
    scope = Scope()
    scope.want("A", "C/x")
    scope.want("B", "C/x", "C/y")
    scope.want("C", "C/z")
    scope.update()
    before = {d.topics: d.id for d in scope.domains.by_id.values() if d.is_part}
    views = [domain.view for domain in scope.domains.by_id.values()]
    scope.leave("C", "C/z")
    scope.update()
    again = Scope(scope.records)
    again.want("A", "C/x")
    again.want("B", "C/x", "C/y")
    again.want("C", "C/z")
    again.update()
    after = {d.topics: d.id for d in again.domains.by_id.values() if d.is_part}
    gone = before.pop(("C/z",))
    new = after.pop(("C/z",))
    assert after == before
    assert new.number > gone.number, "its domain had ended"
    assert min(domain.view for domain in again.domains.by_id.values()) > max(views)


WISHES = st.lists(
    st.tuples(st.sampled_from("ABCDE"), st.sampled_from(["C/x", "C/y", "L/z"]), st.booleans()),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(WISHES)
def test_whatever_members_want_each_topic_has_one_tree_of_domains(
    wishes: list[tuple[str, str, bool]],
) -> None:
    scope = Scope()
    wanted: dict[str, set[str]] = {}
    for step, (member, topic, wants) in enumerate(wishes):
        if wants:
            scope.want(member, topic)
            wanted.setdefault(topic, set()).add(member)
        elif member in wanted.get(topic, set()):
            scope.leave(member, topic)
            wanted[topic].discard(member)
        if step % 3 == 0:
            scope.update(float(step))
    scope.update(100.0)
    for topic in ("C/x", "C/y", "L/z"):
        members = wanted.get(topic, set())
        number = scope.domains.number_for(topic)
        assert (number is None) == (not members)
        if number is not None:
            assert _span(scope, DomainId("L", number), topic) == sorted(members)
    serving = [d for d in scope.domains.by_id.values() if not d.seats or not d.topics]
    assert serving == []


def _span(scope: Scope, name: DomainId, topic: str) -> list[str]:
    domain = scope.domains.by_id[name]
    assert topic in domain.topics
    found = []
    for seat in domain.seats:
        part = parse_part(seat.member)
        found += [seat.member] if part is None else _span(scope, part, topic)
    return sorted(found)
