"""Objects started, moved and stopped on other nodes, within limits (2.1.6, Figure 2.5)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.live.codec import BadMessageError
from quicksilver.live.components.library import equip
from quicksilver.live.components.platform import hosting_state as hosting
from quicksilver.live.components.platform.hosting import Host, HostingNews, HostingRequests
from quicksilver.live.references.builder import external, library, primitive
from quicksilver.live.runtime.allowance import Limits
from quicksilver.live.runtime.components import component
from quicksilver.live.runtime.context import Context
from quicksilver.live.runtime.executors import ThreadExecutor
from quicksilver.live.runtime.remote.joining import join
from quicksilver.live.runtime.runtime import Runtime
from quicksilver.live.services.groups import Groups
from quicksilver.live.services.local import LocalGroups, LocalNetwork
from quicksilver.live.types.declare import endpoint, live_object
from tests.live.runtime.worlds import Echo, Holder, Log, Numbers, log

__all__ = ["log"]

PLATFORM = primitive(
    "quicksilver.platform",
    channel=primitive("quicksilver.checkpointed-channel", group="platform"),
)
LIMITS = Limits(identifiers=("test.*",), components_max=3, depth_max=2)


@component("test.wanderer")
@live_object
class Wanderer:
    """moves itself to another host as soon as there is one, and starts a companion there"""

    context: Context
    hosting = endpoint(HostingNews, HostingRequests)

    def __init__(self) -> None:
        self._name = self.context.name.rpartition(".")[2]

    def hosting_hosts(self, names: list[str]) -> None:
        Log.lines.append(f"wanderer sees {','.join(sorted(names))}")

    def hosting_placed(self, name: str, hosts: list[str]) -> None:
        if name == self._name and hosts == ["a"]:
            self.hosting.start("companion", primitive("test.echo"), ["b"])
            self.hosting.stop("bystander")
            self.hosting.forget("a")
            self.hosting.move(self._name, ["b"])

    def hosting_reported(self, name: str, host: str, what: str, detail: str) -> None: ...

    def hosting_reached(self, name: str, host: str, endpoint: str, address: str) -> None: ...

    def hosting_refused(self, name: str, reason: str) -> None:
        Log.lines.append(f"{name}: {reason}")


@component("test.caller")
@live_object
class Caller:
    """keeps the numbers it hears"""

    numbers = endpoint(Numbers, Numbers)

    def __init__(self) -> None:
        self.heard: list[int] = []

    def numbers_value(self, number: int) -> None:
        self.heard.append(number)


class Node:
    """A host in this process, and what its platform told."""

    def __init__(self, name: str, network: LocalNetwork, host: Host | None = None) -> None:
        self.executor = ThreadExecutor(name)
        self.runtime = Runtime(self.executor)
        equip(self.runtime)
        self.runtime.add_components((Echo, Holder, Wanderer, Caller))
        self.runtime.provide(Groups, LocalGroups(network, self.executor))
        self.runtime.provide(Host, host or Host(name=name, limits=LIMITS))
        self.news: list[tuple[Any, ...]] = []
        self.proxy = self.executor.call(lambda: self.runtime.open(PLATFORM, name))
        self._port = self.executor.call(
            lambda: self.runtime.attach(
                self.proxy.endpoint("Hosting"), lambda *news: self.news.append(news)
            )
        ).port

    def ask(self, event: str, *values: Any) -> None:
        self.executor.call(lambda: getattr(self._port, event)(*values))

    @property
    def guests(self) -> list[str]:
        """Names of the guests' components that run here."""
        known = ("channel", "application")
        names = [cell.name.partition(".")[2] for cell in list(self.runtime.cells)]
        return sorted(
            name
            for name in names
            if name and not name.startswith(known) and not name.endswith(".host")
        )

    def close(self) -> None:
        self.executor.call(self.runtime.close)
        self.executor.close()


