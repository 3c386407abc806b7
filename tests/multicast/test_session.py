"""The session, as a transcript of what goes in and what comes out."""

from __future__ import annotations

import pytest

from quicksilver.membership.directory import GroupView
from quicksilver.membership.events import (
    SubscriptionCompleted,
    ViewsChanged,
    WasExcluded,
    WasRefused,
    Welcomed,
)
from quicksilver.membership.names import BadGroupNameError
from quicksilver.membership.patterns import matches
from quicksilver.multicast.config import EngineConfig
from quicksilver.multicast.events import (
    FlushEnded,
    GroupReady,
    GroupViewChanged,
    MessagesArrived,
)
from quicksilver.multicast.session import Session
from quicksilver.wire import gms
from quicksilver.wire.ids import GroupId
from quicksilver.wire.packets import (
    FLAG_SINGLE,
    Messages,
    encode_mixed,
    encode_single,
    stream_key,
)
from tests.kit.packets import data_packet

SETTINGS = gms.ClusterSettings()
CLUSTER, ME, OTHER = 77, 3, 4
OTHERS_ADDRESS = ("10.0.0.4", 9000)
NODES = (
    gms.NodeInfo(ME, "n", "10.0.0.3", 9000),
    gms.NodeInfo(OTHER, "o", *OTHERS_ADDRESS),
    gms.NodeInfo(5, "p", "10.0.0.5", 9000),
)
REGION = 9
GROUPS = {"a": 7, "b": 8}


class Script:
    """What happens is one line in ``lines``: events as the shell takes them, messages."""

    def __init__(self) -> None:
        self.session = Session(name="n", address=("10.0.0.3", 9000), config=EngineConfig(), seed=1)
        self.now = 5.0
        self.lines: list[str] = []
        self.next_packet = 0
        """The number of the other node's next packet, and of the messages in it."""

    # Inputs

    def subscribe(
        self, *, join: str = "", leave: str = "", open_: str = "", close: str = ""
    ) -> int:
        """Each letter is a group."""
        return self.session.subscribe(
            join={name: self.receiver(name) for name in join},
            leave=tuple(leave),
            open_=tuple(open_),
            close=tuple(close),
        )

    def receiver(self, name: str):  # type: ignore[no-untyped-def]
        def receive(messages: Messages) -> None:
            self.lines += [f"{name}: {payload.decode()}" for payload in messages.payloads]

        return receive

    def connect(self) -> Script:
        self.session.handle_control_opened(self.now)
        self.hear(gms.Welcome(gms.PROTOCOL_VERSION, CLUSTER, ME, False, SETTINGS, b"s" * 16))
        return self

    def hear(self, *replies: gms.Reply) -> list[str]:
        """Let the GMS speak; return what happened meanwhile."""
        self.lines.clear()
        for reply in replies:
            self.session.handle_control_frame(gms.encode(reply), self.now)
            self.take()
        return list(self.lines)

    def take(self) -> list[str]:
        """Take the events, as a shell does after every input."""
        while (event := self.session.poll_event()) is not None:
            if isinstance(event, MessagesArrived):
                event.deliver()
            else:
                self.lines.append(describe(event))
        return self.lines

    def arrive(self, batch: int, groups: str, *, view: int = 1) -> list[str]:
        """A packet of the other node, with a message for each group, arrives."""
        self.lines.clear()
        payloads = [f"{name}{self.next_packet}".encode() for name in groups]
        numbers = [GROUPS[name] for name in groups]
        if len(set(groups)) == 1:
            flags = FLAG_SINGLE
            parts = encode_single(numbers[0], self.next_packet, list(map(len, payloads)), payloads)
        else:
            flags = 0
            sequences = [self.next_packet] * len(groups)
            parts = encode_mixed(numbers, sequences, list(map(len, payloads)), payloads)
        key = stream_key(CLUSTER, OTHER, REGION, view)
        packet = data_packet(flags, parts, key=key, sequence=self.next_packet, batch=batch)
        self.next_packet += 1
        self.session.handle_datagram(packet, OTHERS_ADDRESS, self.now)
        return list(self.lines)


def describe(event: object) -> str:
    if isinstance(event, GroupViewChanged):
        role = "member" if event.is_member else "opener"
        joined, left = list(map(int, event.joined)), list(map(int, event.left))
        return f"{role}: view {event.view.view} of {event.view.name} +{joined} -{left}"
    if isinstance(event, GroupReady):
        return f"{event.name} is ready"
    if isinstance(event, SubscriptionCompleted):
        return f"request {event.request} is complete"
    assert isinstance(event, Welcomed | ViewsChanged | WasExcluded | WasRefused | FlushEnded)
    return type(event).__name__


