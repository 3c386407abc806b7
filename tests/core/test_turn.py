"""The core's turn, against a session and I/O that only take notes."""

from __future__ import annotations

from collections import deque

from quicksilver.core.ports import (
    Arrival,
    ControlClosed,
    ControlEvent,
    ControlFrame,
    ControlOpened,
    Transmit,
)
from quicksilver.core.scheduler import Quanta
from quicksilver.core.turn import Turn, TurnLimits
from quicksilver.wire.ids import Address

HERE: Address = ("10.0.0.1", 7000)
THERE: Address = ("10.0.0.2", 7000)


class FakeIo:
    """Sockets that are queues of names, and a clock that is set by hand."""

    def __init__(self, notes: list[str]) -> None:
        self.notes = notes
        self.time = 100.0
        self.unicast: deque[str] = deque()
        self.multicast: deque[str] = deque()
        self.room = 1000
        """Packets that the socket takes."""
        self.control: deque[ControlEvent] = deque()
        self.is_open = True

    def clock(self) -> float:
        return self.time

    def receive_unicast(self, count: int) -> list[Arrival]:
        return self._read(self.unicast, count)

    def receive_multicast(self, count: int) -> list[Arrival]:
        return self._read(self.multicast, count)

    @staticmethod
    def _read(queue: deque[str], count: int) -> list[Arrival]:
        return [(queue.popleft().encode(), 0, HERE) for _ in range(min(count, len(queue)))]

    def send(self, destination: Address, packets: list[bytes]) -> int:
        sent = packets[: self.room]
        self.room -= len(sent)
        self.notes += [f"> {packet.decode()}" for packet in sent]
        return len(sent)

    def next_writable(self, now: float) -> float:
        return now + 0.001

    def is_control_open(self) -> bool:
        return self.is_open

    def send_control(self, frame: bytes) -> None:
        self.notes.append(f"> GMS {frame.decode()}")

    def close_control(self, reason: str, now: float) -> None:
        self.notes.append(f"close GMS: {reason}")
        self.control.append(ControlClosed(reason))

    def poll_control_event(self, now: float) -> ControlEvent | None:
        return self.control.popleft() if self.control else None

    def set_memberships(self, addresses: frozenset[str]) -> None:
        self.notes.append(f"memberships {sorted(addresses)}")


class FakeSession:
    """Notes what it is given; whatever it handles takes ``cost_s`` of the clock."""

    def __init__(self, io: FakeIo) -> None:
        self.io = io
        self.notes = io.notes
        self.cost_s = 0.0
        self.alarms: list[float] = []
        self.to_send: deque[list[str]] = deque()
        self.queued = 0
        """Packets that application threads queued."""
        self.is_paused = False
        self.reports = 0
        self.control: deque[str] = deque()
        self.ends: str | None = None
        self.addresses: frozenset[str] = frozenset()

    def classify(self, data: bytes) -> int:
        return {b"t": 0, b"c": 1}.get(data[:1], 2)

    def handle_datagram(self, data: bytes, source: Address, now: float) -> None:
        self.notes.append(data.decode())
        self.io.time += self.cost_s
        if data.startswith(b"ack"):
            self.reports += 1

    def handle_segments(self, data: bytes, segment_bytes: int, source: Address, now: float) -> None:
        raise AssertionError("nothing is coalesced here")

    def handle_drained(self, now: float) -> None:
        self.notes.append("drained")

    def handle_drops(self, drops: int) -> None:
        raise AssertionError("hosts tell that themselves")

    def handle_timeout(self, now: float) -> None:
        self.notes.append("alarm")
        self.alarms = [when for when in self.alarms if when > now]

    def next_timeout(self) -> float | None:
        return min(self.alarms, default=None)

    def handle_turn(self) -> None:
        self.to_send.extend([["queued"]] * self.queued)
        self.queued = 0

    def has_outgoing(self) -> bool:
        return self.queued > 0

    def has_transmits(self) -> bool:
        return bool(self.to_send)

    def poll_transmit(self, now: float) -> Transmit | None:
        if not self.to_send:
            return None
        return Transmit(THERE, [name.encode() for name in self.to_send.popleft()])

    def handle_control_opened(self, now: float) -> None:
        self.notes.append("opened")
        self.control.append("hello")

    def handle_control_frame(self, frame: bytes, now: float) -> None:
        self.notes.append(f"frame {frame.decode()}")
        self.reports += 1

    def handle_control_closed(self, reason: str, now: float) -> None:
        self.notes.append(f"closed: {reason}")

    def has_control(self) -> bool:
        return bool(self.control) or self.ends is not None

    def poll_control_close(self) -> str | None:
        reason, self.ends = self.ends, None
        return reason

    def handle_address(self, address: tuple[str, int], now: float) -> None:
        self.notes.append(f"moved to {address}")

    def poll_control(self, now: float) -> bytes | None:
        return self.control.popleft().encode() if self.control else None

    def has_events(self) -> bool:
        return self.reports > 0

    def multicast_addresses(self) -> frozenset[str]:
        return self.addresses

    def is_receiving_paused(self) -> bool:
        return self.is_paused


