"""How recovery works and what it costs: dissertation 4.2.1 C and 4.3, one test a claim."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from quicksilver.multicast.agents import RANGES_SENT_MAX, RECORDS_SENT_MAX
from quicksilver.multicast.config import EngineConfig
from quicksilver.stdx.rand import Rng
from quicksilver.wire.control import Nak, Pull, Record, Token, encode_control, parse_control
from quicksilver.wire.gms import ClusterSettings
from quicksilver.wire.packets import KIND_DATA, KIND_HYBRID, KIND_REPAIR, KIND_TOKEN, POSITION
from tests.kit.checks import check_all, have_all, payload, send_numbered
from tests.kit.cluster import VirtualNode, World, lose_data, one_region
from tests.kit.packets import record, token


class Listener:
    """Notes what goes over the wire."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.tokens: list[tuple[float, VirtualNode, Token, int]] = []
        self.naks: list[tuple[VirtualNode, Nak]] = []
        self.pulls: list[tuple[VirtualNode, tuple[str, int], Pull]] = []
        self.data: list[tuple[float, VirtualNode, tuple[str, int], bytes]] = []
        world.taps.append(self.hear)

    def hear(self, sender: VirtualNode, destination: tuple[str, int], packet: bytes) -> None:
        if packet[1] >= KIND_REPAIR:
            self.data.append((self.world.now, sender, destination, packet))
            return
        control = parse_control(packet)
        if isinstance(control, Token):
            self.tokens.append((self.world.now, sender, control, len(packet)))
        elif isinstance(control, Nak):
            self.naks.append((sender, control))
        elif isinstance(control, Pull):
            self.pulls.append((sender, destination, control))

    def clear(self) -> None:
        for heard in (self.tokens, self.naks, self.pulls, self.data):
            heard.clear()

    def records_of(self, node: int) -> list[tuple[float, Record | None]]:
        """For each token of the wire: the record about one sender, if it has one."""
        return [
            (when, next((r for r in token.records if r.sender == node), None))
            for when, _, token, _ in self.tokens
        ]


def sequence_of(packet: bytes) -> int:
    found: int = POSITION.unpack_from(packet, 20)[0]
    return found


class TestWhoRepairs:
    """Neighbours first, other partitions next, the sender last."""

    def test_a_loss_at_one_node_is_repaired_by_its_peers(self) -> None:
        """4.2.1 C: "recovery from nearest neighbors"; the sender is not asked."""
        world = one_region(4, seed=1)
        victim = world.nodes[1]
        world.loss = lambda node, packet: packet[1] == KIND_DATA and node is victim
        send_numbered(world.nodes[4], "g", 100)
        assert world.run(10, lambda: have_all(world, world.nodes[:4]))
        sender = world.nodes[4].engine.counters
        assert sender.resent - sender.probes <= 0
        assert sum(node.engine.counters.repairs_sent for node in world.nodes[:4]) > 0

    def test_what_the_whole_region_lost_is_repaired_by_the_sender(self) -> None:
        """4.2.1 C: the sender resends what nobody in the region holds."""
        world = one_region(6, seed=2)
        lost = {2, 3, 5}
        world.loss = lambda node, packet: packet[1] == KIND_DATA and sequence_of(packet) in lost
        send_numbered(world.nodes[6], "g", 100)
        assert world.run(10, lambda: have_all(world, world.nodes[:6]))
        assert world.nodes[6].engine.counters.resent >= len(lost)
        world.loss = None
        world.run(10)
        check_all(world)

    def test_partition_leaders_send_naks_directly(self) -> None:
        """4.2.1 C: partition leaders "can send NAKs directly to it"."""
        world = one_region(10, seed=3)
        listener = Listener(world)
        world.loss = lambda node, packet: packet[1] == KIND_DATA and sequence_of(packet) in {2, 3}
        send_numbered(world.nodes[10], "g", 100)
        assert world.run(10, lambda: have_all(world, world.nodes[:10]))
        leaders = {world.nodes[0].engine.node, world.nodes[5].engine.node}
        assert {nak.origin for _, nak in listener.naks} == leaders

    @pytest.mark.slow
    def test_a_burst_lost_by_one_node_is_repaired_by_many_in_parallel(self) -> None:
        """4.2.1 C: "often the entire region is helping to repair the loss at a single node"."""
        world = one_region(20, seed=4)
        listener = Listener(world)
        victim = world.nodes[7]
        world.loss = lambda node, packet: packet[1] == KIND_DATA and node is victim
        send_numbered(world.nodes[20], "g", 600)
        assert world.run(10, lambda: have_all(world, world.nodes[:20]))
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
        world = one_region(5, seed=5)
        world.loss = lose_data(Rng(5), 0.1)
        send_numbered(world.nodes[5], "g", 1000)
        assert world.run(10, lambda: have_all(world, world.nodes[:5]))
        repaired = sum(node.engine.counters.repairs_received for node in world.nodes)
        sent = world.wire[KIND_REPAIR]
        assert repaired > 20
        assert sent <= 2.5 * repaired


