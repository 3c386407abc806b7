"""A node under attack from all sides holds no more than its budgets say.

One session alone, given views by hand, and datagrams from liars who are members and know
what to say. What it holds is measured, not believed.
"""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import replace

import pytest

from quicksilver.multicast.config import EngineConfig
from quicksilver.multicast.levels import Level
from quicksilver.multicast.receiving.assembly import BYTES_MAX_LEAST
from quicksilver.multicast.receiving.lost import ASKED_MAX
from quicksilver.multicast.receiving.region import UNANNOUNCED_MAX
from quicksilver.stdx.rand import Rng
from quicksilver.trials.workload import send_numbered
from quicksilver.wire.control import (
    CONTROL_BYTES_MAX,
    Ack,
    Control,
    Extent,
    Nak,
    Pull,
    Token,
    Wake,
    encode_control,
)
from quicksilver.wire.packets import (
    FLAG_FRAGMENT,
    FLAG_SINGLE,
    FLAG_START,
    KIND_REPAIR,
    MESSAGE_BYTES_MAX,
    encode_fragment,
    encode_single,
    encode_start,
    stream_key,
)
from tests.kit.checks import check_all
from tests.kit.cluster import have_all, one_region
from tests.kit.packets import data_packet, record, token
from tests.kit.target import (
    ALL_REGIONS,
    CLUSTER,
    CONFIG,
    MEMBERS,
    REGIONS,
    SELF,
    Attack,
    Target,
    address_of,
)

HUGE = 1 << 40
SCATTERED = tuple(n for i in range(24) for n in (300 + 3 * i, 1))


def _small(sequence: int, size: int = 1000) -> list[bytes]:
    return encode_single(1, sequence, [size], [bytes(size)])


# Attacks: each says what a liar sends, and from where


def unknown_views(target: Target, rng: Rng, regions: list[int]) -> Attack:
    """Packets of views and senders that nobody has heard of."""
    while True:
        key = stream_key(
            CLUSTER, rng.below(1 << 32), 1 + rng.below(REGIONS), 2 + rng.below(1 << 20)
        )
        yield data_packet(FLAG_SINGLE, _small(0), key=key, sequence=0), address_of(1)


def early_packets(target: Target, rng: Rng, regions: list[int]) -> Attack:
    """Every other packet of every stream, as far ahead as it goes."""
    turn = 0
    while True:
        turn += 1
        for region in regions:
            for sender in target.others(region):
                key = stream_key(CLUSTER, sender, region, 1)
                number = 2 * turn + 1
                yield (
                    data_packet(FLAG_SINGLE, _small(number, 8), key=key, sequence=number),
                    address_of(sender),
                )


def gaps(target: Target, rng: Rng, regions: list[int]) -> Attack:
    """Packets as far ahead as is believed: everything before is asked for."""
    while True:
        for region in regions:
            for sender in target.others(region):
                key = stream_key(CLUSTER, sender, region, 1)
                number = (1 << 24) - rng.below(1000)
                yield (
                    data_packet(FLAG_SINGLE, _small(number), key=key, sequence=number),
                    address_of(sender),
                )


