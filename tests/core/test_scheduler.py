"""The core thread's order of work, against a session that only takes notes."""

from __future__ import annotations

import threading
from collections.abc import Callable

from quicksilver.core.scheduler import Quanta, Scheduler

HERE = ("10.0.0.1", 7000)


class Notes:
    """An session that notes what it is given; every call takes ``cost_s`` of its clock."""

    def __init__(self, cost_s: float = 0.0) -> None:
        self.time = 0.0
        self.cost_s = cost_s
        self.handled: list[str] = []
        self.alarms: list[float] = []

    def clock(self) -> float:
        return self.time

    def classify(self, data: bytes) -> int:
        return {b"t": 0, b"c": 1}.get(data[:1], 2)

    def handle_datagram(self, data: bytes, source: tuple[str, int], now: float) -> None:
        self.handled.append(data.decode())
        self.time += self.cost_s

    def handle_segments(
        self, data: bytes, segment_bytes: int, source: tuple[str, int], now: float
    ) -> None:
        self.handled.append(f"{data.decode()}/{segment_bytes}")
        self.time += self.cost_s

    def next_timeout(self) -> float | None:
        return min(self.alarms, default=None)

    def handle_timeout(self, now: float) -> None:
        self.alarms.remove(min(self.alarms))
        self.handled.append("alarm")
        self.time += self.cost_s


def scheduler(session: Notes, **quanta: float) -> Scheduler:
    return Scheduler(session, Quanta(**quanta))  # type: ignore[arg-type]  # a part of the port


def arrivals(*names: str) -> list[tuple[bytes, int, tuple[str, int]]]:
    return [(name.encode(), 0, HERE) for name in names]


def test_arrivals_are_handled_tokens_first_then_control_then_data_then_disk() -> None:
    """All events are moved into priority queues first, then processed in order (4.2.2)."""
    session = Notes()
    core = scheduler(session)
    core.submit_disk(lambda: session.handled.append("disk"))
    core.accept(arrivals("d1", "c1", "t1", "d2", "t2"))
    core.run_data(arrivals("d3"), session.clock)
    assert session.handled == ["t1", "t2", "c1", "d1", "d2", "d3", "disk"]


def test_a_run_of_segments_is_handed_over_whole() -> None:
    """What the kernel coalesced is cut by the session, not copied before."""
    session = Notes()
    core = scheduler(session)
    core.run_data([(b"dddd", 2, HERE)], session.clock)
    assert session.handled == ["dddd/2"]


def test_io_stops_near_its_quantum_and_goes_on_in_the_next_turn() -> None:
    """Alarms and requests are never starved by arrivals; what is urgent overtakes the rest."""
    session = Notes(cost_s=0.0101)
    core = scheduler(session, io_s=0.050)
    core.accept(arrivals(*(f"d{i}" for i in range(20))))
    assert not core.run_io(session.clock)
    first = len(session.handled)
    assert 5 <= first <= 8
    assert core.has_inbound()
    core.accept(arrivals("t1"))
    assert not core.run_io(session.clock)
    assert session.handled[first] == "t1"
    while not core.run_io(session.clock):
        pass
    assert len(session.handled) == 21
    assert [name for name in session.handled if name != "t1"] == [f"d{i}" for i in range(20)]
    assert not core.has_inbound()


def test_io_that_ends_exactly_with_its_quantum_is_done() -> None:
    """Nothing is left, so the host need not come back for it."""
    session = Notes(cost_s=0.050)
    core = scheduler(session, io_s=0.050)
    core.accept(arrivals("d1"))
    assert core.run_io(session.clock)


def test_data_that_exceeds_the_quantum_waits_in_order() -> None:
    """Handled in place or from queues: nothing is lost and nothing overtakes."""
    session = Notes(cost_s=0.0101)
    core = scheduler(session, io_s=0.030)
    core.run_data(arrivals(*(f"d{i}" for i in range(10))), session.clock)
    assert core.has_inbound()
    core.run_data(arrivals("d10"), session.clock)
    while not core.run_io(session.clock):
        pass
    assert session.handled == [f"d{i}" for i in range(11)]


def test_disk_completions_left_over_are_not_reported_as_handled() -> None:
    """A host that believes all is done would sleep on them."""
    session = Notes()
    core = scheduler(session, io_s=0.050)
    done: list[int] = []

    def completion(number: int) -> Callable[[], None]:
        def complete() -> None:
            done.append(number)
            session.time += 0.030

        return complete

    for number in range(4):
        core.submit_disk(completion(number))
    assert not core.run_io(session.clock)
    assert done == [0, 1]
    assert core.run_io(session.clock)
    assert done == [0, 1, 2, 3]


def test_alarms_stop_at_their_quantum() -> None:
    """5 ms for alarms: a storm of timers does not hold up the network."""
    session = Notes(cost_s=0.002)
    session.alarms = [0.0] * 10
    core = scheduler(session, alarms_s=0.005)
    assert core.run_alarms(session.clock) == 0.0
    assert len(session.handled) == 3
    core.run_alarms(session.clock)
    assert len(session.handled) == 6


def test_only_due_alarms_fire() -> None:
    """Those of the future wait."""
    session = Notes()
    session.alarms = [0.0, 1.0]
    assert scheduler(session).run_alarms(session.clock) == 1.0
    assert session.handled == ["alarm"]
    assert session.alarms == [1.0]


def test_requests_of_other_threads_run_in_order_on_the_core() -> None:
    """Applications reach the core without a lock and without waiting."""
    session = Notes()
    core = scheduler(session)
    ran: list[tuple[int, int]] = []

    def submit(worker: int) -> None:
        for number in range(50):
            core.submit(
                lambda worker=worker, number=number: ran.append((worker, number))  # type: ignore[misc]
            )

    threads = [threading.Thread(target=submit, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert core.has_requests()
    core.run_requests()
    assert not core.has_requests()
    assert len(ran) == 200
    for worker in range(4):
        assert [number for who, number in ran if who == worker] == list(range(50))


def test_a_request_made_by_a_request_waits_for_the_next_turn() -> None:
    """A request that repeats itself cannot hold the core."""
    session = Notes()
    core = scheduler(session)
    ran: list[int] = []

    def again() -> None:
        ran.append(1)
        core.submit(again)

    core.submit(again)
    core.run_requests()
    assert ran == [1]
    assert core.has_requests()


def test_an_alarm_that_waits_behind_data_is_an_inversion() -> None:
    """Late is late; an inversion is only the part in which data was handled."""
    session = Notes(cost_s=0.01)
    core = scheduler(session)
    session.time = 5.0
    session.alarms = [4.0]
    core.run_data(arrivals("d1", "d2", "d3"), session.clock)
    core.run_alarms(session.clock)
    assert round(core.alarm_delay_s_max, 6) == 1.03
    assert round(core.inversion_s_max, 6) == 0.03


def test_a_late_alarm_is_no_inversion_without_data() -> None:
    """Also not because of data that was handled before alarms last had their turn."""
    session = Notes(cost_s=0.01)
    core = scheduler(session)
    core.accept(arrivals("t1", "c1"))
    session.time = 1.0
    core.run_io(session.clock)
    session.alarms = [0.5]
    core.run_alarms(session.clock)
    core.run_data(arrivals("d1"), session.clock)
    core.run_alarms(session.clock)
    session.alarms = [session.time]
    session.time += 2.0
    core.run_alarms(session.clock)
    assert core.alarm_delay_s_max == 2.0
    assert core.inversion_s_max == 0.0