def update(batch: int, **views: tuple[int, tuple[int, ...], tuple[int, ...]]) -> gms.Update:
    """Return a batch: of each group (view, who joined, who left), all over one region.

    The region has all three nodes from the first batch on, so that what a group's
    member is given depends on the session alone.
    """
    region = gms.RegionChange(REGION, 1, 0, "239.192.0.1", (ME, OTHER, 5), (), (ME, OTHER, 5))
    return gms.Update(
        batch,
        nodes=NODES if batch == 1 else (),
        regions=(region,) if batch == 1 else (),
        groups=tuple(
            gms.GroupChange(
                GROUPS[name], name, view, view - 1, ((REGION, 1),) if view == 1 else (), came, went
            )
            for name, (view, came, went) in views.items()
        ),
    )


def member_of_a() -> Script:
    """Return a node that has joined group ``a`` in its second view, in batch 2."""
    script = Script().connect()
    script.subscribe(join="a")
    script.hear(update(1, a=(1, (OTHER, 5), ())))
    script.hear(update(2, a=(2, (ME,), ())), gms.Subscribed(1, (7,)))
    return script


def test_a_join_tells_the_view_then_that_the_group_is_ready_then_that_it_is_complete() -> None:
    """Whoever waits for the request finds a group that it can send to."""
    script = Script().connect()
    assert script.subscribe(join="a") == 1
    assert script.hear(update(1, a=(1, (ME, OTHER, 5), ()))) == [
        "ViewsChanged",
        "member: view 1 of a +[3, 4, 5] -[]",
    ]
    assert script.hear(gms.Subscribed(1, (7,))) == ["a is ready", "request 1 is complete"]


def test_views_are_told_once_and_as_differences() -> None:
    script = member_of_a()
    assert script.hear(update(3, a=(3, (), (5,)))) == [
        "ViewsChanged",
        "member: view 3 of a +[] -[5]",
    ]
    assert script.hear(update(4, b=(1, (5,), ()))) == ["ViewsChanged"]
    script.subscribe(open_="a")
    assert script.hear(gms.Subscribed(2, (7,))) == [
        "opener: view 3 of a +[3, 4] -[]",
        "a is ready",
        "request 2 is complete",
    ]


def test_a_member_is_not_told_views_without_it_and_a_sender_is() -> None:
    """The first view that a member hears of has it in."""
    script = Script().connect()
    script.subscribe(join="a", open_="b")
    assert script.hear(update(1, a=(1, (OTHER,), ()), b=(1, (OTHER,), ()))) == [
        "ViewsChanged",
        "opener: view 1 of b +[4] -[]",
    ]
    assert script.hear(update(2, a=(2, (ME,), ()))) == [
        "ViewsChanged",
        "member: view 2 of a +[3, 4] -[]",
    ]


def test_messages_from_before_the_join_are_not_for_the_newcomer() -> None:
    """Each message is committed to a view; a node in the region hears them all."""
    script = member_of_a()
    assert script.arrive(1, "aa") == []
    assert script.arrive(2, "a") == ["a: a1"]
    assert script.session.engine.counters.unwanted_messages == 2
    assert script.session.engine.counters.delivered_messages == 1


def test_a_packet_of_several_groups_is_split_and_the_rest_dropped() -> None:
    script = member_of_a()
    assert script.arrive(2, "aba") == ["a: a0", "a: a0"]
    assert script.session.engine.counters.unwanted_messages == 1


def test_whole_packets_may_be_taken_instead() -> None:
    """Without what is not wanted."""
    script = member_of_a()
    script.session.on_packet = script.receiver("packet")
    assert script.arrive(2, "a") == ["packet: a0"]
    assert script.arrive(2, "ab") == ["packet: a1"]
    assert script.arrive(1, "a") == []


def test_messages_of_a_view_not_known_yet_come_behind_the_news_of_it() -> None:
    """The packet is kept, and delivered when the view is there, after it was told."""
    script = Script().connect()
    script.subscribe(join="a")
    assert script.arrive(1, "a") == []
    assert script.hear(update(1, a=(1, (ME, OTHER, 5), ()))) == [
        "ViewsChanged",
        "member: view 1 of a +[3, 4, 5] -[]",
        "a: a0",
    ]


def joining_b() -> Script:
    """Return a member of ``a`` that has asked to join ``b``, in the same region."""
    script = member_of_a()
    script.hear(update(3, b=(1, (5,), ())))
    script.subscribe(join="b")
    return script


def test_messages_of_a_join_not_known_yet_wait_for_the_news_of_it() -> None:
    """The region stays as it is, so nothing keeps the packet: the sender has heard of the
    join before whoever joins. Other groups in the packet go on."""
    script = joining_b()
    assert script.arrive(4, "b") == []
    assert script.arrive(4, "ab") == ["a: a1"]
    assert script.arrive(3, "b") == [], "from before the join, and not for the newcomer"
    assert script.hear(update(4, b=(2, (ME,), ())), gms.Subscribed(2, (8,))) == [
        "ViewsChanged",
        "member: view 2 of b +[3, 5] -[]",
        "b: b0",
        "b: b1",
        "b is ready",
        "request 2 is complete",
    ]
    assert script.arrive(4, "b") == ["b: b3"]


