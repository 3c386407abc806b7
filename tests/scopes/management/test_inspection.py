"""What managers say of themselves: enough to draw the tree and to explain a topic, and no more."""

from __future__ import annotations

import pytest

from quicksilver.scopes.dissemination.policies.choice import describe_policy, parse_policy
from quicksilver.scopes.management import messages as say
from quicksilver.scopes.management.config import Config
from quicksilver.scopes.management.manager import ScopeManager
from quicksilver.scopes.management.messages import ROWS_MAX, Row
from tests.scopes.management.test_manager import T
from tests.scopes.management.test_posts import lecture
from tests.scopes.network import Network
from tests.scopes.peers import Alone

CONN = 99_999


def inspect(manager: ScopeManager, topic: str = "") -> list[Row]:
    """Ask a manager for all rows, as a stranger does."""
    rows: list[Row] = []
    manager.handle_accepted(CONN, 1.0)
    first = 0
    while True:
        manager.handle_message(CONN, say.Inspect(topic, first), 1.0)
        out = manager.poll_transmit()
        assert out is not None
        answer = say.parse(say.encode(out[1]))
        assert isinstance(answer, say.Inspected)
        rows += answer.rows
        if not answer.next:
            manager.handle_closed(CONN, 1.0)
            return rows
        assert answer.next > first
        first = answer.next


def of_kind(rows: list[Row], kind: str) -> dict[str, dict[str, str]]:
    return {row.name: row.facts for row in rows if row.kind == kind}


def test_the_tree_can_be_walked_from_its_root() -> None:
    network = lecture()
    seen, ahead = [], ["X"]
    while ahead:
        rows = inspect(network.managers[ahead.pop()])
        (name,) = of_kind(rows, "scope")
        seen.append(name)
        ahead += [facts["address"] for facts in of_kind(rows, "member").values()]
    assert sorted(seen) == list("ABCDEFPQRX")


def test_a_scope_tells_of_its_state() -> None:
    network = lecture()
    rows = inspect(network.managers["Q"])
    assert of_kind(rows, "scope")["Q"]["state"] == "at work"
    assert of_kind(rows, "owner")["X"]["state"] == "connected"
    assert of_kind(rows, "member")["D"]["role"] == "member"
    (topic,) = of_kind(rows, "topic").values()
    assert (topic["policy"], topic["recovery"], topic["root"]) == ("star", "ring", "no")
    (domain,) = of_kind(rows, "domain").values()
    assert set(domain["members"].split()) == {"D", "E"}
    network.kill("Q")
    network.add("Q", "X", recovery="ring", starts=2)
    rows = inspect(network.managers["Q"])
    assert "restart" in of_kind(rows, "scope")["Q"]["state"]
    network.kill("X")
    assert of_kind(inspect(network.managers["P"]), "owner")["X"]["state"] == "away"


def test_a_topic_is_explained_at_every_level() -> None:
    network = lecture()
    rows = inspect(network.managers["X"], T)
    channels = of_kind(rows, "channel")
    assert channels[f"P-Q, {T}:P"]["why"] == "star"
    (domain,) = of_kind(rows, "domain").values()
    agents = of_kind(rows, "agent")
    assert {facts["handed"] for facts in agents.values()} == set("PQR")
    rows = inspect(network.managers["P"], T)
    out = {n: f for n, f in of_kind(rows, "channel").items() if n.startswith("P:")}
    assert "by lot" in out[next(iter(out))]["why"]
    assert of_kind(rows, "way in")
    leader = domain["leader"]
    speaks = of_kind(inspect(network.managers[leader], T), "agent")
    assert any(facts["path"].startswith(leader) for facts in speaks.values())
    node = inspect(network.managers["A"], T)
    assert {facts["state"] for facts in of_kind(node, "source").values()} == {"open"}
    (agent,) = [f for n, f in of_kind(node, "agent").items() if n.startswith("A in P")]
    assert agent["found"] == "B C"


def test_what_was_refused_is_explained() -> None:
    network = Network()
    network.add("X", policy="multicast")
    for name in "AB":
        network.add(name, "X", is_node=True, is_dialable=False)
        network.want(name, T, "ps")
    network.run(1.0)
    rows = inspect(network.managers["X"], T)
    assert of_kind(rows, "refused")[f"A-B, {T}:A"]["why"].startswith("neither end can be dialled")
    assert "configure one" in of_kind(rows, "policy refused")["all origins"]["why"]
    assert of_kind(rows, "domain")["none"]["why"] == "chosen"
    assert "nobody" in of_kind(inspect(network.managers["X"], "X/none"), "nothing")["X/none"]["why"]


def test_long_accounts_come_in_pages() -> None:
    lan = Alone("lan", config=Config(silent_s=1e9))
    for conn in range(3 * ROWS_MAX):
        lan.join(conn, f"n{conn}")
    lan.clear()
    rows = inspect(lan.manager)
    assert len(of_kind(rows, "member")) == 3 * ROWS_MAX


@pytest.mark.parametrize(
    "text", ["star", "chain", "tree:3", "mesh:4", "stripes:2", "gossip:3", "multicast", "qsm"]
)
def test_policies_are_told_as_people_write_them(text: str) -> None:
    assert describe_policy(parse_policy(text)) == text