class Bench:
    """A turn with all that is around it."""

    def __init__(self, *, io_s: float = 0.050, **limits: int) -> None:
        self.notes: list[str] = []
        self.io = FakeIo(self.notes)
        self.session = FakeSession(self.io)
        self.turn = Turn(
            self.session,
            self.io,
            on_events=self._take_reports,
            limits=TurnLimits(quanta=Quanta(io_s=io_s), **limits),  # type: ignore[arg-type]
        )

    def _take_reports(self) -> None:
        self.notes.append("reports")
        self.session.reports = 0

    def run(self) -> list[str]:
        """Take a turn; return what happened in it."""
        self.notes.clear()
        self.turn.run()
        return list(self.notes)

    def wake_in(self) -> float | None:
        """In how many seconds the next turn is due."""
        when = self.turn.next_wake(self.io.time)
        return None if when is None else round(when - self.io.time, 6)


def test_requests_then_what_arrived_by_priority_then_alarms_then_packets() -> None:
    """The order of a turn (4.2.2): inbound before outbound, tokens before data."""
    bench = Bench()
    bench.turn.scheduler.submit(lambda: bench.notes.append("request"))
    bench.io.unicast.extend(["c1", "t1"])
    bench.io.multicast.extend(["d1", "d2"])
    bench.session.alarms = [99.0]
    bench.session.to_send.append(["p1"])
    assert bench.run() == ["request", "t1", "c1", "d1", "d2", "drained", "alarm", "> p1"]
    assert bench.wake_in() is None


def test_with_nothing_to_do_the_next_turn_waits_for_the_next_alarm() -> None:
    bench = Bench()
    bench.session.alarms = [100.5, 103.0]
    assert bench.run() == ["drained"]
    assert bench.wake_in() == 0.5


def test_data_is_read_in_rounds_and_what_is_left_is_not_called_drained() -> None:
    """Whoever claims to be drained says that what is missing was lost."""
    bench = Bench(multicast_reads=2, multicast_rounds=2)
    bench.io.multicast.extend(f"d{i}" for i in range(5))
    assert bench.run() == ["d0", "d1", "d2", "d3"]
    assert bench.wake_in() == 0.0
    assert bench.run() == ["d4", "drained"]
    assert bench.wake_in() is None


def test_what_exceeds_the_quantum_is_handled_next_turn_though_nothing_more_arrives() -> None:
    """Otherwise the host would turn in circles until somebody sends something."""
    bench = Bench(io_s=0.030)
    bench.session.cost_s = 0.010
    bench.io.unicast.extend(f"c{i}" for i in range(6))
    assert bench.run() == ["c0", "c1", "c2", "c3"]
    assert bench.wake_in() == 0.0
    assert bench.run() == ["c4", "c5", "drained"]


