"""The controlled element: what of the group communication is in the application's process.

It is thin (dissertation 3.2.6, Figure 3.19): a connection to the controller of the machine, the
rings that the controller writes for the groups that were joined, and one ring of its own with
all that the application sends. One thread moves messages between these and the groups. When
nothing is left to do it says so in shared memory, looks once more, and sleeps until the
controller or a thread of the application wakes it.
"""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from quicksilver.multicast.sending.send_queue import SendQueue
from quicksilver.net.local_socket import LocalStream, connect_local
from quicksilver.net.poller import Poller, Waker
from quicksilver.net.shared_ring import (
    RingError,
    RingReader,
    RingWriter,
    fence,
    map_memory,
    shared_words,
)
from quicksilver.wire import local

LOOK_S = 0.5
"""How long the thread sleeps before it looks by itself."""
SOCKET_LOOK_S = 0.002
"""How often a busy thread looks at the socket."""
TURN_RECORDS = 32
"""Records of one ring that are read before anything else is looked at."""
RECORD_MESSAGES = 256
RECORD_BYTES = 1 << 16
"""Messages that an application sends are put into records of about this size."""
QUEUE_BYTES_MAX = 4 << 20
WAITING_BYTES_MAX = 1 << 30
"""What is queued for the socket: requests, of which few are under way at a time."""
LAST_S = 1.0
"""How long the end of the thread waits for room in its own ring."""


Deliver = Callable[[local.Batch], None]


class Incoming:
    """The ring of one group."""

    __slots__ = ("deliver", "end", "missed", "on_missed", "reader", "slot")

    def __init__(
        self,
        reader: RingReader,
        slot: int,
        deliver: Deliver,
        on_missed: Callable[[int], None] | None,
    ) -> None:
        self.reader = reader
        self.slot = slot
        self.deliver = deliver
        self.on_missed = on_missed
        """Told how many messages were overwritten; None: the controller waits, so none are."""
        self.missed = 0
        self.end: int | None = None
        """Where the messages end that are still to be read, once the controller is lost. One that
        was cut off may find a ring that goes on for others."""

    def has_more(self) -> bool:
        if self.end is not None:
            return self.reader.cursor < self.end and self.reader.has_more()
        return self.reader.has_more()


