"""Messages that nobody can vouch for: what is noted, for how long, and who is told."""

from __future__ import annotations

from quicksilver.multicast.events import FlushEnded, MessagesUnconfirmed
from quicksilver.multicast.sending.group import GroupSender
from quicksilver.multicast.sending.unconfirmed import (
    NOTES_MAX,
    RANGES_MAX,
    Notes,
    Reason,
    Unconfirmed,
)
from quicksilver.wire import gms
from quicksilver.wire.control import Ack
from quicksilver.wire.packets import Fragment, Messages, Start, head_of, list_messages, parse_body
from tests.kit.packets import bodies, data_packet
from tests.multicast.test_session import (
    CLUSTER,
    ME,
    NODES,
    OTHER,
    REGION,
    SETTINGS,
    Script,
    member_of_a,
)


def lost(count: int, *ranges: tuple[int, int], group: str = "g", member: int = 2) -> Unconfirmed:
    return Unconfirmed(Reason.EXCLUDED, 1, group, count, ranges, (member,))


# What a packet has


def test_the_head_of_a_packet_says_which_messages_it_has() -> None:
    """Whoever lists what is lost does not cut packets into messages."""
    for flags, parts in bodies().values():
        packet = data_packet(flags, parts)
        assert list_messages(head_of(packet)) == list_messages(packet)
        body = parse_body(packet, flags, 1, 1)  # type: ignore[arg-type]
        found = [(g, first + i) for g, first, count in list_messages(packet) for i in range(count)]
        if isinstance(body, Messages):
            groups = body.groups or [body.group] * len(body)
            numbers = body.sequences or range(body.first, body.first + len(body))
            assert found == list(zip(groups, numbers, strict=True))
        elif isinstance(body, Fragment):
            assert found == [(body.group, body.sequence)]
        else:
            assert isinstance(body, Start)
            assert found == []


# Notes


def test_what_is_noted_twice_is_counted_once() -> None:
    """A message that two regions lack is one message."""
    notes = Notes()
    notes.add([lost(3, (5, 7)), lost(4, (6, 9), member=3)])
    assert notes.take() == (Unconfirmed(Reason.EXCLUDED, 1, "g", 5, ((5, 9),), (2, 3)),)
    assert notes.take() == (), "taken once"
    assert not notes


def test_many_groups_share_a_note_and_keep_their_count() -> None:
    """Memory is bounded, whatever is lost."""
    notes = Notes()
    notes.add(lost(2, (0, 1), group=f"g{number}") for number in range(NOTES_MAX + 100))
    found = notes.take()
    assert len(found) == NOTES_MAX + 1
    assert sum(each.count for each in found) == 2 * (NOTES_MAX + 100)
    assert found[-1].group == ""
    assert found[-1].count == 200


def test_many_ranges_become_one_that_covers_them() -> None:
    """All that may be lost is within it, and how many they are is still known."""
    notes = Notes()
    for number in range(0, 4 * RANGES_MAX, 2):
        notes.add([lost(1, (number, number))])
    (found,) = notes.take()
    assert found.count == 2 * RANGES_MAX
    assert found.ranges == ((0, 4 * RANGES_MAX - 2),)


# A session that is excluded


def sender_of(script: Script, name: str = "a") -> GroupSender:
    sender = script.session.find_sender(name)
    assert sender is not None
    return sender


def send(script: Script, *payloads: bytes, commit: bool = True) -> None:
    sender = sender_of(script)
    for payload in payloads:
        script.session.send(sender, payload)
    if commit:
        transmit(script)


def transmit(script: Script) -> None:
    script.session.handle_turn()
    while script.session.poll_transmit(script.now) is not None:
        pass