def test_messages_of_groups_that_nobody_here_joins_do_not_wait() -> None:
    script = member_of_a()
    script.arrive(9, "b")
    assert script.session.engine.counters.unwanted_messages == 1


def test_more_than_fits_before_a_join_is_known_ends_the_incarnation() -> None:
    """Rather come back as a new node than begin with a gap."""
    script = joining_b()
    script.session._awaiting._bytes_max = 100
    script.arrive(4, "b")
    script.arrive(4, "b")
    assert not [line for line in script.hear(update(4, b=(2, (ME,), ()))) if ": b" in line]
    assert script.arrive(4, "b") == [], "it would come after a gap"
    script.lines.clear()
    script.session.handle_timeout(script.now)
    assert "WasExcluded" in script.take()


def test_messages_wait_while_events_do() -> None:
    """Whoever is slow to take events still sees everything in order."""
    script = member_of_a()
    script.session.handle_control_frame(gms.encode(update(3, a=(3, (), (5,)))), script.now)
    assert script.arrive(3, "a") == []
    assert script.take() == ["ViewsChanged", "member: view 3 of a +[] -[5]", "a: a0"]


def test_nothing_comes_from_a_group_that_was_left() -> None:
    """From the request on, whatever the GMS still believes."""
    script = member_of_a()
    script.subscribe(leave="a")
    assert script.arrive(2, "a") == []
    assert script.hear(update(3, a=(3, (), (5,)))) == ["ViewsChanged"]
    assert script.arrive(3, "a") == []
    assert script.hear(update(4, a=(4, (), (ME,))), gms.Subscribed(2, ())) == [
        "ViewsChanged",
        "request 2 is complete",
    ]
    assert script.session.find_sender("a") is not None, "messages may still wait to leave"


def test_a_view_of_the_old_membership_does_not_bring_back_who_joins_again() -> None:
    """Between the leave and the new join others spoke, and were not heard."""
    script = member_of_a()
    script.subscribe(leave="a")
    script.subscribe(join="a")
    assert script.hear(update(3, a=(3, (), (5,)))) == ["ViewsChanged"]
    assert script.arrive(3, "a") == []
    assert script.hear(update(4, a=(4, (), (ME,))), gms.Subscribed(2, ())) == [
        "ViewsChanged",
        "request 2 is complete",
    ]
    assert script.hear(update(5, a=(5, (ME,), ())), gms.Subscribed(3, (7,))) == [
        "ViewsChanged",
        "member: view 5 of a +[3, 4] -[]",
        "a is ready",
        "request 3 is complete",
    ]
    assert script.arrive(4, "a") == []
    assert script.arrive(5, "a") == ["a: a2"]


def test_who_leaves_and_joins_in_one_batch_hears_the_view_again() -> None:
    """The GMS saw no change; the application begins anew."""
    script = member_of_a()
    script.subscribe(leave="a")
    script.subscribe(join="a")
    assert script.hear(gms.Subscribed(2, ()), gms.Subscribed(3, (7,))) == [
        "request 2 is complete",
        "member: view 2 of a +[3, 4, 5] -[]",
        "a is ready",
        "request 3 is complete",
    ]
    assert script.arrive(2, "a") == ["a: a0"]


def test_who_comes_back_hears_senders_whose_views_did_not_change() -> None:
    """They go on to name the batch of the view, however many batches came to others."""
    script = member_of_a()
    script.hear(update(3, b=(1, (5,), ())))
    script.subscribe(leave="a")
    script.subscribe(join="a")
    script.hear(gms.Subscribed(2, ()), gms.Subscribed(3, (7,)))
    assert script.arrive(2, "a") == ["a: a0"]


def test_an_exclusion_ends_routes_and_all_is_told_anew() -> None:
    """A flush goes on with the next incarnation, which sends what was queued."""
    script = member_of_a()
    (sender,) = [script.session.find_sender("a")]
    assert sender is not None
    script.session.send(sender, b"x")
    script.session.flush()
    assert script.hear(gms.Excluded("too slow")) == ["WasExcluded"]
    assert script.session.node == 0
    assert script.arrive(2, "a") == []
    script.session.handle_control_closed("gone", script.now)
    script.session.handle_control_opened(script.now)
    me_again = 6
    region = gms.RegionChange(REGION, 4, 0, "239.192.0.1", (OTHER, me_again), (), (OTHER,))
    group = gms.GroupChange(7, "a", 4, 0, ((REGION, 4),), (OTHER, me_again))
    nodes = (NODES[1], gms.NodeInfo(me_again, "n", "10.0.0.3", 9000))
    assert script.hear(
        gms.Welcome(gms.PROTOCOL_VERSION, CLUSTER, me_again, False, SETTINGS, b"s" * 16),
        gms.Update(9, nodes=nodes, regions=(region,), groups=(group,)),
        gms.Subscribed(0, (7,)),
    ) == [
        "Welcomed",
        "ViewsChanged",
        "member: view 4 of a +[4, 6] -[]",
        "a is ready",
        "request 0 is complete",
    ]
    script.next_packet = 0
    assert script.arrive(9, "a", view=4) == ["a: a0"]
    assert sender.next_sequence == 0


