"""The service, frame by frame."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quicksilver.membership.addresses import AddressPool
from quicksilver.membership.config import ServiceConfig
from quicksilver.membership.service import MembershipService
from quicksilver.membership.store import MemoryStore
from quicksilver.wire import gms
from tests.membership.bench import SECRET, SETTINGS, Bench, hello, kinds, make_secret
from tests.membership.exact_planner import ExactPlanner

# -- order and content


def test_one_batch_answers_welcome_update_subscribed_in_this_order() -> None:
    """The answer says that the views are installed: they must come before it."""
    bench = Bench()
    conn = bench.connect()
    bench.say(conn, hello(), gms.Subscribe(1, join=("a",), open=("b",)))
    assert bench.run(0.019) == {}
    [welcome, update, subscribed] = bench.run(0.002)[conn]
    assert isinstance(welcome, gms.Welcome)
    assert welcome.node == 1
    assert not welcome.resumed
    assert isinstance(update, gms.Update)
    assert [g.name for g in update.groups] == ["a", "b"]
    assert update.regions[0].joined == (1,)
    assert subscribed == gms.Subscribed(1, (1, 2))


def test_a_batch_collects_what_comes_in_its_interval() -> None:
    """A thousand joins must not become a thousand views."""
    bench = Bench()
    conns = [bench.connect() for _ in range(50)]
    for conn in conns:
        bench.say(conn, hello(), gms.Subscribe(1, join=("a",)))
    heard = bench.run(0.02)
    for conn in conns:
        [update] = [r for r in heard[conn] if isinstance(r, gms.Update)]
        assert update.groups[0].view == 1
        assert len(update.groups[0].joined) == 50


def test_a_sender_hears_of_all_regions_of_a_group_but_not_of_their_senders() -> None:
    """ "To multicast to a group, QSM sends a copy to each of the regions spanned
    by the multicast group" (dissertation, figure 4.8)."""
    bench = Bench()
    bench.welcome(gms.Subscribe(1, join=("a",)))
    bench.welcome(gms.Subscribe(1, join=("a", "b")))
    sender = bench.connect()
    bench.say(sender, hello(), gms.Subscribe(1, open=("a",)))
    heard = bench.run(0.02)
    update = heard[sender][1]
    assert isinstance(update, gms.Update)
    assert [(r.joined, r.senders) for r in update.regions] == [((1,), ()), ((2,), ())]
    for member in (1, 2):
        [news] = heard[member]
        assert isinstance(news, gms.Update)
        [region] = news.regions
        assert (region.view, region.base, region.senders) == (1, 1, (3,))
        assert news.groups == ()
        assert [n.id for n in news.nodes] == [3]


def test_nobody_hears_of_what_does_not_concern_it() -> None:
    """Incremental updates go to the interested parties only (4.2.1 A)."""
    bench = Bench()
    stranger = bench.welcome(gms.Subscribe(1, join=("other",)))
    bench.welcome(gms.Subscribe(1, join=("a",)))
    conn = bench.connect()
    bench.say(conn, hello(), gms.Subscribe(1, join=("a",)))
    assert stranger not in bench.run(0.02)


def test_a_failure_is_told_to_all_who_knew_the_node() -> None:
    """Also to one that had left their common group by then."""
    bench = Bench()
    first = bench.welcome(gms.Subscribe(1, join=("a",)))
    bench.welcome(gms.Subscribe(1, join=("a",)))
    bench.say(first, gms.Subscribe(2, leave=("a",)))
    bench.run(0.02)
    bench.say(2, gms.Goodbye())
    [update] = bench.run(0.02)[first]
    assert update == gms.Update(4, nodes_failed=(2,))


def test_a_member_that_becomes_a_mere_sender_gets_the_region_anew() -> None:
    """It moved to another region, and still sends to the one it left."""
    bench = Bench()
    mover = bench.welcome(gms.Subscribe(1, join=("a", "b")))
    bench.welcome(gms.Subscribe(1, join=("a", "b")))
    bench.say(mover, gms.Subscribe(2, leave=("b",)))
    update = bench.run(0.02)[mover][0]
    assert isinstance(update, gms.Update)
    left, entered = update.regions
    assert (left.id, left.view, left.base, left.joined, left.senders) == (1, 3, 0, (2,), ())
    assert (entered.id, entered.joined, entered.senders) == (2, (1,), (1, 2))


