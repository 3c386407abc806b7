"""What a datagram can make a node send: little to an address that has not proven itself.

The attacker forges the address of a member. It does not see what is sent there.
"""

from __future__ import annotations

from collections import Counter

import pytest

from quicksilver.core.pull import Sink
from quicksilver.multicast.answers import ANSWERED_S
from quicksilver.multicast.config import EngineConfig
from quicksilver.multicast.counters import Counters
from quicksilver.multicast.feeds import PEERS_MAX as PEERS_SERVED_MAX
from quicksilver.multicast.feeds import RepairFeed
from quicksilver.multicast.peers import (
    BYTES_MAX,
    PEERS_MAX,
    UNHEARD_BYTES_MAX,
    UNHEARD_S,
    Peers,
)
from quicksilver.multicast.repair.acknowledgements import PAUSE_S_MAX
from quicksilver.sim.model import HostModel
from quicksilver.stdx.ranges import RangeSet
from quicksilver.trials.node import SimNode
from quicksilver.trials.workload import send_numbered
from quicksilver.wire.control import (
    Ack,
    Challenge,
    Control,
    Extent,
    Nak,
    Pull,
    Wake,
    encode_control,
    parse_control,
    parse_stamp,
    stamp_control,
)
from quicksilver.wire.ids import Address
from quicksilver.wire.packets import KIND_CONTROL, KIND_DATA, KIND_REPAIR, POSITION
from tests.kit.checks import check_all
from tests.kit.cluster import clear_up, forge, have_all, inject, lose, one_region
from tests.kit.packets import record, token

AMPLIFICATION_MAX = 3
EVERYTHING = (0, 1 << 40)


class Field:
    """Five members, the last of them mute, so that copies of a sender's packets stay."""

    def __init__(self, config: EngineConfig | None = None) -> None:
        config = config or EngineConfig(packet_bytes=1400)
        self.cluster = one_region(5, seed=3, config=config)
        *self.members, self.mute, self.sender = self.cluster.nodes
        self.sent: Counter[Address] = Counter()
        """Bytes of repairs, by whom they were sent to."""
        self.packets: Counter[tuple[Address, int]] = Counter()
        """Times that a packet was sent again, by whom it was for and its number."""
        self.all_bytes = 0
        """Of whatever kind, from all nodes but the mute one."""
        send_numbered(self.sender, "g", 5)
        self.cluster.run(0.5)
        self.mute.host.weather.drop_rate = 1.0
        self.cluster.network.set_island(self.mute.index, 9)
        send_numbered(self.sender, "g", 400, size=1200)
        self.cluster.run(0.5)
        self.cluster.network.taps.append(self._hear)
        (self.region,) = {
            (region.id, region.number)
            for node in self.members
            for region in node.engine.regions()
            if region.retired_at is None
        }

    def _hear(self, at: float, source: Address, to: Address, packet: bytes) -> None:
        if source != self.mute.address:
            self.all_bytes += len(packet)
        if packet[1] == KIND_REPAIR:
            self.sent[to] += len(packet)
            self.packets[to, POSITION.unpack_from(packet, 20)[0]] += 1

    def names(self, origin: SimNode) -> tuple[int, int, int, int]:
        return (self.sender.engine.cluster, origin.id, *self.region)

    def bombard(
        self, target: SimNode, claimed: SimNode, packets: list[bytes], seconds: float
    ) -> int:
        """Let packets arrive, evenly in time, from a member's address; return their bytes."""
        for number, packet in enumerate(packets):
            inject(target, packet, claimed.address, number * seconds / len(packets))
        self.cluster.run(seconds + 0.05)
        return sum(map(len, packets))


