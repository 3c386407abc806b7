"""The core thread: one thread that drives an engine with real sockets.

Each turn serves requests of application threads, drains what arrived, handles
it by priority, fires alarms, and transmits what the engine's pull stack gives,
until nothing is left to do; then it sleeps until a socket, an alarm or another
thread wakes it (dissertation 4.2.2).
"""

from __future__ import annotations

import gc
import threading
import time
import traceback
from collections.abc import Callable

from quicksilver.core.ports import Engine, Transmit
from quicksilver.core.scheduler import Scheduler
from quicksilver.net.control import ControlStream
from quicksilver.net.datagrams import DatagramSockets, MembershipError
from quicksilver.net.poller import Poller, Waker

UNICAST_READS = 64
MULTICAST_READS = 4
"""Reads at once: of 60 KB each, they are still in the second-level cache when
they are handled."""

MULTICAST_ROUNDS = 6
"""Times a turn that data is read and handled: about a millisecond in all, so that
a token never waits longer than that behind data."""

TRANSMITS = 24
TRANSMIT_BYTES = 2 << 20
"""Polls a turn, and bytes: some 0.6 ms, so that what arrives does not wait for long."""

LOOK_INTERVAL_S = 0.02
BUSY_PART = 0.05
"""Processor share of the process's other threads from which on the core keeps the
interpreter lock while it reads: to get it back may take a switch interval."""

CONTROL_INTERVAL_S = 0.01
"""How often a busy core looks at the stream to the GMS: every look gives up the
interpreter lock, and a busy application thread then keeps it for a while."""

SLEEP_S_MAX = 1.0
RETRY_S = 0.001