class Hosts:
    """Nodes of one platform."""

    def __init__(self) -> None:
        self.network = LocalNetwork()
        self.nodes: dict[str, Node] = {}

    def add(self, name: str, host: Host | None = None) -> Node:
        node = self.nodes[name] = Node(name, self.network, host)
        self.wait(lambda: all(name in one.hosts for one in map(Known, self.nodes.values())))
        return node

    def wait(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + 30
        while not condition():
            if time.monotonic() > end:
                news = {name: node.news[-5:] for name, node in self.nodes.items()}
                guests = {name: node.guests for name, node in self.nodes.items()}
                raise AssertionError(f"never: {news}, {guests}")
            time.sleep(0.005)


class Known:
    """What a node's platform said last about hosts."""

    def __init__(self, node: Node) -> None:
        said = [one for one in list(node.news) if one[0] == "hosts"]
        self.hosts: list[str] = said[-1][1] if said else []


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    made = Hosts()
    yield made
    for node in made.nodes.values():
        node.close()


def test_an_object_is_started_moved_and_stopped_elsewhere(hosts: Hosts) -> None:
    a, b = hosts.add("a"), hosts.add("b")
    a.ask("start", "echo", primitive("test.echo"), ["b"])
    hosts.wait(lambda: ("reported", "echo", "b", "started", "") in a.news)
    assert (a.guests, b.guests) == ([], ["echo"])
    b.ask("move", "echo", ["a"])
    hosts.wait(lambda: ("reported", "echo", "b", "stopped", "") in a.news and a.guests == ["echo"])
    assert b.guests == []
    a.ask("move", "echo", ["a", "b"])
    hosts.wait(lambda: (a.guests, b.guests) == (["echo"], ["echo"]))
    a.ask("stop", "echo")
    hosts.wait(lambda: (a.guests, b.guests) == ([], []))
    assert ("placed", "echo", []) in b.news


def test_a_newcomer_learns_what_there_is_and_takes_its_part(hosts: Hosts) -> None:
    a = hosts.add("a")
    a.ask("start", "echo", primitive("test.echo"), ["a"])
    hosts.wait(lambda: a.guests == ["echo"])
    c = hosts.add("c")
    hosts.wait(lambda: ("placed", "echo", ["a"]) in c.news)
    c.ask("move", "echo", ["c"])
    hosts.wait(lambda: (a.guests, c.guests) == ([], ["echo"]))


def test_a_guest_wanders_and_can_touch_only_its_own(hosts: Hosts, log: list[str]) -> None:
    a, b = hosts.add("a"), hosts.add("b")
    a.ask("start", "bystander", primitive("test.echo"), ["a"])
    hosts.wait(lambda: a.guests == ["bystander"])
    a.ask("start", "wanderer", primitive("test.wanderer"), ["a"])
    hosts.wait(lambda: b.guests == ["companion", "wanderer"])
    hosts.wait(lambda: a.guests == ["bystander"])
    assert "wanderer sees a,b" in log
    assert "bystander: a guest moves and stops itself and what it started" in log
    assert "a: a guest cannot ask for forget" in log


def test_limits_hold_for_guests_and_all_they_open(hosts: Hosts) -> None:
    a = hosts.add("a")
    inner = primitive("test.echo")
    for _ in range(3):
        inner = primitive("test.holder", Inner=inner)
    cases = {
        "text": (primitive("quicksilver.group-channel", group="g"), "it may start test.*"),
        "code": (
            external("C", "Channel", library("file:///c.py", "ab" * 32)),
            "it may not load libraries",
        ),
        "deep": (inner, "it may open 2 components inside each other"),
    }
    for name, (reference, problem) in cases.items():
        a.ask("start", name, reference, ["a"])
        hosts.wait(
            lambda name=name, problem=problem: any(  # type: ignore[misc]
                one[:4] == ("reported", name, "a", "failed") and problem in one[4]
                for one in list(a.news)
                if one[0] == "reported"
            )
        )
    assert a.guests == []


def test_a_host_takes_so_many_guests(hosts: Hosts) -> None:
    a = hosts.add("a", Host(name="a", limits=LIMITS, guests_max=2))
    for name in ("one", "two", "three"):
        a.ask("start", name, primitive("test.echo"), ["a"])
    failed = ("reported", "three", "a", "failed", "this host takes 2 guests")
    hosts.wait(lambda: failed in a.news)
    assert a.guests == ["one", "two"]


def test_requests_that_make_no_sense_are_refused(hosts: Hosts) -> None:
    a = hosts.add("a")
    a.ask("start", "x", primitive("test.echo"), ["nowhere"])
    a.ask("move", "nothing", ["a"])
    a.ask("stop", "nothing")
    a.ask("start", "", primitive("test.echo"), ["a"])
    a.ask("start", "y", "no reference", ["a"])
    a.ask("reach", "nothing", "a", "numbers")
    refused = [one[2] for one in a.news if one[0] == "refused"]
    assert [one[:20] for one in refused] == [
        "there is no host 'no",
        "there is no object '",
        "there is no object '",
        "a name has 1 to 200 ",
        "that is no reference",
        "it does not run on '",
    ]


def test_a_hosted_object_is_reached_through_its_published_endpoint(hosts: Hosts) -> None:
    a, b = hosts.add("a"), hosts.add("b")
    a.ask("start", "echo", primitive("test.echo"), ["b"])
    hosts.wait(lambda: b.guests == ["echo"])
    hosts.wait(lambda: ("reported", "echo", "b", "started", "") in a.news)
    a.ask("reach", "echo", "b", "nonsense")
    a.ask("reach", "echo", "b", "numbers")
    hosts.wait(lambda: a.news[-1][0] == "reached")
    assert any("no endpoint 'nonsense'" in one[2] for one in a.news if one[0] == "refused")
    assert not [one for one in b.news if one[0] == "reached"]
    address = a.news[-1][4]
    caller = a.executor.call(lambda: a.runtime.open(primitive("test.caller")))
    instance: Caller = caller.cells[0].instance
    a.executor.call(lambda: join(a.runtime, caller.endpoint("numbers"), address))
    a.executor.call(lambda: instance.numbers.value(7))
    hosts.wait(lambda: instance.heard == [7])
    a.ask("stop", "echo")
    hosts.wait(lambda: not caller.endpoint("numbers").is_connected)


def test_a_guest_that_fails_is_told_of(hosts: Hosts) -> None:
    a = hosts.add("a")
    a.ask("start", "echo", primitive("test.echo"), ["a"])
    hosts.wait(lambda: a.guests == ["echo"])
    cell = next(cell for cell in a.runtime.cells if cell.name.endswith(".echo"))
    a.executor.call(lambda: cell.fail("a test", ValueError("oh")))
    hosts.wait(lambda: a.news[-1][:4] == ("reported", "echo", "a", "failed"))
    assert "ValueError: oh" in a.news[-1][4]


class TestState:
    def test_generations_are_counted_and_bounded(self) -> None:
        state = hosting.State([], {})
        assert hosting.apply(state, hosting.Joined("a")) == ""
        parent = ""
        for number in range(hosting.GENERATIONS_MAX + 1):
            command = hosting.Start(f"o{number}", "<x/>", ("a",), parent)
            assert hosting.apply(state, command) == ""
            parent = f"o{number}"
        assert "had each other started" in hosting.apply(
            state, hosting.Start("last", "<x/>", (), parent)
        )

    @given(st.binary(max_size=60))
    def test_bytes_that_are_no_command(self, data: bytes) -> None:
        with suppress(BadMessageError):
            hosting.apply(hosting.State([], {}), hosting.COMMANDS.decode(data))
        with suppress(BadMessageError):
            hosting.STATES.decode(data)

    @given(
        st.lists(
            st.one_of(
                st.builds(hosting.Joined, st.sampled_from("ab")),
                st.builds(hosting.Left, st.sampled_from("ab")),
                st.builds(
                    hosting.Start,
                    st.sampled_from("xyz"),
                    st.just("<x/>"),
                    st.lists(st.sampled_from("ab")).map(tuple),
                    st.sampled_from(["", "x", "y"]),
                ),
                st.builds(
                    hosting.Move, st.sampled_from("xyz"), st.lists(st.sampled_from("ab")).map(tuple)
                ),
                st.builds(hosting.Stop, st.sampled_from("xyz")),
            ),
            max_size=20,
        )
    )
    def test_the_state_is_the_same_for_a_newcomer(self, commands: list[hosting.Command]) -> None:
        """What is refused changes nothing; bytes and back change nothing either."""
        state = hosting.State([], {})
        for command in commands:
            before = hosting.STATES.encode(state)
            again = hosting.COMMANDS.decode(hosting.COMMANDS.encode(command))
            assert again == command
            if hosting.apply(state, command):
                assert hosting.STATES.encode(state) == before
            copy = hosting.STATES.decode(hosting.STATES.encode(state))
            assert copy == state
