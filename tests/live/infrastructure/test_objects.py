"""Dictionaries, locks, presence, folders, timers: objects over a checkpointed channel."""

from __future__ import annotations

from typing import Any

from quicksilver.live.components.library import equip
from quicksilver.live.references.builder import external, primitive
from quicksilver.live.references.model import Reference
from quicksilver.live.runtime.executors import ThreadExecutor
from quicksilver.live.runtime.runtime import Runtime
from quicksilver.live.services.groups import Groups
from quicksilver.live.services.local import LocalGroups, LocalNetwork
from quicksilver.trials.node import SimNode
from tests.live.infrastructure.kit import Stage, checkpointed


class Ends:
    """Open objects on simulated nodes, and all that they say."""

    def __init__(self, stage: Stage, reference: Reference, endpoint: str) -> None:
        self.stage = stage
        self.reference = reference
        self.endpoint = endpoint
        self.ports: dict[SimNode, Any] = {}
        self.said: dict[SimNode, list[tuple[Any, ...]]] = {}
        self.proxies: dict[SimNode, Any] = {}

    def open(self, *nodes: SimNode) -> None:
        """Open the object on nodes and attach to it."""
        for node in nodes:
            self._open(node)
        assert self.stage.cluster.run(10, lambda: all(node in self.ports for node in nodes))

    def _open(self, node: SimNode) -> None:
        runtime = self.stage.runtimes[node]
        said = self.said[node] = []

        def take(*event: Any, **named: Any) -> None:
            said.append((*event, *named.values()))

        def opened(done: Any) -> None:
            proxy = self.proxies[node] = done.result()
            self.ports[node] = runtime.attach(proxy.endpoint(self.endpoint), take).port

        node.host.submit(lambda: runtime.open(self.reference, "it").when_done(opened))

    def ask(self, node: SimNode, event: str, *values: Any) -> None:
        """Have a node's user send something into its object."""
        node.host.submit(lambda: getattr(self.ports[node], event)(*values))

    def run(self, seconds: float = 2.0) -> None:
        """Let time pass."""
        self.stage.cluster.run(seconds)
        assert not self.stage.failures()

    def last(self, node: SimNode, event: str) -> tuple[Any, ...] | None:
        """Return what an object last said of a kind."""
        return next((one[1:] for one in reversed(self.said[node]) if one[0] == event), None)


class TestDictionary:
    def test_all_replicas_have_the_same_entries(self) -> None:
        stage = Stage(seed=21)
        a, b = stage.start(2)
        ends = Ends(
            stage, primitive("quicksilver.dictionary", channel=checkpointed()), "Dictionary"
        )
        ends.open(a, b)
        for i in range(20):
            ends.ask(a, "put", f"k{i % 5}", b"a%d" % i)
            ends.ask(b, "put", f"k{i % 5}", b"b%d" % i)
        ends.run()
        ends.ask(a, "remove", "k3")
        ends.run()
        changes = [[one for one in ends.said[node] if one[0] == "changed"] for node in (a, b)]
        assert changes[0] == changes[1]
        assert len(changes[0]) == 40
        (c,) = stage.start(1)
        ends.open(c)
        ends.run()
        final = {key: value for _, key, value in changes[0] if key != "k3"}
        assert ends.last(c, "snapshot") == (final,)


