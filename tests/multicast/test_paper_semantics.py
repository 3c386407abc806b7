"""The semantics that dissertation 4.2.1 promises, one test a sentence."""

from __future__ import annotations

import pytest

from quicksilver.stdx.rand import Rng
from quicksilver.wire.gms import ClusterSettings
from quicksilver.wire.packets import (
    FLAG_FRAGMENT,
    KIND_CONTROL,
    KIND_DATA,
    KIND_REPAIR,
    POSITION,
)
from tests.kit.checks import (
    check_all,
    check_clean,
    check_fifo,
    check_silent,
    have_all,
    payload,
    send_numbered,
)
from tests.kit.cluster import World, lose_data, lose_everything, one_region


def sequence_of(packet: bytes) -> int:
    found: int = POSITION.unpack_from(packet, 20)[0]
    return found


def is_data(packet: bytes) -> bool:
    return packet[1] in {KIND_DATA, KIND_REPAIR}


class TestFifo:
    """ "Messages are FIFO-ordered on a per-sender basis" (4.2.1)."""

    @pytest.mark.parametrize("members", [1, 2, 3, 7])
    def test_messages_of_each_sender_arrive_in_order(self, members: int) -> None:
        """4.2.1: per sender, whatever links lose, repeat and reorder."""
        world = one_region(members, senders=2, seed=members)
        world.loss = lose_everything(Rng(members), 0.1)
        world.duplicate_rate = 0.05
        world.jitter_s = 0.001
        receivers = world.nodes[:members]
        for sender in world.nodes[members:]:
            send_numbered(sender, "g", 150)
        assert world.run(20, lambda: have_all(world, receivers))
        world.loss = None
        world.run(10)
        check_all(world)

    def test_order_holds_across_changes_of_views(self) -> None:
        """4.2.1: joins move nodes between regions in the middle of a stream."""
        world = World(6, seed=3)
        for node in world.nodes[:4]:
            node.join("g")
        sender = world.nodes[5]
        sender.open("g")
        world.settle(*world.nodes[:4], sender)
        world.loss = lose_data(Rng(3), 0.1)
        for step in range(12):
            send_numbered(sender, "g", 30)
            if step % 3 == 0:
                world.nodes[step // 3].join("h")
            if step == 5:
                world.nodes[4].join("g")
            world.run(0.02)
        assert world.run(20, lambda: have_all(world, world.nodes[:4]))
        world.loss = None
        world.run(10)
        check_all(world)

    def test_order_holds_for_a_large_message_across_a_change_of_views(self) -> None:
        """4.2.1: the rest of a large message goes on in the old view; what follows waits for it,
        even if another group of the sender has opened the new view meanwhile.
        """
        world = World(5, seed=1)
        for node in world.nodes[:2]:
            node.join("g", "h")
        world.nodes[2].join("g")
        sender = world.nodes[3]
        sender.open("g", "h")
        world.settle(*world.nodes[:4])
        sender.send("g", payload("g", 3, 0, 600_000))
        world.run(0.002)
        victim = world.nodes[0]
        world.loss = lambda node, packet: (
            node is victim and is_data(packet) and bool(packet[2] & FLAG_FRAGMENT)
        )
        world.nodes[4].join("g", "h")
        world.settle()
        send_numbered(sender, "h", 3)
        send_numbered(sender, "g", 1)
        world.run(1)
        world.loss = None
        world.run(10)
        check_all(world)
        assert have_all(world, world.nodes[:3])


class TestCommitment:
    """ "Each message is committed to a group membership view at the time of transmission"."""

    def test_a_message_reaches_every_member_of_its_view_that_stays_up(self) -> None:
        """4.2.1: "eventually delivered to the view", although a member crashes and one leaves."""
        world = one_region(5, seed=4)
        sender = world.nodes[5]
        world.loss = lose_data(Rng(4), 0.2)
        send_numbered(sender, "g", 200)
        world.run(0.003)
        world.nodes[1].kill()
        send_numbered(sender, "g", 200)
        world.run(0.05)
        world.nodes[2].leave("g")
        send_numbered(sender, "g", 200)
        stayed = [world.nodes[0], world.nodes[3], world.nodes[4]]
        assert world.run(20, lambda: have_all(world, stayed))
        world.loss = None
        world.run(10)
        check_all(world)

    def test_a_message_reaches_its_view_although_a_member_of_another_partition_crashes(
        self,
    ) -> None:
        """4.2.1: a crash in one partition must not end the agreement of the whole old view."""
        world = one_region(6, seed=1)
        sender = world.nodes[6]
        world.loss = lose_data(Rng(3), 0.3)
        send_numbered(sender, "g", 300, size=300)
        world.run(0.004)
        world.nodes[5].kill()
        assert world.run(20, lambda: have_all(world, world.nodes[:5]))
        world.loss = None
        world.run(10)
        check_all(world)
        assert sender.engine.counters.abandoned == 0

    @pytest.mark.parametrize("crashed", [(1, 2), (0, 1), (3, 4), (4, 5), (2, 4)])
    def test_a_message_reaches_its_view_although_two_members_crash(
        self, crashed: tuple[int, int]
    ) -> None:
        """4.2.1: also when a leader is left alone in its partition."""
        world = one_region(6, seed=3)
        sender = world.nodes[6]
        world.loss = lose_data(Rng(3), 0.3)
        send_numbered(sender, "g", 300, size=300)
        world.run(0.004)
        for index in crashed:
            world.nodes[index].kill()
        alive = [node for node in world.nodes[:6] if not node.is_dead]
        assert world.run(20, lambda: have_all(world, alive))
        world.loss = None
        world.run(10)
        check_all(world)

    def test_a_node_that_joins_later_does_not_get_earlier_messages(self) -> None:
        """4.2.1: it was not in the view to which they were committed."""
        world = one_region(2, seed=5)
        sender = world.nodes[2]
        send_numbered(sender, "g", 10)
        world.run(1)
        late = world.add_node()
        late.join("g")
        world.settle()
        world.run(0.05)
        send_numbered(sender, "g", 10)
        world.run(2)
        assert [payload("g", 2, 10 + i, 100) for i in range(10)] == late.received(sender)

    def test_a_sender_that_leaves_at_once_is_still_heard(self) -> None:
        """4.2.1: what was transmitted before the goodbye is delivered by the semantics."""
        world = one_region(3, seed=6)
        sender = world.nodes[3]
        send_numbered(sender, "g", 50)
        sender.goodbye()
        world.run(5)
        assert [len(node.inbox) for node in world.nodes[:3]] == [50] * 3


class TestSenderCrash:
    """ "Delivered provided that it has been cached on at least one recipient" (4.2.1)."""

    @pytest.mark.parametrize("keeper", [0, 1, 2])
    def test_one_surviving_copy_in_the_region_is_enough(self, keeper: int) -> None:
        """4.2.1: the sender crashes and only one member has the packets."""
        world = one_region(3, seed=7)
        sender = world.nodes[3]
        kept = world.nodes[keeper]
        world.loss = lambda node, packet: (
            packet[1] == KIND_DATA and node is not kept and sequence_of(packet) in {3, 4, 6}
        )
        send_numbered(sender, "g", 100)
        world.run(0.0005)
        sender.kill()
        world.run(10)
        assert [len(node.inbox) for node in world.nodes[:3]] == [100] * 3
        check_clean(world)
        check_silent(world)

    def test_a_sleeping_member_that_has_the_copy_is_waited_for(self) -> None:
        """4.2.1: it has not crashed, so a stream must not be ended without asking it."""
        world = one_region(2, seed=8)
        keeper, other, sender = world.nodes
        world.loss = lambda node, packet: (
            node is other and is_data(packet) and sequence_of(packet) in {5, 6}
        )
        send_numbered(sender, "g", 10, size=700)
        world.run(0.001)
        sender.kill()
        keeper.freeze()
        world.run(2.4)
        keeper.thaw()
        world.loss = None
        world.run(15)
        assert not keeper.was_excluded()
        assert len(keeper.inbox) == 10
        assert other.inbox == keeper.inbox
        check_clean(world)
        check_silent(world)

    def test_a_packet_that_nobody_has_ends_the_stream_at_the_same_place_everywhere(self) -> None:
        """4.2.1: "the protocol does not block"; nobody waits for what cannot come."""
        world = one_region(4, seed=9)
        sender = world.nodes[4]
        world.loss = lambda node, packet: packet[1] == KIND_DATA and sequence_of(packet) == 4
        send_numbered(sender, "g", 100)
        world.run(0.0005)
        sender.kill()
        world.run(15)
        counts = {len(node.inbox) for node in world.nodes[:4]}
        assert len(counts) == 1
        assert 0 < counts.pop() < 100
        check_fifo(world)
        check_clean(world)
        check_silent(world)

    def test_a_stream_that_ended_is_not_continued_after_a_gap(self) -> None:
        """4.2.1 with ARCHITECTURE, "in order, without gaps": later views of a dead sender
        whose earlier packet is lost for good bring nothing more to who lacks it.
        """
        world = one_region(1, seed=10)
        member, sender = world.nodes
        first_view: set[int] = set()
        world.loss = lambda node, packet: (
            node is member
            and is_data(packet)
            and sequence_of(packet) == 3
            and int.from_bytes(packet[16:20], "little") in first_view
        )
        first_view.add(next(iter(member.engine._regions))[1])
        send_numbered(sender, "g", 100)
        world.run(0.01)
        late = world.add_node()
        late.join("g")
        world.settle()
        world.run(0.05)
        send_numbered(sender, "g", 20)
        world.run(0.001)
        sender.kill()
        world.run(15)
        assert len(late.inbox) == 20
        check_fifo(world)
        check_clean(world)
        check_silent(world)


class TestCleanup:
    """ "Every message is guaranteed to be eventually cleaned up" (4.2.1)."""

    @pytest.mark.parametrize("members", [1, 2, 5, 6, 13])
    def test_nothing_is_pending_cached_or_waiting_in_the_end(self, members: int) -> None:
        """4.2.1: with losses on the way."""
        world = one_region(members, seed=members)
        world.loss = lose_data(Rng(1), 0.1)
        send_numbered(world.nodes[-1], "g", 200)
        assert world.run(20, lambda: have_all(world, world.nodes[:members]))
        world.loss = None
        world.run(10)
        check_clean(world)

    @pytest.mark.parametrize("index", range(7))
    def test_messages_of_any_member_are_cleaned_up(self, index: int) -> None:
        """4.2.1: also when the sender leads its own partition, or the region."""
        world = one_region(7, senders=0, seed=2)
        send_numbered(world.nodes[index], "g", 50)
        world.run(10)
        assert have_all(world, [n for n in world.nodes if n.index != index])
        check_clean(world)
        check_silent(world)

    @pytest.mark.parametrize("members", [3, 5, 8])
    def test_rings_of_one_and_deep_hierarchies_agree_too(self, members: int) -> None:
        """4.2.1 C: partitions of two nest several levels and may leave a node alone."""
        settings = ClusterSettings(partition_size=2, replication=2)
        for index in range(members + 1):
            world = one_region(members, settings=settings, seed=2)
            send_numbered(world.nodes[index], "g", 30)
            world.run(8)
            assert have_all(world, [n for n in world.nodes[:members] if n.index != index])
            check_clean(world)
            check_silent(world, 3)

    def test_a_sender_whose_acknowledgements_were_lost_is_told_again(self) -> None:
        """4.2.1: the region has agreed and is silent; the sender asks, and gets an answer."""
        world = one_region(3, seed=10)
        sender = world.nodes[3]
        world.loss = lambda node, packet: node is sender and packet[1] == KIND_CONTROL
        send_numbered(sender, "g", 50)
        world.run(3)
        assert have_all(world, world.nodes[:3])
        world.loss = None
        world.run(10)
        check_clean(world)
        check_silent(world)


class TestQuiescence:
    """ "If no new messages are sent, it is guaranteed to eventually" fall silent (4.2.1)."""

    @pytest.mark.parametrize("members", [1, 2, 5, 11, 30])
    def test_without_traffic_nothing_is_sent(self, members: int) -> None:
        """4.2.1: not one datagram in ten seconds, after traffic with losses."""
        world = one_region(members, seed=members)
        world.loss = lose_data(Rng(2), 0.1)
        send_numbered(world.nodes[-1], "g", 60)
        assert world.run(20, lambda: have_all(world, world.nodes[:members]))
        world.loss = None
        world.run(5)
        check_silent(world)

    def test_the_protocol_falls_silent_after_crashes_too(self) -> None:
        """4.2.1: "the protocol does not block" on those who are gone."""
        world = one_region(7, senders=2, seed=11)
        for sender in world.nodes[7:]:
            send_numbered(sender, "g", 200)
        world.run(0.004)
        world.nodes[0].kill()
        world.nodes[4].kill()
        world.nodes[8].kill()
        world.run(25)
        check_fifo(world)
        check_clean(world)
        check_silent(world)
