"""Messages to a group that nobody is in: they wait, are dropped, or are an error."""

from __future__ import annotations

from typing import Any

import pytest

from quicksilver.multicast.config import EngineConfig
from quicksilver.multicast.events import EmptinessChanged, FlushEnded, MessagesWaiting
from quicksilver.multicast.sending.unconfirmed import Reason
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.node import SimNode
from quicksilver.trials.watch import Watcher


class Events(Watcher):
    """Keeps what sessions tell."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.of: dict[int, list[Any]] = {}
        self.got: dict[int, list[bytes]] = {}

    def on_event(self, node: SimNode, event: Any) -> None:
        self.of.setdefault(node.index, []).append(event)

    def on_delivered(
        self, node: SimNode, group: int, sender: int, sequence: int, payload: bytes, batch: int
    ) -> None:
        self.got.setdefault(node.index, []).append(payload)

    def kinds(self, node: SimNode, *kinds: type) -> list[Any]:
        return [event for event in self.of.get(node.index, []) if isinstance(event, kinds)]


class Scene:
    """A sender that has opened g, in which nobody is, and a node that may join it."""

    def __init__(self, **config: Any) -> None:
        self.cluster = Cluster(seed=3, config=EngineConfig(**config))
        (events,) = self.cluster.watch(Events)
        assert isinstance(events, Events)
        self.events = events
        self.sender, self.other = self.cluster.start(2)
        self.sender.open("g")
        self.other.open("h")
        assert self.cluster.settle()
        self.is_flushed: list[bool] = []

    def flush(self) -> None:
        self.sender.flush(lambda: self.is_flushed.append(True))
        self.cluster.run(1.0)

    def lost(self) -> list[tuple[Reason, int]]:
        ends = self.events.kinds(self.sender, FlushEnded)
        return [(each.reason, each.count) for end in ends for each in end.unconfirmed]


def test_messages_wait_for_the_first_member() -> None:
    """In the order in which they were sent, and a flush waits with them."""
    scene = Scene()
    scene.sender.send("g", b"1", b"2")
    scene.flush()
    assert not scene.is_flushed
    scene.sender.send("g", b"3")
    scene.cluster.run(1.0)
    assert [e.name for e in scene.events.kinds(scene.sender, MessagesWaiting)] == ["g"]
    scene.other.join("g")
    scene.cluster.run(1.0)
    assert scene.events.got[scene.other.index] == [b"1", b"2", b"3"]
    assert scene.is_flushed
    assert scene.sender.session.memory()["waiting"].used == 0


def test_what_waits_holds_up_no_other_group() -> None:
    """Groups that are opened while nobody is in them share a queue."""
    scene = Scene()
    scene.sender.open("h")
    assert scene.cluster.settle()
    assert scene.sender.senders["g"].lane is scene.sender.senders["h"].lane
    scene.sender.send("g", b"waits")
    scene.cluster.run(0.5)
    scene.other.join("h")
    scene.cluster.run(0.5)
    scene.sender.send("h", b"goes")
    scene.cluster.run(0.5)
    assert scene.events.got[scene.other.index] == [b"goes"]


def test_messages_wait_again_when_the_last_member_is_gone() -> None:
    """They are for whoever comes next."""
    scene = Scene()
    scene.other.join("g")
    scene.cluster.run(1.0)
    scene.sender.send("g", b"1")
    scene.cluster.run(1.0)
    scene.other.leave("g")
    scene.cluster.run(1.0)
    scene.sender.send("g", b"2")
    scene.cluster.run(1.0)
    assert scene.events.got[scene.other.index] == [b"1"]
    scene.other.join("g")
    scene.cluster.run(1.0)
    assert scene.events.got[scene.other.index] == [b"1", b"2"]
    told = [e.is_empty for e in scene.events.kinds(scene.sender, EmptinessChanged)]
    assert told == [True, False, True, False]


def test_a_lone_member_is_not_nobody() -> None:
    """Its messages count as delivered: it could hear them if it asked to."""
    scene = Scene()
    scene.sender.join("mine")
    assert scene.cluster.settle()
    scene.sender.send("mine", b"1")
    scene.flush()
    assert scene.is_flushed
    assert not scene.events.kinds(scene.sender, MessagesWaiting)


def test_dropped_messages_count_as_delivered() -> None:
    """Nothing is kept for those who come later, and nobody waits."""
    scene = Scene(empty="drop")
    scene.sender.send("g", b"1")
    scene.flush()
    assert scene.is_flushed
    assert scene.lost() == []
    scene.other.join("g")
    scene.cluster.run(1.0)
    assert scene.other.index not in scene.events.got
    assert not scene.events.kinds(scene.sender, EmptinessChanged)


def test_as_an_error_what_was_queued_for_nobody_is_told() -> None:
    """Whoever sends looks at the group first; what was under way by then is unconfirmed."""
    scene = Scene(empty="error")
    scene.sender.send("g", b"1", b"2")
    scene.flush()
    assert scene.is_flushed
    assert scene.lost() == [(Reason.EMPTY, 2)]


def test_the_room_is_limited_and_shared() -> None:
    """Past it messages stay in the queue that ``send`` waits for."""
    scene = Scene(waiting_bytes_max=1000)
    scene.sender.send("g", *[bytes(100)] * 20)
    scene.cluster.run(0.5)
    waiting = scene.sender.session.memory()["waiting"]
    assert 0 < waiting.used <= 1000
    lane = scene.sender.senders["g"].lane
    assert lane.queued_bytes() == 2000 - 100 * scene.sender.session.stats()["waiting_messages"]
    scene.other.join("g")
    scene.cluster.run(1.0)
    assert len(scene.events.got[scene.other.index]) == 20
    assert lane.queued_bytes() == 0


def test_leaving_gives_up_what_waits_and_says_so() -> None:
    """There is nobody left who would send it."""
    scene = Scene()
    scene.sender.send("g", b"1")
    scene.flush()
    scene.sender.host.submit(lambda: scene.sender.session.subscribe(close=("g",)))
    scene.cluster.run(1.0)
    assert scene.is_flushed
    assert scene.lost() == [(Reason.LEFT, 1)]
    assert scene.sender.session.memory()["waiting"].used == 0


def test_what_waits_outlives_an_exclusion() -> None:
    """The next incarnation of the sender sends it."""
    scene = Scene()
    scene.sender.send("g", b"1")
    scene.cluster.run(0.5)
    scene.sender.freeze(8.0)
    scene.cluster.run(14.0)
    assert scene.sender.exclusions == 1
    scene.other.join("g")
    scene.cluster.run(2.0)
    assert scene.events.got[scene.other.index] == [b"1"]


@pytest.mark.parametrize("choice", ["wait", "drop", "error"])
def test_the_choice_is_made_group_by_group(choice: Any) -> None:
    """And holds from the subscription on."""
    scene = Scene(empty="drop")
    request = {"open_": ("k",), "empty": {"k": choice}}
    scene.sender.opened.add("k")
    scene.sender.host.submit(lambda: scene.sender.session.subscribe(**request))
    scene.cluster.run(1.0)
    scene.sender.send("k", b"1")
    scene.flush()
    assert bool(scene.is_flushed) == (choice != "wait")
    assert bool(scene.lost()) == (choice == "error")


def test_a_flush_does_not_wait_for_what_is_sent_after_it() -> None:
    """Were it held up by a later message to nobody, it might never end."""
    scene = Scene(window_bytes_initial=16 << 10, window_bytes_max=16 << 10)
    scene.other.join("x")
    scene.sender.open("x")
    assert scene.cluster.settle()
    scene.other.freeze(0.5)
    scene.sender.send("x", *[b"x" * 1000] * 200)
    scene.sender.flush(lambda: scene.is_flushed.append(True))
    scene.cluster.run(0.1)
    assert not scene.is_flushed
    scene.sender.send("g", b"later")
    scene.cluster.run(5.0)
    assert scene.is_flushed
    assert scene.sender.session.waiting_bytes()


def test_a_group_that_is_closed_makes_room_for_others() -> None:
    """A message that found no room to wait in held up all behind it, to living members too."""
    scene = Scene(waiting_bytes_max=2000)
    for name in ("x", "y"):
        scene.other.join(name)
    assert scene.cluster.settle()
    for name in ("x", "y"):
        scene.sender.open(name)
    assert scene.cluster.settle()
    scene.sender.send("g", b"a" * 1900)
    scene.cluster.run(0.5)
    scene.other.leave("x")
    scene.cluster.run(1.0)
    scene.sender.send("x", b"b" * 500)
    scene.sender.send("y", b"for y")
    scene.cluster.run(1.0)
    assert scene.other.index not in scene.events.got
    scene.sender.session.subscribe(close=["g"])
    scene.cluster.run(1.0)
    assert scene.events.got[scene.other.index] == [b"for y"]
