"""Properties of a simulated machine: its clock, its processor, its alarms, its cores."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quicksilver.sim.model import IDEAL, CpuModel
from tests.sim.worlds import World, packet

COSTS = st.floats(0, 1e-3)


@given(
    st.lists(st.tuples(st.floats(0, 2), st.integers(1, 20)), max_size=12),
    COSTS,
    st.floats(-0.2, 0.2),
)
@settings(max_examples=40, deadline=None)
def test_a_clock_never_goes_back(
    bursts: list[tuple[float, int]], cost: float, drift: float
) -> None:
    """Not when it starts to drift, nor while a turn runs ahead of the world."""
    model = replace(IDEAL, cpu=CpuModel(receive_packet_s=cost, send_packet_s=cost))
    world = World(2, model)
    for when, count in bursts:
        world.at(when, lambda count=count: world.send(0, [packet(n) for n in range(count)]))
    world.at(0.7, lambda: world.hosts[1].set_drift(drift))
    world.at(1.4, lambda: world.hosts[1].set_drift(0.0))
    world.events.run(5)
    for session in world.sessions:
        assert session.clocks == sorted(session.clocks)
        assert session.drained == sorted(session.drained)


@given(st.integers(1, 60), st.floats(1e-5, 1e-3))
@settings(max_examples=30, deadline=None)
def test_a_processor_is_never_busier_than_time_passes(count: int, cost: float) -> None:
    cpu = CpuModel(receive_packet_s=cost, send_packet_s=1e-6, turn_s=0.0)
    world = World(2, replace(IDEAL, cpu=cpu))
    start = world.events.now
    busy = world.hosts[1].counters.busy_s
    world.send(0, [packet(number) for number in range(count)])
    world.events.run(5)
    spent = world.hosts[1].counters.busy_s - busy
    assert spent == pytest.approx(count * (cost + 100 * cpu.receive_byte_s))
    assert world.sessions[1].received[-1][0] - start <= count * cost + 0.01
    assert world.hosts[1].counters.received == count


@given(st.lists(st.floats(0.01, 3), min_size=1, max_size=10, unique=True))
@settings(max_examples=30, deadline=None)
def test_alarms_fire_once_they_are_due_and_not_before(times: list[float]) -> None:
    world = World(2, IDEAL)
    session = world.sessions[1]
    fired: list[tuple[float, float]] = []
    handle = session.handle_timeout

    def note(now: float) -> None:
        fired.extend((when, now) for when in session.timeouts if when <= now)
        handle(now)

    session.handle_timeout = note  # type: ignore[method-assign]
    world.hosts[1].submit(lambda: session.timeouts.extend(times))
    # Packets in between must not lose an alarm.
    for step in range(20):
        world.at(step * 0.13, lambda: world.send(0, [packet(1)]))
    world.events.run(5)
    assert sorted(when for when, _ in fired) == sorted(times)
    for when, now in fired:
        assert when <= now <= max(when, 0.0011) + 1e-4


def test_a_frozen_process_does_nothing_and_then_all_of_it() -> None:
    world = World(2, IDEAL)
    world.hosts[1].freeze(2.0)
    world.send(0, [packet(number) for number in range(10)])
    world.events.run(1.9)
    assert not world.sessions[1].received
    world.events.run(0.2)
    assert len(world.sessions[1].received) == 10


def test_a_thawed_process_goes_on_at_once() -> None:
    world = World(2, IDEAL)
    world.hosts[1].freeze(5.0)
    world.send(0, [packet(1)])
    world.at(1.0, world.hosts[1].thaw)
    world.events.run(1.5)
    assert [round(at, 3) for at, _ in world.sessions[1].received] == [1.0]


def test_a_killed_process_is_never_heard_of_again() -> None:
    world = World(2, IDEAL)
    world.send(0, [packet(1)])
    world.hosts[1].kill()
    world.events.run(1)
    assert not world.sessions[1].received


@given(st.integers(1, 3), st.integers(2, 6), st.integers(1, 30))
@settings(max_examples=30, deadline=None)
def test_shared_cores_do_no_more_than_they_can(cores: int, hosts: int, count: int) -> None:
    """All work is done, and at no time by more processes than there are cores."""
    cost = 1e-3
    cpu = CpuModel(receive_packet_s=cost, receive_byte_s=0.0, turn_s=0.0, send_packet_s=0.0)
    world = World(hosts + 1, replace(IDEAL, cpu=cpu), cores=cores)
    assert world.cpu is not None
    start, busy = world.events.now, world.cpu.busy_s
    world.send(0, [packet(number) for number in range(count)])
    world.events.run(60)
    done = max(session.received[-1][0] for session in world.sessions[1:])
    work = hosts * count * cost
    assert world.cpu.busy_s - busy == pytest.approx(work, rel=0.05)
    assert done - start >= work / cores - hosts * count * 1e-9 - cost * 24
    for session in world.sessions[1:]:
        assert len(session.received) == count


def test_one_core_serves_processes_in_turn() -> None:
    """Two busy processes on one core get on alike."""
    cpu = CpuModel(receive_packet_s=1e-3, turn_s=0.0, send_packet_s=0.0)
    world = World(3, replace(IDEAL, cpu=cpu), cores=1)
    world.send(0, [packet(number) for number in range(200)])
    world.events.run(0.2)
    one, other = (len(session.received) for session in world.sessions[1:])
    assert one + other < 250
    assert abs(one - other) <= 24


def test_waking_costs_once_however_much_there_is_to_do() -> None:
    """A process that is asleep pays for waking; one that goes on does not pay again."""
    cpu = replace(IDEAL.cpu, wake_s=1e-3)
    world = World(2, replace(IDEAL, cpu=cpu))
    before = world.hosts[1].counters.busy_s
    world.send(0, [packet(number) for number in range(100)])
    world.events.run(1)
    assert len(world.sessions[1].received) == 100
    assert world.hosts[1].counters.busy_s - before == pytest.approx(1e-3)


@given(st.integers(1, 5), st.floats(1e-5, 1e-3))
@settings(max_examples=20, deadline=None)
def test_cold_caches_at_most_double_the_work(others: int, cold: float) -> None:
    cpu = replace(IDEAL.cpu, receive_packet_s=1e-4, cold_s=cold, cold_s_max=1.0)
    world = World(others + 2, replace(IDEAL, cpu=cpu), cores=1)
    before = [host.counters.busy_s for host in world.hosts]
    world.send(0, [packet(1)])
    world.events.run(1)
    for host, busy in zip(world.hosts[1:], before[1:], strict=True):
        assert 1e-4 < host.counters.busy_s - busy <= 2e-4 + 1e-12
