"""A gateway's node in its network, and how its core thread and an event loop talk.

The node is in the group of all gateways and, by patterns, in the groups of all topics. What it
hears there waits for the event loop, within a limit: past it the node receives nothing, so that
local senders slow down. What is sent goes straight into the lanes of groups, as far as they
have room.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple

from quicksilver.membership.patterns import ANY_PART
from quicksilver.multicast.requests import serve_attendance
from quicksilver.multicast.routes import Receivers
from quicksilver.multicast.sending.group import GroupSender
from quicksilver.node.core import NodeCore
from quicksilver.node.errors import UnconfirmedError
from quicksilver.node.messages import View
from quicksilver.node.options import NodeOptions
from quicksilver.node.requests import Request, Sink, split_requests
from quicksilver.scopes.dissemination.packets import LINK_CUT_BYTES
from quicksilver.scopes.gateway.messages import GROUP, Question, parse_question
from quicksilver.wire.envelope import Envelope
from quicksilver.wire.packets import Messages

WAITING_BYTES_MAX = 8 << 20
"""What the network has brought and the event loop has not taken yet."""

TOGETHER_BYTES = LINK_CUT_BYTES // 2
"""Packets of one node are taken together until they are this long."""

_MESSAGE_BYTES = 64
"""What a message takes besides its payload."""


class Heard(NamedTuple):
    """Messages that a node has sent to a topic's group, or to the gateways'."""

    group: str
    node: int
    name: str
    numbers: Sequence[int]
    payloads: list[bytes]
    envelopes: Sequence[Envelope] | None
    size: int
    """About how much memory they take."""


class ViewSeen(NamedTuple):
    """A view of a topic's group, or of the gateways'."""

    group: str
    members: dict[int, str]
    """Nodes and their names, as far as these are known."""


class TopicEnded(NamedTuple):
    """A topic's group has ended."""

    topic: str


class Asked(NamedTuple):
    """A node that flushes asks how far other networks have its messages."""

    node: int
    name: str
    question: Question
    request: Request


class Ended(NamedTuple):
    """The node has ended, or was counted out of its network."""

    error: Exception | None


LanEvent = Heard | ViewSeen | TopicEnded | Asked | Ended