def test_a_resumed_node_hears_of_the_end_of_those_it_knew_before() -> None:
    """Its complete update did not mention them, but it has not forgotten them."""
    bench = Bench()
    first = bench.welcome(gms.Subscribe(1, join=("a",)))
    other = bench.welcome(gms.Subscribe(1, join=("a",)))
    bench.say(other, gms.Subscribe(2, leave=("a",)))
    bench.run(0.02)
    bench.service.handle_disconnected(first, bench.now)
    again = bench.connect()
    bench.say(again, hello(gms.Resume(bench.service.cluster, 1, SECRET)))
    whole = bench.hear()[again][1]
    assert isinstance(whole, gms.Update)
    assert ([n.id for n in whole.nodes], whole.alive) == ([1], (1, 2))
    bench.say(other, gms.Goodbye())
    [update] = bench.run(0.02)[again]
    assert isinstance(update, gms.Update)
    assert update.nodes_failed == (2,)


def test_a_hybrid_group_has_an_address_of_its_own() -> None:
    """A group over many regions may send one packet for all of them."""
    bench = Bench(ServiceConfig(hybrid=frozenset({"wide"})))
    conn = bench.connect()
    bench.say(conn, hello(), gms.Subscribe(1, join=("wide", "narrow")))
    update = bench.run(0.02)[conn][1]
    assert isinstance(update, gms.Update)
    hybrid = {g.name: g.hybrid for g in update.groups}
    assert hybrid["narrow"] == ""
    assert hybrid["wide"] not in ("", update.regions[0].address)


def test_making_a_group_hybrid_gives_it_a_new_view() -> None:
    """A changed address under an old number would split its senders."""
    store = MemoryStore()
    Bench(store=store).welcome(gms.Subscribe(1, join=("a",)))
    bench = Bench(ServiceConfig(hybrid=frozenset({"a"})), store)
    conn = bench.connect()
    bench.say(conn, hello(gms.Resume(bench.service.cluster, 1, SECRET)))
    updates = [r for r in bench.run(0.1)[conn] if isinstance(r, gms.Update)]
    assert updates[-1].groups[0].view == 2
    assert updates[-1].groups[0].hybrid


def test_another_planner_plans_anew_after_a_restart() -> None:
    """Region identifiers go on: none is used again."""
    store = MemoryStore()
    old = Bench(store=store)
    old.welcome(gms.Subscribe(1, join=("a",)))
    bench = Bench.__new__(Bench)
    Bench.__init__(bench, store=store)
    bench.planner = ExactPlanner("better")
    bench.service = MembershipService(
        store=store,
        planner=bench.planner,
        settings=SETTINGS,
        pool=AddressPool("239.192.0.0/16"),
        seed=2,
        make_secret=make_secret,
    )
    conn = bench.connect()
    bench.say(conn, hello(gms.Resume(bench.service.cluster, 1, SECRET)))
    [_, whole, update] = bench.run(0.1)[conn]
    assert isinstance(whole, gms.Update)
    assert isinstance(update, gms.Update)
    assert [r.id for r in whole.regions] == [1]
    assert [r.id for r in update.regions] == [2]
    assert update.regions_gone == (1,)
    assert update.groups[0].regions_gone == (1,)


# -- failures


def test_silence_is_failure_and_the_silent_are_told() -> None:
    """A frozen node learns it from the first answer that it gets."""
    bench = Bench()
    other = bench.welcome()
    conn = bench.welcome()
    assert bench.live(2.9, other) == {}
    [excluded] = bench.live(0.2, other)[conn]
    assert excluded == gms.Excluded("the node was silent for 3 s")
    assert bench.closed == [conn]
    assert bench.service.counters.failed == 1


def test_any_frame_is_a_sign_of_life() -> None:
    """Heartbeats are for those who have nothing else to say."""
    bench = Bench()
    conn = bench.welcome()
    for _ in range(4):
        bench.run(2.0)
        bench.say(conn, gms.Heartbeat({"sent": 1}))
    assert bench.closed == []


