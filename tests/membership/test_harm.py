"""What strangers and nodes gone wrong can cost a GMS is bounded, whatever they send."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from dataclasses import replace

import pytest

from quicksilver.membership import budgets
from quicksilver.membership.config import ServiceConfig
from quicksilver.membership.store import MemoryStore
from quicksilver.wire import gms
from tests.membership.bench import SECRET, Bench, hello, kinds

HERE = frozenset({"10.0.0.1"})


# -- strangers


def test_a_stranger_may_send_small_frames_only() -> None:
    """400 connections that announced 4 MiB each took 1.7 GB."""
    bench = Bench()
    conn = bench.connect()
    assert bench.service.frame_bytes_max(conn) == gms.GREETING_BYTES_MAX == 4096
    bench.say(conn, hello())
    assert bench.service.frame_bytes_max(conn) == gms.REQUEST_BYTES_MAX
    other = bench.connect()
    bench.say(other, gms.Subscribe(1, join=tuple("x" * 200 for _ in range(30))))
    assert kinds(bench.hear()[other]) == ["Refused"]
    assert bench.service.frame_bytes_max(other) == gms.GREETING_BYTES_MAX


def test_the_longest_hello_fits() -> None:
    """The limit for strangers must not keep out nodes."""
    resume = gms.Resume((1 << 63) - 1, (1 << 63) - 1, SECRET)
    long = hello(resume, name="\U0001f600" * 63, ip="255.255.255.255")
    assert len(gms.encode(long)) < 1000


def test_of_many_connections_that_say_nothing_the_oldest_goes() -> None:
    """Whoever means it greets at once, and is let in however many wait."""
    bench = Bench(ServiceConfig(greeting_connections_max=4))
    strangers = [bench.connect() for _ in range(10)]
    node = bench.welcome()
    assert bench.closed == strangers[:7]
    assert bench.service.counters.crowded == 7
    bench.live(1.0, node)
    assert node not in bench.closed


# -- who may be whom


@pytest.mark.parametrize("secret", [b"", b"0" * 16, SECRET[:-1], SECRET + b"0"])
def test_nobody_resumes_as_a_node_without_its_secret(secret: bytes) -> None:
    """Cluster and node numbers are in every packet: anybody could take a node's place."""
    bench = Bench()
    node = bench.welcome(gms.Subscribe(1, join=("a",)))
    impostor = bench.connect()
    bench.say(impostor, hello(gms.Resume(bench.service.cluster, 1, secret, 0)))
    assert bench.hear()[impostor] == [gms.Excluded("the node was counted as failed")]
    assert bench.closed == [impostor]
    assert bench.service.counters.impostors == 1
    assert bench.live(5.0, node) == {}


def test_a_secret_survives_a_restart_of_the_gms() -> None:
    """Nodes resume then."""
    store = MemoryStore()
    Bench(store=store).welcome()
    bench = Bench(store=store)
    for secret, answer in ((b"0" * 16, "Excluded"), (SECRET, "Welcome")):
        conn = bench.connect()
        bench.say(conn, hello(gms.Resume(bench.service.cluster, 1, secret)))
        assert kinds(bench.hear()[conn])[0] == answer


def test_a_welcome_carries_a_secret_of_its_own() -> None:
    """Each node has another."""
    bench = Bench()
    numbers = iter(range(9))
    bench.service._make_secret = lambda: next(numbers).to_bytes(16, "little")
    conns = [bench.connect(), bench.connect()]
    for conn in conns:
        bench.say(conn, hello())
    heard = bench.run(0.1)
    assert [heard[conn][0].secret[0] for conn in conns] == [0, 1]


@pytest.mark.parametrize(
    ("announced", "known", "is_let_in"),
    [
        ("10.0.0.1", {"10.0.0.1"}, True),
        ("10.0.0.2", {"10.0.0.1"}, False),
        ("127.0.0.1", {"10.0.0.1"}, False),
        # A node on the GMS's own machine has all addresses of that machine.
        ("10.0.0.9", {"127.0.0.1", "10.0.0.9"}, True),
        ("127.0.0.1", {"127.0.0.1", "10.0.0.9"}, True),
        ("127.0.0.77", {"127.0.0.1", "10.0.0.9"}, True),
        ("10.0.0.8", {"127.0.0.1", "10.0.0.9"}, False),
    ],
)
def test_a_node_announces_an_address_that_it_has(
    announced: str, known: set[str], is_let_in: bool
) -> None:
    """Else a stranger could point a cluster's traffic at somebody else."""
    bench = Bench()
    conn = bench.connect(frozenset(known))
    bench.say(conn, hello(ip=announced))
    [answer, *_] = bench.run(0.1)[conn]
    assert isinstance(answer, gms.Welcome) == is_let_in
    if not is_let_in:
        assert isinstance(answer, gms.Refused)
        assert "--any-address" in answer.reason


