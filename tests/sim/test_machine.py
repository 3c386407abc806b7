"""Cores that processes share: who gets one, and what the others left of the caches."""

from __future__ import annotations

from quicksilver.sim.events import EventQueue
from quicksilver.sim.machine import SharedCpu


def machine(cores: int = 1) -> tuple[EventQueue, SharedCpu, list[int]]:
    """Return a machine and a list of who began after having waited."""
    events = EventQueue()
    return events, SharedCpu(events, cores), []


def test_as_many_others_as_ran_since() -> None:
    """The depth in a list by last use, not the number of slices."""
    _, cpu, _ = machine()
    assert [cpu.take(each, lambda: None, woke=True) for each in (1, 2, 3)] == [True, False, False]
    assert [cpu.others_since(each) for each in (1, 2, 3, 2, 3, 2)] == [0, 1, 2, 1, 1, 1]
    assert cpu.others_since(1) == 2
    assert cpu.others_since(1) == 0


def test_a_core_goes_to_who_has_had_least() -> None:
    events, cpu, began = machine()
    for each, busy_s in ((1, 0.3), (2, 0.1), (3, 0.2)):
        assert cpu.take(each, lambda: None, woke=True)
        cpu.charge(each, busy_s)
        cpu.give_back(each, events.now)
        events.run(0.001)
    assert cpu.take(4, lambda: None, woke=True)
    for each in (1, 3, 2):
        assert not cpu.take(each, lambda each=each: began.append(each), woke=False)
    for running in (4, 2, 3, 1):
        cpu.give_back(running, events.now)
        events.run(0.001)
    assert began == [2, 3, 1]


def test_who_wakes_and_has_had_less_is_let_in() -> None:
    """Who was only interrupted waits for the end of the slice."""
    _, cpu, _ = machine()
    assert cpu.take(1, lambda: None, woke=True)
    assert not cpu.take(2, lambda: None, woke=False)
    cpu.charge(1, 0.002)
    assert not cpu.must_yield(1)
    assert not cpu.take(3, lambda: None, woke=True)
    assert cpu.must_yield(1)


def test_sleeping_saves_nothing_up() -> None:
    """A process that slept long does not keep the others off for as long."""
    events, cpu, began = machine()
    assert cpu.take(1, lambda: None, woke=True)
    cpu.charge(1, 100.0)
    assert not cpu.take(2, lambda: began.append(2), woke=True)
    cpu.give_back(1, events.now)
    events.run(0.001)
    assert began == [2]
    cpu.charge(2, 0.002)
    assert not cpu.take(1, lambda: None, woke=True)
    assert not cpu.must_yield(2)
    cpu.charge(2, 0.1)
    assert not cpu.take(3, lambda: None, woke=True)
    assert cpu.must_yield(2)
