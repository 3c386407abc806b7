"""A group that applications of this machine are in: one membership, one ring, many readers.

The node's core thread writes what arrives into the ring, once for all. An application that is
waited for and has not read far enough stops that: what arrives is kept, and the node leaves
data in the kernel until there is room. Others are overtaken.

An application does not get its own messages back unless it asks for them, but the others on the
machine do. So the node echoes what it sends, and ``Origins`` knows who sent it.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from quicksilver.multicast.routes import Receivers
from quicksilver.multicast.sending.group import GroupSender
from quicksilver.multicast.sending.unconfirmed import Unconfirmed
from quicksilver.net.shared_ring import (
    RingWriter,
    clamp_cursor,
    fence,
    make_memory,
    ring_bytes,
)
from quicksilver.node.core import NodeCore
from quicksilver.node.messages import View
from quicksilver.wire import local
from quicksilver.wire.envelope import Envelope, encode_enveloped
from quicksilver.wire.packets import Messages

if TYPE_CHECKING:
    from quicksilver.controller.application import Application


class Origins:
    """Who sent which of the messages that the node has yet to echo, in their order.

    The controller's loop adds, the core thread takes. Messages may be taken without an echo,
    when the node begins anew: payloads are compared, and whatever lies between is passed over.
    """

    def __init__(self) -> None:
        self._runs: deque[tuple[int, list[bytes], bool]] = deque()
        """Application, payloads, and whether these have envelopes."""
        self._at = 0
        """How much of the first run was echoed."""

    def add(self, application: int, payloads: list[bytes], *, is_enveloped: bool) -> None:
        self._runs.append((application, payloads, is_enveloped))

    def take(self, payloads: Sequence[bytes], *, is_enveloped: bool) -> list[tuple[int, int, int]]:
        """Return who sent these messages: application (0: unknown), first place, end.

        What had envelopes is given without them.
        """
        found: list[tuple[int, int, int]] = []
        at, count = 0, len(payloads)
        while at < count:
            if not self._seek(payloads[at], is_enveloped=is_enveloped):
                found.append((0, at, at + 1))
                at += 1
                continue
            application, run, _ = self._runs[0]
            end = min(count, at + len(run) - self._at)
            found.append((application, at, end))
            self._at += end - at
            if self._at == len(run):
                self._runs.popleft()
                self._at = 0
            at = end
        return found

    def _seek(self, payload: bytes, *, is_enveloped: bool) -> bool:
        """Go to the message that is echoed next; False, and stay, if nobody here sent it."""
        start = self._at
        for place, (_, run, has_envelopes) in enumerate(self._runs):
            for at in range(start, len(run) if has_envelopes == is_enveloped else 0):
                if run[at] is payload or (is_enveloped and run[at].endswith(payload)):
                    for _ in range(place):
                        self._runs.popleft()
                    self._at = at
                    return True
            start = 0
        return False


class Reader:
    """An application as a ring's writer sees it."""

    __slots__ = ("application", "cursor", "slot", "waits")

    def __init__(self, application: Application, slot: int, cursor: int, *, waits: bool) -> None:
        self.application = application
        self.slot = slot
        self.waits = waits
        """Whether the writer waits for it."""
        self.cursor = cursor
        """How far it has read, as far as that can be believed."""

    def look(self, head: int) -> int:
        """Return how far it says that it has read."""
        told = self.application.words[local.WORD_CURSORS + self.slot]
        self.cursor = clamp_cursor(told, self.cursor, head)
        return self.cursor