def acknowledge(
    script: Script, low: int, view: int = 1, missing: tuple[int, ...] = (), limit: int = 0
) -> None:
    """Let the region's leader, which is the member with the lowest number, acknowledge."""
    ack = Ack(
        cluster=CLUSTER,
        origin=min(script.session.node, OTHER),
        region=REGION,
        view=view,
        low=low,
        safe=low,
        laggard=0,
        high=max(low, limit),
        missing=missing,
        missing_limit=max(low, limit),
        slowest=0,
        buffer_bytes=1 << 20,
        drops=0,
        senders=1,
        token_s=0.0,
    )
    script.session.engine.outgoing.handle_ack(ack, 5.0)


def exclude(script: Script) -> None:
    script.session.handle_control_frame(gms.encode(gms.Excluded("too slow")), script.now)


def return_as(script: Script, node: int, view: int) -> None:
    script.session.handle_control_closed("gone", script.now)
    script.session.handle_control_opened(script.now)
    region = gms.RegionChange(REGION, view, 0, "239.192.0.1", (OTHER, node), (), (OTHER,))
    group = gms.GroupChange(7, "a", view, 0, ((REGION, view),), (OTHER, node))
    nodes = (NODES[1], gms.NodeInfo(node, "n", "10.0.0.3", 9000))
    for reply in (
        gms.Welcome(1, CLUSTER, node, False, SETTINGS, b"secret"),
        gms.Update(9, nodes=nodes, regions=(region,), groups=(group,)),
        gms.Subscribed(0, (7,)),
    ):
        script.session.handle_control_frame(gms.encode(reply), script.now)


def flushed(script: Script) -> list[FlushEnded]:
    """Return the flushes that have ended, and pass over all other events."""
    found = []
    while (event := script.session.poll_event()) is not None:
        if isinstance(event, FlushEnded):
            found.append(event)
    return found


def test_what_was_not_acknowledged_is_told_by_the_next_flush_once() -> None:
    """The exclusion is over when it begins: that is when it was forgotten."""
    script = member_of_a()
    send(script, b"acknowledged")
    acknowledge(script, 2)
    send(script, b"x", b"y")
    exclude(script)
    told = [e for e in iter(script.session.poll_event, None) if isinstance(e, MessagesUnconfirmed)]
    expected = Unconfirmed(Reason.EXCLUDED, ME, "a", 2, ((1, 2),), (OTHER, 5))
    assert [event.messages for event in told] == [(expected,)], "at once"
    script.session.flush()
    script.session.flush()
    assert [event.unconfirmed for event in flushed(script)] == [(expected,), ()]
    assert script.session.engine.counters.unconfirmed == 2


def test_what_all_have_past_a_packet_that_somebody_lacks_is_told_as_well() -> None:
    """They could not deliver it yet, and drop it when the sender is counted out."""
    script = member_of_a()
    for payload in (b"had", b"lacked by one", b"had by all", b"not heard of"):
        send(script, payload)
    acknowledge(script, 2, missing=(2, 1), limit=4)
    stream = script.session.engine.outgoing.stream_of(REGION, 1)
    assert stream is not None
    assert list(stream.packets) == [2, 4]
    exclude(script)
    script.session.flush()
    (ended,) = flushed(script)
    assert [note.ranges for note in ended.unconfirmed] == [((1, 3),)]


def test_what_was_repaired_since_is_not_told() -> None:
    """The hole is filled: what came after it is delivered, too."""
    script = member_of_a()
    for payload in (b"had", b"lacked by one", b"had by all", b"not heard of"):
        send(script, payload)
    acknowledge(script, 2, missing=(2, 1), limit=4)
    acknowledge(script, 4)
    exclude(script)
    script.session.flush()
    (ended,) = flushed(script)
    assert [note.ranges for note in ended.unconfirmed] == [((3, 3),)]


def test_whoever_flushes_when_it_happens_is_told_each() -> None:
    """Neither can know whose messages they were."""
    script = member_of_a()
    send(script, b"x")
    script.session.flush()
    script.session.flush()
    assert flushed(script) == []
    exclude(script)
    first, second = flushed(script)
    assert first.unconfirmed == second.unconfirmed != ()


