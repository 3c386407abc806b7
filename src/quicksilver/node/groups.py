"""What both forms of a group share: queues, callbacks, types, sending.

Messages cross from the core thread to the application in batches through a
bounded queue, or stay on the core thread in a callback. Byte counts are split
in two, one written by each side, so that no lock is needed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from quicksilver.multicast.sending import GroupSender, Lane
from quicksilver.node.core import NodeCore
from quicksilver.node.errors import ClosedError, MessageTooLargeError, NotJoinedError
from quicksilver.node.messages import Batch, Message, View
from quicksilver.node.options import Overflow
from quicksilver.wire.packets import MESSAGE_BYTES_MAX

PER_MESSAGE_BYTES = 64
"""What a queued message costs besides its payload, roughly."""

VIEWS_KEPT_MAX = 1024


class GroupBase:
    """A group as the application holds it; not made by users."""

    def __init__(
        self,
        core: NodeCore,
        name: str,
        type_: Any,
        *,
        is_member: bool,
        echo: bool,
        queue_bytes: int,
        overflow: Overflow,
    ) -> None:
        self.name = name
        self.sender: GroupSender | None = None
        """How the group is sent to; None until the subscription is complete."""
        self.joined_batch = 0
        self.is_member = is_member
        self.echo = echo
        self.dropped = 0
        """Messages lost because the queue was full and the policy drops."""
        self.invalid = 0
        """Messages that were not of the group's type."""
        self._core = core
        self._thread = core.thread
        self._queue_bytes = queue_bytes
        self._lane: Lane = core.engine.idle_lane
        self._append: Callable[[tuple[GroupSender, bytes]], None] = self._refuse
        """Queues a message; refuses it before the group is ready and after its end."""
        self._overflow = overflow
        self._batches: deque[Batch] = deque()
        self._in_bytes = 0
        self._out_bytes = 0
        self._is_pausing = False
        self._views: deque[View] = deque(maxlen=VIEWS_KEPT_MAX)
        self._view: View | None = None
        self._end: Exception | None = None
        self._on_batch: Callable[[Batch], None] | None = None
        self._encode: Callable[[Any], bytes] | None = None
        self._decode: Callable[[bytes], Any] | None = None
        if type_ is not None:
            self._encode = msgspec.msgpack.Encoder().encode
            self._decode = msgspec.msgpack.Decoder(type_).decode

    # Getters

    @property
    def id(self) -> int:
        """The group's number in this cluster; 0 until the subscription is complete."""
        return 0 if self.sender is None else self.sender.id

    @property
    def view(self) -> View | None:
        """The newest view of the group; None before the first."""
        return self._view

    @property
    def queued_bytes(self) -> int:
        """Bytes received and not yet taken by the application."""
        return self._in_bytes - self._out_bytes

    # Core thread

    def deliver_on_core(self, batch: Batch) -> None:
        on_batch = self._on_batch
        if on_batch is not None:
            on_batch(batch)
            return
        size = sum(map(len, batch.payloads)) + PER_MESSAGE_BYTES * len(batch.payloads)
        queued = self._in_bytes - self._out_bytes
        if queued + size > self._queue_bytes and self._overflow != "block":
            self._make_room(batch, size)
            return
        self._in_bytes += size
        self._batches.append(batch)
        if queued + size > self._queue_bytes and not self._is_pausing:
            self._is_pausing = True
            self._core.pause_on_core(self)
        self.notify()

    def _make_room(self, batch: Batch, size: int) -> None:
        """Apply a dropping policy; a message is lost, and counted."""
        if self._overflow == "drop_newest":
            self.dropped += len(batch)
            return
        while self._batches and self._in_bytes - self._out_bytes + size > self._queue_bytes:
            try:
                old = self._batches.popleft()
            except IndexError:
                break
            self.dropped += len(old)
            self._in_bytes -= _cost(old)
        self._in_bytes += size
        self._batches.append(batch)
        self.notify()

    def view_on_core(self, view: View) -> None:
        self._view = view
        self._views.append(view)
        self.notify()

    def ready_on_core(self, sender: GroupSender) -> None:
        """The subscription is complete: messages can be sent."""
        self.sender = sender
        self._lane = sender.lane
        self._append = sender.lane.outbox.append

    def fail_on_core(self, error: Exception) -> None:
        if self._end is None:
            self._end = error
        self._append = self._refuse
        self.notify()

    def _refuse(self, item: tuple[GroupSender, bytes]) -> None:
        self._ready_sender()

    def notify(self) -> None:
        """Wake whoever waits for messages or views."""
        raise NotImplementedError

    # Application's thread

    def on_batch(self, callback: Callable[[Batch], None]) -> None:
        """Have batches handled on the core thread: the fastest form.

        The callback must be short and must not block: the node's protocol
        waits for it. What was queued before is handed over first.
        """
        self._check_member()

        def install() -> None:
            while self._batches:
                batch = self._batches.popleft()
                self._out_bytes += _cost(batch)
                callback(batch)
            self._on_batch = callback
            self._resume()

        self._core.call(install)

    def on_message(self, callback: Callable[[Message], None]) -> None:
        """Like ``on_batch``, one call a message, decoded for typed groups."""

        def each(batch: Batch) -> None:
            for message in self._messages_of(batch):
                callback(message)

        self.on_batch(each)

    def send_from(self, source: Callable[[], Any]) -> None:
        """Pull form: ``source`` is asked for the next message just before it
        is sent, on the core thread, until it returns None."""
        encode = self._encode
        sender = self._ready_sender()

        def ask() -> bytes | None:
            value = source()
            if value is None:
                return None
            return self._checked(encode(value) if encode is not None else value)

        self._core.call(lambda: self._core.engine.add_source(sender, ask))

    def _take_batch(self) -> Batch | None:
        try:
            batch = self._batches.popleft()
        except IndexError:
            return None
        self._out_bytes += _cost(batch)
        if self._is_pausing and self._in_bytes - self._out_bytes <= self._queue_bytes // 2:
            self._resume()
        return batch

    def _resume(self) -> None:
        if self._is_pausing:
            self._is_pausing = False
            self._core.call(lambda: self._core.resume_on_core(self))

    def _messages_of(self, batch: Batch) -> Iterator[Message]:
        decode = self._decode
        if decode is None:
            yield from batch
            return
        for message in batch:
            try:
                value = decode(message.payload)
            except (msgspec.MsgspecError, ValueError):
                self.invalid += 1
                continue
            yield Message(value, message.sender, message.sequence, message.group, message.batch)

    def _checked(self, payload: Any) -> bytes:
        if type(payload) is not bytes:
            payload = bytes(memoryview(payload))
        if len(payload) > MESSAGE_BYTES_MAX:
            raise MessageTooLargeError(len(payload), MESSAGE_BYTES_MAX)
        return payload  # type: ignore[no-any-return]  # bytes by now

    def _ready_sender(self) -> GroupSender:
        self._core.check_alive()
        if self._end is not None:
            raise self._end
        if self.sender is None:
            raise ClosedError(f"group {self.name!r}")
        return self.sender

    def _check_member(self) -> None:
        if not self.is_member:
            raise NotJoinedError(self.name)


def _cost(batch: Batch) -> int:
    return sum(map(len, batch.payloads)) + PER_MESSAGE_BYTES * len(batch.payloads)