class TestLock:
    def open(self, seed: int) -> tuple[Stage, Ends, list[SimNode]]:
        stage = Stage(seed=seed)
        nodes = stage.start(3)
        ends = Ends(stage, primitive("quicksilver.lock", channel=checkpointed()), "Lock")
        ends.open(*nodes)
        ends.run()
        return stage, ends, nodes

    @staticmethod
    def holders(ends: Ends, nodes: list[SimNode]) -> list[int]:
        """Return who believes to hold the lock."""
        found = []
        for node in nodes:
            mine = [one[0] for one in ends.said[node] if one[0] in {"granted", "lost"}]
            if mine and mine[-1] == "granted" and not node.is_dead:
                found.append(node.index)
        return found

    def test_one_holds_it_at_a_time_in_the_order_they_asked(self) -> None:
        _, ends, nodes = self.open(22)
        for node in nodes:
            ends.ask(node, "acquire")
            ends.run(0.5)
        assert self.holders(ends, nodes) == [0]
        assert ends.last(nodes[2], "held") == ("1.1", 2)
        ends.ask(nodes[0], "release")
        ends.run()
        assert ("granted",) in ends.said[nodes[1]]
        assert ("granted",) not in ends.said[nodes[2]]

    def test_a_crash_of_the_holder_releases_it(self) -> None:
        _, ends, nodes = self.open(23)
        for node in nodes:
            ends.ask(node, "acquire")
            ends.run(0.5)
        nodes[0].crash()
        ends.run(10)
        assert self.holders(ends, nodes) == [1]
        assert ends.last(nodes[2], "held") == ("2.1", 1)

    def test_closing_the_proxy_releases_it_at_once(self) -> None:
        _, ends, nodes = self.open(24)
        for node in nodes[:2]:
            ends.ask(node, "acquire")
            ends.run(0.5)
        nodes[0].host.submit(ends.proxies[nodes[0]].close)
        ends.run(1)
        assert ("granted",) in ends.said[nodes[1]]

    def test_who_was_counted_out_is_told_that_it_lost_it(self) -> None:
        _, ends, nodes = self.open(25)
        ends.ask(nodes[1], "acquire")
        ends.run(0.5)
        ends.ask(nodes[2], "acquire")
        ends.run(0.5)
        nodes[1].freeze(8.0)
        ends.run(7)
        assert ("granted",) in ends.said[nodes[2]]
        ends.run(10)
        kinds = [one[0] for one in ends.said[nodes[1]] if one[0] in {"granted", "lost"}]
        assert kinds == ["granted", "lost"]
        ends.ask(nodes[2], "release")
        ends.run(2)
        kinds = [one[0] for one in ends.said[nodes[1]] if one[0] in {"granted", "lost"}]
        assert kinds == ["granted", "lost", "granted"], "it still waits, and gets it again"


class TestPresence:
    def test_people_come_change_and_go(self) -> None:
        stage = Stage(seed=26)
        nodes = stage.start(3)
        ends = Ends(stage, primitive("quicksilver.presence", channel=checkpointed()), "Presence")
        ends.open(*nodes)
        for node, name in zip(nodes, ("Ann", "Bob", "Cem"), strict=True):
            ends.ask(node, "announce", name, "here")
        ends.run()
        ends.ask(nodes[1], "announce", "Bob", "away")
        ends.run()
        for node in nodes:
            assert self.seen(ends, node) == {"Ann": "here", "Bob": "away", "Cem": "here"}
        nodes[2].crash()
        ends.run(8)
        assert self.seen(ends, nodes[0]) == {"Ann": "here", "Bob": "away"}
        nodes[1].freeze(8.0)
        ends.run(20)
        for node in nodes[:2]:
            assert self.seen(ends, node) == {"Ann": "here", "Bob": "away"}, "it is back by itself"

    @staticmethod
    def seen(ends: Ends, node: SimNode) -> dict[str, str]:
        last = ends.last(node, "present")
        assert last is not None
        return {one["name"]: one["status"] for one in last[0]}


class TestFolder:
    def test_what_one_puts_another_opens(self) -> None:
        """An external reference through a shared folder, on another node."""
        stage = Stage(seed=27)
        a, b = stage.start(2)
        folder = primitive("quicksilver.folder", channel=checkpointed("shared folder"))
        ends = Ends(stage, folder, "editing")
        ends.open(a, b)
        ends.ask(a, "put", "names", primitive("quicksilver.dictionary", channel=checkpointed()))
        ends.ask(a, "put", "clock", primitive("quicksilver.timer", interval_s=1.0))
        ends.ask(b, "put", "old", primitive("quicksilver.timer", interval_s=2.0))
        ends.run()
        ends.ask(a, "remove", "old")
        ends.run()
        ends.ask(b, "list")
        ends.run()
        assert ends.last(b, "names") == (["clock", "names"],)
        through = Ends(stage, external("names", "Dictionary", folder), "Dictionary")
        through.open(b)
        through.ask(b, "put", "x", b"1")
        through.run()
        assert through.last(b, "changed") == ("x", b"1")
        missing = external("old", "Timer", folder)
        errors: list[BaseException | None] = []
        b.host.submit(
            lambda: stage.runtimes[b].open(missing).when_done(lambda one: errors.append(one.error))
        )
        stage.cluster.run(2)
        assert "the folder has nothing called 'old'" in str(errors[0])