class Element:
    """Runs until ``stop``, or until the controller is lost.

    Other threads may call ``submit``, ``wake``, ``lend`` and ``stop``, and queue messages in
    ``lane``; everything else belongs to the element's thread.
    """

    def __init__(
        self,
        path: str,
        name: str,
        *,
        on_frame: Callable[[local.FromController], None],
        on_lost: Callable[[str], None],
        on_end: Callable[[], None],
        on_failure: Callable[[str], None],
        timeout_s: float,
    ) -> None:
        self.path = path
        self.lane = SendQueue(QUEUE_BYTES_MAX)
        self.is_sleeping = False
        self.last_error = ""
        """Why there is no connection."""
        self.paused: set[str] = set()
        """Groups whose application is behind: what comes for them stays in the ring."""
        self.counts: dict[str, int] = {}
        """Messages that were given to the controller, by group."""
        self._name = name
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._on_end = on_end
        self._on_failure = on_failure
        self._timeout_s = timeout_s
        self._requests: deque[Callable[[], None]] = deque()
        self._incoming: dict[str, Incoming] = {}
        self._words: memoryview[int] | None = None
        self._own: RingWriter | None = None
        self._bell = -1
        self._wakeup = -1
        self._unsent: deque[tuple[int, bytes, int, int]] = deque()
        """Records that the own ring had no room for: kind, body, messages, bytes of the lane."""
        self._stream: LocalStream | None = None
        self._lost: str | None = None
        self._is_stopping = False
        self._look_at = 0.0
        self._poller = Poller()
        self._waker = Waker()
        self._thread = threading.Thread(target=self._run, name="quicksilver", daemon=True)

    # Any thread

    def start(self) -> None:
        self._thread.start()

    def submit(self, request: Callable[[], None]) -> None:
        """Have the element's thread run something soon."""
        self._requests.append(request)
        if self.is_sleeping:
            self.wake()

    def wake(self) -> None:
        self.is_sleeping = False
        self._waker.wake()

    def lend(self) -> None:
        """A sender waits for room: see that the thread is at work."""
        if self.is_sleeping:
            self.wake()

    def is_core(self) -> bool:
        return threading.current_thread() is self._thread

    def stop(self) -> None:
        """End the thread; returns when it has ended."""
        self._is_stopping = True
        self._waker.wake()
        if not self.is_core() and self._thread.is_alive():
            self._thread.join(timeout=5)

    # The element's thread

    def send_frame(self, frame: local.FromApplication) -> None:
        """Tell the controller something, past all messages that wait."""
        if self._stream is not None and self._lost is None:
            # Why the other end has closed is said by what it sent before: that is read first.
            with suppress(ConnectionError):
                self._stream.send(local.encode(frame))

    def send_behind(self, kind: int, body: bytes) -> None:
        """Tell the controller something that must not overtake what was sent before."""
        self._collect(None)
        self._put(kind, body, 0, 0)

    def add_ring(
        self,
        ring: local.Ring,
        descriptor: int,
        deliver: Deliver,
        on_missed: Callable[[int], None] | None,
    ) -> None:
        """Read a group's ring from now on; takes the descriptor. Raises RingError."""
        try:
            memory = map_memory(descriptor, is_writable=False)
        finally:
            os.close(descriptor)
        reader = RingReader(memory, ring.cursor, ring.messages)
        self._incoming[ring.name] = Incoming(reader, ring.slot, deliver, on_missed)

    def remove_ring(self, name: str) -> None:
        self._incoming.pop(name, None)
        self.paused.discard(name)

    def unsent(self) -> dict[str, int]:
        """Return how many messages wait for room in the own ring, by group."""
        return self.lane.outbox.count_by_group()

    def take_descriptors(self, count: int) -> list[int]:
        """Return descriptors that came with the frame at hand; raises ConnectionError."""
        assert self._stream is not None
        return self._stream.take_descriptors(count)

    def welcome(self, descriptors: list[int]) -> None:
        """Begin with the memory that the controller gave; raises RingError."""
        words, own, self._bell, self._wakeup = descriptors
        try:
            self._words = shared_words(map_memory(words, is_writable=True))
            self._own = RingWriter(map_memory(own, is_writable=True))
        finally:
            os.close(words)
            os.close(own)
        if len(self._words) <= local.WORD_CURSORS:
            raise RingError("there is no room for cursors")
        self._poller.register(self._wakeup)

    def _run(self) -> None:
        try:
            self._connect()
            if self._stream is not None:
                self._loop()
        except (RingError, ConnectionError) as error:
            self.note_lost(str(error))
        except Exception:  # noqa: BLE001  # whatever it is, the application must hear of it
            self._on_failure(traceback.format_exc())
        finally:
            self._end()

    def _connect(self) -> None:
        try:
            sock = connect_local(self.path, self._timeout_s)
        except OSError as error:
            self.last_error = error.strerror or str(error)
            self.note_lost(self.last_error)
            return
        self._stream = LocalStream(sock, local.FRAME_BYTES_MAX, WAITING_BYTES_MAX)
        self._poller.register(self._waker.fileno())
        self._poller.register(self._stream.fileno())
        self.send_frame(local.Hello(local.VERSION, self._name))

    def _loop(self) -> None:
        while not self._is_stopping:
            is_busy = self._run_requests()
            is_busy = self._read_rings() or is_busy
            is_busy = self._send() or is_busy
            now = time.monotonic()
            if now >= self._look_at:
                self._look_at = now + SOCKET_LOOK_S
                self._read_socket()
            if is_busy:
                continue
            if self._lost is not None and not self._has_rest():
                return
            self._sleep()

    def _run_requests(self) -> bool:
        requests = self._requests
        for _ in range(len(requests)):
            requests.popleft()()
        return bool(requests)

    def _read_socket(self) -> None:
        stream = self._stream
        if self._lost is not None or stream is None:
            return
        try:
            with suppress(ConnectionError):
                stream.flush()
            frames = stream.receive()
        except ConnectionError as error:
            self.note_lost(str(error))
            return
        for frame in frames:
            found = local.parse_controller(frame)
            if found is None:
                self.note_lost("it says what no controller of this version says")
                return
            self._on_frame(found)

    def note_lost(self, reason: str) -> None:
        """Nothing can be sent any more, but what is in the rings is still read."""
        if self._lost is not None:
            return
        self._lost = reason
        if self._stream is not None:
            self._poller.unregister(self._stream.fileno())
        for each in self._incoming.values():
            each.end = each.reader.head
        self._on_lost(reason)

    def _has_rest(self) -> bool:
        """Whether the rings hold messages that the application has not got."""
        return any(each.has_more() for each in self._incoming.values())

    # Receiving

    def _read_rings(self) -> bool:
        is_busy = False
        words = self._words
        for name, incoming in list(self._incoming.items()):
            if not incoming.has_more() or name in self.paused:
                continue
            is_busy = True
            self._read_ring(name, incoming)
            assert words is not None
            words[local.WORD_CURSORS + incoming.slot] = incoming.reader.cursor
        if is_busy:
            fence()
            assert words is not None
            if words[local.WORD_RING_FULL]:
                words[local.WORD_RING_FULL] = 0
                self._ring_bell()
        return is_busy

    def _read_ring(self, name: str, incoming: Incoming) -> None:
        reader = incoming.reader
        for _ in range(TURN_RECORDS):
            batch = reader.read(_parse_record)
            if batch is None:
                return
            if reader.missed != incoming.missed:
                if incoming.on_missed is None:
                    # The controller has given up waiting: what follows the gap is not for it.
                    self._incoming.pop(name)
                    self._read_socket()  # it may have said why
                    self.note_lost("it did not wait for this application")
                    return
                incoming.on_missed(reader.missed - incoming.missed)
                incoming.missed = reader.missed
            incoming.deliver(batch)
            if name in self.paused or not incoming.has_more():
                return

    # Sending

    def _send(self) -> bool:
        """Move what was queued into the own ring; False if nothing moved."""
        lane = self.lane
        if self._own is None or self._lost is not None:
            return False
        is_busy = self._write_unsent()
        while not self._unsent and lane.outbox:
            self._collect(RECORD_BYTES)
            is_busy = self._write_unsent() or is_busy
        lane.is_blocked = bool(self._unsent)
        if not lane.outbox:
            lane.outbox.forget_size()
        if is_busy:
            if lane.on_room:
                lane.tell_room()
            self._ring_if_asleep()
        return is_busy

    def _collect(self, limit: int | None) -> None:
        """Make records of messages that are queued: of about ``limit`` bytes, or of all."""
        outbox = self.lane.outbox
        made = 0
        while outbox and (limit is None or made < limit):
            groups, payloads = outbox.take(RECORD_MESSAGES)
            targets = groups or [outbox.primary] * len(payloads)
            at = 0
            while at < len(payloads):
                target, size, end = targets[at], 0, at
                while end < len(payloads) and targets[end] is target and size < RECORD_BYTES:
                    size += len(payloads[end])
                    end += 1
                part = payloads[at:end]
                body = local.encode_sent(target.number, part, is_enveloped=target.is_enveloped)
                self._put(local.KIND_SENT, body, len(part), size)
                self.counts[target.name] = self.counts.get(target.name, 0) + len(part)
                made += size
                at = end

    def _put(self, kind: int, body: bytes, messages: int, size: int) -> None:
        if self._own is None:
            return  # never welcomed: nothing can have been sent
        records = self._own.split(kind, body, messages)
        for place, (part_kind, part, count) in enumerate(records):
            is_last = place == len(records) - 1
            self._unsent.append((part_kind, part, count, size if is_last else 0))

    def _write_unsent(self) -> bool:
        unsent, own, words = self._unsent, self._own, self._words
        if not unsent:
            return False
        assert own is not None
        assert words is not None
        is_busy = False
        is_told = False
        while unsent:
            kind, body, messages, size = unsent[0]
            floor = min(words[local.WORD_SENT_CURSOR], own.head)
            if not own.write(kind, body, messages, floor):
                if is_told:
                    break
                # Say that room is wanted, then look once more.
                words[local.WORD_SENDING_FULL] = 1
                fence()
                is_told = True
                continue
            unsent.popleft()
            self.lane.room += size
            is_busy = True
        return is_busy

    def _ring_if_asleep(self) -> None:
        words = self._words
        assert words is not None
        fence()
        if words[local.WORD_CONTROLLER_SLEEPS]:
            words[local.WORD_CONTROLLER_SLEEPS] = 0
            self._ring_bell()

    def _ring_bell(self) -> None:
        with suppress(BlockingIOError):  # so often that once more changes nothing
            os.eventfd_write(self._bell, 1)

    # Sleeping and ending

    def _sleep(self) -> None:
        words = self._words
        self.is_sleeping = True
        if words is not None:
            words[local.WORD_APPLICATION_SLEEPS] = 1
            fence()
        try:
            if self._has_work():
                return
            ready = self._poller.wait(LOOK_S)
        finally:
            self.is_sleeping = False
            if words is not None:
                words[local.WORD_APPLICATION_SLEEPS] = 0
        if self._waker.fileno() in ready:
            self._waker.clear()
        if self._wakeup in ready:
            with suppress(BlockingIOError):
                os.eventfd_read(self._wakeup)
        self._look_at = 0.0

    def _has_work(self) -> bool:
        if self._requests or self._is_stopping:
            return True
        if self.lane.outbox and not self.lane.is_blocked and self._own is not None:
            return self._lost is None
        return any(
            each.has_more() and name not in self.paused for name, each in self._incoming.items()
        )

    def _end(self) -> None:
        """Give what was queued to the controller, as far as it has room, and close."""
        until = time.monotonic() + LAST_S
        with suppress(RingError, ConnectionError):
            while self._own is not None and self._lost is None:
                self._send()
                if not (self._unsent or self.lane.outbox) or time.monotonic() > until:
                    break
                time.sleep(0.002)
        self._on_end()
        if self._stream is not None:
            self._stream.close()
        self._poller.close()
        self._waker.close()
        for descriptor in (self._bell, self._wakeup):
            if descriptor >= 0:
                os.close(descriptor)
        self._incoming.clear()


def _parse_record(kind: int, body: memoryview) -> local.Batch:
    if kind != local.KIND_MESSAGES:
        raise ValueError("a record is of no known kind")
    return local.parse_batch(body)
