"""A node of a scope, assembled: the machine, its sockets and the core thread.

It is for groups and nodes what ``NodeCore`` is where there is a GMS (``node.ports``): both forms
of the API are shells around either. Methods named ``*_on_core`` run on the core thread; the
others may be called from any thread.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Protocol

from quicksilver.membership.patterns import is_pattern
from quicksilver.multicast.sending.unconfirmed import Reason, Unconfirmed
from quicksilver.net.interfaces import choose_interface
from quicksilver.net.serving import wait_first
from quicksilver.net.streams import FrameServer, serve_frames
from quicksilver.node.core_base import Change, CoreBase
from quicksilver.node.errors import (
    ClosedError,
    CoreFailedError,
    OptionError,
    QueueFullError,
    RefusedError,
    ScopeLimitError,
    ScopeUnreachableError,
    UnconfirmedError,
)
from quicksilver.node.log import NODE
from quicksilver.node.messages import Batch, NodeStats
from quicksilver.node.options import NodeOptions, parse_gms_address
from quicksilver.node.promises import fail, settle
from quicksilver.node.requests import Requests
from quicksilver.node.scoped_datagrams import ScopedDatagrams, open_node_port
from quicksilver.node.scoped_frames import NodeFrames
from quicksilver.node.scoped_session import (
    ScopedLane,
    ScopedSender,
    ScopedSession,
    Sources,
)
from quicksilver.node.scoped_thread import LoopThread
from quicksilver.scopes.dissemination.batches import PAYLOAD_BYTES_MAX
from quicksilver.scopes.dissemination.channels import External, Link
from quicksilver.scopes.dissemination.packets import Gap
from quicksilver.scopes.dissemination.pieces import Joined
from quicksilver.scopes.gateway.forms import ENVELOPED
from quicksilver.scopes.management import events as told
from quicksilver.scopes.names import find_scope_name_problem, find_topic_name_problem
from quicksilver.scopes.node import ScopeNode
from quicksilver.scopes.node_parts import NodeEvent, WindowOpened
from quicksilver.scopes.sessions.keys import BadKeysError, KeyRing, SealingError, parse_keys
from quicksilver.scopes.sessions.multiplexer import KeyMissing
from quicksilver.stdx.text import printable

INPUT_BYTES_MAX = 256 << 20
"""Frames that have not arrived completely, over all connections."""

OUTPUT_BYTES_MAX = 64 << 20
"""What waits for one connection; the node itself stops long before."""

CONNECT_S = 2.0
"""How long a join waits for channels to open, once the topic's root knows of it."""

LINGER_S = 1.0
"""How long connections have at the end to take what was said on them."""

_unnamed = itertools.count(1)
"""Nodes of this process that were given no name."""


class ScopedSink(Protocol):
    """Where the messages of a topic go; called on the core thread."""

    name: str
    echo: bool

    def ready_on_core(self, sender: ScopedSender) -> None: ...

    def deliver_batch_on_core(self, batch: Batch) -> None: ...

    def fail_on_core(self, error: Exception) -> None: ...