class TestCaching:
    """ "Limit caching packets for recovery purposes to only a single partition" (4.2.1 C)."""

    @pytest.mark.parametrize("replication", [1, 2, 5])
    def test_each_packet_is_in_exactly_its_replicas_caches(self, replication: int) -> None:
        """4.2.1 C, Figure 4.12: before it is stable, in a region of 15 nodes."""
        world = one_region(15, settings=ClusterSettings(replication=replication), seed=6)
        world.loss = lambda node, packet: packet[1] == KIND_TOKEN
        send_numbered(world.nodes[15], "g", 300)
        world.run(0.01)
        holders: defaultdict[int, list[int]] = defaultdict(list)
        parts: defaultdict[int, set[int]] = defaultdict(set)
        newest = 0
        for node in world.nodes[:15]:
            (member,) = node.engine._regions.values()
            for stream in member.streams.values():
                newest = max(newest, stream.low)
                for sequence in stream.cache:
                    holders[sequence].append(node.index)
                    parts[sequence].add(node.index // 5)
        assert newest > 20
        assert sorted(holders) == list(range(newest))
        assert {len(nodes) for nodes in holders.values()} == {replication}
        assert {len(found) for found in parts.values()} == {1}
        load = Counter(node for nodes in holders.values() for node in nodes)
        assert len(load) == 15

    @pytest.mark.parametrize(("members", "replication"), [(5, 1), (5, 2), (5, 4), (12, 1), (12, 2)])
    def test_few_replicas_are_enough_wherever_they_are(
        self, members: int, replication: int
    ) -> None:
        """4.2.1 C: also when the copy is with a member of the ring that is not a neighbour."""
        for index in range(3):
            world = one_region(members, settings=ClusterSettings(replication=replication), seed=7)
            victim = world.nodes[index]
            world.loss = lambda node, packet, victim=victim: (
                packet[1] == KIND_DATA and node is victim
            )
            send_numbered(world.nodes[members], "g", 200)
            receivers = world.nodes[:members]
            assert world.run(5, lambda w=world, r=receivers: have_all(w, r))

    def test_a_crash_of_a_whole_partition_loses_nothing_while_the_sender_is_up(self) -> None:
        """4.2.1: all copies in the region are gone; the sender has the last one."""
        world = one_region(10, seed=7)
        victim = world.nodes[0]
        world.loss = lambda node, packet: packet[1] == KIND_DATA and node is victim
        send_numbered(world.nodes[10], "g", 200)
        world.run(0.003)
        for node in world.nodes[5:10]:
            node.kill()
        assert world.run(20, lambda: have_all(world, world.nodes[:5]))
        world.loss = None
        world.run(15)
        check_all(world)

    def test_a_crash_of_replicas_loses_nothing_while_the_sender_is_up(self) -> None:
        """4.2.1: "as long as the sender does not crash", delivery is guaranteed."""
        world = one_region(12, settings=ClusterSettings(replication=1), seed=7)
        victim = world.nodes[0]
        world.loss = lambda node, packet: packet[1] == KIND_DATA and node is victim
        send_numbered(world.nodes[12], "g", 200)
        world.run(0.003)
        world.nodes[5].kill()
        world.nodes[9].kill()
        alive = [node for node in world.nodes[:12] if not node.is_dead]
        assert world.run(20, lambda: have_all(world, alive))
        world.loss = None
        world.run(15)
        check_all(world)


def token_sizes(groups: int, senders: int, seed: int = 8) -> list[int]:
    """Sizes of tokens in a region of 3 while ``senders`` nodes send to ``groups`` groups."""
    world = World(3 + senders, seed=seed)
    names = tuple(f"g{i}" for i in range(groups))
    for node in world.nodes[:3]:
        node.join(*names)
    for node in world.nodes[3:]:
        node.open(*names)
    world.settle()
    listener = Listener(world)
    for step in range(20):
        for node in world.nodes[3:]:
            for turn in range(5):
                name = names[(step * 5 + turn) % groups]
                send_numbered(node, name, 1)
        world.run(0.02)
    active = [token for _, _, token, _ in listener.tokens]
    sizes = [size for _, _, _, size in listener.tokens]
    assert max(len(token.records) for token in active) == senders
    return sizes


class TestOverhead:
    """What a token costs."""

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
        world = one_region(3, senders=9, seed=9)
        for node in world.nodes[3:]:
            send_numbered(node, "g", 5)
        world.run(3)
        listener = Listener(world)
        send_numbered(world.nodes[3], "g", 5)
        world.run(1)
        speaking = world.nodes[3].engine.node
        assert {r.sender for _, _, t, _ in listener.tokens for r in t.records} == {speaking}

    def test_the_largest_token_fits_into_a_datagram(self) -> None:
        """4.2.1 C: "a few hundred bytes" to kilobytes; with all that a ring of a region of
        100 nodes puts into one it must still be a datagram, or the ring would be dead.
        """
        holes = tuple(n for i in range(RANGES_SENT_MAX) for n in ((1 << 31) + 3 * i, 2))
        kept = tuple(n for i in range(20) for n in (i, 1 << 31))
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
                    kept=kept,
                    stable=1 << 31,
                    region_kept=kept,
                )
                for sender in range(RECORDS_SENT_MAX)
            )
        )
        assert len(encode_control(largest)) <= 65_507