def test_an_option_lets_nodes_announce_any_address() -> None:
    """Behind address translation, or with a network of its own for data."""
    bench = Bench(ServiceConfig(any_address=True))
    conn = bench.connect()
    bench.say(conn, hello(ip="192.168.7.7"))
    assert kinds(bench.run(0.1)[conn])[0] == "Welcome"


def test_a_node_whose_address_changed_begins_anew() -> None:
    """Others know it by its address: its old incarnation ends at once."""
    bench = Bench()
    other = bench.welcome(gms.Subscribe(1, join=("a",)))
    conn = bench.welcome(gms.Subscribe(1, join=("a",)))
    again = bench.connect(frozenset({"10.0.0.2"}))
    resume = gms.Resume(bench.service.cluster, 2, SECRET)
    bench.say(again, hello(resume, ip="10.0.0.2"))
    heard = bench.run(0.1)
    assert heard[again] == [gms.Excluded("the node's address changed")]
    assert heard[other][0].nodes_failed == (2,)
    assert set(bench.closed) == {conn, again}


# -- readers who do not read


def test_a_tool_that_does_not_read_gets_one_snapshot() -> None:
    """320 kB of requests made the GMS hold 1.9 GB."""
    bench = Bench()
    bench.welcome()
    tool = bench.connect()
    bench.say(tool, gms.Inspect(0))
    assert kinds(bench.hear()[tool]) == ["Snapshot"]
    bench.service.handle_blocked(tool, bench.now)
    for n in range(1000):
        bench.say(tool, gms.Inspect(n))
    assert bench.service.counters.inspects_dropped == 1000
    connection = bench.service._connections.get(tool)
    assert connection is not None
    assert not connection.frames
    bench.service.handle_unblocked(tool, bench.now)
    bench.say(tool, gms.Inspect(7))
    [snapshot] = bench.hear()[tool]
    assert snapshot.request == 7


def test_snapshots_are_limited_in_rate_and_tools_wait_for_their_turn() -> None:
    """Each costs as much as the cluster is large."""
    bench = Bench(ServiceConfig(inspect_rows_per_s=100))
    bench.welcome()
    tools = [bench.connect() for _ in range(20)]
    for tool in tools:
        bench.say(tool, gms.Inspect(1), gms.Inspect(2))
    first = bench.hear()
    assert 3 <= len(first) <= 6
    later = bench.run(5.0)
    assert set(first) | set(later) == set(tools)
    assert len(later) >= 14
    assert bench.service.counters.inspects <= len(tools) + 6


def test_too_many_tools_are_asked_to_come_back() -> None:
    """Nodes need the connections."""
    bench = Bench(ServiceConfig(inspecting_connections_max=3))
    tools = [bench.connect() for _ in range(4)]
    for tool in tools:
        bench.say(tool, gms.Inspect(1))
    heard = bench.run(0.5)
    assert [kinds(heard[tool])[0] for tool in tools] == ["Snapshot"] * 3 + ["Refused"]


def test_output_over_all_connections_is_a_budget() -> None:
    """Past it, whoever is furthest behind goes, and at once."""
    bench = Bench(ServiceConfig(output_bytes_total_max=6_000))
    nodes = [bench.welcome(gms.Subscribe(1, join=("a",))) for _ in range(4)]
    writer = bench.welcome()
    for conn in nodes:
        bench.service.handle_blocked(conn, bench.now)
    for n in range(60):
        for conn in nodes:
            bench.say(conn, gms.Heartbeat())
        bench.say(writer, gms.Subscribe(n, join=("a",)))
        bench.run(0.03)
        bench.say(writer, gms.Subscribe(n, leave=("a",)))
        bench.run(0.03)
        assert bench.service._connections.blocked_bytes <= 6_000
    assert bench.service.counters.slow >= 1
    assert writer not in bench.closed


def test_requests_that_wait_for_a_batch_are_a_budget() -> None:
    """The node resumes and asks again; nothing it asked for is lost."""
    bench = Bench(ServiceConfig(request_bytes_max=8_000))
    greedy, modest = bench.welcome(), bench.welcome()
    names = tuple(f"group {n:040d}" for n in range(100))
    bench.say(modest, gms.Subscribe(1, join=("a",)))
    bench.say(greedy, gms.Subscribe(1, join=names), gms.Subscribe(2, leave=names))
    assert kinds(bench.run(0.1)[modest])[-1] == "Subscribed"
    assert bench.closed == [greedy]
    again = bench.connect()
    bench.say(again, hello(gms.Resume(bench.service.cluster, 1, SECRET)))
    bench.say(again, gms.Subscribe(1, join=names))
    assert kinds(bench.run(0.1)[again])[-1] == "Subscribed"


