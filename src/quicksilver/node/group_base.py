"""What both forms of a group share: sending, callbacks, types.

A node may open thousands of groups, so a group is small: one that only sends
costs about a kilobyte on the sender, views and tables included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from quicksilver.multicast.sending.group import GroupSender
from quicksilver.multicast.sending.lane import Lane
from quicksilver.multicast.sending.unconfirmed import Notes, Unconfirmed
from quicksilver.node.core import NodeCore
from quicksilver.node.errors import (
    ClosedError,
    MessageTooLargeError,
    NotJoinedError,
    OptionError,
    UnconfirmedError,
)
from quicksilver.node.history import HistoryFeed
from quicksilver.node.inbox import Inbox
from quicksilver.node.messages import Batch, Message, View
from quicksilver.wire.packets import MESSAGE_BYTES_MAX, Messages


class GroupBase:
    """A group as the application holds it; not made by users."""

    __slots__ = (
        "_core",
        "_current",
        "_decode",
        "_encode",
        "_end",
        "_feed",
        "_inbox",
        "_lane",
        "_on_batch",
        "_thread",
        "_unconfirmed",
        "echo",
        "invalid",
        "name",
        "sender",
        "view",
    )

    def __init__(
        self, core: NodeCore, name: str, type_: Any, *, inbox: Inbox | None, echo: bool = False
    ) -> None:
        self.name = name
        self.sender: GroupSender | None = None
        """How the group is sent to; None until the subscription is complete."""
        self.echo = echo
        self.invalid = 0
        """Messages that were not of the group's type."""
        self.view: View | None = None
        """The newest view of the group; None before the first."""
        self._core = core
        self._thread = core.thread
        self._inbox = inbox
        self._lane: Lane = core.session.idle_lane
        """Where ``send`` queues messages: the idle lane until the group is ready, and after it."""
        self._unconfirmed: Notes | None = None
        """Messages that may be lost and that the next ``send`` is to tell of. The lane is the
        idle one until then, so that ``send`` need not look for each message."""
        self._end: Exception | None = None
        self._current: Iterator[Message] | None = None
        """The batch that an iteration is in the middle of."""
        self._on_batch: Callable[[Batch], None] | None = None
        self._feed: HistoryFeed | None = None
        """What came before the join, for a group that was joined with its history."""
        self._encode: Callable[[Any], bytes] | None = None
        """Set for typed groups."""
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
    def is_member(self) -> bool:
        """True for a group that was joined, False for one opened for sending."""
        return self._inbox is not None

    @property
    def queued_bytes(self) -> int:
        """Bytes received and not yet taken by the application."""
        return 0 if self._inbox is None else self._inbox.bytes

    @property
    def dropped(self) -> int:
        """Messages lost because the queue was full and the policy drops."""
        return 0 if self._inbox is None else self._inbox.dropped

    @property
    def missing(self) -> int:
        """Messages from before the join that its history did not have."""
        return 0 if self._feed is None else self._feed.catchup.missing

    # Core thread

    def ready_on_core(self, sender: GroupSender) -> None:
        """The subscription is complete: messages can be sent."""
        self.sender = sender
        if self._unconfirmed is None:
            self._lane = sender.lane

    def deliver_on_core(self, messages: Messages) -> None:
        """Hand messages to the callback or queue them."""
        batch = Batch.of(messages, self.name, self._core.session.engine.cluster)
        on_batch = self._on_batch
        if on_batch is not None:
            on_batch(batch)
            return
        inbox = self._inbox
        assert inbox is not None
        if inbox.put(batch) and not inbox.is_pausing:
            inbox.is_pausing = True
            self._core.session.pause(self.name)
        self.notify()

    def view_on_core(self, view: View) -> None:
        """The group has a new view."""
        self.view = view
        if self._inbox is not None:
            self._inbox.views.append(view)
        self.notify()

    def unconfirmed_on_core(self, messages: Unconfirmed) -> None:
        """Let the next ``send`` tell of messages that may be lost."""
        notes = self._unconfirmed or Notes()
        notes.add([messages])
        self._unconfirmed = notes
        self._lane = self._core.session.idle_lane

    def told_on_core(self) -> None:
        """Whoever flushed was told: the next ``send`` need not."""
        self._take_unconfirmed()

    def _take_unconfirmed(self) -> tuple[Unconfirmed, ...]:
        notes, self._unconfirmed = self._unconfirmed, None
        if self._end is None and self.sender is not None:
            self._lane = self.sender.lane
        return () if notes is None else notes.take()

    def fail_on_core(self, error: Exception) -> None:
        """Nothing more will come."""
        if self._end is None:
            self._end = error
            self._lane = self._core.session.idle_lane
        if self._feed is not None:
            self._feed.reader.close()
        self.notify()

    def notify(self) -> None:
        """Wake whoever waits for messages or views."""
        raise NotImplementedError

    # Application's thread

    def on_batch(self, callback: Callable[[Batch], None]) -> None:
        """Have batches handled on the core thread instead of a queue.

        The callback must be short and must not block: the node's protocol
        waits for it. What was queued before is handed over first.
        """
        inbox = self._joined_inbox()
        if self._feed is not None:
            raise OptionError("history", "is for groups that are iterated, not for callbacks")

        def install() -> None:
            while (batch := inbox.take()) is not None:
                callback(batch)
            self._on_batch = callback
            self._resume(inbox)

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
        sender = self._ready_sender()
        encode = self._encode

        def ask() -> bytes | None:
            assert encode is not None
            value = source()
            return None if value is None else encode(value)

        # Bytes are check_payload where they are asked for: a call less for each message.
        chosen = source if encode is None else ask
        self._core.call(lambda: self._core.session.send_from(sender, chosen))

    def _as_bytes(self, message: Any) -> bytes:
        """Return a message as it travels."""
        return as_bytes(message) if self._encode is None else self._encode(message)

    def _take_batch(self) -> Batch | None:
        inbox = self._joined_inbox()
        batch = inbox.take()
        if inbox.is_pausing and inbox.has_room():
            self._resume(inbox)
        return batch

    def _resume(self, inbox: Inbox) -> None:
        def resume() -> None:
            if inbox.is_pausing and inbox.has_room():
                inbox.is_pausing = False
                self._core.session.resume(self.name)

        self._core.call(resume)

    def _begin(self, batch: Batch) -> None:
        """Iterate over a batch; what is left of it survives the loop's end."""
        self._current = self._messages_of(batch)

    def _unfinished(self) -> Iterator[Message]:
        """Yield what is left of the batch; whoever stops leaves the rest there."""
        current = self._current
        while current is not None:
            message = next(current, None)
            if message is None:
                self._current = None
                return
            yield message

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

    def _sender_to_use(self) -> GroupSender:
        """Return how to send the next message; raises what keeps it from being sent.

        Raises:
            UnconfirmedError: earlier messages may be lost. This one was not sent; whoever
                wants to go on sends it again. A callback is not told: it could not help it,
                and the node would end with it.
        """
        sender = self._ready_sender()
        if self._lane is not sender.lane:
            # Not only with something to tell: the core may have set the two one by one.
            found = self._take_unconfirmed()
            if found and not self._thread.is_core():
                raise UnconfirmedError(found)
        return sender

    def _ready_sender(self) -> GroupSender:
        self._core.check_alive()
        if self._end is not None:
            raise self._end
        if self.sender is None:
            raise ClosedError(f"group {self.name!r}")
        return self.sender

    def _joined_inbox(self) -> Inbox:
        if self._inbox is None:
            raise NotJoinedError(self.name)
        return self._inbox


def as_bytes(message: Any) -> bytes:
    """Return what is bytes or a buffer of bytes as it travels."""
    return message if type(message) is bytes else bytes(memoryview(message))


def check_payload(payload: bytes) -> bytes:
    """Return a payload that is short enough; raises MessageTooLargeError."""
    if len(payload) > MESSAGE_BYTES_MAX:
        raise MessageTooLargeError(len(payload), MESSAGE_BYTES_MAX)
    return payload
