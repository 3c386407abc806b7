"""The core thread's work, without the thread.

Three kinds of events wait for the core: arrived I/O, alarms, and requests of
application threads. They are served in turn, each within its quantum (50 ms,
5 ms, no limit; dissertation 4.2.2). I/O is handled like interrupts: everything
that has arrived is first moved into priority queues, then handled in the order
tokens, control and repair, data, disk.

The turn calls ``accept`` with what it read and then ``run_io``; the host's clock is
passed in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from quicksilver.core.ports import Arrival, SessionPort


@dataclass(frozen=True, slots=True, kw_only=True)
class Quanta:
    """How long one kind of event may run before the next has its turn."""

    io_s: float = 0.050
    alarms_s: float = 0.005


class Scheduler:
    """Priority queues and quanta around one session."""

    def __init__(self, session: SessionPort, quanta: Quanta | None = None) -> None:
        self._session = session
        self._quanta = quanta or Quanta()
        self._inbound: tuple[deque[Arrival], ...] = (deque(), deque(), deque())
        self._disk: deque[Callable[[], None]] = deque()
        self._requests: deque[Callable[[], None]] = deque()
        self.alarms = 0
        """Times that alarms were due, and …"""
        self.alarm_delay_s = 0.0
        """… how late they were, in sum."""
        self.alarm_delay_s_max = 0.0
        """How late an alarm was at most; whoever samples it sets it back."""
        self.inversion_s_max = 0.0
        """The longest time that an alarm was due while data was handled; set back likewise."""
        self._data_since = 0.0
        """When the core began to handle data after alarms last had their turn; 0: it has not."""

    def submit(self, request: Callable[[], None]) -> None:
        """Queue a request; safe from any thread, never blocks."""
        self._requests.append(request)

    def submit_disk(self, completion: Callable[[], None]) -> None:
        """Queue a disk completion: handled after all network I/O."""
        self._disk.append(completion)

    def accept(self, arrivals: Iterable[Arrival]) -> None:
        """Sort what arrived into the priority queues."""
        classify = self._session.classify
        inbound = self._inbound
        for arrival in arrivals:
            inbound[classify(arrival[0])].append(arrival)

    def has_requests(self) -> bool:
        return bool(self._requests)

    def has_inbound(self) -> bool:
        return any(self._inbound)

    def inbound_count(self) -> int:
        """How many arrivals were read and not handled yet."""
        tokens, control, data = self._inbound
        return len(tokens) + len(control) + len(data)

    def run_requests(self) -> None:
        """Serve what application threads asked for; those added meanwhile wait."""
        requests = self._requests
        for _ in range(len(requests)):
            requests.popleft()()

    def run_alarms(self, clock: Callable[[], float]) -> float | None:
        """Let due timers fire, within their quantum; return when the next is due."""
        now = clock()
        until = now + self._quanta.alarms_s
        while True:
            due = self._session.next_timeout()
            if due is None or due > now:
                self._data_since = 0.0
                return due
            self.alarms += 1
            self.alarm_delay_s += now - due
            if now - due > self.alarm_delay_s_max:
                self.alarm_delay_s_max = now - due
            if self._data_since:
                waited = now - max(due, self._data_since)
                if waited > self.inversion_s_max:
                    self.inversion_s_max = waited
                self._data_since = 0.0
            self._session.handle_timeout(now)
            now = clock()
            if now >= until:
                return self._session.next_timeout()

    def run_data(self, arrivals: list[Arrival], clock: Callable[[], float]) -> None:
        """Handle arrivals of a socket that carries nothing but data.

        As a rule nothing waits before them: then they are handled without queues.
        """
        if any(self._inbound) or self._disk:
            self._inbound[2].extend(arrivals)
            self.run_io(clock)
            return
        now = clock()
        until = now + self._quanta.io_s
        if not self._data_since:
            self._data_since = now
        session = self._session
        for handled, (data, segment, source) in enumerate(arrivals, 1):
            if segment:
                session.handle_segments(data, segment, source, now)
            else:
                session.handle_datagram(data, source, now)
            if not handled & 3:
                now = clock()
                if now >= until:
                    self._inbound[2].extend(arrivals[handled:])
                    return

    def run_io(self, clock: Callable[[], float]) -> bool:
        """Handle queued arrivals by priority; True when all were handled."""
        now = clock()
        until = now + self._quanta.io_s
        if self._inbound[2]:
            self._data_since = self._data_since or now
        session = self._session
        handle = session.handle_datagram
        for queue in self._inbound:
            handled = 0
            while queue:
                data, segment, source = queue.popleft()
                if segment:
                    session.handle_segments(data, segment, source, now)
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