def forgeries(field: Field) -> dict[str, tuple[SimNode, Control]]:
    """What can be asked in the name of the mute member, and of whom."""
    a, sender = field.members[0], field.sender
    lie = record(sender.id, high=1 << 40, unasked=(0, 400), previous=(), previous_limit=1 << 40)
    cluster, mute, region, view = field.names(field.mute)
    names = {"cluster": cluster, "origin": mute, "region": region, "view": view}
    leading = {"leader": a.id, "level": 0, "ring": 0, "skipped": ()}
    return {
        "pull": (a, Pull(*field.names(field.mute), sender.id, EVERYTHING)),
        "pull of the sender": (sender, Pull(*field.names(field.mute), sender.id, EVERYTHING)),
        "nak": (sender, Nak(*field.names(field.mute), EVERYTHING)),
        "nak of a view that never was": (sender, Nak(cluster, mute, region, view + 7, (0, 1))),
        "token": (field.members[1], token(**names, **leading, records=(lie,))),
        "roll call": (a, token(**names, **(leading | {"leader": mute}), direct=True, records=())),
        "wake": (a, Wake(*field.names(field.mute), 0, 0)),
        "extent": (a, Extent(*field.names(sender), 0)),
        "ack": (sender, Ack(*field.names(a), 0, 0, 0, 1 << 40, (), 0, 0, 1 << 20, 9, 1, 0.0)),
        "challenge": (a, Challenge(cluster, mute)),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", list(forgeries(Field())))
def test_a_forged_address_gets_no_more_than_three_times_what_was_sent(name: str) -> None:
    """A Pull brought 2,528 bytes for each of its own, a Nak 196, to whom they were not from.

    Counted is all that all nodes send, less what they send without the attack.
    """
    spent = []
    brought = 0
    for attacks in (False, True):
        field = Field()
        target, packet = forgeries(field)[name]
        claimed = next(node for node in field.cluster.nodes if node.id == packet.origin)
        data = encode_control(packet, target.id)
        unproven = target.engine.counters.unproven
        brought = field.bombard(target, claimed, [data] * (300 if attacks else 1), 0.3)
        spent.append(field.all_bytes)
        assert target.engine.counters.unproven - unproven == (300 if attacks else 1)
    assert spent[1] - spent[0] <= AMPLIFICATION_MAX * brought


def test_a_guessed_proof_is_no_proof() -> None:
    """64 bits: neither none, nor what others are told, nor what the node itself has to say."""
    field = Field()
    target, other, claimed = field.members[0], field.members[1], field.mute
    peers = target.engine.environment.peers
    guesses = [0, 1, (1 << 64) - 1, peers.nonce_for(other.id), peers.nonce_for(target.id)]
    guesses.append(claimed.engine.environment.peers.nonce_for(target.id))
    pull = encode_control(Pull(*field.names(claimed), field.sender.id, EVERYTHING), target.id)
    field.bombard(target, claimed, [stamp_control(pull, 5, guess) for guess in guesses], 0.1)
    assert not field.sent[claimed.address]
    assert len({peers.nonce_for(node.id) for node in field.cluster.nodes}) == 6


def test_a_member_that_proves_itself_is_served() -> None:
    """The same Pull with what its node was told brings all that is held."""
    field = Field()
    target, liar = field.members[0], field.mute
    pull = Pull(*field.names(liar), field.sender.id, EVERYTHING)
    inject(target, forge(target, liar, pull), liar.address)
    field.cluster.run(0.1)
    assert field.sent[liar.address] > 100 * 1200


def test_a_request_to_a_stranger_is_answered_after_a_challenge_and_at_once() -> None:
    """Two nodes that never spoke need one more round trip, not another attempt."""
    config = EngineConfig(packet_bytes=1400, request_retry_s=5.0)
    cluster = one_region(10, seed=8, config=config)
    victim = cluster.nodes[7]
    heard: Counter[str] = Counter()

    def hear(at: float, source: Address, to: Address, packet: bytes) -> None:
        if packet[1] == KIND_CONTROL:
            heard[type(parse_control(packet)).__name__] += 1

    cluster.network.taps.append(hear)
    lose(cluster, lambda node, packet: packet[1] == KIND_DATA and node is victim)
    send_numbered(cluster.nodes[10], "g", 100)
    cluster.run(0.02)
    clear_up(cluster)
    send_numbered(cluster.nodes[10], "g", 1)
    assert cluster.run(1.0, lambda: have_all(cluster.nodes[:10]))
    assert heard["Pull"]
    assert heard["Challenge"]
    cluster.run(5)
    before = heard["Challenge"]
    send_numbered(cluster.nodes[10], "g", 100)
    cluster.run(1)
    assert heard["Challenge"] == before
    check_all(cluster)


# Members that ask for too much


def test_a_member_gets_a_packet_once_in_a_while_however_often_it_asks() -> None:
    """Nothing is repeated within ``ANSWERED_S``: the request crossed the packet."""
    field = Field()
    target, liar = field.members[0], field.mute
    pull = Pull(*field.names(liar), field.sender.id, (0, 50))
    packet = forge(target, liar, pull)
    field.bombard(target, liar, [packet] * 1000, 0.5)
    times = max(field.packets[liar.address, number] for number in range(50))
    assert 2 <= times <= 0.5 / ANSWERED_S + 1


def test_a_member_that_asks_for_everything_for_ever_gets_its_share() -> None:
    """A burst as large as the cache, then a rate: whatever it asks for."""
    burst, rate = 100_000, 200_000
    config = EngineConfig(
        packet_bytes=1400, repair_peer_burst_bytes=burst, repair_peer_bytes_per_s=rate
    )
    field = Field(config)
    target, liar = field.members[0], field.mute
    pull = Pull(*field.names(liar), field.sender.id, EVERYTHING)
    field.bombard(target, liar, [forge(target, liar, pull)] * 500, 1.0)
    others = sum(node.engine.counters.repairs_sent for node in field.members[1:])
    assert not others
    assert burst < field.sent[liar.address] <= burst + 1.1 * rate + 61_400
    assert target.engine.counters.repairs_refused


def test_a_member_that_asks_the_sender_again_and_again_gets_a_stream_s_rate() -> None:
    """What is resent goes to everybody: a window at once, then a rate."""
    config = EngineConfig(packet_bytes=1400, resend_bytes_per_s=50_000, window_bytes_max=150_000)
    field = Field(config)
    liar, sender = field.members[2], field.sender
    for member in field.members:
        # What nobody acknowledges stays in the window.
        field.cluster.network.cut(member.index, sender.index)
    send_numbered(sender, "g", 100, size=1200)
    field.cluster.run(0.05)
    nak = Nak(*field.names(liar), (0, 600))
    field.bombard(sender, liar, [forge(sender, liar, nak)] * 400, 2.0)
    resent = sum(size for to, size in field.sent.items() if to[0].startswith("239."))
    assert 50_000 < resent <= 150_000 + 2.1 * 50_000 + 1400
    assert sender.engine.counters.resends_refused


def test_streams_that_never_were_are_denied_at_a_rate() -> None:
    """Each answer goes to all members; a liar may name as many views as it likes."""
    field = Field()
    liar, sender = field.members[2], field.sender
    cluster, origin, region, view = field.names(liar)
    naks = [Nak(cluster, origin, region, view + 1 + n, (0, 1)) for n in range(1000)]
    before = field.all_bytes
    field.bombard(sender, liar, [forge(sender, liar, nak) for nak in naks], 1.0)
    extent = len(encode_control(Extent(cluster, sender.id, region, view, 0)))
    background = 100_000
    assert field.all_bytes - before < 5 * extent * 210 + background


class TestCatchingUp:
    """Limits must not slow down those for whom repairs are made."""

    def freeze_and_count(self, config: EngineConfig) -> float:
        """Return how long a member needs that stood still for half a second at a high rate."""
        cluster = one_region(4, seed=5, config=config, model=HostModel())
        frozen, sender = cluster.nodes[1], cluster.nodes[4]
        for _ in range(100):
            send_numbered(sender, "g", 20, size=20_000)
            cluster.run(0.005)
        frozen.host.freeze(0.5)
        for _ in range(100):
            send_numbered(sender, "g", 20, size=20_000)
            cluster.run(0.005)
        begun = cluster.now
        assert cluster.run(20, lambda: have_all([frozen]))
        assert frozen.engine.counters.repairs_received > 50
        return cluster.now - begun

    @pytest.mark.slow
    def test_a_node_that_stood_still_catches_up_as_fast_as_without_limits(self) -> None:
        """A freeze of half a second at 80 MB/s: what it lacks then is still kept for it."""
        limited = EngineConfig(receive_buffer_bytes=8 << 20)
        free = EngineConfig(
            receive_buffer_bytes=8 << 20,
            repair_peer_bytes_per_s=1e12,
            repair_peer_burst_bytes=1 << 40,
            resend_bytes_per_s=1e12,
        )
        as_limited = self.freeze_and_count(limited)
        assert as_limited <= 1.05 * self.freeze_and_count(free) + 0.01


# Acknowledgements


def acknowledgement(field: Field, origin: SimNode) -> Ack:
    """Return what frees all that the sender has sent."""
    end = 1 << 40
    return Ack(*field.names(origin), end, end, 0, end, (), end, 0, 1 << 20, 0, 1, 0.0)


class TestWhoAcknowledges:
    """Acknowledgements free packets: they count from whoever leads the region's rounds."""

    def test_those_of_another_member_do_not_count(self) -> None:
        """Any member could make all others lose what they lack."""
        field = Field()
        field.cluster.run(1.03)
        (stream,) = field.sender.engine.outgoing.streams.sending.values()
        unacknowledged = len(stream.packets)
        assert unacknowledged
        for liar in field.members[1:]:
            ack = forge(field.sender, liar, acknowledgement(field, liar))
            inject(field.sender, ack, liar.address)
        field.cluster.run(0.02)
        assert len(stream.packets) == unacknowledged
        assert field.sender.engine.counters.ack_refused == 3

    def test_those_of_the_leader_do(self) -> None:
        """It is trusted, as it must be."""
        field = Field()
        (stream,) = field.sender.engine.outgoing.streams.sending.values()
        leader = field.members[0]
        ack = forge(field.sender, leader, acknowledgement(field, leader))
        inject(field.sender, ack, leader.address)
        field.cluster.run(0.001)
        assert not stream.packets

    def test_those_of_a_stand_in_count_once_the_leader_is_silent(self) -> None:
        """As long as it takes a member to stand in, and not before."""
        field = Field()
        (stream,) = field.sender.engine.outgoing.streams.sending.values()
        leader, stand_in = field.members[:2]
        field.cluster.run(1.03)
        field.cluster.network.set_island(leader.index, 8)
        ack = forge(field.sender, stand_in, acknowledgement(field, stand_in))
        stand_in_s = field.sender.config.stand_in_s
        field.cluster.run(stand_in_s - PAUSE_S_MAX - 0.01)
        inject(field.sender, ack, stand_in.address)
        field.cluster.run(0.02)
        assert stream.packets
        field.cluster.run(PAUSE_S_MAX + 0.01)
        inject(field.sender, ack, stand_in.address)
        field.cluster.run(0.02)
        assert not stream.packets

    def test_a_member_of_no_leading_domain_never_does(self) -> None:
        """In a large region the leaders of partitions lead, and one who may follow the first."""
        cluster = one_region(12, seed=4)
        sender = cluster.nodes[12]
        for node in cluster.nodes[:12]:
            cluster.network.cut(node.index, sender.index)
        send_numbered(sender, "g", 50)
        cluster.run(1.0)
        (stream,) = sender.engine.outgoing.streams.sending.values()
        names = (sender.engine.cluster, stream.region, stream.view)
        counted = []
        for node in cluster.nodes[:12]:
            held = len(stream.packets)
            ack = Ack(names[0], node.id, *names[1:], 1, 1, 0, 1, (), 1, 0, 1 << 20, 0, 1, 0.0)
            before = sender.engine.counters.ack_received
            inject(sender, forge(sender, node, ack), node.address)
            cluster.run(0.001)
            assert held - len(stream.packets) in {0, 1}
            if sender.engine.counters.ack_received > before:
                counted.append(node.index)
            stream.leader_heard_at = -10.0
        assert counted == [0, 1, 4, 8]


# The tables


class TestPeers:
    """Who has shown that it receives at its address."""

    def test_what_is_known_is_not_replaced_without_proof(self) -> None:
        """A forged packet must not make a node say the wrong thing from then on."""
        a, b = Peers(1), Peers(2)
        a.become(1)
        b.become(2)
        packet = encode_control(Wake(1, 2, 3, 4, 0, 0), 1)
        assert not a.handle_stamp(2, *parse_stamp(b.stamp(packet, 0.0)))
        answer = a.stamp(encode_control(Challenge(1, 1), 2), 0.0)
        assert b.handle_stamp(1, *parse_stamp(answer))
        assert not b.handle_stamp(1, 12345, 54321)
        assert a.handle_stamp(2, *parse_stamp(b.stamp(packet, 0.0)))

    def test_a_forged_first_word_is_put_right_by_the_challenge(self) -> None:
        """Whoever comes first may lie; the answer to the wrong proof says what is right."""
        a, b = Peers(1), Peers(2)
        a.become(1)
        b.become(2)
        assert not b.handle_stamp(1, 666, 0)
        packet = encode_control(Wake(1, 2, 3, 4, 0, 0), 1)
        assert not a.handle_stamp(2, *parse_stamp(b.stamp(packet, 0.0)))
        answer = a.stamp(encode_control(Challenge(1, 1), 2), 0.0)
        assert b.handle_stamp(1, *parse_stamp(answer))
        assert a.handle_stamp(2, *parse_stamp(b.stamp(packet, 0.0)))

    def test_a_new_incarnation_wants_to_hear_something_else(self) -> None:
        """What an earlier life was told proves nothing to the next one."""
        peers = Peers(1)
        peers.become(1)
        before = peers.nonce_for(7)
        peers.become(5)
        assert peers.nonce_for(7) != before

    def test_what_was_not_heard_is_kept_for_a_moment_and_within_a_limit(self) -> None:
        """Whoever is never challenged costs little."""
        peers = Peers(1)
        peers.become(1)
        for number in range(1000):
            packet = encode_control(token(records=tuple(record(n) for n in range(64))), 2)
            peers.stamp(packet, number * 1e-6)
        assert 0 < peers.unheard_bytes <= UNHEARD_BYTES_MAX
        assert peers.take_unheard(2, UNHEARD_S + 1) == []
        assert not peers.unheard_bytes

    def test_first_words_are_repeated_until_they_are_heard(self) -> None:
        """They may be lost, or the answer; not for long, and less and less often."""
        peers = Peers(1)
        peers.become(1)
        packet = encode_control(Wake(1, 1, 3, 4, 0, 0), 2)
        peers.stamp(packet, 0.0)
        times = []
        while (when := peers.next_timeout()) is not None and when < 1.0:
            for peer, again in peers.take_due(when):
                assert (peer, again) == (2, packet)
                peers.stamp(again, when)
                times.append(round(when, 3))
        assert times == [0.01, 0.03, 0.07, 0.15]
        assert not peers.unheard_bytes

    def test_what_can_be_proven_meanwhile_is_said_with_proof(self) -> None:
        """The Challenge was lost, and something else told the nonce."""
        peers = Peers(1)
        peers.become(1)
        packets = [encode_control(Wake(1, 1, 3, 4, 0, ring), 2) for ring in range(3)]
        for packet in packets:
            peers.stamp(packet, 0.0)
        peers.handle_stamp(2, 99, 0)
        due = peers.take_due(0.02)
        assert due == [(2, packet) for packet in packets]
        assert parse_stamp(peers.stamp(packets[0], 0.02))[1] == 99
        assert peers.next_timeout() is None

    def test_nonces_are_bounded(self) -> None:
        """The oldest are forgotten, and asked for again."""
        peers = Peers(1)
        peers.become(1)
        for number in range(2, 2 * PEERS_MAX):
            peers.handle_stamp(number, 5, 0)
        assert peers.used_bytes() <= BYTES_MAX


def test_shares_of_repairs_are_bounded() -> None:
    """As many nodes as there may be in regions; who was served longest ago goes."""
    feed = RepairFeed(Sink(), Counters(), EngineConfig())
    for number in range(PEERS_SERVED_MAX + 100):
        feed.add((f"h{number}", 1), b"key", {0: bytes(40)}, RangeSet([(0, 1)]))
        feed.poll(0.0)
    assert len(feed._rates) == PEERS_SERVED_MAX
