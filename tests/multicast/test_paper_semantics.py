"""The semantics that dissertation 4.2.1 promises, one test a sentence."""

from __future__ import annotations

import pytest

from quicksilver.trials.workload import send_numbered
from quicksilver.wire.gms import ClusterSettings
from quicksilver.wire.packets import (
    FLAG_FRAGMENT,
    KIND_CONTROL,
    KIND_DATA,
    KIND_REPAIR,
    POSITION,
)
from tests.kit.checks import check_all
from tests.kit.cluster import (
    clear_up,
    have_all,
    inbox,
    lose,
    make_cluster,
    numbers,
    one_region,
    rain,
)


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
        cluster = one_region(members, senders=2, seed=members)
        rain(cluster, 0.1, duplicate_rate=0.05, jitter_s=0.001)
        receivers = cluster.nodes[:members]
        for sender in cluster.nodes[members:]:
            send_numbered(sender, "g", 150)
        assert cluster.run(20, lambda: have_all(receivers))
        clear_up(cluster)
        cluster.run(10)
        check_all(cluster)

    def test_order_holds_across_changes_of_views(self) -> None:
        """4.2.1: joins move nodes between regions in the middle of a stream."""
        cluster = make_cluster(6, seed=3)
        for node in cluster.nodes[:4]:
            node.join("g")
        sender = cluster.nodes[5]
        sender.open("g")
        assert cluster.settle()
        rain(cluster, 0.1, spares_control=True)
        for step in range(12):
            send_numbered(sender, "g", 30)
            if step % 3 == 0:
                cluster.nodes[step // 3].join("h")
            if step == 5:
                cluster.nodes[4].join("g")
            cluster.run(0.02)
        assert cluster.run(20, lambda: have_all(cluster.nodes[:4]))
        clear_up(cluster)
        cluster.run(10)
        check_all(cluster)

    def test_order_holds_for_a_large_message_across_a_change_of_views(self) -> None:
        """4.2.1: the rest of a large message goes on in the old view; what follows waits for it,
        even if another group of the sender has opened the new view meanwhile.
        """
        cluster = make_cluster(5, seed=1)
        for node in cluster.nodes[:2]:
            node.join("g", "h")
        cluster.nodes[2].join("g")
        sender = cluster.nodes[3]
        sender.open("g", "h")
        assert cluster.settle()
        send_numbered(sender, "g", 1, size=600_000)
        cluster.run(0.002)
        victim = cluster.nodes[0]
        lose(
            cluster,
            lambda node, packet: (
                node is victim and is_data(packet) and bool(packet[2] & FLAG_FRAGMENT)
            ),
        )
        cluster.nodes[4].join("g", "h")
        assert cluster.settle()
        send_numbered(sender, "h", 3)
        send_numbered(sender, "g", 1)
        cluster.run(1)
        clear_up(cluster)
        cluster.run(10)
        check_all(cluster)
        assert have_all(cluster.nodes[:3])


class TestCommitment:
    """ "Each message is committed to a group membership view at the time of transmission"."""

    def test_a_message_reaches_every_member_of_its_view_that_stays_up(self) -> None:
        """4.2.1: "eventually delivered to the view", although a member crashes and one leaves."""
        cluster = one_region(5, seed=4)
        sender = cluster.nodes[5]
        rain(cluster, 0.2, spares_control=True)
        send_numbered(sender, "g", 200)
        cluster.run(0.003)
        cluster.nodes[1].crash()
        send_numbered(sender, "g", 200)
        cluster.run(0.05)
        cluster.nodes[2].leave("g")
        send_numbered(sender, "g", 200)
        stayed = [cluster.nodes[0], cluster.nodes[3], cluster.nodes[4]]
        assert cluster.run(20, lambda: have_all(stayed))
        clear_up(cluster)
        cluster.run(10)
        check_all(cluster)

    def test_a_message_reaches_its_view_although_a_member_of_another_partition_crashes(
        self,
    ) -> None:
        """4.2.1: a crash in one partition must not end the agreement of the whole old view."""
        cluster = one_region(6, seed=1)
        sender = cluster.nodes[6]
        rain(cluster, 0.3, spares_control=True)
        send_numbered(sender, "g", 300, size=300)
        cluster.run(0.004)
        cluster.nodes[5].crash()
        assert cluster.run(20, lambda: have_all(cluster.nodes[:5]))
        clear_up(cluster)
        cluster.run(10)
        check_all(cluster)
        assert sender.engine.counters.abandoned == 0

    @pytest.mark.parametrize("crashed", [(1, 2), (0, 1), (3, 4), (4, 5), (2, 4)])
    def test_a_message_reaches_its_view_although_two_members_crash(
        self, crashed: tuple[int, int]
    ) -> None:
        """4.2.1: also when a leader is left alone in its partition."""
        cluster = one_region(6, seed=4)
        sender = cluster.nodes[6]
        rain(cluster, 0.3, spares_control=True)
        send_numbered(sender, "g", 300, size=300)
        cluster.run(0.004)
        for index in crashed:
            cluster.nodes[index].crash()
        alive = [node for node in cluster.nodes[:6] if not node.is_dead]
        assert cluster.run(20, lambda: have_all(alive))
        clear_up(cluster)
        cluster.run(10)
        check_all(cluster)

    def test_a_node_that_joins_later_does_not_get_earlier_messages(self) -> None:
        """4.2.1: it was not in the view to which they were committed."""
        cluster = one_region(2, seed=5)
        sender = cluster.nodes[2]
        send_numbered(sender, "g", 10)
        cluster.run(1)
        (late,) = cluster.start()
        late.join("g")
        assert cluster.settle()
        cluster.run(0.05)
        send_numbered(sender, "g", 10)
        cluster.run(2)
        assert numbers(late, sender) == list(range(10, 20))
        check_all(cluster)

    def test_a_sender_that_leaves_at_once_is_still_heard(self) -> None:
        """4.2.1: what was transmitted before the goodbye is delivered by the semantics."""
        cluster = one_region(3, seed=6)
        sender = cluster.nodes[3]
        send_numbered(sender, "g", 50)
        sender.goodbye()
        cluster.run(5)
        assert [len(inbox(node)) for node in cluster.nodes[:3]] == [50] * 3
        assert not cluster.violations()


class TestSenderCrash:
    """ "Delivered provided that it has been cached on at least one recipient" (4.2.1)."""

    @pytest.mark.parametrize("keeper", [0, 1, 2])
    def test_one_surviving_copy_in_the_region_is_enough(self, keeper: int) -> None:
        """4.2.1: the sender crashes and only one member has the packets."""
        cluster = one_region(3, seed=7)
        sender = cluster.nodes[3]
        kept = cluster.nodes[keeper]
        lose(
            cluster,
            lambda node, packet: (
                packet[1] == KIND_DATA and node is not kept and sequence_of(packet) in {3, 4, 6}
            ),
        )
        send_numbered(sender, "g", 100)
        cluster.run(0.0005)
        sender.crash()
        cluster.run(10)
        assert [len(inbox(node)) for node in cluster.nodes[:3]] == [100] * 3
        check_all(cluster)

    def test_a_sleeping_member_that_has_the_copy_is_waited_for(self) -> None:
        """4.2.1: it has not crashed, so a stream must not be ended without asking it."""
        cluster = one_region(2, seed=8)
        keeper, other, sender = cluster.nodes
        lose(
            cluster,
            lambda node, packet: (
                node is other and is_data(packet) and sequence_of(packet) in {5, 6}
            ),
        )
        send_numbered(sender, "g", 10, size=700)
        cluster.run(0.001)
        sender.crash()
        keeper.freeze(2.5)
        cluster.run(2.4)
        clear_up(cluster)
        cluster.run(15)
        assert not keeper.exclusions
        assert len(inbox(keeper)) == 10
        assert inbox(other) == inbox(keeper)
        check_all(cluster)

    def test_a_packet_that_nobody_has_ends_the_stream_at_the_same_place_everywhere(self) -> None:
        """4.2.1: "the protocol does not block"; nobody waits for what cannot come."""
        cluster = one_region(4, seed=9)
        sender = cluster.nodes[4]
        lose(cluster, lambda node, packet: packet[1] == KIND_DATA and sequence_of(packet) == 4)
        send_numbered(sender, "g", 100)
        cluster.run(0.0005)
        sender.crash()
        cluster.run(15)
        counts = {len(inbox(node)) for node in cluster.nodes[:4]}
        assert len(counts) == 1
        assert 0 < counts.pop() < 100
        check_all(cluster)

    def test_a_stream_that_ended_is_not_continued_after_a_gap(self) -> None:
        """4.2.1 with ARCHITECTURE, "in order, without gaps": later views of a dead sender
        whose earlier packet is lost for good bring nothing more to who lacks it.
        """
        cluster = one_region(1, seed=10)
        member, sender = cluster.nodes
        first_view: set[int] = set()
        lose(
            cluster,
            lambda node, packet: (
                node is member
                and is_data(packet)
                and sequence_of(packet) == 3
                and int.from_bytes(packet[16:20], "little") in first_view
            ),
        )
        first_view.add(next(iter(member.engine._regions))[1])
        send_numbered(sender, "g", 100)
        cluster.run(0.01)
        (late,) = cluster.start()
        late.join("g")
        assert cluster.settle()
        cluster.run(0.05)
        send_numbered(sender, "g", 20)
        cluster.run(0.001)
        sender.crash()
        cluster.run(15)
        assert len(inbox(late)) == 20
        check_all(cluster)


class TestCleanup:
    """ "Every message is guaranteed to be eventually cleaned up" (4.2.1)."""

    @pytest.mark.parametrize("members", [1, 2, 5, 6, 13])
    def test_nothing_is_pending_cached_or_waiting_in_the_end(self, members: int) -> None:
        """4.2.1: with losses on the way."""
        cluster = one_region(members, seed=members)
        rain(cluster, 0.1, spares_control=True)
        send_numbered(cluster.nodes[-1], "g", 200)
        assert cluster.run(20, lambda: have_all(cluster.nodes[:members]))
        clear_up(cluster)
        cluster.run(10)
        check_all(cluster)

    @pytest.mark.parametrize("index", range(7))
    def test_messages_of_any_member_are_cleaned_up(self, index: int) -> None:
        """4.2.1: also when the sender leads its own partition, or the region."""
        cluster = one_region(7, senders=0, seed=2)
        send_numbered(cluster.nodes[index], "g", 50)
        cluster.run(10)
        assert have_all([n for n in cluster.nodes if n.index != index])
        check_all(cluster)

    @pytest.mark.slow
    @pytest.mark.parametrize("members", [3, 5, 8])
    def test_rings_of_one_and_deep_hierarchies_agree_too(self, members: int) -> None:
        """4.2.1 C: partitions of two nest several levels and may leave a node alone."""
        settings = ClusterSettings(partition_size=2, replication=2)
        for index in range(members + 1):
            cluster = one_region(members, settings=settings, seed=2)
            send_numbered(cluster.nodes[index], "g", 30)
            cluster.run(8)
            assert have_all([n for n in cluster.nodes[:members] if n.index != index])
            check_all(cluster)

    def test_a_sender_whose_acknowledgements_were_lost_is_told_again(self) -> None:
        """4.2.1: the region has agreed and is silent; the sender asks, and gets an answer."""
        cluster = one_region(3, seed=10)
        sender = cluster.nodes[3]
        lose(cluster, lambda node, packet: node is sender and packet[1] == KIND_CONTROL)
        send_numbered(sender, "g", 50)
        cluster.run(3)
        assert have_all(cluster.nodes[:3])
        clear_up(cluster)
        cluster.run(10)
        check_all(cluster)


class TestQuiescence:
    """ "If no new messages are sent, it is guaranteed to eventually" fall silent (4.2.1)."""

    @pytest.mark.parametrize("members", [1, 2, 5, 11, 30])
    def test_without_traffic_nothing_is_sent(self, members: int) -> None:
        """4.2.1: not one datagram in ten seconds, after traffic with losses."""
        cluster = one_region(members, seed=members)
        rain(cluster, 0.1, spares_control=True)
        send_numbered(cluster.nodes[-1], "g", 60)
        assert cluster.run(20, lambda: have_all(cluster.nodes[:members]))
        clear_up(cluster)
        cluster.run(5)
        check_all(cluster)

    def test_the_protocol_falls_silent_after_crashes_too(self) -> None:
        """4.2.1: "the protocol does not block" on those who are gone."""
        cluster = one_region(7, senders=2, seed=11)
        for sender in cluster.nodes[7:]:
            send_numbered(sender, "g", 200)
        cluster.run(0.004)
        cluster.nodes[0].crash()
        cluster.nodes[4].crash()
        cluster.nodes[8].crash()
        cluster.run(25)
        check_all(cluster)