def test_a_broken_connection_has_a_short_grace() -> None:
    """A crash is noticed sooner than silence, but a reconnect is not a crash."""
    bench = Bench()
    watcher = bench.welcome(gms.Subscribe(1, join=("a",)))
    conn = bench.welcome(gms.Subscribe(1, join=("a",)))
    bench.service.handle_disconnected(conn, bench.now)
    assert bench.run(0.4) == {}
    [update] = bench.run(0.2)[watcher]
    assert isinstance(update, gms.Update)
    assert update.nodes_failed == (2,)


def test_a_gms_that_was_held_up_does_not_blame_the_nodes() -> None:
    """What they said meanwhile is still in its sockets."""
    bench = Bench()
    other = bench.welcome()
    conn = bench.welcome()
    bench.now += 30.0
    bench.service.handle_timeout(bench.now)
    bench.say(conn, gms.Heartbeat())
    assert bench.live(2.0, other) == {}
    assert bench.service.counters.held_up == 1
    bench.now += 30.0
    bench.service.handle_timeout(bench.now)
    assert bench.live(0.9, other) == {}
    assert isinstance(bench.live(0.8, other)[conn][0], gms.Excluded)


def test_a_resumed_node_gets_everything_and_keeps_its_place() -> None:
    """What it has may be old: the update is complete."""
    bench = Bench()
    conn = bench.welcome(gms.Subscribe(1, join=("a",)))
    bench.service.handle_disconnected(conn, bench.now)
    again = bench.connect()
    bench.say(again, hello(gms.Resume(bench.service.cluster, 1, SECRET)))
    [welcome, update] = bench.hear()[again]
    assert isinstance(welcome, gms.Welcome)
    assert welcome.resumed
    assert isinstance(update, gms.Update)
    assert update.alive == (1,)
    assert (update.regions[0].base, update.groups[0].base) == (0, 0)
    assert bench.run(2.9) == {}


def test_a_node_may_resume_before_its_old_connection_is_known_to_be_dead() -> None:
    """The node notices first if the network dropped the connection."""
    bench = Bench()
    old = bench.welcome()
    new = bench.connect()
    bench.say(new, hello(gms.Resume(bench.service.cluster, 1, SECRET)))
    assert kinds(bench.hear()[new]) == ["Welcome", "Update"]
    assert bench.closed == [old]
    bench.service.handle_disconnected(old, bench.now)
    assert bench.run(1.0) == {}


def test_greeting_again_on_the_same_connection_starts_over() -> None:
    """That is how a client asks for everything when an update did not fit."""
    bench = Bench()
    conn = bench.welcome(gms.Subscribe(1, join=("a",)))
    bench.say(conn, hello(gms.Resume(bench.service.cluster, 1, SECRET)))
    assert kinds(bench.hear()[conn]) == ["Welcome", "Update"]
    assert bench.closed == []


def test_requests_of_a_lost_connection_count_but_are_not_answered() -> None:
    """The client sends them again; two answers would confuse it."""
    bench = Bench()
    conn = bench.welcome()
    bench.say(conn, gms.Subscribe(5, join=("a",)))
    bench.service.handle_disconnected(conn, bench.now)
    again = bench.connect()
    bench.say(
        again, hello(gms.Resume(bench.service.cluster, 1, SECRET)), gms.Subscribe(5, join=("a",))
    )
    assert kinds(bench.run(0.02)[again]) == ["Welcome", "Update", "Update", "Subscribed"]


@pytest.mark.parametrize("resume", [(0, 1), (None, 99), (None, -1)])
def test_resuming_what_is_not_there_is_exclusion(resume: tuple[int | None, int]) -> None:
    """Another cluster, or a node that this one does not count in."""
    bench = Bench()
    bench.welcome()
    conn = bench.connect()
    cluster = bench.service.cluster if resume[0] is None else resume[0]
    bench.say(conn, hello(gms.Resume(cluster, resume[1], SECRET)))
    assert kinds(bench.hear()[conn]) == ["Excluded"]
    assert bench.closed == [conn]