def test_what_was_read_and_not_handled_is_bounded() -> None:
    """Packets that take long to handle, and arrive faster, while data is left alone."""
    bench = Bench(io_s=0.030, unicast_reads=8)
    bench.session.cost_s = 0.010
    bench.session.is_paused = True
    for turn in range(50):
        bench.io.unicast.extend(f"c{turn}.{i}" for i in range(20))
        bench.run()
        assert bench.turn.scheduler.inbound_count() <= 8
    assert bench.wake_in() == 0.0
    bench.session.cost_s = 0.0
    bench.session.is_paused = False
    bench.io.multicast.append("d1")
    while bench.run()[-1] != "drained":
        pass
    assert bench.turn.scheduler.inbound_count() == 0
    assert not bench.io.unicast
    assert not bench.io.multicast


def test_data_stays_in_the_kernel_while_the_application_is_behind() -> None:
    """Tokens go on, and nobody is told that the socket was drained."""
    bench = Bench()
    bench.session.is_paused = True
    bench.io.unicast.append("t1")
    bench.io.multicast.append("d1")
    assert bench.run() == ["t1"]
    assert bench.wake_in() is None
    bench.session.is_paused = False
    assert bench.run() == ["d1", "drained"]


def test_packets_without_room_leave_first_when_there_is_some() -> None:
    """Nothing is lost and nothing overtakes."""
    bench = Bench()
    bench.session.to_send.extend([["p1", "p2", "p3"], ["p4"]])
    bench.io.room = 1
    assert bench.run() == ["drained", "> p1"]
    assert bench.wake_in() == 0.001
    bench.session.queued = 1
    assert bench.wake_in() == 0.001, "more to send is no reason to hurry"
    bench.io.room = 10
    assert bench.run() == ["drained", "> p2", "> p3", "> p4", "> queued"]


def test_transmission_stops_at_its_limits() -> None:
    """What arrives does not wait for long."""
    bench = Bench(transmits=2)
    bench.session.to_send.extend([["p1"], ["p2"], ["p3"]])
    assert bench.run() == ["drained", "> p1", "> p2"]
    assert bench.wake_in() == 0.0
    bench = Bench(transmit_bytes=5)
    bench.session.to_send.extend([["long one"], ["p2"]])
    assert bench.run() == ["drained", "> long one"]
    assert bench.wake_in() == 0.0


def test_reports_are_taken_before_anything_else_is_handled() -> None:
    """An application hears of a view before it gets that view's messages."""
    bench = Bench()
    bench.io.unicast.append("ack")
    bench.io.control.extend([ControlFrame(b"1"), ControlFrame(b"2")])
    assert bench.run() == ["ack", "drained", "reports", "frame 1", "reports", "frame 2", "reports"]


def test_a_busy_core_looks_at_the_stream_to_the_gms_now_and_then() -> None:
    """Every look costs a system call; a request or the poller make it look at once."""
    bench = Bench()
    bench.run()
    bench.session.control.append("heartbeat")
    assert bench.run() == ["drained"]
    assert bench.wake_in() == 0.01
    bench.turn.look_at_control()
    assert bench.run() == ["drained", "> GMS heartbeat"]
    bench.session.control.append("subscribe")
    bench.turn.scheduler.submit(lambda: None)
    assert bench.run() == ["drained", "> GMS subscribe"]


def test_the_stream_to_the_gms_opens_speaks_and_closes() -> None:
    bench = Bench()
    bench.io.is_open = False
    bench.session.control.append("too early")
    bench.io.control.append(ControlOpened())
    assert bench.run() == ["drained", "opened"]
    bench.io.is_open = True
    bench.session.addresses = frozenset({"239.0.0.1"})
    bench.io.control.append(ControlClosed("no reason"))
    assert bench.wake_in() is not None
    assert bench.run() == [
        "drained",
        "> GMS too early",
        "> GMS hello",
        "closed: no reason",
        "memberships ['239.0.0.1']",
    ]
    assert bench.run() == ["drained"], "addresses that did not change are not set again"


def test_a_session_that_wants_another_stream_to_the_gms_gets_one() -> None:
    """The session knows that a stream is dead; the host has it."""
    bench = Bench()
    bench.io.is_open = True
    bench.session.ends = "nothing came"
    assert bench.wake_in() is not None
    assert bench.run() == ["drained", "close GMS: nothing came", "closed: nothing came"]