def test_a_flush_with_nothing_under_way_ends_at_once() -> None:
    script = member_of_a()
    script.lines.clear()
    assert script.session.flush() == 1
    assert script.session.has_events()
    assert script.take() == ["FlushEnded"]


def test_a_bad_name_changes_nothing() -> None:
    script = Script().connect()
    with pytest.raises(BadGroupNameError):
        script.subscribe(join="a", open_="\0")
    assert script.hear(update(1, a=(1, (ME, OTHER, 5), ()))) == ["ViewsChanged"]
    assert script.arrive(1, "a") == []


def test_a_paused_group_that_is_left_no_longer_pauses() -> None:
    """Its application will take nothing more, and must not hold up the others."""
    script = member_of_a()
    script.session.pause("a")
    assert script.session.is_receiving_paused()
    script.subscribe(leave="a")
    assert not script.session.is_receiving_paused()
    script.session.pause("a")
    assert not script.session.is_receiving_paused(), "a late word of a group that is gone"


def test_own_messages_are_heard_by_whoever_asked_for_them_until_it_leaves() -> None:
    """A group that stays open for sending goes on without echo."""
    script = Script().connect()
    script.session.subscribe(join={"a": script.receiver("a")}, open_=("a",), echo=frozenset({"a"}))
    script.hear(update(1, a=(1, (ME, OTHER, 5), ())), gms.Subscribed(1, (7, 7)))
    sender = script.session.find_sender("a")
    assert sender is not None
    assert sender.echo
    script.lines.clear()
    script.session.send(sender, b"mine")
    script.session.handle_turn()
    assert script.session.poll_transmit(script.now) is not None
    assert script.lines == ["a: mine"]
    script.subscribe(leave="a")
    assert not sender.echo


def test_to_open_a_group_does_not_silence_its_echo() -> None:
    """Who joined asked to hear itself, whoever else of the process sends to the group."""
    script = Script().connect()
    script.session.subscribe(join={"a": script.receiver("a")}, echo=frozenset({"a"}))
    script.hear(update(1, a=(1, (ME, OTHER, 5), ())), gms.Subscribed(1, (7,)))
    script.subscribe(open_="a")
    script.hear(gms.Subscribed(2, (7,)))
    sender = script.session.find_sender("a")
    assert sender is not None
    assert sender.echo


def test_a_new_pattern_is_compared_with_groups_and_not_with_other_patterns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The work is that of what is new: with 200 patterns and 2,000 groups each join of another
    one took half a second when all were compared with all."""
    script = Script().connect()
    session = script.session
    for number in range(1, 101):
        view = GroupView(GroupId(number), f"p{number % 10}.g{number}", 1, (ME,), (), "")
        session.directory.groups[view.id] = view
    compared: list[tuple[str, str]] = []
    looked: list[str] = []

    def count(pattern: str, name: str) -> bool:
        compared.append((pattern, name))
        return matches(pattern, name)

    handle_view = session._handle_view
    monkeypatch.setattr("quicksilver.multicast.session.matches", count)
    monkeypatch.setattr(
        session, "_handle_view", lambda view: (looked.append(view.name), handle_view(view))
    )
    for number in range(10):
        pattern = f"p{number}.*"
        request = session.subscribe(match={pattern: lambda name: (script.receiver(name), None)})
        compared.clear()
        looked.clear()
        session.handle_news(SubscriptionCompleted(request, {}), script.now)
        script.take()
        assert len(compared) == 100
        assert len(looked) == 10
        assert len(session.groups_for(pattern)) == 10


def test_several_queues_are_left_in_one_request() -> None:
    """One answer says that all of them are left, and there is one to wait for."""
    script = Script().connect()
    session = script.session
    receivers = {name: script.receiver(name) for name in "ab"}
    session.subscribe(join=receivers, queues={"a": "w", "b": "w"})
    session.leave_queues(["a", "b"])
    asked = [gms.parse_request(f) for f in iter(lambda: session.poll_control(script.now), None)]
    assert [each.leave for each in asked if isinstance(each, gms.Subscribe)] == [
        (),
        ("$attend.queue.w.a", "$attend.queue.w.b"),
    ]
