"""An engine in full operation under attack: counted, dropped, bounded, and unharmed.

The attacker sees every datagram and injects what it likes, from an address of
its own or from that of a legitimate member. Meanwhile two senders send through
loss, and in the end every message must have arrived, in order and unaltered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from quicksilver.multicast.config import EngineConfig
from quicksilver.multicast.repair.loss_rounds import LossRounds
from quicksilver.stdx.rand import Rng
from quicksilver.trials.node import SimNode
from quicksilver.trials.watch import Violation
from quicksilver.trials.workload import send_numbered
from quicksilver.wire.control import (
    Ack,
    Extent,
    Gone,
    Nak,
    Pull,
    Record,
    Token,
    Wake,
    encode_control,
    parse_control,
    stamp_control,
)
from quicksilver.wire.ids import Address
from quicksilver.wire.packets import (
    FLAG_SINGLE,
    FLAG_START,
    KIND_CONTROL,
    KIND_DATA,
    KIND_REPAIR,
    KIND_TOKEN,
    SEQUENCE_MAX,
    encode_single,
    encode_start,
    stream_key,
)
from tests.kit.checks import check_all
from tests.kit.cluster import clear_up, forge, have_all, inbox, inject, lose, make_cluster, rain
from tests.kit.packets import data_packet, datagrams, mutations, noise, record, token, truncations

pytestmark = pytest.mark.slow

STRANGER = ("10.66.6.6", 6666)
CONFIG = EngineConfig(
    packet_bytes=1400,
    unknown_bytes_max=64 << 10,
    cache_bytes_max=4 << 20,
    ahead_bytes_max=1 << 20,
    retire_s=2.0,
)
BAD = ("malformed", "foreign", "rejected", "unknown_dropped", "unknown_kept", "duplicates")

Attack = Callable[["Siege"], Iterator[tuple[bytes, Address]]]
"""Yields (datagram, claimed source address) as long as the siege lasts."""


class Siege:
    """A cluster of seven members and two senders in full operation, and its attacker."""

    MEMBERS = 7

    def __init__(self, seed: int) -> None:
        self.rng = Rng(seed)
        self.cluster = make_cluster(self.MEMBERS + 2, seed=seed, config=CONFIG)
        self.members = self.cluster.nodes[: self.MEMBERS]
        self.senders = self.cluster.nodes[self.MEMBERS :]
        for node in self.members:
            node.join("g", "h")
        for node in self.senders:
            node.open("g", "h")
        assert self.cluster.settle()
        self.heard: list[bytes] = []
        self.has_liar = False
        """A member of the ring lies about what was sent."""
        self.knows_nonces = True
        """Whoever speaks in the name of a member is that member, and knows what to say."""
        self.cluster.network.taps.append(self._hear)
        self.injected = 0
        (self.region,) = {
            (member.id, member.number)
            for node in self.members
            for member in node.engine._regions.values()
        }

    def _hear(self, at: float, source: Address, to: Address, packet: bytes) -> None:
        if len(self.heard) < 2000:
            self.heard.append(packet)

    @property
    def cluster_id(self) -> int:
        return self.members[0].engine.cluster

    def names(self, origin: SimNode) -> dict[str, int]:
        return {
            "cluster": self.cluster_id,
            "origin": origin.id,
            "region": self.region[0],
            "view": self.region[1],
        }

    def key(self, sender: SimNode) -> bytes:
        return stream_key(self.cluster_id, sender.id, *self.region)

    def run(self, attack: Attack, *, per_step: int = 10, loss: float = 0.05) -> None:
        """Send for a second while the attack goes on, then let everything come to rest."""
        cluster = self.cluster
        for sender in self.senders:
            send_numbered(sender, "g", 20)
        cluster.run(0.02)
        rain(cluster, loss, spares_control=True)
        datagrams_of = attack(self)
        for _ in range(30):
            for sender in self.senders:
                send_numbered(sender, "g", 10)
                send_numbered(sender, "h", 2)
            for _ in range(per_step):
                item = next(datagrams_of, None)
                if item is None:
                    break
                packet, source = item
                for target in cluster.nodes:
                    self.injected += 1
                    when = cluster.now + 0.02 * self.rng.uniform()
                    is_multicast = self.rng.chance(0.5)
                    stamped = self._stamp(packet, source, target)
                    cluster.network.inject(target.host, stamped, source, when, is_multicast)
            cluster.run(0.03)
            self.check_bounds()
        assert cluster.run(20, lambda: have_all(self.members, "g")), self.report()
        assert have_all(self.members, "h")
        clear_up(cluster)
        cluster.run(12)

    def _stamp(self, packet: bytes, source: Address, target: SimNode) -> bytes:
        """Return a control packet with what its target wants to hear from a member."""
        is_control = packet[1:2] in {b"\1", b"\2"} and len(packet) >= 24
        liar = next((node for node in self.cluster.nodes if node.address == source), None)
        if not (self.knows_nonces and is_control and liar is not None):
            return packet
        return stamp_control(
            packet,
            liar.engine.environment.peers.nonce_for(target.id),
            target.engine.environment.peers.nonce_for(liar.id),
        )

    def check_bounds(self) -> None:
        """Memory stays within its limits, and nothing that was promised is broken."""
        self.cluster.watching.on_look()
        assert not [found for found in self.cluster.violations() if not self.excuses(found)]
        for node in self.cluster.nodes:
            assert len(node.engine.environment.regions.streams) <= 2 * len(self.cluster.nodes)

    def excuses(self, found: Violation) -> bool:
        """Whether it is a lie that honest members repeat.

        They miss for ever what it says was sent and never was. That costs no message
        and no memory, and ends in silence.
        """
        return self.has_liar and "still misses" in found.what

    def report(self) -> str:
        return str(
            [(len(inbox(node)), node.engine.environment.waiting.used) for node in self.members]
        )

    def bad_counts(self) -> int:
        return sum(getattr(n.engine.counters, name) for n in self.cluster.nodes for name in BAD)


def packets_heard(siege: Siege) -> Iterator[bytes]:
    """One packet of each kind on the wire, then all of them, again and again."""
    turn = 0
    while True:
        if siege.heard:
            yield siege.heard[(turn * 37) % len(siege.heard)]
        else:
            yield b""
        turn += 1


def random_bytes(siege: Siege) -> Iterator[tuple[bytes, Address]]:
    for data in noise(siege.rng, 10_000):
        yield data, STRANGER


def samples_of_another_cluster(siege: Siege) -> Iterator[tuple[bytes, Address]]:
    while True:
        for packet in datagrams().values():
            yield packet, STRANGER
            for spoiled in list(mutations(packet, siege.rng, per_byte=0))[:: 1 + len(packet) // 9]:
                yield spoiled, STRANGER


def truncated(siege: Siege) -> Iterator[tuple[bytes, Address]]:
    for packet in packets_heard(siege):
        shorter = list(truncations(packet))
        for length in range(0, len(shorter), 1 + len(shorter) // 8):
            yield shorter[length], STRANGER


def mutated(siege: Siege) -> Iterator[tuple[bytes, Address]]:
    for packet in packets_heard(siege):
        if packet:
            place = siege.rng.below(len(packet))
            value = siege.rng.below(256)
            yield packet[:place] + bytes((value,)) + packet[place + 1 :], STRANGER


def mutated_control_of_members(siege: Siege) -> Iterator[tuple[bytes, Address]]:
    for packet in packets_heard(siege):
        if packet and packet[1] in {KIND_TOKEN, KIND_CONTROL}:
            place = 4 + siege.rng.below(len(packet) - 4)
            value = siege.rng.below(256)
            spoiled = packet[:place] + bytes((value,)) + packet[place + 1 :]
            yield spoiled, siege.rng.choice(siege.members).address
        else:
            yield b"", STRANGER


def replayed(siege: Siege) -> Iterator[tuple[bytes, Address]]:
    for packet in packets_heard(siege):
        control = parse_control(packet) if packet[1:2] in {b"\1", b"\2"} else None
        origins = {n.id: n.address for n in siege.cluster.nodes}
        yield packet, STRANGER if control is None else origins[control.origin]


def strange_streams(siege: Siege) -> Iterator[tuple[bytes, Address]]:
    """Unknown regions, views, senders and clusters."""
    parts = encode_single(1, 0, [600], [bytes(600)])
    region, view = siege.region
    member = siege.members[0].id
    while True:
        u32 = siege.rng.bits64() & 0xFFFFFFFF
        for key in (
            stream_key(u32, member, region, view),
            stream_key(siege.cluster_id, u32, region, view),
            stream_key(siege.cluster_id, member, u32, view),
            stream_key(siege.cluster_id, member, region, view + 1 + u32 % 100),
            stream_key(siege.cluster_id, member, region, 0),
        ):
            yield data_packet(FLAG_SINGLE, parts, key=key, sequence=u32 % 9), STRANGER


def controls_of_strangers(siege: Siege) -> Iterator[tuple[bytes, Address]]:
    """True to form, and from an address that nobody vouches for."""
    names = siege.names(siege.members[0])
    sender = siege.senders[0].id
    while True:
        for packet in (
            token(**names, leader=names["origin"], records=(record(sender, high=1 << 60),)),
            Ack(
                **names,
                low=1 << 60,
                safe=1 << 60,
                laggard=1,
                high=1 << 60,
                missing=(),
                missing_limit=1 << 60,
                slowest=1,
                buffer_bytes=0,
                drops=1 << 60,
                senders=1 << 31,
                token_s=0.0,
            ),
            Nak(**names, ranges=(0, 1 << 60)),
            Pull(**names, sender=sender, ranges=(0, 1 << 60)),
            Wake(**names, level=0, ring=0),
            Extent(**(names | {"origin": sender}), packets=0),
            Gone(**(names | {"origin": sender}), ranges=(0, 1 << 60)),
        ):
            yield encode_control(packet), STRANGER


def lying_tokens(siege: Siege) -> Iterator[tuple[bytes, Address]]:
    """From the address of a member of the ring."""
    liar = siege.members[2]
    sender = siege.senders[0].id
    huge = 1 << 61
    scattered = tuple(n for i in range(256) for n in (3 * i, 1))
    base = siege.names(liar) | {"level": 0, "ring": 0, "leader": siege.members[0].id}
    turn = 0
    while True:
        turn += 1
        lies: list[dict[str, object]] = [
            {"records": (record(sender, high=huge, missing_limit=huge),)},
            {"records": (record(sender, missing=(0, huge), wanted=(0, huge)),)},
            {"records": (record(sender, previous=(0, huge), unasked=(0, huge)),)},
            {"records": (record(sender, missing=scattered, wanted=scattered, unasked=scattered),)},
            {"records": (record(sender, missing=(5, 1, 2, 1)),)},
            {"records": (record(sender, unkept=(0, huge), unkept_limit=huge),)},
            {"records": (record(sender, region_unkept=(0, huge), region_unkept_limit=huge),)},
            {"records": tuple(record(sender) for _ in range(200))},
            {"records": tuple(record(100_000 + i) for i in range(200))},
            {"records": (record(siege.members[1].id, high=huge),)},
            {"ring": 5, "records": ()},
            {"level": 7, "records": ()},
            {"leader": 999, "records": ()},
            {"leader": liar.id, "records": (record(sender),)},
            {"skipped": tuple(n.id for n in siege.members), "records": ()},
            {"direct": True, "records": (record(sender, high=huge),)},
            {"drops": SEQUENCE_MAX, "buffer_bytes": 0, "records": ()},
            {"round": turn, "records": (record(sender, low=huge, high=huge),)},
        ]
        for lie in lies:
            yield encode_control(token(**(base | {"round": turn} | lie))), liar.address


def stale_words_of_a_member(siege: Siege) -> Iterator[tuple[bytes, Address]]:
    """Requests for everything, naks and extents, from the addresses they claim."""
    liar, sender = siege.members[3], siege.senders[0]
    scattered = tuple(n for i in range(256) for n in (5 * i, 2))
    while True:
        yield encode_control(Nak(**siege.names(liar), ranges=(0, 1 << 61))), liar.address
        yield encode_control(Nak(**siege.names(liar), ranges=scattered)), liar.address
        yield encode_control(Nak(**siege.names(liar), ranges=(9, 1, 3, 1))), liar.address
        pull = Pull(**siege.names(liar), sender=sender.id, ranges=(0, 1 << 61))
        yield encode_control(pull), liar.address
        pull = Pull(**siege.names(liar), sender=liar.id, ranges=scattered)
        yield encode_control(pull), liar.address
        yield encode_control(Wake(**siege.names(liar), level=0, ring=0)), liar.address
        yield encode_control(Wake(**siege.names(liar), level=31, ring=7)), liar.address
        yield encode_control(Extent(**siege.names(sender), packets=0)), sender.address
        yield encode_control(Extent(**siege.names(sender), packets=1 << 61)), sender.address


def gloomy_acknowledgements(siege: Siege) -> Iterator[tuple[bytes, Address]]:
    """Acknowledge nothing, and say that everybody drops everything."""
    liar = siege.members[4]
    while True:
        for drops, senders, missing in (
            (SEQUENCE_MAX, (1 << 32) - 1, ()),
            (0, 0, (0, 1 << 61)),
            (1, 1, tuple(n for i in range(256) for n in (3 * i, 1))),
        ):
            ack = Ack(
                **siege.names(liar),
                low=0,
                safe=SEQUENCE_MAX,
                laggard=senders,
                high=SEQUENCE_MAX,
                missing=missing,
                missing_limit=0,
                slowest=0,
                buffer_bytes=0,
                drops=drops,
                senders=senders,
                token_s=1e6,
            )
            yield encode_control(ack), liar.address


HARMLESS: list[Attack] = [
    random_bytes,
    samples_of_another_cluster,
    truncated,
    replayed,
    strange_streams,
    controls_of_strangers,
    mutated_control_of_members,
    lying_tokens,
    stale_words_of_a_member,
    gloomy_acknowledgements,
]


@pytest.mark.parametrize("attack", HARMLESS, ids=lambda attack: attack.__name__)
def test_the_service_is_unharmed_by(attack: Attack) -> None:
    """Counted and dropped; every legitimate message delivered; everything cleaned up."""
    siege = Siege(seed=len(attack.__name__))
    siege.has_liar = attack in {lying_tokens, mutated_control_of_members}
    siege.knows_nonces = attack is not replayed
    before = siege.bad_counts()
    siege.run(attack)
    assert siege.injected > 500
    if attack not in {lying_tokens, stale_words_of_a_member, gloomy_acknowledgements}:
        assert siege.bad_counts() > before
    check_all(siege.cluster, excused=siege.excuses)


def test_mutated_copies_from_a_stranger_change_nothing() -> None:
    """A copy with one byte changed, of any packet, from an address that is not the sender's."""
    siege = Siege(seed=21)
    siege.run(mutated)
    check_all(siege.cluster)