class ScopedCore(CoreBase[ScopedSink]):
    """One node of a scope in this process. Scopes tell no views: ``views`` stays empty."""

    def __init__(self, manager: str, scope: str, options: NodeOptions) -> None:
        """``manager``: where the manager of ``scope`` listens, as ``host:port``."""
        super().__init__(options)
        self.scope = scope
        self._manager = manager
        self.interface = choose_interface(options.interface, parse_gms_address(manager)[0])
        name = _name_in(scope, options.name)
        keys = _read_keys(options.keys_file)
        self._listener, self._unicast = open_node_port(self.interface, options)
        host, port = self._listener.getsockname()[:2]
        self._machine = ScopeNode(
            name=name,
            address=f"{host}:{port}",
            owners=(manager,),
            life=time.time_ns(),
            scope=scope,
            now=time.monotonic(),  # the event loop's clock
            seed=int.from_bytes(os.urandom(8), "little"),
            place=Link(options.links, f"{host}:{port}", name),
            keys=keys,
        )
        self._forwarder = forwarder = self._machine.forwarder
        self._frames = NodeFrames(
            self._machine, on_events=self._take_events, output_bytes_max=OUTPUT_BYTES_MAX
        )
        self.session = ScopedSession(name, PAYLOAD_BYTES_MAX, self._pause)
        self._sources = Sources(forwarder.sender)
        self.thread = LoopThread(self._serve, on_turn=self._turn, on_failure=self._handle_failure)
        self._server: FrameServer | None = None
        self._datagrams: ScopedDatagrams | None = None
        self._media: dict[tuple[str, str], External] = {}
        """Mechanisms that are used, by topic and scope."""
        self.missing = 0
        """Messages that nobody could give any more."""
        self._is_welcome = False
        """True while the manager answers."""
        self._last_problem = ""
        self._joining: dict[str, list[tuple[ScopedSink, Future[dict[str, int]]]]] = {}
        """Groups that are not connected yet (``ScopeNode.is_connected``)."""
        self._flushes: list[tuple[dict[str, int], Future[tuple[Unconfirmed, ...]]]] = []
        """Up to which number messages to each topic have to be everywhere."""

    # Life

    def start(self) -> None:
        self._begin()
        self.thread.start()

    def unreachable(self) -> ScopeUnreachableError:
        cause = printable(self._last_problem) or "no answer"
        return ScopeUnreachableError(self._manager, cause, self.scope)

    def close(self) -> None:
        """End the core thread; what was not flushed may be lost."""
        if self.is_closed:
            return
        self.is_closed = True
        self.thread.stop()
        self._end()
        self._listener.close()
        if self._unicast is not None and self._datagrams is None:
            self._unicast.close()  # The thread did not come so far.
        self._end_all(ClosedError("the node"))

    def check_supports(self, what: str) -> None:
        """Raise ScopeLimitError: whoever asks wants something that only a GMS makes possible."""
        raise ScopeLimitError(what)

    @property
    def requests(self) -> Requests:
        raise ScopeLimitError("requests")

    def _handle_failure(self, traceback: str) -> None:
        self.failure = CoreFailedError(traceback)
        self._end_all(self.failure)

    # Groups

    def _check_change(self, change: Change[ScopedSink]) -> None:
        for sink in (*change.joining, *change.opening):
            _check_topic(sink)
        if change.queue is not None:
            raise ScopeLimitError("queues")
        if change.behind is not None:
            raise ScopeLimitError(f"behind={change.behind!r}")
        if change.empty not in (None, "wait"):
            raise ScopeLimitError(f"empty={change.empty!r}")

    def _subscribe_on_core(
        self, change: Change[ScopedSink], future: Future[dict[str, int]]
    ) -> None:
        self._forget(change.leaving, change.closing)
        self._note_sinks(change)
        sinks = (*change.joining, *change.opening)
        for sink in sinks:
            self._joining.setdefault(sink.name, []).append((sink, future))
        names = (*(sink.name for sink in sinks), *change.leaving, *change.closing)
        for topic in dict.fromkeys(names):
            self._say_wants(topic)
            if topic in self._joining and self._machine.promised.is_rooted(topic):
                self._limit_wait(topic)
        if not sinks:
            settle(future, {})

    def _say_wants(self, topic: str) -> None:
        now = asyncio.get_running_loop().time()
        is_joined = topic in self._sinks
        self._machine.want(
            topic, publishes=is_joined or topic in self._openers, subscribes=is_joined, now=now
        )

    def leave_queues(self, names: Iterable[str]) -> Future[Any]:
        raise ScopeLimitError("queues")

    def _withdraw_on_core(self, leaving: list[str], closing: list[str]) -> None:
        self._forget(leaving, closing)
        for topic in dict.fromkeys((*leaving, *closing)):
            self._say_wants(topic)

    def _forget(self, leaving: Iterable[str], closing: Iterable[str]) -> None:
        for left in self._drop_sinks(leaving, closing):
            waiting = self._joining.pop(left.name, [])
            others = [each for each in waiting if each[0] is not left]
            if others:
                self._joining[left.name] = others
            self.session.resume(left.name)
            left.fail_on_core(ClosedError(f"group {left.name!r}"))

    # Requests to the core

    def call(self, work: Callable[[], None]) -> None:
        """Run something on the core thread soon; an exception ends the node."""

        def guarded() -> None:
            if self._server is not None:
                self._server.call(work)

        self.thread.submit(guarded)

    def _flush_on_core(self, future: Future[tuple[Unconfirmed, ...]]) -> None:
        self._flushes.append((self._goals(), future))

    def untell(self, future: Future[tuple[Unconfirmed, ...]]) -> None:
        """Whoever waited for a flush is gone."""
        future.cancel()

    def take_unfinished(self) -> UnconfirmedError | None:
        """Return what may be lost if the node ends now; None where nothing is."""
        found = self._ask_unfinished(self._unfinished)
        return UnconfirmedError(found) if found else None

    def _count_on_core(self, future: Future[NodeStats]) -> None:
        settle(future, self._stats_on_core())

    def check_overrun(self, lane: ScopedLane) -> None:
        """Refuse a callback that has queued too much: it runs on the core and cannot wait."""
        if lane.room < -lane.room_max:
            raise QueueFullError(lane.queued_bytes())

    # Core thread

    async def _serve(self, stop: asyncio.Event) -> None:
        self._datagrams = ScopedDatagrams(
            self.interface,
            self.options,
            on_datagrams=self._take_datagrams,
            poll=self._machine.poll_datagram,
            unicast=self._unicast,
        )
        self._server = await serve_frames(
            self._frames, self._listener, input_bytes_max=INPUT_BYTES_MAX, logger=NODE.name
        )
        self._frames.server = self._server
        try:
            await wait_first(stop, self._server.wait_failed)
        finally:
            self._server.call(self._leave_all)
            self._datagrams.close()
            self._frames.close()
            # What was flushed may be on its way through the last buffers of this process.
            self._server.call(self._frames.finish)
            await self._server.close(LINGER_S)

    def _leave_all(self) -> None:
        # Nothing is vouched for any more: leaving topics would end flushes as if all had come.
        for _, future in self._flushes:
            fail(future, ClosedError("the node"))
        self._flushes.clear()
        self._machine.finish(asyncio.get_running_loop().time())

    def _pause(self, paused: bool) -> None:
        """The application is behind: messages stay in the kernel, and senders wait."""
        self._frames.pause(paused=paused)
        if self._datagrams is not None:
            self._datagrams.pause(paused=paused)

    def _take_datagrams(self, found: list[Joined]) -> None:
        now = asyncio.get_running_loop().time()

        def take() -> None:
            for data, holes in found:
                self._machine.handle_datagram(data, now, holes)

        assert self._server is not None
        self._server.call(take)

    def _turn(self) -> None:
        if self._server is not None:
            self._server.call(self._publish_queued)

    def _publish_queued(self) -> None:
        """Take what was queued out of the lanes, as far as topics have room for it."""
        for lane in list(self.session.lanes.values()):
            if lane.outbox:
                self._publish(lane)

    def _publish(self, lane: ScopedLane) -> None:
        topic, machine = lane.topic, self._machine
        now = asyncio.get_running_loop().time()
        sink = self._sinks.get(topic)
        is_echoed = sink is not None and sink.echo
        while lane.outbox and machine.may_publish(topic):
            for is_enveloped, messages in lane.take():
                attributes = ENVELOPED if is_enveloped else None
                first = machine.publish(topic, messages, attributes, now)
                if is_echoed:
                    own = self._forwarder.sender
                    self._deliver(
                        self._sources.make_batch(topic, own, first, messages, is_enveloped)
                    )

    def _take_events(self) -> None:
        """Take what the machine has for this node's application, after every input."""
        machine = self._machine
        while (delivery := machine.poll_delivery()) is not None:
            if isinstance(delivery, Gap):
                self._handle_gap(delivery)
            else:
                self._deliver(self._sources.batch_of(delivery))
        while (event := machine.poll_event()) is not None:
            self._handle_event(event)
        if self._datagrams is not None:
            self._datagrams.send()
        if self._joining:
            for topic in list(filter(machine.promised.is_connected, self._joining)):
                self._handle_joined(topic)
        if self._flushes:
            self._settle_flushes()

    def _deliver(self, batch: Batch | None) -> None:
        sink = None if batch is None else self._sinks.get(batch.group)
        if sink is not None and batch is not None:
            sink.deliver_batch_on_core(batch)

    def _handle_gap(self, gap: Gap) -> None:
        count = gap.last + 1 - gap.first
        self.missing += count
        NODE.warning(
            "%d messages of %s to %s are missing: nobody has them any more",
            count,
            printable(gap.sender.node),
            printable(gap.topic),
        )

    def _handle_event(self, event: NodeEvent) -> None:
        match event:
            case WindowOpened(topic):
                lane = self.session.lanes.get(topic)
                if lane is not None:
                    self._publish(lane)
            case told.MechanismOpened(topic, scope, where):
                self._handle_mechanism(topic, scope, where)
            case told.MechanismClosed(topic, scope):
                self._handle_mechanism(topic, scope, None)
            case told.OwnerJoined():
                self._is_welcome = True
                if not self._welcome.done():
                    settle(self._welcome, self.session.node)
            case told.OwnerLost(_, reason):
                self._is_welcome = False
                self._last_problem = reason
                if self._welcome.done():
                    NODE.warning("the manager of %s is away: %s", self.scope, printable(reason))
            case told.TopicFailed(topic, reason):
                self._handle_refused(topic, reason)
            case told.SessionInstalled(topic):
                self._limit_wait(topic)
            case KeyMissing(topic, _, key):
                NODE.warning(
                    "messages of %s cannot be read or sent: this node has no key %s",
                    printable(topic),
                    printable(key),
                )
            case _:
                pass

    def _handle_mechanism(self, topic: str, scope: str, where: External | None) -> None:
        """Listen where messages of a topic come by multicast; several topics may share that."""
        assert self._datagrams is not None
        old = self._media.pop((topic, scope), None)
        if where is not None:
            self._media[topic, scope] = where
            self._datagrams.listen(where)
        if old is not None and old not in self._media.values():
            self._datagrams.leave(old)

    def _limit_wait(self, topic: str) -> None:
        """A topic's root knows of this node: only channels are waited for, and not for long."""
        asyncio.get_running_loop().call_later(CONNECT_S, self._handle_overdue, topic)

    def _handle_overdue(self, topic: str) -> None:
        """Somebody at the other end of a channel does not answer: it is waited for no longer."""
        if topic in self._joining and self._server is not None:
            NODE.warning("not all channels of %s are open: others do not answer", printable(topic))
            self._server.call(lambda: self._handle_joined(topic))

    def _handle_joined(self, topic: str) -> None:
        """A topic is connected."""
        sender = self.session.sender_of(topic)
        for sink, future in self._joining.pop(topic, []):
            sink.ready_on_core(sender)
            if not any(each is future for waits in self._joining.values() for _, each in waits):
                settle(future, {topic: sender.id})

    def _handle_refused(self, topic: str, reason: str) -> None:
        error = RefusedError(printable(reason), self.scope)
        for _, future in self._joining.pop(topic, []):
            fail(future, error)
        for sinks in (self._sinks, self._openers):
            sink = sinks.pop(topic, None)
            if sink is not None:
                sink.fail_on_core(error)

    # What is not everywhere yet

    def _goals(self) -> dict[str, int]:
        """Return which numbers follow on all that was sent so far, by topic."""
        mark = self._machine.flush_mark
        lanes = self.session.lanes.values()
        return {lane.topic: mark(lane.topic) + lane.outbox.count() for lane in lanes}

    def _settle_flushes(self) -> None:
        is_stable = self._machine.promised.is_stable
        waiting = []
        for goals, future in self._flushes:
            left = {topic: goal for topic, goal in goals.items() if not is_stable(topic, goal)}
            if left and not future.done():
                waiting.append((left, future))
            else:
                settle(future, ())
        self._flushes = waiting

    def _unfinished(self) -> tuple[Unconfirmed, ...]:
        """Return which messages are not known to be everywhere."""
        found = []
        for topic, goal in sorted(self._goals().items()):
            stream = self._forwarder.holdings.find(topic, self._forwarder.sender)
            low = 0 if stream is None else min(stream.stable, goal)
            if not self._machine.promised.is_stable(topic, goal) and low < goal:
                node, ranges = self.session.node, ((low, goal - 1),)
                found.append(Unconfirmed(Reason.CLOSED, node, topic, goal - low, ranges, ()))
        return tuple(found)

    def _stats_on_core(self) -> NodeStats:
        return NodeStats(
            node=self.session.node,
            cluster=0,
            connected=self._is_welcome,
            counters={
                **self._machine.counters,
                **self._forwarder.counters,
                "malformed_envelopes": self._sources.malformed,
                "missing": self.missing,
                "pending_bytes": self.session.waiting_bytes()
                + self._forwarder.pending_bytes(self.session.lanes),
                "resent": self._forwarder.counters["repairs_given"],
                "unconfirmed": 0,
            },
            datagrams={} if self._datagrams is None else self._datagrams.counters(),
            warnings=(),
        )


