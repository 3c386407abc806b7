"""What both forms of a group share: sending, callbacks, types.

A node may open thousands of groups, so a group is small: one that only sends
costs about a kilobyte on the sender, views and tables included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from quicksilver.membership.patterns import is_pattern
from quicksilver.multicast.routes import Receivers
from quicksilver.multicast.sending.unconfirmed import Notes, Unconfirmed
from quicksilver.node.checks import check_callback
from quicksilver.node.errors import (
    ClosedError,
    EmptyGroupError,
    MessageTooLargeError,
    MessageTypeError,
    NotJoinedError,
    OptionError,
    PatternError,
    TimedOutError,
    UnconfirmedError,
)
from quicksilver.node.history import HistoryFeed
from quicksilver.node.inbox import Inbox
from quicksilver.node.messages import Batch, Message, View
from quicksilver.node.ports import Core, GroupSender, Lane
from quicksilver.node.requests import split_requests
from quicksilver.node.retained import Retained
from quicksilver.wire.envelope import Envelope
from quicksilver.wire.packets import MESSAGE_BYTES_MAX, Messages

if TYPE_CHECKING:
    from quicksilver.node.serving import ThreadServer
    from quicksilver.node.task_serving import TaskServer

T = TypeVar("T")

OnInvalid = Callable[[Message[bytes], Exception], None]
"""Takes a message that is not of the group's type, as it came, and what is wrong with it."""

INNER = frozenset(
    {
        "begin_history",
        "call_in_loop",
        "decoded",
        "notify",
        "retained",
        "send_payload",
        "sender",
        "server",
    }
)
"""Names without an underscore that are for the layers around a group, not for users."""