def test_what_could_not_be_told_is_told_by_the_next_flush() -> None:
    """Somebody waited for a flush, and does no longer."""
    script = member_of_a()
    send(script, b"x")
    script.session.flush()
    exclude(script)
    (ended,) = flushed(script)
    script.session.put_back_unconfirmed(ended.unconfirmed)
    script.session.flush()
    (again,) = flushed(script)
    assert again.unconfirmed == ended.unconfirmed != ()


def test_what_is_queued_is_sent_by_the_next_incarnation_and_waited_for() -> None:
    """It was accepted and never sent: it is not lost, and a flush does not end before."""
    script = member_of_a()
    send(script, b"sent")
    send(script, b"queued", commit=False)
    script.session.flush()
    exclude(script)
    assert flushed(script) == []
    return_as(script, 6, 4)
    transmit(script)
    assert flushed(script) == []
    acknowledge(script, 2, view=4)
    (ended,) = flushed(script)
    (note,) = ended.unconfirmed
    assert (note.node, note.count, note.ranges) == (ME, 1, ((0, 0),))


def test_a_large_message_of_which_pieces_were_sent_is_sent_anew_and_not_told() -> None:
    """Nobody could put it together from the pieces; the next incarnation sends all of it."""
    script = member_of_a()
    send(script, bytes(1 << 20))
    assert sender_of(script).lane.large is not None, "the window is full"
    script.session.flush()
    exclude(script)
    assert flushed(script) == []
    assert sender_of(script).lane.outbox.count() == 1
    return_as(script, 6, 4)
    for _ in range(100):
        transmit(script)
        stream = script.session.engine.outgoing.stream_of(REGION, 4)
        assert stream is not None
        acknowledge(script, stream.next_sequence, view=4)
    (ended,) = flushed(script)
    assert ended.unconfirmed == ()


def test_a_flush_waits_for_all_pieces_of_a_large_message() -> None:
    """The first ones are acknowledged before the last ones are made."""
    script = member_of_a()
    send(script, bytes(1 << 20))
    script.session.flush()
    stream = script.session.engine.outgoing.stream_of(REGION, 1)
    assert stream is not None
    rounds = 0
    while sender_of(script).lane.large is not None:
        acknowledge(script, stream.next_sequence)
        assert flushed(script) == []
        transmit(script)
        rounds += 1
    assert rounds
    acknowledge(script, stream.next_sequence)
    assert len(flushed(script)) == 1


def test_what_waits_for_a_group_that_was_left_is_told_when_its_view_is_gone() -> None:
    """The next incarnation is not in it, so nobody will ever be sent it."""
    script = member_of_a()
    send(script, b"1", b"2", commit=False)
    script.subscribe(leave="a")
    exclude(script)
    transmit(script)
    script.session.flush()
    (ended,) = flushed(script)
    assert ended.unconfirmed == (Unconfirmed(Reason.LEFT, 0, "a", 2, (), ()),)


def test_what_a_node_leaves_behind_is_what_is_sent_and_what_is_queued() -> None:
    """For a node that closes without waiting any longer."""
    script = member_of_a()
    send(script, b"x")
    send(script, b"y", b"z", commit=False)
    assert script.session.take_unfinished() == (
        Unconfirmed(Reason.CLOSED, ME, "a", 1, ((0, 0),), (OTHER, 5)),
        Unconfirmed(Reason.CLOSED, 0, "a", 2, (), ()),
    )


def test_what_is_put_back_is_there_for_a_flush_that_ended_in_the_same_moment() -> None:
    """Whoever waited for the first is gone; the second ended with nothing of its own to tell."""
    script = member_of_a()
    found = lost(3, (5, 7))
    script.session.put_back_unconfirmed([found])
    assert script.session.take_put_back() == (found,)
    assert script.session.take_put_back() == (), "told once"