def _name_in(scope: str, name: str) -> str:
    """Return a node's name: that of its scope, and the one that was given or can be made up."""
    if not name:
        host = socket.gethostname().replace("-", "_")
        number = next(_unnamed)
        name = f"{host}.{os.getpid()}" if number == 1 else f"{host}.{os.getpid()}.{number}"
    full = f"{scope}/{name}"
    problem = "it has '/'" if "/" in name else find_scope_name_problem(full)
    if problem is not None:
        raise OptionError("name", f"cannot be the name of a node in a scope: {problem}")
    return full


def _check_topic(sink: ScopedSink) -> None:
    """Refuse what no group of a scope can be."""
    if is_pattern(sink.name):
        raise ScopeLimitError(f"the pattern {sink.name!r}")
    problem = find_topic_name_problem(sink.name)
    if problem is not None:
        raise OptionError("name", f"cannot be a topic: {problem}")
    if getattr(sink, "retained", None) is not None:
        raise ScopeLimitError("retain")


def _read_keys(path: str | None) -> KeyRing | None:
    """Return the keys in a file. Raises ``OptionError``, which never shows a key."""
    if path is None:
        return None
    try:
        return KeyRing(parse_keys(Path(path).read_text("utf-8")))
    except (OSError, UnicodeDecodeError, BadKeysError, SealingError) as error:
        raise OptionError("keys_file", f"cannot be used: {error}") from None
