"""Whatever bytes arrive, from wherever: counted, and nothing else changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from quicksilver.stdx.rand import Rng
from quicksilver.wire.control import (
    Challenge,
    Control,
    Hail,
    encode_control,
    parse_control,
    stamp_control,
)
from quicksilver.wire.ids import Address
from tests.kit.packets import controls, datagrams, mutations, noise
from tests.kit.target import CLUSTER, SELF, Attack, Target, address_of

STRANGER = ("10.66.6.6", 6666)


def state_of(target: Target) -> object:
    """Return all that datagrams could have changed, but for counters."""
    engine = target.engine
    env = engine.environment
    streams = {
        stream.key: (
            stream.low,
            stream.high,
            list(stream.missing),
            stream.copies.stable,
            type(stream.state),
            len(stream.copies.packets),
            stream.waiting_bytes(),
            stream.assembled_bytes(),
        )
        for region in engine.regions()
        for stream in region.streams.values()
    }
    rings = [
        [(type(agent.state), agent.passing_count()) for agent in each.stack.agents]  # type: ignore[attr-defined]
        for each in engine.recoveries()
    ]
    held = {name: level.used for name, level in target.session.memory().items() if name != "peers"}
    return streams, rings, held, env.gap, dict(env.heard_at), engine.next_timeout()


def own(packets: list[Control]) -> list[Control]:
    """Return packets that are about a region view of the target, as a member would send them."""
    found = []
    for packet in packets:
        packet.cluster = CLUSTER
        packet.origin = 2
        if not isinstance(packet, Challenge | Hail):
            packet.region, packet.view = 1, 1
        found.append(packet)
    return found


def arbitrary(rng: Rng) -> Attack:
    """Bytes without sense, some of them behind the head of a packet."""
    sources = [STRANGER, *(address_of(node) for node in range(1, 12))]
    for data in noise(rng, 4000):
        yield data, rng.choice(sources)
        head = bytes((0x51, 1 + rng.below(6), rng.below(16), 0))
        yield head + data, rng.choice(sources)


def twisted_samples(rng: Rng) -> Attack:
    """Every kind of packet with one byte changed, of another cluster."""
    for packet in datagrams().values():
        for spoiled in list(mutations(packet, rng, per_byte=1))[:400]:
            yield spoiled, rng.choice([STRANGER, address_of(2)])


def forged_controls(rng: Rng) -> Attack:
    """Every kind of control packet, twisted or not, in a member's name and with any proof."""
    for packet in own(controls()):
        data = encode_control(packet, SELF)
        for spoiled in [data, *list(mutations(data, rng, per_byte=1))[:600]]:
            if len(spoiled) >= 24:
                guess = rng.choice([0, 1, rng.bits64(), (1 << 64) - 1])
                yield stamp_control(spoiled, rng.bits64(), guess), address_of(2)


def forged_sources(rng: Rng) -> Attack:
    """Control packets that know what to say, and come from elsewhere."""
    for packet in own(controls()):
        for source in (STRANGER, address_of(3), (address_of(2)[0], 1)):
            yield encode_control(packet, SELF), source


ATTACKS = [arbitrary, twisted_samples, forged_controls, forged_sources]


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_nothing_but_counters_changes(attack: object) -> None:
    """Challenges leave for some of it, never more bytes than came."""
    target = Target()
    before = state_of(target)
    came = left = count = 0
    packets: Iterator[tuple[bytes, Address]] = attack(Rng(11))  # type: ignore[operator]
    for data, source in packets:
        control = parse_control(data) if data[1:2] in {b"\1", b"\2"} and data[0] == 0x51 else None
        target.session.handle_datagram(data, source, target.now)
        count += 1
        came += len(data)
        sent = 0
        while (transmit := target.session.poll_transmit(target.now)) is not None:
            assert control is not None
            assert transmit.destination == source
            assert all(isinstance(parse_control(p), Challenge) for p in transmit.packets)
            sent += sum(map(len, transmit.packets))
        assert sent <= 3 * len(data)
        left += sent
    assert state_of(target) == before
    counters = target.engine.counters
    bad = counters.malformed + counters.foreign + counters.rejected + counters.unproven
    assert bad + counters.unknown_dropped >= count - 5
    assert left <= came