class TestTimer:
    def test_ticks_do_not_drift_and_stop(self) -> None:
        stage = Stage(seed=28)
        (node,) = stage.start(1)
        ends = Ends(stage, primitive("quicksilver.timer", interval_s=0.1, count=25), "Timer")
        ends.open(node)
        ends.run(1.05)
        assert ends.said[node] == [("tick", i) for i in range(1, 11)]
        ends.ask(node, "stop")
        ends.run(1)
        assert len(ends.said[node]) == 10
        ends.ask(node, "start")
        ends.run(10)
        assert ends.said[node][10:] == [("tick", i) for i in range(1, 26)]

    def test_ticks_that_come_too_late_are_left_out(self) -> None:
        stage = Stage(seed=29)
        (node,) = stage.start(1)
        ends = Ends(stage, primitive("quicksilver.timer", interval_s=0.1), "Timer")
        ends.open(node)
        ends.run(0.35)
        node.freeze(1.0)
        ends.run(1.3)
        numbers = [one[1] for one in ends.said[node]]
        assert numbers[:4] == [1, 2, 3, 4]
        assert numbers[-1] >= 14
        assert len(numbers) <= 8


class TestGroups:
    """The service below all of them."""

    def test_a_thousand_groups_take_few_requests(self) -> None:
        stage = Stage(seed=30)
        a, b = stage.start(2)
        heard: list[tuple[str, int, bytes]] = []

        def join(node: SimNode) -> None:
            groups = stage.runtimes[node].service(Groups)
            for i in range(1000):
                name = f"g{i}"
                shares.append(
                    groups.join(name, lambda who, data, name=name: heard.append((name, who, data)))  # type: ignore[misc]
                )

        shares: list[Any] = []
        for node in (a, b):
            node.host.submit(lambda node=node: join(node))  # type: ignore[misc]
        assert stage.cluster.run(20, lambda: bool(shares) and all(s.is_joined for s in shares))
        assert stage.runtimes[a].service(Groups).requests == 1
        a.host.submit(lambda: [share.send(b"x") for share in shares[:1000]])
        assert stage.cluster.run(10, lambda: len(heard) == 2000)
        assert {who for _, who, _ in heard} == {a.id}

    def test_users_of_one_process_share_a_group_and_hear_each_other(self) -> None:
        executor = ThreadExecutor()
        groups = LocalGroups(LocalNetwork(), executor)
        got: dict[str, list[Any]] = {"one": [], "two": []}

        def join(name: str) -> Any:
            return groups.join(
                "g",
                lambda who, data: got[name].append(data),
                lambda view: got[name].append(view.members),
            )

        one = executor.call(lambda: join("one"))
        executor.call(lambda: one.send(b"early"))
        executor.call(lambda: None)
        two = executor.call(lambda: join("two"))
        executor.call(lambda: None)
        executor.call(lambda: two.send(b"both"))
        executor.call(lambda: None)
        assert got == {"one": [(1,), b"early", b"both"], "two": [(1,), b"both"]}
        executor.call(one.close)
        executor.call(lambda: two.send(b"left"))
        executor.call(lambda: None)
        assert got["one"][-1] == b"both"
        assert got["two"][-1] == b"left"
        assert groups.requests == 1
        executor.close()

    def test_what_is_sent_before_the_join_is_bounded(self) -> None:
        executor = ThreadExecutor()
        runtime = Runtime(executor)
        equip(runtime)
        groups = LocalGroups(LocalNetwork(), executor)
        groups.subscribe = lambda join, leave: None  # type: ignore[method-assign]  # never done
        runtime.provide(Groups, groups)
        channel = primitive("quicksilver.group-channel", group="g")
        proxy = executor.call(lambda: runtime.open(channel, "c"))
        port = executor.call(lambda: runtime.attach(proxy.endpoint("ReliableChannel"))).port
        for _ in range(16):
            executor.call(lambda: port.send(b"x" * (1 << 20)))
        assert not proxy.failures
        executor.call(lambda: port.send(b"x"))
        assert "send less before the first view" in str(proxy.failures[0])
        executor.call(proxy.close)
        executor.close()