def unfinished_messages(target: Target, rng: Rng, regions: list[int]) -> Attack:
    """Every sender begins a message of the largest size, again and again."""
    number = -1
    while True:
        number += 1
        for region in regions:
            for sender in target.others(region):
                key = stream_key(CLUSTER, sender, region, 1)
                parts = encode_fragment(1, number, MESSAGE_BYTES_MAX, 0, bytes(1300))
                if number % 4:
                    parts = encode_fragment(1, number // 4, MESSAGE_BYTES_MAX, 1300, bytes(1300))
                packet = data_packet(FLAG_FRAGMENT, parts, key=key, sequence=number)
                yield packet, address_of(sender)


def openings(target: Target, rng: Rng, regions: list[int]) -> Attack:
    """Streams that claim to follow as many others as fit into a packet."""
    number = -1
    while True:
        number += 1
        for region in regions:
            for sender in target.others(region):
                after = [(1 + rng.below(REGIONS), 1, rng.below(1 << 30)) for _ in range(64)]
                key = stream_key(CLUSTER, sender, region, 1)
                packet = data_packet(FLAG_START, encode_start(after), key=key, sequence=number)
                yield packet, address_of(sender)


def streams_of_the_dead(target: Target, rng: Rng, regions: list[int]) -> Attack:
    """Repairs of packets that nodes long gone are said to have sent."""
    while True:
        for sender in range(1000, 9000):
            key = stream_key(CLUSTER, sender, regions[sender % len(regions)], 1)
            member = target.others(regions[sender % len(regions)])[0]
            yield (
                data_packet(FLAG_SINGLE, _small(1), key=key, sequence=1, kind=KIND_REPAIR),
                address_of(member),
            )


def longest_tokens(target: Target, rng: Rng, regions: list[int]) -> Attack:
    """Tokens with as many records as there may be, each as long as it may be."""
    turn = 0
    while True:
        turn += 1
        for region in regions:
            view = target.views[region]  # type: ignore[index]
            leader = view.members[0] if view.members[0] != SELF else view.members[1]
            senders = [*target.others(region), *range(1000 + turn, 1064 + turn)][:64]
            records = tuple(
                record(
                    sender,
                    high=HUGE,
                    low=0,
                    missing=SCATTERED[:16],
                    missing_limit=HUGE,
                    wanted=SCATTERED[:16],
                    previous=(),
                    previous_limit=HUGE,
                    unasked=SCATTERED[:16],
                    unkept=SCATTERED[:16],
                    unkept_limit=HUGE,
                    region_unkept=SCATTERED[:16],
                    region_unkept_limit=HUGE,
                )
                for sender in senders
            )
            lie = token(
                cluster=CLUSTER,
                origin=leader,
                region=region,
                view=1,
                level=turn % 2,
                ring=turn // 2 % 3,
                round=turn,
                leader=leader,
                skipped=tuple(range(64)),
                records=records,
            )
            data = target.proven(leader, lie)
            assert len(data) <= CONTROL_BYTES_MAX
            yield data, address_of(leader)


def requests(target: Target, rng: Rng, regions: list[int]) -> Attack:
    """Pulls for everything of everybody, NAKs, wakes, extents and acknowledgements."""
    turn = 0
    while True:
        turn += 1
        for region in regions:
            for liar in target.others(region):
                names = (CLUSTER, liar, region, 1)
                packets: list[Control] = [
                    Pull(*names, liar, (0, HUGE)),
                    Pull(*names, rng.below(1 << 32), (0, HUGE)),
                    Pull(*names, target.others(region)[turn % 5], SCATTERED),
                    Nak(CLUSTER, liar, region, 1 + rng.below(1 << 20), SCATTERED),
                    Nak(*names, SCATTERED),
                    Wake(*names, turn % 2, turn % 3),
                    Extent(*names, rng.below(HUGE)),
                    Ack(*names, 0, 0, 0, HUGE, SCATTERED, HUGE, 0, 0, 1, 1, 0.0),
                ]
                for packet in packets:
                    yield target.proven(liar, packet), address_of(liar)


def strangers(target: Target, rng: Rng, regions: list[int]) -> Attack:
    """Control packets without proof, in the name of every node there is."""
    while True:
        for node in range(1, 101):
            yield encode_control(Pull(CLUSTER, node, 1, 1, 2, (0, HUGE)), SELF), address_of(node)


def copies_to_keep(target: Target, rng: Rng, regions: list[int]) -> Attack:
    """Packets in order that never become stable, because no token says so."""
    number = -1
    while True:
        number += 1
        for region in regions:
            for sender in target.others(region):
                key = stream_key(CLUSTER, sender, region, 1)
                packet = data_packet(FLAG_SINGLE, _small(number, 1300), key=key, sequence=number)
                yield packet, address_of(sender)


def messages_of_a_join(target: Target, rng: Rng, regions: list[int]) -> Attack:
    """Messages of a batch that this node has not heard of, while it joins another group."""
    target.session.subscribe(join={"h": lambda messages: None})
    number = -1
    while True:
        number += 1
        for region in regions:
            for sender in target.others(region):
                key = stream_key(CLUSTER, sender, region, 1)
                parts = encode_single(2, number, [1000], [bytes(1000)])
                packet = data_packet(FLAG_SINGLE, parts, key=key, sequence=number, batch=9)
                yield packet, address_of(sender)


ATTACKS = [
    unknown_views,
    early_packets,
    gaps,
    unfinished_messages,
    openings,
    streams_of_the_dead,
    longest_tokens,
    requests,
    strangers,
    copies_to_keep,
    messages_of_a_join,
]


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_budgets_hold_under(attack: object) -> None:
    """One attack after the other on a fresh node; none may pass its own limit."""
    target = Target()
    packets = attack(target, Rng(5), ALL_REGIONS)  # type: ignore[operator]
    for _ in range(4):
        target.take(packets, 500)
        target.check()


@pytest.mark.slow
def test_all_attacks_together_take_no_more_than_the_sum_of_the_limits() -> None:
    """Measured from outside: what the interpreter has allocated since."""
    target = Target()
    rng = Rng(6)
    attacks = [attack(target, rng, [1 + n]) for n, attack in enumerate(ATTACKS)]
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(2):
            for packets in attacks:
                target.take(packets, 250)
                target.check()
        gc.collect()
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    levels = target.session.memory()
    # Room is reserved for whole messages: of these little has come.
    streams = [stream for region in target.engine.regions() for stream in region.streams.values()]
    reserved = levels["assembly"].used - sum(stream.assembled_bytes() for stream in streams)
    counted = sum(level.used for level in levels.values()) - reserved
    assert held > 2 << 20
    assert held <= 1.25 * counted + (1 << 20)
    assert counted <= sum(level.limit for level in levels.values())


def test_unfinished_messages_of_all_members_fit_into_one_budget() -> None:
    """Thirty of them took 303 MB."""
    target = Target()
    target.take(unfinished_messages(target, Rng(1), ALL_REGIONS), 2000)
    level = target.session.memory()["assembly"]
    assert level.limit // 2 < level.used <= level.limit
    assert target.engine.counters.assembly_waits > 20


def test_no_more_packets_are_asked_for_at_once_than_may_be() -> None:
    """A liar's packet from far ahead made requests for millions."""
    target = Target()
    target.take(gaps(target, Rng(1), ALL_REGIONS), 400)
    sender = target.others(1)[0]
    stream = target.engine.regions()[0].streams[sender]
    assert stream.missing.count() > 1 << 20
    assert stream.askable().count() <= ASKED_MAX + 1


def test_the_dead_have_few_streams() -> None:
    """Eight thousand nodes have failed; liars claim to have packets of all of them."""
    target = Target()
    target.take(streams_of_the_dead(target, Rng(1), ALL_REGIONS), 8000)
    for region in target.engine.regions():
        assert len(region.streams) <= UNANNOUNCED_MAX + MEMBERS


def test_statistics_name_the_budgets() -> None:
    """For ``top`` and for metrics."""
    target = Target()
    stats = target.session.stats()
    named = {key.removeprefix("memory_") for key in stats if key.startswith("memory_")}
    elsewhere = {"queued": "queued_bytes", "sent": "pending_bytes"}
    elsewhere |= {"cache": "cache_bytes", "ahead": "ahead_bytes"}
    for name, level in target.session.memory().items():
        assert isinstance(level, Level)
        assert name in named or elsewhere[name] in stats


def test_longer_control_packets_are_not_decoded() -> None:
    """Decoded, small numbers take twenty times their bytes."""
    target = Target()
    liar = target.others(1)[0]
    long = Token(
        CLUSTER,
        liar,
        1,
        1,
        0,
        0,
        1,
        liar,
        (),
        False,
        0,
        0,
        tuple(record(n, missing=tuple(range(0, 512, 2)) * 2) for n in range(64)),
    )
    data = target.proven(liar, long)
    assert len(data) > CONTROL_BYTES_MAX
    target.session.handle_datagram(data, address_of(liar), target.now)
    assert target.engine.counters.malformed == 1


def test_room_for_less_than_one_message_is_refused() -> None:
    """It would wait for ever."""
    with pytest.raises(ValueError, match="assembly_bytes_max"):
        replace(CONFIG, assembly_bytes_max=1 << 20)


def test_a_message_that_is_never_finished_ends_the_incarnation_where_others_wait() -> None:
    """Not before its sender had as long as senders have; and with a reason to print."""
    target = Target()
    target.take(unfinished_messages(target, Rng(1), ALL_REGIONS), 500)
    env = target.engine.environment
    patience_s = target.engine.config.patience_s(env.settings.failure_timeout_s)
    begun = target.now
    while env.gap is None and target.now < begun + 3 * patience_s:
        target.now += 0.5
        target.session.handle_timeout(target.now)
    assert target.now - begun >= patience_s
    assert target.engine.node == 0 or "does not finish a large message" in str(env.gap)


@pytest.mark.slow
def test_large_messages_of_many_senders_pass_through_little_room() -> None:
    """Each member has room for one of them at a time; all arrive, and nobody is excluded."""
    config = EngineConfig(assembly_bytes_max=BYTES_MAX_LEAST, receive_buffer_bytes=4 << 20)
    cluster = one_region(3, senders=4, seed=12, config=config)
    members, senders = cluster.nodes[:3], cluster.nodes[3:]
    for _ in range(2):
        for sender in senders:
            send_numbered(sender, "g", 1, size=10_000_000)
            send_numbered(sender, "g", 3)
    assert cluster.run(60, lambda: have_all(members))
    assert sum(node.engine.counters.assembly_waits for node in members)
    assert not any(node.exclusions for node in cluster.nodes)
    cluster.run(10)
    check_all(cluster)
    assert all(node.engine.environment.assembly.used == 0 for node in members)
