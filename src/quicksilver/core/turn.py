"""The core's turn: what a host does again and again, written once for all hosts.

Each turn serves requests of application threads, reads what arrived and handles it by
priority, fires alarms, transmits what the session's pull stack gives, and moves the
stream to the GMS; then ``next_wake`` says until when there is nothing to do
(dissertation 4.2.2). Where bytes come from and go to, and what time it is, is the
business of the host's I/O: real sockets in ``net``, virtual ones in ``sim``.

After every step that may have produced events, the application takes them before
anything else is handled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import assert_never

from quicksilver.core.ports import (
    ControlClosed,
    ControlFrame,
    ControlOpened,
    HostIO,
    SessionPort,
    Transmit,
)
from quicksilver.core.scheduler import Quanta, Scheduler


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnLimits:
    """What one turn takes at most before other work has its chance."""

    unicast_reads: int = 64
    """Datagrams read from the socket that tokens, control and repairs arrive at; also all
    that may have been read and not handled, but for one more read of data."""
    multicast_reads: int = 4
    """Datagrams of data read at once: of 60 KB each, they are still in the second-level
    cache when they are handled."""
    multicast_rounds: int = 6
    """Times that data is read and handled: about a millisecond in all, so that a token
    never waits longer than that behind data …"""
    multicast_s: float = 0.002
    """… nor longer than this, and one read, on a slow machine: a whole ring waits for the token."""
    transmits: int = 24
    transmit_bytes: int = 2 << 20
    """Polls, and bytes: some 0.6 ms, so that what arrives does not wait for long."""
    control_interval_s: float = 0.01
    """How often a busy core looks at the stream to the GMS: every look gives up the
    interpreter lock, and a busy application thread then keeps it for a while."""
    quanta: Quanta = field(default_factory=Quanta)


class Turn:
    """One session's turns; one thread at a time."""

    def __init__(
        self,
        session: SessionPort,
        io: HostIO,
        *,
        on_events: Callable[[], None],
        limits: TurnLimits | None = None,
    ) -> None:
        """``on_events`` takes the session's events, until ``has_events`` is False."""
        self.scheduler = Scheduler(session, (limits or TurnLimits()).quanta)
        self.count = 0
        """How many there were."""
        self._session = session
        self._io = io
        self._on_events = on_events
        self._limits = limits or TurnLimits()
        self._unsent: Transmit | None = None
        """Packets that the socket had no room for; they leave before all others."""
        self.has_more = False
        """True when the last turn stopped at its limits, not for lack of work."""
        self._timeout: float | None = None
        """When the session's next alarm is due."""
        self._addresses: frozenset[str] = frozenset()
        self._control_at = 0.0

    def run(self) -> None:
        """Do a turn's work."""
        session = self._session
        scheduler = self.scheduler
        clock = self._io.clock
        self.count += 1
        if scheduler.has_requests():
            scheduler.run_requests()
            # Most requests have something to say to the GMS.
            self._control_at = 0.0
            if session.has_events():
                self._on_events()
        self.has_more = not self._receive(clock)
        if session.has_events():
            self._on_events()
        self._timeout = scheduler.run_alarms(clock)
        if session.has_events():
            self._on_events()
        if self._unsent is not None or session.has_transmits() or session.has_outgoing():
            self.has_more = self.transmit() or self.has_more
        now = clock()
        if now >= self._control_at:
            self._advance_control(now)

    def look_at_control(self) -> None:
        """Something came on the stream to the GMS: the next turn reads it."""
        self._control_at = 0.0

    def next_wake(self, now: float) -> float | None:
        """Return when the next turn is due if nothing arrives; None: not before something does.

        The host itself watches whether its I/O is readable.
        """
        session = self._session
        if self.has_more or self.scheduler.has_requests() or session.has_events():
            return now
        soonest = self._timeout
        if self._unsent is not None:
            when = self._io.next_writable(now)
            if soonest is None or when < soonest:
                soonest = when
        elif session.has_outgoing() or session.has_transmits():
            return now
        if session.has_control() and (soonest is None or self._control_at < soonest):
            soonest = self._control_at
        return soonest

    # Receiving

    def _receive(self, clock: Callable[[], float]) -> bool:
        """Read and handle what came; True when nothing is left."""
        io = self._io
        session = self._session
        scheduler = self.scheduler
        limits = self._limits
        begun = clock()
        # What the last turn had no time for counts: the rest stays in the kernel, whose
        # buffers are bounded, and is dropped there if it must be.
        reads = max(0, limits.unicast_reads - scheduler.inbound_count())
        arrived = io.receive_unicast(reads) if reads else []
        if arrived or (self.has_more and scheduler.has_inbound()):
            scheduler.accept(arrived)
            scheduler.run_io(clock)
        is_dry = len(arrived) < reads
        is_paused = session.is_receiving_paused()
        if not is_paused:
            until = clock() + limits.multicast_s
            for _ in range(limits.multicast_rounds):
                if scheduler.inbound_count() >= limits.unicast_reads:
                    break
                arrived = io.receive_multicast(limits.multicast_reads)
                if not arrived:
                    break
                scheduler.run_data(arrived, clock)
                if session.is_receiving_paused() or clock() >= until:
                    break
            is_dry = is_dry and len(arrived) < limits.multicast_reads
        is_dry = is_dry and not scheduler.has_inbound()
        if is_dry and not is_paused:
            session.handle_drained(begun)
        return is_dry

    # Transmitting

    def transmit(self) -> bool:
        """Send what the stack gives: a turn's worth, or until the socket is full.

        True when it stopped at the limits of a turn, and there may be more to send.
        """
        session = self._session
        send = self._io.send
        clock = self._io.clock
        left = self._limits.transmit_bytes
        is_more = False
        session.handle_turn()
        for _ in range(self._limits.transmits):
            transmit = self._unsent or session.poll_transmit(clock())
            self._unsent = None
            if transmit is None:
                break
            packets = transmit.packets
            sent = send(transmit.destination, packets)
            if sent < len(packets):
                self._unsent = Transmit(transmit.destination, packets[sent:])
                break
            left -= sum(map(len, packets))
            if left <= 0:
                is_more = True
                break
        else:
            is_more = True
        self._timeout = session.next_timeout()
        return is_more

    # The stream to the GMS

    def _advance_control(self, now: float) -> None:
        session = self._session
        io = self._io
        self._control_at = now + self._limits.control_interval_s
        reason = session.poll_control_close()
        if reason is not None:
            io.close_control(reason, now)
        while io.is_control_open() and (frame := session.poll_control(now)) is not None:
            io.send_control(frame)
        while (event := io.poll_control_event(now)) is not None:
            if isinstance(event, ControlFrame):
                session.handle_control_frame(event.frame, now)
            elif isinstance(event, ControlOpened):
                session.handle_control_opened(now)
                self._control_at = 0.0
            elif isinstance(event, ControlClosed):
                session.handle_control_closed(event.reason, now)
            else:
                assert_never(event)
            if session.has_events():
                self._on_events()
            self._timeout = session.next_timeout()
        addresses = session.multicast_addresses()
        if addresses is not self._addresses and addresses != self._addresses:
            self._addresses = addresses
            io.set_memberships(addresses)