class TestQuiescentRecords:
    """A record leaves the token after silence and returns (4.2.1 C)."""

    def test_a_record_leaves_two_or_three_rounds_after_the_sender_falls_silent(self) -> None:
        """4.2.1 C: marked in one round, gone "in the subsequence phases"."""
        world = one_region(3, seed=11)
        sender = world.nodes[3]
        listener = Listener(world)
        send_numbered(sender, "g", 20)
        world.run(3)
        leader = world.nodes[0]
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
        world = one_region(3, seed=12)
        sender = world.nodes[3]
        send_numbered(sender, "g", 20)
        world.run(3)
        listener = Listener(world)
        world.run(2)
        assert listener.tokens == []
        send_numbered(sender, "g", 1)
        world.run(3)
        records = [r for _, r in listener.records_of(sender.engine.node) if r is not None]
        assert records
        assert max(record.low for record in records) == max(record.high for record in records)
        assert have_all(world, world.nodes[:3])

    def test_a_record_is_reinserted_by_the_one_node_that_heard_the_packet(self) -> None:
        """4.2.1 C: "any of the nodes", not the leader alone; all get it then."""
        for hearer in range(3):
            world = one_region(3, seed=13)
            sender = world.nodes[3]
            send_numbered(sender, "g", 20)
            world.run(3)
            only = world.nodes[hearer]
            world.loss = lambda node, packet, only=only: (
                packet[1] in {KIND_DATA, KIND_REPAIR}
                and node is not only
                and packet[1] == KIND_DATA
            )
            send_numbered(sender, "g", 1)
            assert world.run(3, lambda world=world: have_all(world, world.nodes[:3]))