def test_data_packets_from_a_stranger_are_not_taken_for_a_members() -> None:
    """A forged next packet must not be delivered in place of the sender's."""
    siege = Siege(seed=22)
    victim = siege.members[1]
    forged = encode_single(siege.cluster.group_id("g"), 0, [8], [b"g/7/0/!!"])
    send_numbered(siege.senders[0], "g", 5)
    siege.cluster.run(0.5)
    for sequence in range(2, 6):
        packet = data_packet(
            FLAG_SINGLE, forged, key=siege.key(siege.senders[0]), sequence=sequence
        )
        inject(victim, packet, STRANGER)
    siege.cluster.run(0.1)
    send_numbered(siege.senders[0], "g", 50, size=1200)
    siege.cluster.run(3)
    assert have_all(siege.members)
    check_all(siege.cluster)


@pytest.mark.parametrize("sequence", [1000, 1 << 40, SEQUENCE_MAX - 1, SEQUENCE_MAX])
def test_a_packet_from_far_ahead_is_survived(sequence: int) -> None:
    """A number that the stream has not reached opens a huge gap; the sender puts it right."""
    siege = Siege(seed=23)
    sender = siege.senders[0]
    send_numbered(sender, "g", 5)
    siege.cluster.run(0.5)
    parts = encode_single(1, 0, [3], [b"???"])
    packet = data_packet(FLAG_SINGLE, parts, key=siege.key(sender), sequence=sequence)
    inject(siege.members[1], packet, sender.address)
    siege.cluster.run(1)
    send_numbered(sender, "g", 300)
    assert siege.cluster.run(20, lambda: have_all(siege.members))
    siege.cluster.run(12)
    check_all(siege.cluster)