class LocalSink:
    """A group of the controller's node: joined for some of its applications, or opened.

    Everything here runs on the core thread unless it says otherwise.
    """

    def __init__(
        self,
        core: NodeCore,
        *,
        name: str,
        ring_capacity: int,
        is_member: bool,
        on_view: Callable[[LocalSink, View], None],
        on_emptiness: Callable[[LocalSink], None],
        on_room: Callable[[LocalSink], None],
    ) -> None:
        self.name = name
        self.echo = is_member
        self.is_member = is_member
        self.sender: GroupSender | None = None
        self.view: View | None = None
        self.origins = Origins()
        self.readers: dict[Application, Reader] = {}
        self.pending: deque[tuple[int, bytes, int]] = deque()
        """Records for which the ring lacks room: kind, body, messages."""
        self.pending_bytes = 0
        self.descriptor = -1
        self._core = core
        self._on_view = on_view
        self._on_emptiness = on_emptiness
        self._on_room = on_room
        self._is_pausing = False
        self._is_waking = False
        """True while the core thread is to wake readers at the end of its turn."""
        self._floor = 0
        if is_member:
            self.descriptor, memory = make_memory(
                "quicksilver-group", ring_bytes(ring_capacity), is_shared_writable=False
            )
            self.writer = RingWriter(memory)

    # Readers

    def attach(self, application: Application, slot: int, *, waits: bool) -> local.Ring:
        """Let an application read what is written from now on."""
        writer = self.writer
        application.words[local.WORD_CURSORS + slot] = writer.head
        self.readers[application] = Reader(application, slot, writer.head, waits=waits)
        return local.Ring(self.name, writer.head, writer.messages, slot)

    def detach(self, application: Application) -> int | None:
        """Write on without an application; return its slot."""
        reader = self.readers.pop(application, None)
        if self.pending:
            self.write_pending()
        return None if reader is None else reader.slot

    def holders(self) -> list[Application]:
        """Return the applications that keep the ring from being written."""
        if not self.pending:
            return []
        head = self.writer.head
        waiting = [reader for reader in self.readers.values() if reader.waits]
        least = min((reader.look(head) for reader in waiting), default=head)
        return [reader.application for reader in waiting if reader.cursor == least]

    def close(self) -> None:
        """Nobody reads it any more (any thread)."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    # The node's sink

    def ready_on_core(self, sender: GroupSender) -> None:
        self.sender = sender

    def deliver_on_core(self, messages: Messages) -> None:
        self._deliver(messages, messages.payloads, messages.payloads, is_enveloped=False)

    def deliver_enveloped_on_core(self, messages: Messages, envelopes: Sequence[Envelope]) -> None:
        pairs = zip(envelopes, messages.payloads, strict=True)
        whole = [encode_enveloped(envelope, body) for envelope, body in pairs]
        self._deliver(messages, whole, messages.payloads, is_enveloped=True)

    def receivers_on_core(self, name: str) -> Receivers:
        raise AssertionError(f"a controller joins no patterns, {name!r} for example")

    def view_on_core(self, view: View) -> None:
        self.view = view
        self._on_view(self, view)

    def emptiness_on_core(self) -> None:
        self._on_emptiness(self)

    def unconfirmed_on_core(self, messages: Unconfirmed) -> None:
        pass  # the controller's node tells of them at once, by ``on_unconfirmed``

    def told_on_core(self) -> None:
        pass

    def fail_on_core(self, error: Exception) -> None:
        pass  # the group was left, or the node ends and the controller with it

    # Writing

    def _deliver(
        self, messages: Messages, payloads: list[bytes], bodies: list[bytes], *, is_enveloped: bool
    ) -> None:
        session = self._core.session
        numbers = messages.sequences
        parts = [(0, 0, len(payloads))]
        if messages.sender == session.node:
            parts = self.origins.take(bodies, is_enveloped=is_enveloped)
        for origin, start, end in parts:
            is_all = end - start == len(payloads)
            body = local.encode_batch(
                messages.sender,
                origin,
                messages.batch,
                session.cluster,
                0 if numbers else messages.first + start,
                numbers if is_all else numbers[start:end],
                payloads if is_all else payloads[start:end],
                is_enveloped=is_enveloped,
            )
            self._put(body, end - start)
        if not self._is_waking:
            # Once a turn, not once a packet: whoever wakes finds several records.
            self._is_waking = True
            self._core.call(self._wake_readers)

    def _put(self, body: bytes, messages: int) -> None:
        writer = self.writer
        if len(body) <= writer.part_bytes:
            if self.pending or not self._write(local.KIND_MESSAGES, body, messages):
                self._keep(local.KIND_MESSAGES, body, messages)
            return
        for kind, part, count in writer.split(local.KIND_MESSAGES, body, messages):
            if self.pending or not self._write(kind, part, count):
                self._keep(kind, part, count)

    def _write(self, kind: int, body: bytes, messages: int) -> bool:
        writer = self.writer
        if writer.write(kind, body, messages, self._floor):
            return True
        self._floor = self._look()
        if writer.write(kind, body, messages, self._floor):
            return True
        # Ask for a bell, then look once more: they may have read on meanwhile.
        for reader in self.readers.values():
            if reader.waits:
                reader.application.words[local.WORD_RING_FULL] = 1
        fence()
        self._floor = self._look()
        return writer.write(kind, body, messages, self._floor)

    def _look(self) -> int:
        head = self.writer.head
        return min((r.look(head) for r in self.readers.values() if r.waits), default=head)

    def _keep(self, kind: int, body: bytes, messages: int) -> None:
        self.pending.append((kind, body, messages))
        self.pending_bytes += len(body)
        if not self._is_pausing:
            self._is_pausing = True
            self._core.session.pause(self.name)

    def write_pending(self) -> None:
        """Applications have read on: write what had to wait, and go on receiving."""
        pending = self.pending
        while pending and self._write(*pending[0]):
            _, body, _ = pending.popleft()
            self.pending_bytes -= len(body)
        self._wake_readers()
        if not pending and self._is_pausing:
            self._is_pausing = False
            self._core.session.resume(self.name)
            self._on_room(self)

    def _wake_readers(self) -> None:
        self._is_waking = False
        fence()
        for application in self.readers:
            application.wake_if_asleep()