class TestDissemination:
    """4.2.1 B: to regions, or to a hybrid group's own address."""

    def test_a_message_is_sent_once_per_region_of_its_group(self) -> None:
        """4.2.1 B: "multicasting to each of the regions that the group spans over"."""
        world = World(5, seed=14)
        world.nodes[0].join("g", "h")
        world.nodes[1].join("g", "h")
        world.nodes[2].join("g", "i")
        world.nodes[3].join("g")
        world.nodes[4].open("g")
        world.settle()
        listener = Listener(world)
        send_numbered(world.nodes[4], "g", 1)
        world.run(2)
        destinations = Counter(
            d[0] for _, _, d, p in listener.data if p[1] == KIND_DATA and sequence_of(p) == 1
        )
        assert sorted(destinations.values()) == [1, 1, 1]

    def test_a_hybrid_group_sends_one_packet_to_its_own_address(self) -> None:
        """4.2.1 B: "a complete set of per-region headers, using a per-group IP multicast address";
        retransmissions use the regions' addresses.
        """
        world = World(4, seed=15, hybrid=("g",))
        world.nodes[0].join("g", "h")
        world.nodes[1].join("g", "i")
        world.nodes[2].join("g")
        world.nodes[3].open("g")
        world.settle()
        send_numbered(world.nodes[3], "g", 1)
        world.run(2)
        listener = Listener(world)
        world.loss = lose_data(Rng(15), 0.3)
        send_numbered(world.nodes[3], "g", 200)
        assert world.run(10, lambda: have_all(world, world.nodes[:3]))
        hybrid = [d for _, _, d, p in listener.data if p[1] == KIND_HYBRID]
        assert hybrid
        assert len(set(hybrid)) == 1
        assert not [p for _, _, _, p in listener.data if p[1] == KIND_DATA]
        (view,) = (
            v for v in world.nodes[3].engine.client.directory.groups.values() if v.name == "g"
        )
        assert hybrid[0][0] == view.hybrid
        world.loss = None
        world.run(10)
        check_all(world)

    def test_losses_of_hybrid_packets_are_repaired_region_by_region(self) -> None:
        """4.2.1 B: "recovery is also subsequently performed on a per-region basis"."""
        world = World(4, seed=16, hybrid=("g",))
        world.nodes[0].join("g", "h")
        world.nodes[1].join("g", "h")
        world.nodes[2].join("g")
        world.nodes[3].open("g")
        world.settle()
        rng = Rng(16)
        world.loss = lambda node, packet: packet[1] == KIND_HYBRID and rng.chance(0.3)
        send_numbered(world.nodes[3], "g", 300)
        assert world.run(10, lambda: have_all(world, world.nodes[:3]))
        world.loss = None
        world.run(10)
        check_all(world)

    def test_unicast_fan_out_keeps_all_promises(self) -> None:
        """4.2.1 B: dissemination could "remove dependency on IP multicast"."""
        world = one_region(4, seed=17, settings=ClusterSettings(transport="unicast"))
        listener = Listener(world)
        world.loss = lose_data(Rng(17), 0.1)
        send_numbered(world.nodes[4], "g", 300)
        assert world.run(10, lambda: have_all(world, world.nodes[:4]))
        assert not [d for _, _, d, _ in listener.data if d[0].startswith("239.")]
        world.loss = None
        world.run(10)
        check_all(world)


def test_large_messages_survive_loss() -> None:
    """Messages of up to 16 MiB are cut, repaired piece by piece and delivered whole."""
    world = one_region(3, seed=18, config=EngineConfig(packet_bytes=60_000))
    world.loss = lose_data(Rng(18), 0.05)
    sender = world.nodes[3]
    sender.send("g", payload("g", 3, 0), payload("g", 3, 1, 16 << 20), payload("g", 3, 2))
    assert world.run(20, lambda: have_all(world, world.nodes[:3]))
    world.loss = None
    world.run(10)
    check_all(world)
