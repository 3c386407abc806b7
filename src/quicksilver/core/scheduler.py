"""The core thread's work, without the thread.

Three kinds of events wait for the core: arrived I/O, alarms, and requests of
application threads. They are served in turn, each within its quantum (50 ms,
5 ms, no limit; dissertation 4.2.2). I/O is handled like interrupts: everything
that has arrived is first moved into priority queues, then handled in the order
tokens, control and repair, data, disk.

A host calls ``accept_*`` with what it drained and then ``run``; it owns the
clock and passes it in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from quicksilver.core.ports import Engine
from quicksilver.wire.ids import Address

Arrival = tuple[bytes, int, Address]
"""A datagram, its segment size when the kernel coalesced several (else 0), its source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quanta:
    """How long one kind of event may run before the next has its turn."""

    io_s: float = 0.050
    alarms_s: float = 0.005


class Scheduler:
    """Priority queues and quanta around one engine."""

    def __init__(self, engine: Engine, quanta: Quanta | None = None) -> None:
        self._engine = engine
        self._quanta = quanta or Quanta()
        self._inbound: tuple[deque[Arrival], ...] = (deque(), deque(), deque())
        self._disk: deque[Callable[[], None]] = deque()
        self._requests: deque[Callable[[], None]] = deque()
        self.requests_run = 0
        self.alarm_delay_s_max = 0.0
        """How late an alarm was at most; whoever samples it sets it back."""
        self.inversion_s_max = 0.0
        """How long an alarm was due at most while data was handled; set back likewise."""
        self._data_since = 0.0
        """When the core began to handle data, since alarms last had their turn; 0: not."""

    def submit(self, request: Callable[[], None]) -> None:
        """Queue a request; safe from any thread, never blocks."""
        self._requests.append(request)

    def submit_disk(self, completion: Callable[[], None]) -> None:
        """Queue a disk completion: handled after all network I/O."""
        self._disk.append(completion)

    def accept(self, arrivals: Iterable[Arrival]) -> None:
        """Sort what arrived into the priority queues."""
        classify = self._engine.classify
        inbound = self._inbound
        for arrival in arrivals:
            inbound[classify(arrival[0])].append(arrival)

    def accept_data(self, arrivals: Iterable[Arrival]) -> None:
        """Queue arrivals of a socket that carries nothing but data."""
        self._inbound[2].extend(arrivals)

    def has_requests(self) -> bool:
        return bool(self._requests)

    def has_inbound(self) -> bool:
        return any(self._inbound)

    def run_requests(self) -> None:
        """Serve what application threads asked for; those added meanwhile wait."""
        requests = self._requests
        for _ in range(len(requests)):
            requests.popleft()()
            self.requests_run += 1

    def run_alarms(self, clock: Callable[[], float]) -> None:
        """Let due timers fire, within their quantum."""
        now = clock()
        until = now + self._quanta.alarms_s
        while True:
            due = self._engine.next_timeout()
            if due is None or due > now:
                self._data_since = 0.0
                return
            if now - due > self.alarm_delay_s_max:
                self.alarm_delay_s_max = now - due
            if self._data_since:
                waited = now - max(due, self._data_since)
                if waited > self.inversion_s_max:
                    self.inversion_s_max = waited
                self._data_since = 0.0
            self._engine.handle_timeout(now)
            now = clock()
            if now >= until:
                return

    def begin_turn(self) -> None:
        """For hosts that do not run alarms every turn: no data was handled yet."""
        self._data_since = 0.0

    def begin_data(self, now: float) -> None:
        """The core turns to data; a second time before the next alarms changes nothing."""
        if not self._data_since:
            self._data_since = now

    def run_io(self, clock: Callable[[], float]) -> bool:
        """Handle queued arrivals by priority; True when all were handled."""
        now = clock()
        until = now + self._quanta.io_s
        if self._inbound[2]:
            self.begin_data(now)
        engine = self._engine
        handle = engine.handle_datagram
        for queue in self._inbound:
            handled = 0
            while queue:
                data, segment, source = queue.popleft()
                if segment:
                    engine.handle_segments(data, segment, source, now)
                else:
                    handle(data, source, now)
                handled += 1
                if not handled & 3:
                    # Reading the clock takes 90 ns: not for every packet.
                    now = clock()
                    if now >= until:
                        return not self.has_inbound()
        while self._disk:
            self._disk.popleft()()
            if clock() >= until:
                return not self._disk
        return True