def test_stored_nodes_have_a_grace_to_resume_after_a_restart() -> None:
    """Traffic goes on meanwhile; a restart is not a failure."""
    store = MemoryStore()
    first = Bench(store=store)
    first.welcome(gms.Subscribe(1, join=("a",)))
    first.welcome(gms.Subscribe(1, join=("a",)))
    bench = Bench(store=store)
    bench.run(2.0)
    conn = bench.connect()
    bench.say(conn, hello(gms.Resume(first.service.cluster, 1, SECRET)))
    bench.hear()
    [update] = bench.run(1.1)[conn]
    assert isinstance(update, gms.Update)
    assert update.nodes_failed == (2,)


# -- refusals


def test_another_protocol_version_is_told_who_should_upgrade() -> None:
    """One line that the user of an old node can act on."""
    bench = Bench()
    for version, who in ((0, "node"), (gms.PROTOCOL_VERSION + 1, "GMS")):
        conn = bench.connect()
        bench.say(conn, hello(version=version))
        [refused] = bench.hear()[conn]
        assert refused == gms.Refused(
            f"this GMS speaks version {gms.PROTOCOL_VERSION}, the node {version}: upgrade the {who}"
        )


BAD = {
    "no hello": [gms.Subscribe(1, join=("a",))],
    "heartbeat first": [gms.Heartbeat()],
    "hello twice": [hello(), hello()],
    "ip": [hello(ip="example.org")],
    "multicast ip": [hello(ip="239.1.1.1")],
    "port": [hello(port=0)],
    "name": [hello(name="a\nb")],
    "buffer": [hello(receive_buffer_bytes=-1)],
    "empty group": [hello(), gms.Subscribe(1, join=("",))],
    "unprintable group": [hello(), gms.Subscribe(1, open=("a\x00",))],
    "long group": [hello(), gms.Subscribe(1, join=("ä" * 128,))],
    "many groups": [hello(), gms.Subscribe(1, leave=tuple(f"g{n}" for n in range(11)))],
    "too many in all": [
        hello(),
        *(gms.Subscribe(n, join=tuple(f"{n}-{i}" for i in range(9))) for n in range(3)),
    ],
    "many stats": [hello(), gms.Heartbeat({str(n): n for n in range(129)})],
    "long stats": [hello(), gms.Heartbeat({"a": "b" * 4097})],
}


@pytest.mark.parametrize("requests", BAD.values(), ids=BAD.keys())
def test_a_bad_request_is_refused_with_a_reason_and_leaves_no_trace(
    requests: list[gms.Request],
) -> None:
    """A peer's mistake never costs the others anything."""
    bench = Bench(ServiceConfig(groups_per_request_max=10, groups_per_node_max=20))
    conn = bench.connect()
    bench.say(conn, *requests)
    [refused] = bench.run(0.1)[conn]
    assert isinstance(refused, gms.Refused)
    assert refused.reason
    assert bench.closed == [conn]
    bench.service.handle_disconnected(conn, bench.now)
    bench.run(5.0)
    assert bench.service.counters.refused == 1
    image = bench.store.load()
    assert image is not None
    assert image.nodes == {}
    assert image.groups == {}


@pytest.mark.parametrize("limit", ["nodes_max", "connections_max", "groups_max"])
def test_limits_of_the_cluster_hold(limit: str) -> None:
    """What is beyond them is refused, what is within them is served."""
    bench = Bench(replace(ServiceConfig(), **{limit: 2}))
    first = bench.welcome(gms.Subscribe(1, join=("a",)))
    second = bench.welcome(gms.Subscribe(1, join=("b",)))
    third = bench.connect()
    bench.say(third, hello(), gms.Subscribe(1, join=("c",)))
    assert kinds(bench.run(0.1)[third])[-1] == "Refused"
    bench.say(first, gms.Subscribe(2, join=("b",)))
    bench.say(second, gms.Subscribe(2, join=("a",)))
    assert {kinds(replies)[-1] for replies in bench.run(0.1).values()} == {"Subscribed"}