class CoreThread:
    """Runs an engine until ``stop``.

    Other threads may call ``submit``, ``wake`` and ``stop``; everything else
    belongs to the core.
    """

    def __init__(
        self,
        engine: Engine,
        sockets: DatagramSockets,
        control: ControlStream,
        *,
        on_events: Callable[[], None],
        on_failure: Callable[[str], None],
        name: str = "quicksilver",
    ) -> None:
        self.engine = engine
        self.sockets = sockets
        self.scheduler = Scheduler(engine)
        self.is_sleeping = False
        """True while the core waits; whoever adds work then calls ``wake``."""
        self.turns = 0
        self._control = control
        self._on_events = on_events
        self._on_failure = on_failure
        self._poller = Poller()
        self._waker = Waker()
        self._watched: dict[int, int] = {}
        self._addresses: frozenset[str] = frozenset()
        self._unsent: Transmit | None = None
        self._turn = threading.Lock()
        """Held by whoever drives the engine."""
        self._driver = 0
        """Which thread that is; 0: none."""
        self._wakes_at = 0.0
        self._is_stopping = False
        self._look_at = 0.0
        self._process_time = 0.0
        self._thread_time = 0.0
        self._control_at = 0.0
        self._control_fd: int | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, request: Callable[[], None]) -> None:
        """Have the core run something soon; from any thread."""
        self.scheduler.submit(request)
        if self.is_sleeping:
            self.wake()

    def wake(self) -> None:
        """End the core's sleep; the next to add work need not wake it again."""
        self.is_sleeping = False
        self._waker.wake()

    def stop(self) -> None:
        """End the thread; returns when it has ended."""
        self._is_stopping = True
        self._waker.wake()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=5)

    def is_core(self) -> bool:
        """True on the thread that drives the engine: it must not wait for the core."""
        return self._driver == threading.get_ident()

    def lend(self) -> None:
        """Transmit on the calling thread, if the core does not run at the moment.

        A sender that has to wait for room does the work itself instead of
        waiting for another thread to get the interpreter and the caches warm:
        at one receiver the sender's cost went from about 1.25 to 1.05 µs a message.
        """
        if not self._turn.acquire(blocking=False):
            return
        try:
            self._driver = threading.get_ident()
            if self._is_stopping:
                return
            self._transmit(time.monotonic)
            due = self.engine.next_timeout()
            is_stuck = self._unsent is not None
        finally:
            self._driver = 0
            self._turn.release()
        if is_stuck or (due is not None and due < self._wakes_at):
            self.wake()

    # The loop

    def _run(self) -> None:
        try:
            self._loop()
        except Exception:  # noqa: BLE001  # whatever it is, the application must hear of it
            self._on_failure(traceback.format_exc())
        finally:
            self._control.close()
            self.sockets.close()
            self._poller.close()
            self._waker.close()

    def _loop(self) -> None:
        clock = time.monotonic
        own = threading.get_ident()
        scheduler = self.scheduler
        self._watch(self._waker.fileno())
        self._watch_sockets()
        while not self._is_stopping:
            with self._turn:
                self._driver = own
                self.turns += 1
                if scheduler.has_requests():
                    scheduler.run_requests()
                    self._take_events()
                    self._control_at = 0.0
                is_dry = self._receive(clock)
                scheduler.run_alarms(clock)
                self._take_events()
                is_idle = self._transmit(clock)
                now = clock()
                if now >= self._control_at:
                    self._advance_control(now)
                self._driver = 0
            if is_dry and is_idle:
                self._sleep(clock)

    def _receive(self, clock: Callable[[], float]) -> bool:
        """Drain the sockets and handle what came; True when nothing is left."""
        scheduler = self.scheduler
        engine = self.engine
        now = clock()
        freeze = self.sockets.freeze_until(now)
        if freeze is not None:
            time.sleep(max(0.0, freeze - now))
        arrived = self.sockets.receive_unicast(UNICAST_READS)
        if arrived:
            scheduler.accept(arrived)
            scheduler.run_io(clock)
        is_dry = len(arrived) < UNICAST_READS
        is_paused = engine.is_receiving_paused()
        if not is_paused:
            for _ in range(MULTICAST_ROUNDS):
                arrived = self.sockets.receive_multicast(MULTICAST_READS)
                if not arrived:
                    break
                scheduler.accept_data(arrived)
                scheduler.run_io(clock)
                if engine.is_receiving_paused():
                    break
            is_dry = is_dry and len(arrived) < MULTICAST_READS
        is_dry = is_dry and not scheduler.has_inbound()
        if is_dry and not is_paused:
            engine.handle_drained(now)
        if now >= self._look_at:
            self._look_around(now)
        return is_dry

    def _look_around(self, now: float) -> None:
        """See now and then what the kernel dropped and whether other threads compute."""
        process, thread = time.process_time(), time.thread_time()
        others = (process - self._process_time) - (thread - self._thread_time)
        elapsed = now - (self._look_at - LOOK_INTERVAL_S)
        self.sockets.gives_lock = others < BUSY_PART * elapsed
        self._process_time, self._thread_time = process, thread
        self._look_at = now + LOOK_INTERVAL_S
        self.engine.handle_drops(self.sockets.receive_drops())

    def _transmit(self, clock: Callable[[], float]) -> bool:
        """Send what the stack gives; True when it has nothing left to send now."""
        engine = self.engine
        sockets = self.sockets
        engine.handle_turn()
        left = TRANSMIT_BYTES
        for _ in range(TRANSMITS):
            transmit = self._unsent or engine.poll_transmit(clock())
            self._unsent = None
            if transmit is None:
                return True
            sent = sockets.send(transmit.destination, transmit.packets)
            if sent < len(transmit.packets):
                self._unsent = Transmit(transmit.destination, transmit.packets[sent:])
                return True
            left -= sum(map(len, transmit.packets))
            if left <= 0:
                break
        return False

    def _take_events(self) -> None:
        if self.engine.has_events():
            self._on_events()

    def _advance_control(self, now: float) -> None:
        control = self._control
        engine = self.engine
        self._control_at = now + CONTROL_INTERVAL_S
        if control.is_connected:
            while (frame := engine.poll_control(now)) is not None:
                control.send(frame)
        word = control.advance(now)
        while (incoming := control.poll_frame()) is not None:
            engine.handle_control_frame(incoming, now)
            self._take_events()
        if word == "opened":
            engine.handle_control_opened(now)
        elif word is not None:
            engine.handle_control_closed(word, now)
        if engine.multicast_addresses() is not self._addresses:
            self._addresses = engine.multicast_addresses()
            self._set_memberships()
        self._watch_control()

    def _set_memberships(self) -> None:
        try:
            changed = self.sockets.set_memberships(self._addresses)
        except MembershipError as error:
            self._on_failure(str(error))
            changed = True
        if changed:
            self._watch_sockets()

    def set_multicast_port(self, port: int) -> None:
        """The GMS said where multicast arrives; core thread only."""
        self.sockets.set_multicast_port(port)
        self._watch_sockets()
        self._set_memberships()

    # Sleeping

    def _sleep(self, clock: Callable[[], float]) -> None:
        self.is_sleeping = True
        try:
            with self._turn:
                timeout = self._prepare_sleep(clock())
            if timeout is None:
                return
            ready = self._poller.wait(timeout)
        finally:
            self.is_sleeping = False
        if self._waker.fileno() in ready:
            self._waker.clear()
        if self._control_fd in ready:
            self._control_at = 0.0

    def _prepare_sleep(self, now: float) -> float | None:
        """Return how long to sleep, or None when there is something to do."""
        engine = self.engine
        if self.scheduler.has_requests() or engine.has_outgoing() or engine.has_events():
            return None
        times = [now + SLEEP_S_MAX]
        is_paused = engine.is_receiving_paused()
        waits = (
            engine.next_timeout(),
            self._control.next_timeout(),
            self._control_at if engine.has_control() else None,
            # While paused nobody takes what a fault plan held back.
            None if is_paused else self.sockets.next_release(),
            # The kernel is out of memory for packets: a writable socket does not tell.
            now + RETRY_S if self._unsent is not None else None,
        )
        times.extend(when for when in waits if when is not None)
        self._wakes_at = min(times)
        if self._wakes_at <= now:
            return None
        unicast, multicast = self.sockets.filenos()
        self._watch(unicast)
        for fd in multicast:
            self._watch(fd, readable=not is_paused)
        return self._wakes_at - now

    def _watch(self, fd: int, *, readable: bool = True, writable: bool = False) -> None:
        state = (2 if readable else 0) + (1 if writable else 0)
        if self._watched.get(fd) != state:
            self._watched[fd] = state
            self._poller.register(fd, readable=readable, writable=writable)

    def _watch_sockets(self) -> None:
        unicast, multicast = self.sockets.filenos()
        keep = {self._waker.fileno(), unicast, *multicast}
        control = self._control.fileno()
        if control is not None:
            keep.add(control)
        for fd in [fd for fd in self._watched if fd not in keep]:
            self._unwatch(fd)
        for fd in (unicast, *multicast):
            self._watched.pop(fd, None)
            self._watch(fd)

    def _unwatch(self, fd: int) -> None:
        self._watched.pop(fd, None)
        try:
            self._poller.unregister(fd)
        except (KeyError, ValueError, OSError):
            pass  # closed meanwhile: the kernel forgot it already

    def _watch_control(self) -> None:
        fd = self._control.fileno()
        if fd != self._control_fd and self._control_fd is not None:
            self._unwatch(self._control_fd)
        self._control_fd = fd
        if fd is not None:
            self._watch(fd, writable=self._control.wants_write())


def tune_collector() -> None:
    """Make garbage collection rare: the engine's objects die by reference count.

    Collecting while megabytes of packets are alive costs pauses that tokens
    feel (dissertation 4.3.7); what start-up made is moved out of its sight.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
