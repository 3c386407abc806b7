"""``top`` and ``doctor`` at the manager of a scope: what it and its members tell."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from quicksilver.cli.scope_top import ScopeMeter, as_dict, render
from quicksilver.cli.scope_view import Told
from quicksilver.scopes.management.messages import Row
from tests.cli.processes import run
from tests.cli.test_scope import managing
from tests.node.service import connect_sync, take_sync


def node(name: str, **counts: int) -> Told:
    facts = {key: str(count) for key, count in counts.items()}
    rows = [Row("scope", name, {"role": "node", "topics": "1"}), Row("traffic", name, facts)]
    return Told(name, "10.0.0.1:5", "campus", rows=rows)


@pytest.fixture
def tree() -> Told:
    facts = {"members": "2", "topics": "1", "state": "at work"}
    rows = [
        Row("scope", "campus", facts),
        Row("owner", "world", {"address": "10.0.0.9:1", "state": "away"}),
        Row("topic", "campus/news", {"publishers": "1", "subscribers": "1", "policy": "star"}),
    ]
    below = [
        node(
            "campus/a",
            published=7,
            unstable=3,
            early=0,
            delivered=0,
            forwarded=0,
            repaired=0,
            gaps=0,
        ),
        Told("campus/[red]b", "10.0.0.2:5", "campus", problem="no answer within 3 s"),
    ]
    return Told("campus", "10.0.0.1:1", rows=rows, below=below)


def show(top: Told, meter: ScopeMeter) -> str:
    out = io.StringIO()
    Console(file=out, width=140, force_terminal=False).print(render(top, meter))
    return out.getvalue()


def test_members_topics_and_who_is_away_are_shown(tree: Told) -> None:
    meter = ScopeMeter("10.0.0.1:1")
    meter.rates["campus/a"] = dict.fromkeys(
        ("published", "delivered", "forwarded", "repaired", "gaps"), 0.0
    ) | {"published": 1500.0}
    shown = show(tree, meter)
    assert "owner world at 10.0.0.9:1: away" in shown
    assert "campus/[red]b" in shown
    assert "no answer within 3 s" in shown
    (line,) = [line for line in shown.splitlines() if line.startswith("campus/a")]
    assert line.split() == ["campus/a", "1", "1.5k", "0", "0", "0", "3", "0", "ok"], line
    assert "campus/news" in shown
    plain = as_dict(tree, meter)
    assert [member["name"] for member in plain["members"]] == ["campus/a", "campus/[red]b"]
    assert (plain["members"][0]["unstable"], plain["members"][0]["published_per_second"]) == (
        3,
        1500.0,
    )
    assert plain["topics"][0]["policy"] == "star"


def test_what_is_no_number_counts_nothing(tree: Told) -> None:
    """Members may tell anything."""
    tree.below[0].rows[1].facts["published"] = "many"
    tree.below[0].rows[1].facts["unstable"] = "9" * 400
    assert "campus/a" in show(tree, ScopeMeter("10.0.0.1:1"))


@pytest.mark.integration
@pytest.mark.slow
def test_a_member_behind_nat_is_not_called_away() -> None:
    """Nobody outside can ask it, and that is no fault of it."""
    with (
        managing("campus") as (address, _),
        managing("campus/home", "--owner", address, "--behind-nat"),
    ):
        for _ in range(100):
            lines = run("scope", "tree", "--manager", address).stdout.splitlines()
            if len(lines) > 1:
                break
        assert lines[1] == "└─ campus/home: behind NAT: ask its manager there"
        done = run("doctor", "--json", "--gms", address)
        findings = json.loads(done.stdout.splitlines()[-1])["findings"]
        assert not [each for each in findings if each["check"] == "member"]


@pytest.mark.integration
@pytest.mark.slow
def test_a_manager_is_asked_by_top_and_by_doctor() -> None:
    """Both take its address where they take that of a GMS."""
    with (
        managing("campus", "--recovery", "ring") as (address, _),
        managing("campus/lab", "--owner", address, "--recovery", "ring") as (lab, _),
        connect_sync(lab, name="one") as one,
        connect_sync(lab, name="two") as two,
    ):
        sending, receiving = one.open("campus/news"), two.join("campus/news")
        for number in range(100):
            sending.send(b"%d" % number)
        one.flush(timeout=20)
        assert len(take_sync(receiving, 100)) == 100
        done = run("top", "--once", "--json", "--interval", "0.1", "--gms", address)
        told = json.loads(done.stdout.splitlines()[-1])
        assert (told["event"], told["scope"]) == ("snapshot", "campus")
        members = {member["name"]: member for member in told["members"]}
        assert set(members) == {"campus/lab", "campus/lab/one", "campus/lab/two"}
        assert members["campus/lab/one"]["unstable"] == 0
        assert [topic["name"] for topic in told["topics"]] == ["campus/news"]
        done = run("top", "--once", "--interval", "0.1", "--gms", address)
        assert "campus/lab/two" in done.stdout
        done = run("doctor", "--json", "--gms", lab)
        findings = json.loads(done.stdout.splitlines()[-1])["findings"]
        (scope,) = [each for each in findings if each["check"] == "scope"]
        assert "the manager of 'campus/lab', at work, 2 scopes and nodes below" in scope["detail"]
        assert not [each for each in findings if each["check"] in ("owner", "member")]
    done = run("top", "--once", "--gms", address)
    assert (done.returncode, "no GMS at" in done.stderr) == (1, True)