class GroupBase(Generic[T]):
    """A group that ``join`` or ``open`` of a node has returned."""

    __slots__ = {  # as the constructor has them; the texts are their docstrings
        "_core": None,
        "_current": None,
        "_decode": None,
        "_encode": None,
        "_end": None,
        "_feed": None,
        "_inbox": None,
        "_lane": None,
        "_on_batch": None,
        "_on_invalid": None,
        "_thread": None,
        "_type": None,
        "_unconfirmed": None,
        "echo": "True if this node also receives its own messages to the group.",
        "invalid": "How many received messages were not of the group's type.",
        "name": "The group's name, or the pattern.",
        "queue": "The queue whose members share the messages; None: this node gets them all.",
        "retained": "Values that are kept for members to come; None: none are.",
        "sender": "How the group is sent to; None until the subscription is complete.",
        "server": "Answers requests to the group; None: this node does not serve it.",
        "view": "The newest view of the group; None before the first, and for a pattern.",
    }

    def __init__(
        self, core: Core, name: str, type_: Any, *, inbox: Inbox | None, echo: bool = False
    ) -> None:
        self.name = name
        """The group's name, or the pattern."""
        self.sender: GroupSender | None = None
        self.echo = echo
        """True if this node also receives its own messages to the group."""
        self.invalid = 0
        """How many received messages were not of the group's type."""
        self.queue: str | None = None
        """The queue whose members share the messages; None: this node gets them all."""
        self.retained: Retained | None = None
        self.server: TaskServer | ThreadServer | None = None
        self.view: View | None = None
        """The newest view of the group; None before the first, and for a pattern."""
        self._core = core
        self._thread = core.thread
        self._inbox = inbox
        self._lane: Lane = core.session.idle_lane
        """Where ``send`` queues messages: the idle lane until the group is ready, and after it."""
        self._unconfirmed: Notes | None = None
        """Messages that may be lost and that the next ``send`` is to tell of. The lane is the
        idle one until then, so that ``send`` need not look for each message."""
        self._end: Exception | None = None
        self._current: Iterator[Message[T]] | None = None
        """The batch that an iteration is in the middle of."""
        self._on_batch: Callable[[Batch], None] | None = None
        self._on_invalid: OnInvalid | None = None
        self._type = type_
        self._feed: HistoryFeed | None = None
        """What came before the join, for a group that was joined with its history."""
        self._encode: Callable[[Any], bytes] | None = None
        """Set for typed groups."""
        self._decode: Callable[[bytes], T] | None = None
        if type_ is not None:
            self._encode = msgspec.msgpack.Encoder().encode
            self._decode = msgspec.msgpack.Decoder(type_).decode

    def __repr__(self) -> str:
        typed = "" if self._type is None else f" of {getattr(self._type, '__name__', self._type)}"
        if self._end is not None:
            state = "closed"
        elif self.view is None:
            state = "without a view yet"
        else:
            state = f"view {self.view.number}, {len(self.view.members)} members"
        role = "joined" if self.is_member else "opened for sending"
        queued = f", {self.queued_bytes:,} bytes to read" if self.queued_bytes else ""
        return f"<Group {self.name!r}{typed}, {role}, {state}{queued}>"

    def __dir__(self) -> list[str]:
        """Return what users may use: completion shows nothing else."""
        return public_names(self, INNER)

    # Getters

    @property
    def id(self) -> int:
        """The group's number in this cluster; 0 before ``join`` or ``open`` is complete, and for a
        pattern."""
        return 0 if self.sender is None else self.sender.id

    @property
    def is_member(self) -> bool:
        """True if the group was joined, False if it was opened for sending."""
        return self._inbox is not None

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the groups that messages come from: this one or, for a pattern, all that
        match now."""
        if is_pattern(self.name):
            return tuple(sorted(self._core.session.groups_for(self.name)))
        return (self.name,)

    @property
    def queued_bytes(self) -> int:
        """How many bytes wait to be read; each message counts for 64 bytes more than its
        payload."""
        return 0 if self._inbox is None else self._inbox.bytes

    @property
    def dropped(self) -> int:
        """How many messages were dropped because the receive queue was full."""
        return 0 if self._inbox is None else self._inbox.dropped

    @property
    def may_drop(self) -> bool:
        """True if messages are dropped when the receive queue is full: ``overflow`` is not
        ``"block"``."""
        return self._inbox is not None and self._inbox.overflow != "block"

    @property
    def missing(self) -> int:
        """How many messages were skipped because the history did not have them in time."""
        return 0 if self._feed is None else self._feed.catchup.missing

    # Core thread

    def ready_on_core(self, sender: GroupSender) -> None:
        """The subscription is complete: messages can be sent."""
        self.sender = sender
        self._choose_lane()

    def emptiness_on_core(self) -> None:
        """Nobody is in the group any more, or somebody is again."""
        self._choose_lane()
        self.notify()

    def _choose_lane(self) -> None:
        """Point ``send`` at the group's lane, or at the idle one where it must look first."""
        sender = self.sender
        if sender is None or self._end is not None or self._unconfirmed is not None:
            return
        must_look = sender.is_empty and sender.empty != "drop"
        must_look = must_look or self.retained is not None
        self._lane = self._core.session.idle_lane if must_look else sender.lane

    def deliver_on_core(self, messages: Messages) -> None:
        """Hand messages to the callback or queue them."""
        self._take_in(Batch.of(messages, self.name, self._core.session.cluster))

    def deliver_enveloped_on_core(self, messages: Messages, envelopes: Sequence[Envelope]) -> None:
        """The same for messages that came with keys or headers; requests go to who serves."""
        rest: Messages | None = messages
        if self.server is not None:
            requests, rest, envelopes = split_requests(messages, envelopes, self.name)
            if requests:
                self.server.take_on_core(requests)
        if rest is not None:
            cluster = self._core.session.cluster
            self._take_in(Batch.of(rest, self.name, cluster, envelopes))

    def receivers_on_core(self, name: str) -> Receivers:
        """Return who takes the messages of a group that this pattern stands for."""
        session = self._core.session

        def deliver(messages: Messages) -> None:
            self._take_in(Batch.of(messages, name, session.cluster))

        def deliver_enveloped(messages: Messages, envelopes: Sequence[Envelope]) -> None:
            self._take_in(Batch.of(messages, name, session.cluster, envelopes))

        return deliver, deliver_enveloped

    def _take_in(self, batch: Batch) -> None:
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

    def deliver_batch_on_core(self, batch: Batch) -> None:
        """Hand messages that a node of a scope got to the callback, or queue them."""
        self._take_in(batch)

    def missed_on_core(self, count: int) -> None:
        """Messages were lost before they came here: the controller did not wait for them."""
        if self._inbox is not None:
            self._inbox.dropped += count

    def view_on_core(self, view: View) -> None:
        """The group has a new view, or one of those that a pattern stands for."""
        if view.group == self.name:
            self.view = view
            if self.retained is not None:
                batch = self._core.session.directory.batch
                sender: Any = self.sender  # values are kept in groups of a GMS only
                self.retained.handle_view(sender, batch, has_newcomers=bool(view.joined))
        if self._inbox is not None:
            self._core.views.put(self._inbox.views, view)
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
        self._choose_lane()
        return () if notes is None else notes.take()

    def fail_on_core(self, error: Exception) -> None:
        """Nothing more will come."""
        if self._end is None:
            self._end = error
            self._lane = self._core.session.idle_lane
        if self._feed is not None:
            self._feed.reader.close()
        if self.server is not None:
            self.server.end_on_core()
        self.notify()

    def notify(self) -> None:
        """Wake whoever waits for messages or views."""
        raise NotImplementedError

    # Application's thread

    def on_batch(self, callback: Callable[[Batch], None]) -> None:
        """Call ``callback`` with each batch, on the core thread, instead of queueing messages.

        Batches that are already queued come first. The callback must be short and must not block,
        because the node's protocol waits for it. An exception that it raises ends the node.
        """
        check_callback("callback", callback)
        inbox = self._joined_inbox()
        if self._feed is not None:
            raise OptionError("history", "is for groups that are iterated, not for callbacks")

        def install() -> None:
            while (batch := inbox.take()) is not None:
                callback(batch)
            self._on_batch = callback
            self._resume(inbox)

        self._core.call(install)

    def on_message(self, callback: Callable[[Message[T]], None]) -> None:
        """Call ``callback`` with each message, decoded in groups with a type; otherwise like
        ``on_batch``."""
        check_callback("callback", callback)

        def each(batch: Batch) -> None:
            for message in self._messages_of(batch):
                callback(message)

        self.on_batch(each)

    def on_invalid(self, callback: OnInvalid | None) -> None:
        """Call ``callback`` with each received message that is not of the group's type, and with
        the error.

        The message has its bytes as payload; the error says what is wrong with them. The callback
        runs in the thread that receives messages or, with ``on_message``, on the core thread. Such
        messages are skipped and counted in ``invalid``, with or without a callback. None removes
        the callback.

        Batches are not checked: they have the messages' bytes.
        """
        if callback is not None:
            check_callback("callback", callback)
        self._on_invalid = callback

    def send_from(self, source: Callable[[], T | None]) -> None:
        """Send what ``source()`` returns. It is called on the core thread just before each message
        leaves, until it returns None.

        It must be short and must not block. If it raises an exception or returns a message that is
        too large, it is not called again, and ``source_failures`` of ``Node.stats`` counts it.
        """
        check_callback("source", source)
        self._core.check_supports("send_from")
        if self.retained is not None:
            raise OptionError("retain", "keeps what is sent with send or post, not what is pulled")
        sender = self._ready_sender()
        encode = self._encode

        def ask() -> bytes | None:
            assert encode is not None
            value = source()
            return None if value is None else encode(value)

        # Bytes are check_payload where they are asked for: a call less for each message.
        chosen: Any = source if encode is None else ask
        self._core.call(lambda: self._core.session.send_from(sender, chosen))

    def decoded(self, message: Message[bytes]) -> Message[Any]:
        """Return a message with its value, in typed groups; raises what msgspec does."""
        if self._decode is None:
            return message
        return msgspec.structs.replace(message, payload=self._decode(message.payload))

    def _retain(self, payload: bytes, *, is_enveloped: bool = False) -> None:
        """Keep a value for members to come, if any are kept; it is queued next."""
        if self.retained is not None:
            self.retained.add(payload, is_enveloped=is_enveloped)

    def _as_bytes(self, message: Any) -> bytes:
        """Return a message as it travels; raises MessageTypeError."""
        if self._encode is None:
            return self._plain_bytes(message)
        type_ = self._type
        if isinstance(type_, type) and not isinstance(message, type_):
            problem = f"it carries {type_.__name__}, not {type(message).__name__}"
            raise MessageTypeError(self.name, problem)
        assert self._decode is not None
        try:
            # What receivers would refuse is refused here: they check the fields, too.
            payload = self._encode(message)
            self._decode(payload)
        except (msgspec.MsgspecError, TypeError, ValueError) as error:
            raise MessageTypeError(self.name, str(error)) from None
        return payload

    def _plain_bytes(self, message: Any) -> bytes:
        if isinstance(message, str):
            problem = "text must be encoded, with message.encode(), or the group joined with a type"
            raise MessageTypeError(self.name, f"{problem}, as in join(name, str)")
        try:
            return as_bytes(message)
        except TypeError:
            problem = f"it carries bytes, not {type(message).__name__}"
            raise MessageTypeError(
                self.name, f"{problem}; join it with a type, as in join(name, Quote)"
            ) from None

    def _too_few(self, count: int, timeout: float) -> TimedOutError:
        """Say that there are still fewer members than were waited for."""
        have = 0 if self.view is None else len(self.view.members)
        what = f"{count} member{'' if count == 1 else 's'} of group {self.name!r}"
        return TimedOutError(f"{what}, which has {have} members", timeout)

    def _must_wait(self, sender: GroupSender, size: int) -> bool:
        """Whether a message must wait in ``send`` because nobody is in the group.

        Raises:
            EmptyGroupError: nobody is, and this was chosen to be an error.
        """
        if not sender.is_empty or sender.empty == "drop":
            return False
        if sender.empty == "error":
            raise EmptyGroupError(self.name)
        return not self._core.session.may_wait(sender, size)

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

    def _next_unfinished(self) -> Message[T] | None:
        """Return the next message of the batch that was begun, if there is one."""
        current = self._current
        if current is None:
            return None
        message = next(current, None)
        if message is None:
            self._current = None
        return message

    def _messages_of(self, batch: Batch) -> Iterator[Message[T]]:
        decode = self._decode
        if decode is None:
            yield from batch  # type: ignore[misc]  # of bytes, as all messages of the group
            return
        for message in batch:
            try:
                value = decode(message.payload)
            except (msgspec.MsgspecError, ValueError) as error:
                self.invalid += 1
                if self._on_invalid is not None:
                    self._on_invalid(message, error)
                continue
            yield Message(
                value,
                message.sender,
                message.sequence,
                message.group,
                message.batch,
                message.key,
                message.headers,
                message.is_retained,
                message.source,
            )

    def _sender_to_use(self) -> GroupSender:
        """Return how to send the next message; raises what keeps it from being sent.

        Raises:
            UnconfirmedError: earlier messages may be lost. This one was not sent; whoever
                wants to go on sends it again. A callback is not told: it could not help it,
                and the node would end with it.
        """
        sender = self._ready_sender()
        if self._lane is not sender.lane:
            # Not only with something to tell: the core may have set the two one by one, and
            # of groups that nobody is in ``send`` looks each time.
            found = self._take_unconfirmed()
            if found and not self._thread.is_core():
                raise UnconfirmedError(found)
        return sender

    def _ready_sender(self) -> GroupSender:
        self._core.check_alive()
        if self._end is not None:
            raise self._end
        if self.sender is None and is_pattern(self.name):
            raise PatternError(self.name)
        if self.sender is None:
            raise ClosedError(f"group {self.name!r}")
        return self.sender

    def _joined_inbox(self) -> Inbox:
        if self._inbox is None:
            raise NotJoinedError(self.name)
        return self._inbox


def public_names(of: object, inner: frozenset[str]) -> list[str]:
    """Return the names that users may use of an object."""
    names = object.__dir__(of)
    return sorted(
        name
        for name in names
        if not name.startswith("_") and not name.endswith("_on_core") and name not in inner
    )


def as_bytes(message: Any) -> bytes:
    """Return what is bytes or a buffer of bytes as it travels."""
    return message if type(message) is bytes else bytes(memoryview(message))


def check_payload(payload: bytes) -> bytes:
    """Return a payload that is short enough; raises MessageTooLargeError."""
    if len(payload) > MESSAGE_BYTES_MAX:
        raise MessageTooLargeError(len(payload), MESSAGE_BYTES_MAX)
    return payload