def test_a_connection_that_says_nothing_is_closed() -> None:
    """Idle sockets would use up the limit."""
    bench = Bench()
    conn = bench.connect()
    bench.run(4.9)
    assert bench.closed == []
    bench.run(0.2)
    assert bench.closed == [conn]


def test_a_node_that_does_not_read_is_excluded() -> None:
    """Output is bounded: one stuck node must not eat the GMS's memory."""
    bench = Bench(ServiceConfig(output_bytes_max=2_000))
    stuck = bench.welcome(gms.Subscribe(1, join=("a",)))
    other = bench.welcome(gms.Subscribe(1, join=("a",)))
    bench.run(0.02)
    bench.service.handle_blocked(stuck, bench.now)
    for n in range(40):
        bench.say(stuck, gms.Heartbeat())
        bench.say(other, gms.Subscribe(n, join=(f"g{n}",)), gms.Subscribe(n, join=("a",)))
        heard = bench.run(0.02)
        bench.say(other, gms.Subscribe(n, leave=("a",)))
        if stuck in heard:
            break
    assert heard[stuck] == [gms.Excluded("the node does not read what the GMS sends")]
    assert bench.closed == [stuck]
    update = bench.run(0.02)[other][0]
    assert isinstance(update, gms.Update)
    assert update.nodes_failed == (1,)


def test_a_blocked_connection_does_not_hold_up_the_others_and_misses_nothing() -> None:
    """Its frames wait in the service, in order."""
    bench = Bench()
    slow = bench.welcome(gms.Subscribe(1, join=("a",)))
    bench.service.handle_blocked(slow, bench.now)
    other = bench.welcome(gms.Subscribe(1, join=("a",)))
    bench.say(other, gms.Subscribe(2, leave=("a",)))
    assert slow not in bench.run(0.02)
    bench.service.handle_unblocked(slow, bench.now)
    first, second = bench.hear()[slow]
    assert isinstance(first, gms.Update)
    assert isinstance(second, gms.Update)
    assert first.batch < second.batch


# -- tools


def test_a_tool_looks_without_a_hello() -> None:
    """Heartbeat numbers, silence and the plan, in one snapshot."""
    bench = Bench()
    conn = bench.welcome(gms.Subscribe(1, join=("a", "b")))
    bench.say(conn, gms.Heartbeat({"sent": 3}))
    bench.run(0.25)
    tool = bench.connect()
    bench.say(tool, gms.Inspect(9))
    [snapshot] = bench.hear()[tool]
    assert isinstance(snapshot, gms.Snapshot)
    assert (snapshot.request, snapshot.groups, snapshot.planner) == (9, 2, "exact")
    [node] = snapshot.nodes
    assert (node.id, node.connected, node.groups, node.stats) == (1, True, 2, {"sent": 3})
    assert node.silence_s == pytest.approx(0.25)
    assert [(r.members, r.groups, r.view) for r in snapshot.regions] == [(1, 2, 1)]
    bench.say(tool, gms.Inspect(10, version=9))
    assert kinds(bench.hear()[tool]) == ["Refused"]


def test_what_the_plan_costs_is_added_up_anew_only_when_it_changed_and_not_too_often() -> None:
    """Adding it up may take long, and tools ask every second."""
    bench = Bench()
    conn = bench.welcome(gms.Subscribe(1, join=("a",)))
    tool = bench.connect()
    for n in range(3):
        bench.say(tool, gms.Inspect(n))
    assert bench.planner.costs == 1
    bench.say(conn, gms.Subscribe(2, join=("b",)))
    bench.run(0.1)
    bench.say(tool, gms.Inspect(4))
    assert bench.planner.costs == 1
    bench.say(conn, gms.Heartbeat())
    bench.run(2.5)
    bench.say(conn, gms.Heartbeat())
    bench.run(2.5)
    bench.say(tool, gms.Inspect(5))
    assert bench.planner.costs == 2


def test_a_tool_that_stopped_asking_is_closed() -> None:
    """It may come back."""
    bench = Bench()
    tool = bench.connect()
    bench.say(tool, gms.Inspect(1))
    bench.run(59.0)
    assert bench.closed == []
    bench.run(2.0)
    assert bench.closed == [tool]