class Lan:
    """The network as one gateway sees it. Made and used in the thread of an event loop."""

    def __init__(self, gms: str, options: NodeOptions, on_events: Callable[[], None]) -> None:
        """``on_events`` is called in the loop when events wait, or when there is room again."""
        self._loop = asyncio.get_running_loop()
        self._on_events = on_events
        self.core = NodeCore(gms, options, asks_gateways=False)
        self.gateways: frozenset[int] = frozenset()
        """Nodes whose messages to topics are of no interest; others may replace it."""
        self._events: deque[LanEvent] = deque()
        self._waiting_bytes = 0
        self._paused: dict[str, None] = {}
        """Patterns and groups that receive nothing until more was taken."""
        self._is_woken = False
        self._has_queued = False
        """True: something was queued since the core was last told."""
        self._patterns: dict[str, _TopicSink] = {}
        self._openers: dict[str, _Opener] = {}
        self._incarnation = 0

    async def start(self) -> None:
        """Connect, and be known to the other gateways; raises what keeps it out."""
        self.core.start()
        try:
            async with asyncio.timeout(self.core.options.connect_timeout_s):
                await asyncio.wrap_future(self.core.welcome)
        except TimeoutError:
            raise self.core.unreachable() from None
        self._incarnation = self.core.exclusions
        self.core.requests.answers.attach(self)
        sinks = [_GatewaysSink(self, GROUP), Sink(serve_attendance(GROUP))]
        await asyncio.wrap_future(self.core.subscribe(join=sinks))

    async def close(self) -> None:
        await asyncio.to_thread(self.core.close)

    # Topics

    def set_scopes(self, scopes: Iterable[str]) -> None:
        """Be in the groups of all topics that are rooted in these scopes, and in no others."""
        wanted = {f"{scope}{ANY_PART}" for scope in scopes}
        gone = [pattern for pattern in self._patterns if pattern not in wanted]
        new = [_TopicSink(self, pattern) for pattern in sorted(wanted - self._patterns.keys())]
        for pattern in gone:
            del self._patterns[pattern]
        self._patterns.update((sink.name, sink) for sink in new)
        if gone or new:
            self.core.subscribe(join=new, leave=gone)

    def open(self, topic: str) -> None:
        """Be able to send to a topic's group soon."""
        if topic not in self._openers:
            self._openers[topic] = _Opener(self, topic)
            self.core.subscribe(open_=[self._openers[topic]], empty="drop")

    def close_topic(self, topic: str) -> None:
        if self._openers.pop(topic, None) is not None:
            self.core.subscribe(close=[topic])

    # Sending

    def send(self, topic: str, payloads: list[bytes]) -> bool:
        """Queue messages with envelopes for a topic's group; False: there is no room yet.

        ``on_events`` is called when there is. Whoever has queued all calls ``nudge``.
        """
        opener = self._openers.get(topic)
        sender = None if opener is None else opener.sender
        if sender is None:
            return False
        lane = sender.lane
        if lane.room < 0:
            lane.on_room.append(self._wake_from_core)
            if lane.room < 0:
                return False
        twin = sender.twin()
        lane.outbox.attach(twin)
        sizes = list(map(len, payloads))
        size, is_even = sum(sizes), sizes.count(sizes[0]) == len(sizes)
        lane.outbox.put_all(twin, payloads, is_even=is_even)
        lane.room -= size  # no call in between: see ``Lane``
        self._has_queued = True
        return True

    def say(self, data: bytes) -> None:
        """Send something to the gateways' group."""
        core = self.core

        def send() -> None:
            sender = core.session.find_sender(GROUP)
            if sender is not None:
                core.session.send(sender, data)

        core.call(send)

    def answer(self, request: Request, payload: bytes) -> None:
        """Answer a node that asked, with a payload that ``request`` has made."""
        self.core.requests.answers.send(request.reply, payload)

    def flush(self, on_done: Callable[[bool], None]) -> None:
        """Call ``on_done`` in the loop when every member has all that was sent so far.

        It is told whether members that live may lack messages.
        """
        self.core.flush().add_done_callback(partial(self._handle_flushed, on_done))

    def _handle_flushed(self, on_done: Callable[[bool], None], future: Future[Any]) -> None:
        if future.cancelled():
            return
        error = future.exception()
        if error is not None and not isinstance(error, UnconfirmedError):
            return  # the node has ended, and everybody hears of that
        self._call(partial(on_done, error is not None))

    def nudge(self) -> None:
        """Have what was queued sent now."""
        thread = self.core.thread
        if self._has_queued:
            self._has_queued = False
            if thread.is_sleeping:
                thread.wake()

    # Events

    def poll_event(self) -> LanEvent | None:
        """Return what happened in the network, in order, or None."""
        if not self._events:
            self._resume()
            return None
        event = self._events.popleft()
        if isinstance(event, Heard):
            if event.envelopes is None:
                event = self._with_next(event)
            self._waiting_bytes -= event.size  # no call in between: the core adds
        return event

    def _with_next(self, heard: Heard) -> Heard:
        """Add what the same node said next, as long as one packet has room for all of it."""
        found = [heard]
        numbers, size = heard.numbers, heard.size
        while self._events and size < TOGETHER_BYTES:
            # Only the loop takes events away, so the first one stays while it is looked at.
            after = self._events[0]
            if (
                not isinstance(after, Heard)
                or after.envelopes is not None
                or (after.group, after.node) != (heard.group, heard.node)
                or after.numbers[0] != numbers[-1] + 1
            ):
                break
            found.append(after)
            numbers = after.numbers
            size += after.size
            self._events.popleft()
        if len(found) == 1:
            return heard
        payloads = [payload for each in found for payload in each.payloads]
        all_numbers: Sequence[int] = range(heard.numbers[0], numbers[-1] + 1)
        if len(all_numbers) != len(payloads):  # a request was among them, for example
            all_numbers = [number for each in found for number in each.numbers]
        return heard._replace(numbers=all_numbers, payloads=payloads, size=size)

    def _resume(self) -> None:
        if self._paused and self._waiting_bytes <= WAITING_BYTES_MAX // 2:
            self.core.call(self._resume_on_core)

    # Core thread

    def _resume_on_core(self) -> None:
        for name in self._paused:
            self.core.session.resume(name)
        self._paused.clear()

    def hear_on_core(
        self, pattern: str, group: str, messages: Messages, envelopes: Sequence[Envelope] | None
    ) -> None:
        session = self.core.session
        node = messages.sender
        info = session.directory.nodes.get(node)
        name = "" if info is None else info.name
        payloads = messages.payloads
        size = size_of(payloads)
        self._waiting_bytes += size  # no call in between: the loop takes away
        self.tell_on_core(Heard(group, node, name, messages.numbers(), payloads, envelopes, size))
        if self._waiting_bytes > WAITING_BYTES_MAX and pattern not in self._paused:
            self._paused[pattern] = None
            session.pause(pattern)

    def tell_on_core(self, event: LanEvent) -> None:
        if self.core.exclusions != self._incarnation:
            event = Ended(None)
        self._events.append(event)
        self._wake_from_core()

    def _wake_from_core(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            self._call(self._wake)

    def _call(self, work: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(work)
        except RuntimeError:
            pass  # the loop is closed: nobody waits any more

    def _wake(self) -> None:
        self._is_woken = False
        self._on_events()


class _GroupSink(Sink):
    """A group, or groups, that the gateway hears."""

    def __init__(self, lan: Lan, name: str) -> None:
        super().__init__(name)
        self._lan = lan

    def deliver_on_core(self, messages: Messages) -> None:
        self._lan.hear_on_core(self.name, self.name, messages, None)

    def view_on_core(self, view: View) -> None:
        names = dict(zip(view.members, view.names, strict=True))
        self._lan.tell_on_core(ViewSeen(view.group, {int(node): n for node, n in names.items()}))

    def fail_on_core(self, error: Exception) -> None:
        self._lan.tell_on_core(Ended(error))


class _GatewaysSink(_GroupSink):
    """The group of all gateways."""

    def deliver_enveloped_on_core(self, messages: Messages, envelopes: Sequence[Envelope]) -> None:
        nodes = self._lan.core.session.directory.nodes
        for request in split_requests(messages, envelopes, self.name)[0]:
            question = parse_question(request.message.payload)
            node = messages.sender
            if question is not None and node in nodes:
                self._lan.tell_on_core(Asked(node, nodes[node].name, question, request))


class _TopicSink(_GroupSink):
    """All topics of one scope."""

    def receivers_on_core(self, name: str) -> Receivers:
        lan, pattern = self._lan, self.name

        def deliver(messages: Messages) -> None:
            lan.hear_on_core(pattern, name, messages, None)

        def deliver_enveloped(messages: Messages, envelopes: Sequence[Envelope]) -> None:
            if messages.sender not in lan.gateways:
                lan.hear_on_core(pattern, name, messages, envelopes)

        return deliver, deliver_enveloped

    def unmatched_on_core(self, name: str) -> None:
        self._lan.tell_on_core(TopicEnded(name))

    def fail_on_core(self, error: Exception) -> None:
        """The gateways' group tells of it."""


class _Opener(Sink):
    """A topic's group that is open for sending."""

    def __init__(self, lan: Lan, name: str) -> None:
        super().__init__(name)
        self._lan = lan
        self.sender: GroupSender | None = None

    def ready_on_core(self, sender: GroupSender) -> None:
        self.sender = sender
        self._lan._wake_from_core()


def size_of(payloads: Sequence[bytes]) -> int:
    """Return about how much memory messages take."""
    return sum(map(len, payloads)) + _MESSAGE_BYTES * len(payloads)