def test_an_opening_that_names_impossible_predecessors_blocks_nobody() -> None:
    """A stream that claims to follow 2**60 packets is not waited for."""
    siege = Siege(seed=24)
    sender = siege.senders[0]
    after = [(siege.region[0], siege.region[1], 1 << 60), (9, 9, 5)]
    packet = data_packet(FLAG_START, encode_start(after), key=siege.key(sender), sequence=0)
    inject(siege.members[1], packet, sender.address)
    siege.cluster.run(0.5)
    send_numbered(sender, "g", 100)
    siege.cluster.run(1)
    assert have_all(siege.members)


def test_a_record_that_lies_about_stability_does_not_lose_messages() -> None:
    """Copies may be dropped too early; the sender still has them."""
    siege = Siege(seed=25)
    liar = siege.members[2]
    sender = siege.senders[0].id

    def attack(siege: Siege) -> Iterator[tuple[bytes, Address]]:
        turn = 0
        while True:
            turn += 1
            lie = token(
                **siege.names(liar),
                leader=siege.members[0].id,
                round=turn,
                records=(record(sender, stable=1 << 60, low=1 << 60, high=1, cut=1),),
            )
            yield encode_control(lie), liar.address

    siege.run(attack, per_step=2)
    check_all(siege.cluster)


