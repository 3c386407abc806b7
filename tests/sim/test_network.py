"""Properties of the virtual network: order, conservation, limits, partitions."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from quicksilver.sim.model import IDEAL, CpuModel, HostModel, LinkModel
from quicksilver.sim.weather import Weather
from tests.sim.worlds import GROUP, World, number_of, packet


class CountedWeather:
    """A host's weather, with a count of what it let through."""

    is_fine = False

    def __init__(self, weather: Weather) -> None:
        self.through = 0
        self._weather = weather

    def pass_on(self, data: bytes, now: float) -> list[tuple[float, bytes]]:
        arrivals = self._weather.pass_on(data, now)
        self.through += len(arrivals)
        return arrivals


SIZES = st.lists(st.integers(20, 3000), min_size=1, max_size=40)


@given(SIZES, st.sampled_from([0.0, 1e6, 1e8]))
@settings(max_examples=40, deadline=None)
def test_a_link_without_jitter_keeps_the_order(sizes: list[int], rate: float) -> None:
    world = World(3, replace(IDEAL, nic_bytes_per_s=rate))
    world.send(0, [packet(number, size) for number, size in enumerate(sizes)])
    world.events.run(10)
    for session in world.sessions[1:]:
        assert [number for _, number in session.received] == list(range(len(sizes)))


@given(SIZES, st.floats(1e5, 1e7))
@settings(max_examples=40, deadline=None)
def test_a_card_never_sends_faster_than_it_can(sizes: list[int], rate: float) -> None:
    world = World(2, replace(IDEAL, nic_bytes_per_s=rate, send_queue_bytes=4000))
    world.send(0, [packet(number, size) for number, size in enumerate(sizes)])
    world.events.run(30)
    assert len(world.departures) == len(sizes)
    ends = [at for at, _, _ in world.departures]
    for place in range(1, len(ends)):
        took = ends[place] - ends[place - 1]
        assert took >= len(world.departures[place][2]) / rate * (1 - 1e-9)


@given(SIZES, st.integers(2_000, 20_000))
@settings(max_examples=40, deadline=None)
def test_kernel_buffers_hold_no_more_than_their_limit(sizes: list[int], limit: int) -> None:
    """The receiver stands still, so that all that fits stays in its buffer."""
    world = World(2, replace(IDEAL, multicast_buffer_bytes=limit))
    receiver = world.hosts[1]
    receiver.freeze(5.0)
    world.send(0, [packet(number, size) for number, size in enumerate(sizes)])
    worst = 0

    def look() -> None:
        nonlocal worst
        worst = max(worst, receiver._multicast.bytes)
        if world.events.now < 4:
            world.events.after(0.01, look)

    look()
    world.events.run(8)
    assert worst <= limit
    assert receiver._multicast.bytes == 0
    assert receiver.counters.received + receiver.counters.receive_drops == len(sizes)


@given(
    SIZES,
    st.floats(0, 0.5),
    st.floats(0, 0.5),
    st.integers(5_000, 100_000),
    st.integers(5_000, 100_000),
)
@settings(max_examples=40, deadline=None)
def test_what_was_sent_was_received_or_lost_for_a_known_reason(
    sizes: list[int], drop_rate: float, duplicate_rate: float, port: int, buffer: int
) -> None:
    """Sent × receivers + duplicates = received + lost by weather, switch and kernel."""
    model = HostModel(
        cpu=CpuModel(receive_packet_s=1e-3),
        nic_bytes_per_s=1e7,
        port_buffer_bytes=port,
        multicast_buffer_bytes=buffer,
    )
    world = World(4, model)
    counted = []
    for host in world.hosts[1:]:
        host.weather.drop_rate = drop_rate
        host.weather.duplicate_rate = duplicate_rate
        counted.append(CountedWeather(host.weather))
        host.weather = counted[-1]  # type: ignore[assignment]  # all that a network asks of it
    world.send(0, [packet(number, size) for number, size in enumerate(sizes)])
    world.events.run(60)
    received = sum(host.counters.received for host in world.hosts[1:])
    lost = sum(h.counters.port_drops + h.counters.receive_drops for h in world.hosts[1:])
    assert world.hosts[0].counters.sent == len(sizes)
    assert received + lost == sum(weather.through for weather in counted)
    assert received == sum(len(session.received) for session in world.sessions[1:])


@given(st.sampled_from(["both", "one", "island"]), st.booleans())
@settings(max_examples=12, deadline=None)
def test_partitions_block_as_they_were_asked_to(kind: str, is_multicast: bool) -> None:
    world = World(3, IDEAL)
    if kind == "island":
        world.network.set_island(1, 1)
    else:
        world.network.cut(0, 1)
        if kind == "both":
            world.network.cut(1, 0)
    for source, target in ((0, 1), (1, 0)):
        to = GROUP if is_multicast else world.hosts[target].address
        world.send(source, [packet(source)], to)
    world.events.run(1)

    def heard(index: int) -> set[int]:
        return {number for _, number in world.sessions[index].received}

    assert 0 not in heard(1)
    assert (1 in heard(0)) == (kind == "one")
    if is_multicast:
        assert 0 in heard(2)
        assert (1 in heard(2)) == (kind != "island")
    world.network.heal()
    world.send(0, [packet(7)])
    world.events.run(1)
    assert 7 in heard(1)


@given(st.integers(1, 30), st.floats(0, 0.01))
@settings(max_examples=20, deadline=None)
def test_nothing_arrives_before_the_latency_has_passed(count: int, latency: float) -> None:
    world = World(2, IDEAL, LinkModel(latency_s=latency))
    world.send(0, [packet(number) for number in range(count)])
    world.events.run(1)
    sent = {number_of(data): at for at, _, data in world.departures}
    for at, number in world.sessions[1].received:
        assert at >= sent[number] + latency - 1e-12


def test_spared_control_passes_what_loses_all_data() -> None:
    world = World(2, IDEAL)
    weather = world.hosts[1].weather
    weather.drop_rate = 1.0
    weather.spares_control = True
    world.send(0, [packet(1), packet(2, kind=b"\x51\x01")])
    world.events.run(1)
    assert [number for _, number in world.sessions[1].received] == [2]


def test_a_rule_loses_just_what_it_is_about() -> None:
    """For one host, and only as long as it is set; others get the same datagram."""
    world = World(3, IDEAL)
    world.network.loss = lambda host, data: host.index == 1 and number_of(data) == 2
    world.send(0, [packet(number) for number in range(4)])
    world.events.run(1)
    assert [number for _, number in world.sessions[1].received] == [0, 1, 3]
    assert [number for _, number in world.sessions[2].received] == [0, 1, 2, 3]
    world.network.loss = None
    world.send(0, [packet(2)])
    world.events.run(1)
    assert world.sessions[1].received[-1][1] == 2