# -- groups


@pytest.mark.parametrize("limit", ["group_bytes_per_node_max", "group_bytes_max"])
def test_groups_have_a_budget_in_bytes(limit: str) -> None:
    """100,000 groups with long names took 963 MB: counting them is not enough."""
    bench = Bench(replace(ServiceConfig(), **{limit: 12_000}))
    conn = bench.welcome(gms.Subscribe(1, join=tuple(f"{n}" * 200 for n in range(4))))
    bench.say(conn, gms.Subscribe(2, join=("x",)))
    [refused] = bench.run(0.1)[conn]
    assert isinstance(refused, gms.Refused)
    assert limit in refused.reason


def test_groups_that_are_left_give_their_bytes_back() -> None:
    """The budget is for what exists."""
    bench = Bench(ServiceConfig(group_bytes_max=12_000))
    conn = bench.welcome()
    for round_ in range(5):
        names = tuple(f"{round_}-{n}" for n in range(5))
        bench.say(conn, gms.Subscribe(1, join=names))
        assert kinds(bench.run(0.1)[conn])[-1] == "Subscribed"
        bench.say(conn, gms.Subscribe(2, leave=names))
        bench.run(0.1)
    assert bench.service._tables.group_bytes == 0


def test_memberships_are_counted_over_all_nodes() -> None:
    """Many nodes in many groups: neither number alone says what they take."""
    bench = Bench(ServiceConfig(memberships_max=10))
    names = tuple("abcd")
    first, second, third = (bench.welcome() for _ in range(3))
    bench.say(first, gms.Subscribe(1, join=names))
    bench.say(second, gms.Subscribe(1, join=names))
    bench.run(0.1)
    bench.say(third, gms.Subscribe(1, join=names))
    [refused] = bench.run(0.1)[third]
    assert "memberships_max" in refused.reason
    bench.say(first, gms.Subscribe(2, leave=names))
    bench.run(0.1)
    bench.say(second, gms.Subscribe(2, open=names))
    assert kinds(bench.run(0.1)[second])[-1] == "Subscribed"


# -- the sum


SMALL = ServiceConfig(
    connections_max=120,
    nodes_max=50,
    greeting_connections_max=20,
    inspecting_connections_max=20,
    request_bytes_max=200_000,
    input_bytes_max=100_000,
    output_bytes_max=300_000,
    output_bytes_total_max=1_000_000,
    groups_max=1000,
    group_bytes_max=2_000_000,
    memberships_max=10_000,
)


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.usefixtures("traced")
def test_every_byte_belongs_to_a_budget() -> None:
    """Fill all of them at once: what the process holds is less than their sum."""
    before = tracemalloc.get_traced_memory()[0]
    bench = Bench(SMALL)
    nodes = []
    for _ in range(60):
        conn = bench.connect()
        bench.say(conn, hello(name="n" * 255))
        nodes.append(conn)
        bench.say(conn, gms.Heartbeat({f"{key:031d}": key for key in range(64)}))
        bench.run(0.03)
    nodes = nodes[:50]
    for n, conn in enumerate(nodes):
        bench.say(conn, gms.Subscribe(1, join=tuple(f"{n:03d}-{k:0200d}" for k in range(16))))
        bench.run(0.03)
    for conn in nodes[:25]:
        bench.service.handle_blocked(conn, bench.now)
    for _ in range(20):
        tool = bench.connect()
        bench.say(tool, gms.Inspect(1))
        bench.service.handle_blocked(tool, bench.now)
    for _ in range(100):
        bench.connect()
    shared = tuple(f"s{k}" for k in range(100))
    for round_ in range(12):
        for conn in nodes:
            bench.say(conn, gms.Subscribe(2, join=shared if round_ % 2 else (), leave=shared))
        bench.run(0.03)
    for conn in nodes[25:]:
        bench.say(conn, *[gms.Subscribe(3, leave=("y" * 200,) * 400)] * 4)
    held = tracemalloc.get_traced_memory()[0] - before
    bounds = budgets.bounds(SMALL, update_bytes=200_000)
    assert held < sum(bounds.values()), bounds
    # A bound that is never approached says nothing.
    assert held > sum(bounds.values()) / 20
