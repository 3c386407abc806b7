"""One application behind the controller: its connection, its own ring, what it is told.

Runs on the controller's loop, except where the core thread is named. The application is not
trusted: what it writes is copied before it is looked at, checked, and counts for itself alone.
Whoever does not keep to the protocol is cut off.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

import msgspec

from quicksilver.multicast.sending.unconfirmed import Notes, Unconfirmed
from quicksilver.net.local_socket import LocalStream
from quicksilver.net.shared_ring import (
    RingError,
    RingReader,
    RingWriter,
    fence,
    make_memory,
    ring_bytes,
    shared_words,
)
from quicksilver.node.messages import View
from quicksilver.wire import local
from quicksilver.wire.envelope import Kind, parse_enveloped

SLOTS = 1024
"""Groups that one application may be in."""
OWN_RING_BYTES = 4 << 20
OUT_BYTES_MAX = 16 << 20
"""What an application may be told and not have read."""
FLUSHES_MAX = 256
"""Flushes of one application that may be under way."""
TURN_RECORDS = 64
"""Records that are read before others have their turn."""

encode = msgspec.msgpack.Encoder().encode

Sent = tuple[int, list[bytes], bool]
"""Group, payloads, and whether they have envelopes."""


class Desk(Protocol):
    """What an application needs of the controller."""

    def queue(self, application: Application, sent: Sent) -> bool:
        """Give messages to the node; False if they must wait. ``read_own`` is called then."""
        ...

    def handle_frame(self, application: Application, frame: local.FromApplication) -> None: ...

    def handle_progress(self) -> None:
        """An application may have read on in a ring that was full."""
        ...

    def flush(self, application: Application, number: int) -> None: ...

    def handle_gone(self, application: Application, reason: str) -> None:
        """It has closed, died or was cut off; called once."""
        ...


class Application:
    """One process that has connected."""

    def __init__(
        self, desk: Desk, stream: LocalStream, number: int, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.number = number
        """By which messages name it as their origin."""
        self.name = ""
        self.places: dict[str, int] = {}
        """Groups that it has joined or opened so far, numbered."""
        self.names: list[str] = []
        """The same by number."""
        self.joined: set[str] = set()
        self.opened: set[str] = set()
        self.sent: set[str] = set()
        """Groups that it has sent to: it is told what may be lost of them."""
        self.unconfirmed = Notes()
        self.flushes = 0
        self.is_gone = False
        self.lock = asyncio.Lock()
        """Changes of memberships are made one after the other."""
        self.pinged_at: float | None = None
        """Since when it was asked whether it is there and has not answered."""
        self.held: Sent | None = None
        """Messages that the node could not take yet: nothing is read behind them."""
        self._desk = desk
        self._stream = stream
        self._loop = loop
        self._free = list(range(SLOTS - 1, -1, -1))
        self._is_writing = False
        words_fd, memory = make_memory(
            "quicksilver-words", 8 * (local.WORD_CURSORS + SLOTS), is_shared_writable=True
        )
        self.words = shared_words(memory)
        own_fd, own = make_memory(
            "quicksilver-sent", ring_bytes(OWN_RING_BYTES), is_shared_writable=True
        )
        RingWriter(own)  # only its header: the application writes it from here on
        self._own = RingReader(own)
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._wakeup = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._memory = (words_fd, own_fd)
        self.words[local.WORD_CONTROLLER_SLEEPS] = 1
        loop.add_reader(stream.fileno(), self._read_socket)
        loop.add_reader(self._bell, self._handle_bell)

    # Core thread

    def wake_if_asleep(self) -> None:
        """Wake its thread if that sleeps."""
        if self.words[local.WORD_APPLICATION_SLEEPS]:
            self.words[local.WORD_APPLICATION_SLEEPS] = 0
            self._wake()

    def _wake(self) -> None:
        # It may be closed at this moment by the loop: then there is nobody to wake.
        with suppress(OSError):
            os.eventfd_write(self._wakeup, 1)

    # Telling

    def welcome(self, node: int, cluster: int, node_name: str) -> None:
        frame = local.Welcome(local.VERSION, self.number, node, cluster, node_name)
        words, own = self._memory
        self.tell(frame, (words, own, self._bell, self._wakeup))

    def tell(self, frame: local.FromController, descriptors: tuple[int, ...] = ()) -> None:
        """Say something to it; one that does not listen is cut off."""
        if self.is_gone:
            return
        try:
            self._stream.send(local.encode(frame), descriptors)
        except ConnectionError as error:
            self.cut_off(str(error))
            return
        self._watch_writing()

    def _watch_writing(self) -> None:
        """Send the rest when there is room, if not all was sent."""
        is_done = self._stream.flush()
        if is_done == self._is_writing:
            self._is_writing = not is_done
            if is_done:
                self._loop.remove_writer(self._stream.fileno())
            else:
                self._loop.add_writer(self._stream.fileno(), self._handle_writable)

    def _handle_writable(self) -> None:
        try:
            self._watch_writing()
        except ConnectionError as error:
            self.cut_off(str(error))

    def tell_view(self, view: View, *, is_member: bool) -> None:
        self.tell(local.ViewTold(msgspec.Raw(encode(view)), is_member))

    def tell_lost(self, messages: Unconfirmed) -> None:
        """Messages to a group that it has sent to may be lost."""
        self.unconfirmed.add([messages])
        self.tell(local.LostTold(msgspec.Raw(encode((messages,)))))

    def tell_flushed(self, number: int) -> None:
        """What it had sent before a flush is vouched for, or was noted as unconfirmed."""
        self.flushes -= 1
        self.tell(local.FlushTold(number, msgspec.Raw(encode(self.unconfirmed.take()))))

    def refuse(self, reason: str) -> None:
        """Say why, and cut it off."""
        self.tell(local.Refused(0, reason))
        self.cut_off(reason)

    def cut_off(self, reason: str) -> None:
        """End the connection, whoever wants that."""
        if self.is_gone:
            return
        self.is_gone = True
        descriptor = self._stream.fileno()
        self._loop.remove_reader(descriptor)
        self._loop.remove_writer(descriptor)
        self._loop.remove_reader(self._bell)
        self._stream.close()
        self._desk.handle_gone(self, reason)

    def release(self) -> None:
        """Nobody uses its memory any more."""
        for descriptor in (*self._memory, self._bell, self._wakeup):
            os.close(descriptor)

    # Slots and numbers

    def slots_left(self) -> int:
        return len(self._free)

    def take_slot(self) -> int:
        return self._free.pop()

    def free_slot(self, slot: int | None) -> None:
        if slot is not None:
            self._free.append(slot)

    def names_of(self, is_member: bool) -> set[str]:
        """Return the groups that it has joined, or those that it has opened."""
        return self.joined if is_member else self.opened

    def number_of(self, name: str) -> int:
        """Return by which number it names a group when it sends."""
        if name not in self.places:
            self.places[name] = len(self.names)
            self.names.append(name)
        return self.places[name]

    # What it says

    def _read_socket(self) -> None:
        try:
            frames = self._stream.receive()
        except ConnectionError as error:
            # What it had sent before is in its ring, and is still sent.
            self.cut_off(str(error))
            return
        for frame in frames:
            self._handle_frame(frame)

    def _handle_frame(self, frame: bytes) -> None:
        found = local.parse_application(frame)
        if found is None:
            self.refuse("it says what no application of this version says")
        elif isinstance(found, local.Here):
            self.pinged_at = None
        elif not self.is_gone:
            self._desk.handle_frame(self, found)

    def _handle_bell(self) -> None:
        with suppress(BlockingIOError):
            os.eventfd_read(self._bell)
        # Frames first: a request that was made before a leave stays before it.
        self._read_socket()
        self._desk.handle_progress()
        self.read_own()

    def read_own(self) -> bool:
        """Read what the application has sent; False if it has to wait."""
        words = self.words
        words[local.WORD_CONTROLLER_SLEEPS] = 0
        is_done = False
        try:
            for _ in range(TURN_RECORDS):
                if self.held is not None:
                    if not self._desk.queue(self, self.held):
                        break
                    self.held = None
                handle = self._own.read(self._take)
                if handle is None:
                    words[local.WORD_CONTROLLER_SLEEPS] = 1
                    fence()
                    if not self._own.has_more():
                        is_done = True
                        break
                    words[local.WORD_CONTROLLER_SLEEPS] = 0
                    continue
                handle()
        except RingError as error:
            self.refuse(str(error))
            return True
        words[local.WORD_SENT_CURSOR] = self._own.cursor
        fence()
        if words[local.WORD_SENDING_FULL]:
            words[local.WORD_SENDING_FULL] = 0
            self._wake()
        if not is_done and self.held is None and not self.is_gone:
            self._loop.call_soon(self.read_own)
        return is_done

    def has_unread(self) -> bool:
        """Whether its ring holds messages that the node has not got."""
        return self.held is not None or self._own.has_more()

    def _take(self, kind: int, body: memoryview) -> Callable[[], Any]:
        """Return what is to be done about a record, made of copies."""
        if kind == local.KIND_SENT:
            sent = local.parse_sent(body)
            self._check_sent(sent)
            return lambda: self._queue(sent)
        if kind == local.KIND_FLUSH:
            number = local.parse_flush(body)
            return lambda: self._flush(number)
        if kind == local.KIND_FRAME:
            frame = bytes(body)
            return lambda: self._handle_frame(frame)
        raise ValueError("a record is of no known kind")

    def _check_sent(self, sent: Sent) -> None:
        group, payloads, is_enveloped = sent
        if group >= len(self.names):
            raise ValueError("it sends to a group that it has not opened")
        for payload in payloads if is_enveloped else ():
            found = parse_enveloped(payload)
            if found is None or found[0].kind is not Kind.MESSAGE:
                raise ValueError("a message has an envelope that no application makes")

    def _queue(self, sent: Sent) -> None:
        self.sent.add(self.names[sent[0]])
        if not self._desk.queue(self, sent):
            self.held = sent

    def _flush(self, number: int) -> None:
        if self.flushes >= FLUSHES_MAX:
            self.refuse(f"it has {FLUSHES_MAX} flushes under way")
            return
        self.flushes += 1
        self._desk.flush(self, number)
