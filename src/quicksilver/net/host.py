"""The core thread: one thread that drives a session with real sockets.

It takes turns (``core.turn``) until nothing is left to do; then it sleeps until a
socket, an alarm or another thread wakes it (dissertation 4.2.2). It is the turn's I/O
as well: sockets, the stream to the GMS, the clock.
"""

from __future__ import annotations

import gc
import threading
import time
import traceback
from collections.abc import Callable

from quicksilver.core.ports import ControlEvent, ControlOpened, SessionPort
from quicksilver.core.turn import Turn
from quicksilver.net.control import ControlStream
from quicksilver.net.datagrams import DatagramSockets, MembershipError
from quicksilver.net.interfaces import Interface
from quicksilver.net.poller import Poller, Waker

LOOK_INTERVAL_S = 0.02
BUSY_PART = 0.05
"""Processor share of the process's other threads from which on the core keeps the
interpreter lock while it reads: to get it back may take a switch interval."""

LENT_TURNS = 4
"""Turns' worth that a thread sends which waits for room, before it leaves the rest to the core."""

SLEEP_S_MAX = 1.0
RETRY_S = 0.001


class CoreThread:
    """Runs a session until ``stop``.

    Other threads may call ``submit``, ``wake`` and ``stop``; everything else
    belongs to the core.
    """

    def __init__(
        self,
        session: SessionPort,
        sockets: DatagramSockets,
        control: ControlStream,
        *,
        on_events: Callable[[], None],
        on_failure: Callable[[str], None],
        find_interface: Callable[[], Interface | None] = lambda: None,
        name: str = "quicksilver",
    ) -> None:
        self.session = session
        self.sockets = sockets
        self.turn = Turn(session, self, on_events=on_events)
        self.clock = time.monotonic
        self.receive_unicast = sockets.receive_unicast
        self.receive_multicast = sockets.receive_multicast
        self.send = sockets.send
        self.is_sleeping = False
        """True while the core waits; whoever adds work then calls ``wake``."""
        self._control = control
        self._on_failure = on_failure
        self._find_interface = find_interface
        """Says where the node is now, if it is not where it was."""
        self._poller = Poller()
        self._waker = Waker()
        self._watched: dict[int, int] = {}
        self._addresses: frozenset[str] = frozenset()
        self._lock = threading.Lock()
        """Held by whoever drives the session."""
        self._driver = 0
        """Which thread that is; 0: none."""
        self._wakes_at = 0.0
        self._is_stopping = False
        self._look_at = 0.0
        self._process_time = 0.0
        self._thread_time = 0.0
        self._control_fd: int | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, request: Callable[[], None]) -> None:
        """Have the core run something soon; from any thread."""
        self.turn.scheduler.submit(request)
        if self.is_sleeping:
            self.wake()

    def submit_disk(self, completion: Callable[[], None]) -> None:
        """Have the core take note that the disk has done something; from any thread."""
        self.turn.scheduler.submit_disk(completion)
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
        """True on the thread that drives the session: it must not wait for the core."""
        return self._driver == threading.get_ident()

    def lend(self) -> None:
        """Transmit on the calling thread, if the core does not run at the moment.

        A sender that has to wait for room does the work itself instead of
        waiting for another thread to get the interpreter and the caches warm:
        at one receiver the sender's cost went from about 1.25 to 1.05 µs a message.
        """
        if not self._lock.acquire(blocking=False):
            return
        try:
            self._driver = threading.get_ident()
            if self._is_stopping:
                return
            for _ in range(LENT_TURNS):
                # To wake the core for the rest, again and again, took 8 % of a sender's time.
                if not self.turn.transmit():
                    break
            due = self.turn.next_wake(self.clock())
        finally:
            self._driver = 0
            self._lock.release()
        if self.is_sleeping and due is not None and due < self._wakes_at:
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
        clock = self.clock
        own = threading.get_ident()
        run = self.turn.run
        self._watch(self._waker.fileno())
        self._watch_sockets()
        while not self._is_stopping:
            with self._lock:
                self._driver = own
                now = clock()
                freeze = self.sockets.freeze_until(now)
                if freeze is not None:
                    time.sleep(max(0.0, freeze - now))
                run()
                if now >= self._look_at:
                    self._look_around(now)
                self._driver = 0
            self._sleep()

    def _look_around(self, now: float) -> None:
        """Now and then, see what the kernel dropped and whether other threads compute."""
        process, thread = time.process_time(), time.thread_time()
        others = (process - self._process_time) - (thread - self._thread_time)
        elapsed = now - (self._look_at - LOOK_INTERVAL_S)
        self.sockets.gives_lock = others < BUSY_PART * elapsed
        self._process_time, self._thread_time = process, thread
        self._look_at = now + LOOK_INTERVAL_S
        self.session.handle_drops(self.sockets.receive_drops())

    # The turn's I/O, next to what the sockets do themselves

    def next_writable(self, now: float) -> float:
        """Return when to try again: a socket may look writable while the kernel is full."""
        return now + RETRY_S

    def is_control_open(self) -> bool:
        return self._control.is_connected

    def send_control(self, frame: bytes) -> None:
        self._control.send(frame)

    def close_control(self, reason: str, now: float) -> None:
        self._control.abandon(reason, now)

    def poll_control_event(self, now: float) -> ControlEvent | None:
        event = self._control.poll_event(now)
        if event is None:
            self._watch_control()
        elif isinstance(event, ControlOpened):
            self._check_address(now)
        return event

    def _check_address(self, now: float) -> None:
        """Move to the machine's present address if it has lost the one it had."""
        interface = self._find_interface()
        if interface is None:
            return
        self.sockets.move(interface)
        self._addresses = frozenset()
        self._watch_sockets()
        self.session.handle_address(self.sockets.address, now)

    def set_memberships(self, addresses: frozenset[str]) -> None:
        self._addresses = addresses
        try:
            changed = self.sockets.set_memberships(addresses)
        except MembershipError as error:
            self._on_failure(str(error))
            changed = True
        if changed:
            self._watch_sockets()

    def set_multicast_port(self, port: int) -> None:
        """The GMS said where multicast arrives; core thread only."""
        self.sockets.set_multicast_port(port)
        self._watch_sockets()
        self.set_memberships(self._addresses)

    # Sleeping

    def _sleep(self) -> None:
        """Wait until there is something to do; not at all when there is already."""
        if self.turn.has_more:
            return
        self.is_sleeping = True
        try:
            with self._lock:
                timeout = self._prepare_sleep(self.clock())
            if timeout is None:
                return
            ready = self._poller.wait(timeout)
        finally:
            self.is_sleeping = False
        if self._waker.fileno() in ready:
            self._waker.clear()
        if self._control_fd in ready:
            self.turn.look_at_control()

    def _prepare_sleep(self, now: float) -> float | None:
        """Return how long to sleep, or None when there is something to do."""
        is_paused = self.session.is_receiving_paused()
        waits = (
            self.turn.next_wake(now),
            self._control.next_timeout(),
            # While paused nobody takes what a fault plan held back.
            None if is_paused else self.sockets.next_release(),
        )
        self._wakes_at = min([now + SLEEP_S_MAX, *(when for when in waits if when is not None)])
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
    """Make garbage collection rare: the session's objects die by reference count.

    Collecting while megabytes of packets are alive costs pauses that tokens
    feel (dissertation 4.3.7); what start-up made is moved out of its sight.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
