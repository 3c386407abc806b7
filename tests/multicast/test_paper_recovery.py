"""How recovery works and what it costs: dissertation 4.2.1 C and 4.3, one test a claim."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from quicksilver.membership.config import ServiceConfig
from quicksilver.multicast.config import EngineConfig
from quicksilver.multicast.repair.loss_rounds import RECORDS_SENT_MAX
from quicksilver.multicast.repair.recovery import TOKEN_BYTES_MAX, encode_bounded
from quicksilver.stdx.rand import Rng
from quicksilver.stdx.ranges import RangeSet
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.node import SimNode
from quicksilver.trials.workload import send_numbered
from quicksilver.wire.control import RANGES_MAX, Nak, Record, Token, parse_control
from quicksilver.wire.gms import ClusterSettings
from quicksilver.wire.ids import Address
from quicksilver.wire.packets import (
    KIND_DATA,
    KIND_HYBRID,
    KIND_REPAIR,
    KIND_TOKEN,
    POSITION,
    split_hybrid,
)
from tests.kit.checks import check_all
from tests.kit.cluster import clear_up, have_all, lose, make_cluster, one_region, rain
from tests.kit.packets import record, token


class Listener:
    """Notes what goes over the wire."""

    def __init__(self, cluster: Cluster) -> None:
        self.tokens: list[tuple[float, SimNode, Token, int]] = []
        self.naks: list[tuple[SimNode, Nak]] = []
        self.data: list[tuple[float, SimNode, Address, bytes]] = []
        self._nodes = {node.address: node for node in cluster.nodes}
        cluster.network.taps.append(self.hear)

    def hear(self, at: float, source: Address, destination: Address, packet: bytes) -> None:
        sender = self._nodes[source]
        if packet[1] >= KIND_REPAIR:
            self.data.append((at, sender, destination, packet))
            return
        control = parse_control(packet)
        if isinstance(control, Token):
            self.tokens.append((at, sender, control, len(packet)))
        elif isinstance(control, Nak):
            self.naks.append((sender, control))

    def records_of(self, node: int) -> list[tuple[float, Record | None]]:
        """For each token of the wire: the record about one sender, if it has one."""
        return [
            (when, next((r for r in token.records if r.sender == node), None))
            for when, _, token, _ in self.tokens
        ]


HYBRID = ServiceConfig(hybrid=frozenset({"g"}))


def sequence_of(packet: bytes) -> int:
    found: int = POSITION.unpack_from(packet, 20)[0]
    return found


class TestWhoRepairs:
    """Neighbours first, other partitions next, the sender last."""

    def test_a_loss_at_one_node_is_repaired_by_its_peers(self) -> None:
        """4.2.1 C: "recovery from nearest neighbors"; the sender is not asked."""
        cluster = one_region(4, seed=1)
        victim = cluster.nodes[1]
        lose(cluster, lambda node, packet: packet[1] == KIND_DATA and node is victim)
        send_numbered(cluster.nodes[4], "g", 100)
        assert cluster.run(10, lambda: have_all(cluster.nodes[:4]))
        sender = cluster.nodes[4].engine.counters
        assert sender.resent - sender.probes <= 0
        assert sum(node.engine.counters.repairs_sent for node in cluster.nodes[:4]) > 0

    def test_what_the_whole_region_lost_is_repaired_by_the_sender(self) -> None:
        """4.2.1 C: the sender resends what nobody in the region holds."""
        cluster = one_region(6, seed=2)
        lost = {2, 3, 5}
        lose(cluster, lambda node, packet: packet[1] == KIND_DATA and sequence_of(packet) in lost)
        send_numbered(cluster.nodes[6], "g", 100)
        assert cluster.run(10, lambda: have_all(cluster.nodes[:6]))
        assert cluster.nodes[6].engine.counters.resent >= len(lost)
        clear_up(cluster)
        cluster.run(10)
        check_all(cluster)

    def test_partition_leaders_send_naks_directly(self) -> None:
        """4.2.1 C: partition leaders "can send NAKs directly to it"."""
        cluster = one_region(10, seed=3)
        listener = Listener(cluster)
        lose(cluster, lambda node, packet: packet[1] == KIND_DATA and sequence_of(packet) in {2, 3})
        send_numbered(cluster.nodes[10], "g", 100)
        assert cluster.run(10, lambda: have_all(cluster.nodes[:10]))
        leaders = {cluster.nodes[0].engine.node, cluster.nodes[5].engine.node}
        assert {nak.origin for _, nak in listener.naks} == leaders

    @pytest.mark.slow
    def test_a_burst_lost_by_one_node_is_repaired_by_many_in_parallel(self) -> None:
        """4.2.1 C: "often the entire region is helping to repair the loss at a single node"."""
        cluster = one_region(20, seed=4)
        listener = Listener(cluster)
        victim = cluster.nodes[7]
        lose(cluster, lambda node, packet: packet[1] == KIND_DATA and node is victim)
        send_numbered(cluster.nodes[20], "g", 600)
        assert cluster.run(10, lambda: have_all(cluster.nodes[:20]))
        helpers = Counter(
            sender.index
            for _, sender, destination, packet in listener.data
            if packet[1] == KIND_REPAIR and destination == victim.address
        )
        helpers.pop(20, None)
        assert len(helpers) >= 8
        assert max(helpers.values()) < 0.4 * sum(helpers.values())

    def test_repairs_are_not_multiplied(self) -> None:
        """4.3.7: recovery "triggered (only) by circulating tokens" from fresh state."""
        cluster = one_region(5, seed=5)
        rain(cluster, 0.1, spares_control=True)
        listener = Listener(cluster)
        send_numbered(cluster.nodes[5], "g", 1000)
        assert cluster.run(10, lambda: have_all(cluster.nodes[:5]))
        repaired = sum(node.engine.counters.repairs_received for node in cluster.nodes)
        sent = sum(packet[1] == KIND_REPAIR for *_, packet in listener.data)
        assert repaired > 20
        assert sent <= 2.5 * repaired


class TestCaching:
    """ "Limit caching packets for recovery purposes to only a single partition" (4.2.1 C)."""

    @pytest.mark.parametrize("replication", [1, 2, 5])
    def test_each_packet_is_in_exactly_its_keepers_caches(self, replication: int) -> None:
        """4.2.1 C, Figure 4.12: before it is stable, in a region of 15 nodes."""
        cluster = one_region(15, settings=ClusterSettings(replication=replication), seed=6)
        lose(cluster, lambda node, packet: packet[1] == KIND_TOKEN)
        send_numbered(cluster.nodes[15], "g", 300)
        cluster.run(0.01)
        holders: defaultdict[int, list[int]] = defaultdict(list)
        parts: defaultdict[int, set[int]] = defaultdict(set)
        newest = 0
        for node in cluster.nodes[:15]:
            (member,) = node.engine._regions.values()
            for stream in member.streams.values():
                newest = max(newest, stream.low)
                for sequence in stream.copies.packets:
                    holders[sequence].append(node.index)
                    parts[sequence].add(node.index // 5)
        assert newest > 20
        assert sorted(holders) == list(range(newest))
        assert {len(nodes) for nodes in holders.values()} == {replication}
        assert {len(found) for found in parts.values()} == {1}
        load = Counter(node for nodes in holders.values() for node in nodes)
        assert len(load) == 15

    @pytest.mark.parametrize(("members", "replication"), [(5, 1), (5, 2), (5, 4), (12, 1), (12, 2)])
    def test_few_copies_are_enough_wherever_they_are(self, members: int, replication: int) -> None:
        """4.2.1 C: also when the copy is with a member of the ring that is not a neighbour."""
        for index in range(3):
            cluster = one_region(members, settings=ClusterSettings(replication=replication), seed=7)
            victim = cluster.nodes[index]
            lose(
                cluster,
                lambda node, packet, victim=victim: packet[1] == KIND_DATA and node is victim,
            )
            send_numbered(cluster.nodes[members], "g", 200)
            receivers = cluster.nodes[:members]
            assert cluster.run(5, lambda nodes=receivers: have_all(nodes))

    def test_a_crash_of_a_whole_partition_loses_nothing_while_the_sender_is_up(self) -> None:
        """4.2.1: all copies in the region are gone; the sender has the last one."""
        cluster = one_region(10, seed=7)
        victim = cluster.nodes[0]
        lose(cluster, lambda node, packet: packet[1] == KIND_DATA and node is victim)
        send_numbered(cluster.nodes[10], "g", 200)
        cluster.run(0.003)
        for node in cluster.nodes[5:10]:
            node.crash()
        assert cluster.run(20, lambda: have_all(cluster.nodes[:5]))
        clear_up(cluster)
        cluster.run(15)
        check_all(cluster)

    def test_a_crash_of_keepers_loses_nothing_while_the_sender_is_up(self) -> None:
        """4.2.1: "as long as the sender does not crash", delivery is guaranteed."""
        cluster = one_region(12, settings=ClusterSettings(replication=1), seed=7)
        victim = cluster.nodes[0]
        lose(cluster, lambda node, packet: packet[1] == KIND_DATA and node is victim)
        send_numbered(cluster.nodes[12], "g", 200)
        cluster.run(0.003)
        cluster.nodes[5].crash()
        cluster.nodes[9].crash()
        alive = [node for node in cluster.nodes[:12] if not node.is_dead]
        assert cluster.run(20, lambda: have_all(alive))
        clear_up(cluster)
        cluster.run(15)
        check_all(cluster)


def token_sizes(groups: int, senders: int, seed: int = 8) -> list[int]:
    """Sizes of tokens in a region of 3 while ``senders`` nodes send to ``groups`` groups."""
    cluster = make_cluster(3 + senders, seed=seed)
    names = tuple(f"g{i}" for i in range(groups))
    for node in cluster.nodes[:3]:
        node.join(*names)
    for node in cluster.nodes[3:]:
        node.open(*names)
    assert cluster.settle()
    listener = Listener(cluster)
    for step in range(20):
        for node in cluster.nodes[3:]:
            for turn in range(5):
                name = names[(step * 5 + turn) % groups]
                send_numbered(node, name, 1)
        cluster.run(0.02)
    active = [token for _, _, token, _ in listener.tokens]
    sizes = [size for _, _, _, size in listener.tokens]
    assert max(len(token.records) for token in active) == senders
    return sizes


class TestOverhead:
    """What a token costs."""

    @pytest.mark.slow
    def test_recovery_overhead_is_independent_of_the_number_of_groups(self) -> None:
        """4.2.1 C: "independent of the number |S| of groups overlapping on it"."""
        one, thousand = token_sizes(1, 1), token_sizes(1000, 1)
        assert max(thousand) <= max(one) + 4
        assert abs(len(one) - len(thousand)) <= 0.2 * len(one)

    def test_token_size_is_proportional_to_active_senders(self) -> None:
        """4.2.1 C: "proportional only to the number of actively multicasting senders"."""
        one, eight = max(token_sizes(1, 1)), max(token_sizes(1, 8))
        each = one - 30
        assert 4 * each <= eight <= 30 + 8 * (each + 8)

    def test_a_silent_sender_costs_nothing(self) -> None:
        """4.2.1 C: records of senders "that are not currently multicasting" are left out."""
        cluster = one_region(3, senders=9, seed=9)
        for node in cluster.nodes[3:]:
            send_numbered(node, "g", 5)
        cluster.run(3)
        listener = Listener(cluster)
        send_numbered(cluster.nodes[3], "g", 5)
        cluster.run(1)
        speaking = cluster.nodes[3].engine.node
        assert {r.sender for _, _, t, _ in listener.tokens for r in t.records} == {speaking}

    def test_the_largest_token_fits_and_tells_of_every_sender(self) -> None:
        """4.2.1 C: a token is proportional to the senders; none may be left out of one."""
        holes = tuple(n for i in range(RANGES_MAX) for n in ((1 << 31) + 3 * i, 2))
        largest = token(
            records=tuple(
                record(
                    (1 << 31) + sender,
                    high=1 << 31,
                    low=1 << 31,
                    missing=holes,
                    missing_limit=1 << 31,
                    wanted=holes,
                    previous=holes,
                    previous_limit=1 << 31,
                    unasked=holes,
                    unkept=holes,
                    unkept_limit=1 << 31,
                    stable=1 << 31,
                    region_unkept=holes,
                    region_unkept_limit=1 << 31,
                )
                for sender in range(RECORDS_SENT_MAX)
            )
        )
        packet = encode_bounded(largest, to=1)
        assert len(packet) <= TOKEN_BYTES_MAX
        sent = parse_control(packet)
        assert isinstance(sent, Token)
        assert [r.sender for r in sent.records] == [r.sender for r in largest.records]
        assert len({len(r.missing) for r in sent.records}) == 1
        for each in sent.records:
            told = RangeSet.parse_flat(each.missing, RANGES_MAX)
            assert told
            assert each.missing_limit <= told.last() + 1


class TestQuiescentRecords:
    """A record leaves the token after silence and returns (4.2.1 C)."""

    def test_a_record_leaves_two_or_three_rounds_after_the_sender_falls_silent(self) -> None:
        """4.2.1 C: marked in one round, gone "in the subsequence phases"."""
        cluster = one_region(3, seed=11)
        sender = cluster.nodes[3]
        listener = Listener(cluster)
        send_numbered(sender, "g", 20)
        cluster.run(3)
        leader = cluster.nodes[0]
        rounds = [
            (token.round, next((r for r in token.records), None))
            for _, node, token, _ in listener.tokens
            if node is leader
        ]
        high = max(r.high for _, r in rounds if r is not None)
        settled = next(n for n, r in rounds if r is not None and r.low >= high and r.stable >= high)
        last = max(n for n, r in rounds if r is not None)
        assert 1 <= last - settled <= 3
        assert max(n for n, _ in rounds) <= last + 1

    def test_a_record_returns_with_the_next_packet(self) -> None:
        """4.2.1 C: a node that receives a message "spontaneously reinserts the recovery record"."""
        cluster = one_region(3, seed=12)
        sender = cluster.nodes[3]
        send_numbered(sender, "g", 20)
        cluster.run(3)
        listener = Listener(cluster)
        cluster.run(2)
        assert listener.tokens == []
        send_numbered(sender, "g", 1)
        cluster.run(3)
        records = [r for _, r in listener.records_of(sender.engine.node) if r is not None]
        assert records
        assert max(record.low for record in records) == max(record.high for record in records)
        assert have_all(cluster.nodes[:3])

    def test_a_record_is_reinserted_by_the_one_node_that_heard_the_packet(self) -> None:
        """4.2.1 C: "any of the nodes", not the leader alone; all get it then."""
        for hearer in range(3):
            cluster = one_region(3, seed=13)
            sender = cluster.nodes[3]
            send_numbered(sender, "g", 20)
            cluster.run(3)
            only = cluster.nodes[hearer]
            lose(
                cluster,
                lambda node, packet, only=only: packet[1] == KIND_DATA and node is not only,
            )
            send_numbered(sender, "g", 1)
            assert cluster.run(3, lambda nodes=cluster.nodes[:3]: have_all(nodes))


class TestDissemination:
    """4.2.1 B: to regions, or to a hybrid group's own address."""

    def test_a_message_is_sent_once_per_region_of_its_group(self) -> None:
        """4.2.1 B: "multicasting to each of the regions that the group spans over"."""
        cluster = make_cluster(5, seed=14)
        cluster.nodes[0].join("g", "h")
        cluster.nodes[1].join("g", "h")
        cluster.nodes[2].join("g", "i")
        cluster.nodes[3].join("g")
        cluster.nodes[4].open("g")
        assert cluster.settle()
        listener = Listener(cluster)
        send_numbered(cluster.nodes[4], "g", 1)
        cluster.run(2)
        destinations = Counter(
            d[0] for _, _, d, p in listener.data if p[1] == KIND_DATA and sequence_of(p) == 1
        )
        assert sorted(destinations.values()) == [1, 1, 1]

    def test_a_hybrid_group_sends_one_packet_to_its_own_address(self) -> None:
        """4.2.1 B: "a complete set of per-region headers, using a per-group IP multicast address";
        retransmissions use the regions' addresses.
        """
        cluster = make_cluster(4, seed=15, gms_config=HYBRID)
        cluster.nodes[0].join("g", "h")
        cluster.nodes[1].join("g", "i")
        cluster.nodes[2].join("g")
        cluster.nodes[3].open("g")
        assert cluster.settle()
        send_numbered(cluster.nodes[3], "g", 1)
        cluster.run(2)
        listener = Listener(cluster)
        rain(cluster, 0.3, spares_control=True)
        send_numbered(cluster.nodes[3], "g", 200)
        assert cluster.run(10, lambda: have_all(cluster.nodes[:3]))
        hybrid = [(d, p) for _, _, d, p in listener.data if p[1] == KIND_HYBRID]
        again = [(d, p) for _, _, d, p in listener.data if p[1] != KIND_HYBRID]
        (view,) = (v for v in cluster.nodes[3].session.directory.groups.values() if v.name == "g")
        assert {destination[0] for destination, _ in hybrid} == {view.hybrid}
        sent = [
            (key, sequence_of(head)) for _, packet in hybrid for key, head in split_hybrid(packet)
        ]
        assert len({key for key, _ in sent}) == 3
        assert len(set(sent)) == len(sent)
        assert {(packet[4:20], sequence_of(packet)) for _, packet in again} <= set(sent)
        assert view.hybrid not in {destination[0] for destination, _ in again}
        assert again
        clear_up(cluster)
        cluster.run(10)
        check_all(cluster)

    def test_losses_of_hybrid_packets_are_repaired_region_by_region(self) -> None:
        """4.2.1 B: "recovery is also subsequently performed on a per-region basis"."""
        cluster = make_cluster(4, seed=16, gms_config=HYBRID)
        cluster.nodes[0].join("g", "h")
        cluster.nodes[1].join("g", "h")
        cluster.nodes[2].join("g")
        cluster.nodes[3].open("g")
        assert cluster.settle()
        rng = Rng(16)
        lose(cluster, lambda node, packet: packet[1] == KIND_HYBRID and rng.chance(0.3))
        send_numbered(cluster.nodes[3], "g", 300)
        assert cluster.run(10, lambda: have_all(cluster.nodes[:3]))
        clear_up(cluster)
        cluster.run(10)
        check_all(cluster)

    def test_unicast_fan_out_keeps_all_promises(self) -> None:
        """4.2.1 B: dissemination could "remove dependency on IP multicast"."""
        cluster = one_region(4, seed=17, settings=ClusterSettings(transport="unicast"))
        listener = Listener(cluster)
        rain(cluster, 0.1, spares_control=True)
        send_numbered(cluster.nodes[4], "g", 300)
        assert cluster.run(10, lambda: have_all(cluster.nodes[:4]))
        assert not [d for _, _, d, _ in listener.data if d[0].startswith("239.")]
        clear_up(cluster)
        cluster.run(10)
        check_all(cluster)


def test_large_messages_survive_loss() -> None:
    """Messages of up to 16 MiB are cut, repaired piece by piece and delivered whole."""
    cluster = one_region(3, seed=18, config=EngineConfig(packet_bytes=60_000))
    rain(cluster, 0.05, spares_control=True)
    sender = cluster.nodes[3]
    for size in (100, 16 << 20, 100):
        send_numbered(sender, "g", 1, size)
    assert cluster.run(20, lambda: have_all(cluster.nodes[:3]))
    clear_up(cluster)
    cluster.run(10)
    check_all(cluster)