def test_a_lie_about_an_end_does_not_end_a_stream_later() -> None:
    """A planted ``cut`` must not take effect when the sender crashes much later."""
    siege = Siege(seed=26)
    cluster, liar, sender = siege.cluster, siege.members[2], siege.senders[0]
    send_numbered(sender, "g", 5)
    cluster.run(0.03)
    for turn in range(1, 30):
        lie = token(
            **siege.names(liar),
            leader=siege.members[0].id,
            round=turn,
            records=(record(sender.id, high=1, low=0, cut=1),),
        )
        for node in siege.members:
            inject(node, forge(node, liar, lie), liar.address)
    cluster.run(0.5)
    lost = siege.members[1]
    lose(cluster, lambda node, packet: packet[1] == KIND_DATA and node is lost)
    send_numbered(sender, "g", 100)
    cluster.run(0.0008)
    sender.crash()
    cluster.run(15)
    assert {len(inbox(node)) for node in siege.members} == {105}


def test_bad_frames_from_the_gms_do_not_raise() -> None:
    """The stream to the GMS is checked like any other."""
    siege = Siege(seed=27)
    node = siege.members[0]
    for data in noise(siege.rng, 200):
        node.host.submit(partial(node.session.handle_control_frame, data, siege.cluster.now))
    siege.cluster.run(3)
    send_numbered(siege.senders[0], "g", 50)
    siege.cluster.run(3)
    assert have_all(siege.members)


def test_records_of_impostors_make_no_streams() -> None:
    """Nobody but members and senders of the region gets state here."""
    siege = Siege(seed=28)
    liar = siege.members[2]
    many: tuple[Record, ...] = tuple(record(50_000 + i, high=9, low=9) for i in range(500))
    packet = Token(
        **siege.names(liar),
        level=0,
        ring=0,
        round=3,
        leader=siege.members[0].id,
        skipped=(),
        direct=False,
        buffer_bytes=1 << 20,
        drops=0,
        records=many,
    )
    for node in siege.members:
        inject(node, forge(node, liar, packet), liar.address)
    siege.cluster.run(5)
    for node in siege.members:
        assert len(node.engine.environment.regions.streams) <= len(siege.cluster.nodes)
        for feed in node.engine._feeds.values():
            for agent in feed.recovery.stack.agents:
                assert isinstance(agent.rounds, LossRounds)
                assert len(agent.rounds._aggregates) <= len(siege.cluster.nodes)
    check_all(siege.cluster)
    kinds = {KIND_DATA, KIND_REPAIR}
    assert not [packet for packet in siege.heard if packet[1] in kinds]
