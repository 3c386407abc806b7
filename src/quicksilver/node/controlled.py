"""A node's place taken by the controller of the machine: the core behind ``connect("unix:…")``.

Groups and both forms of the API are the same as those of a node. What they ask for goes to the
controller, which asks its own node; what comes back settles the futures. Applications behind one
controller are one node: they share its number, its memberships and its sequence of messages in
each group.
"""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import fields
from typing import TYPE_CHECKING, Any, assert_never

import msgspec

from quicksilver.membership.patterns import is_pattern
from quicksilver.multicast.events import FlushEnded, MessagesUnconfirmed
from quicksilver.multicast.sending.empty import Empty
from quicksilver.multicast.sending.send_queue import SendQueue
from quicksilver.multicast.sending.unconfirmed import Reason, Unconfirmed
from quicksilver.net.shared_ring import is_supported
from quicksilver.node.controlled_session import ControlledSession, SendTarget
from quicksilver.node.core_base import Change, CoreBase, CoreSink
from quicksilver.node.element import Element
from quicksilver.node.errors import (
    ClosedError,
    ControllerLostError,
    ControllerRefusedError,
    ControllerUnreachableError,
    CoreFailedError,
    NeedsNodeError,
    OptionError,
    QueueFullError,
    UnconfirmedError,
)
from quicksilver.node.flushes import Flushes
from quicksilver.node.group_base import GroupBase
from quicksilver.node.log import GROUPS, NODE, log_unconfirmed
from quicksilver.node.messages import NodeStats, View
from quicksilver.node.options import NodeOptions
from quicksilver.node.promises import fail, settle
from quicksilver.stdx.text import printable
from quicksilver.wire import local
from quicksilver.wire.envelope import open_envelopes
from quicksilver.wire.ids import GroupId, NodeId
from quicksilver.wire.packets import Messages

if TYPE_CHECKING:
    from quicksilver.node.requests import Requests

OWN_OPTIONS = frozenset(
    {
        "connect_timeout_s",
        "empty",
        "name",
        "on_unconfirmed",
        "overflow",
        "queue_bytes",
        "switch_interval_s",
        "tune_gc",
    }
)
"""Options that an application has; the others are about a node, which is the controller's."""

_decode_unconfirmed = msgspec.msgpack.Decoder(tuple[Unconfirmed, ...]).decode
_decode_view = msgspec.msgpack.Decoder(View).decode
_decode_stats = msgspec.msgpack.Decoder(NodeStats).decode


class _Request:
    """A change of memberships that the controller has not answered."""

    def __init__(
        self,
        future: Future[dict[str, int]],
        joining: tuple[GroupBase[Any], ...],
        opening: tuple[GroupBase[Any], ...],
        gone: tuple[str, ...] = (),
    ) -> None:
        self.gone = gone
        """Groups that are left or closed."""
        self.future = future
        self.joining = joining
        self.opening = opening


class ControlledCore(CoreBase[GroupBase[Any]]):
    """One application's connection to the controller of its machine."""

    answerer = "the controller"

    def __init__(self, path: str, options: NodeOptions) -> None:
        if not is_supported():
            raise NeedsNodeError("a machine without Linux 5.1 or newer on x86-64")
        _check_options(options)
        super().__init__(options)
        self.path = path
        name = options.name or f"{socket.gethostname()}-{os.getpid()}"
        self.thread = Element(
            path,
            name,
            on_frame=self._handle_frame,
            on_lost=self._handle_lost,
            on_end=self._handle_end,
            on_failure=self._handle_failure,
            timeout_s=options.connect_timeout_s,
        )
        self.session = ControlledSession(name, self.thread)
        self.session.on_flush = self._note_flush
        self._flushes = Flushes(
            self.session, log_unconfirmed, options.on_unconfirmed, self._sinks_of
        )
        self._application = 0
        """The number that messages of this application carry as their origin."""
        self._targets: dict[str, SendTarget] = {}
        self._number = 0
        self._requests: dict[int, _Request] = {}
        self._going: Counter[str] = Counter()
        """Groups that the application leaves, until the controller has answered: whoever joins
        one of them again must not overtake that."""
        self._asked: dict[int, Future[NodeStats]] = {}
        self._flushed: Counter[str] = Counter()
        """Messages that an ended flush was about, by group, and …"""
        self._flush_counts: dict[int, Counter[str]] = {}
        """… those that flushes under way are about."""

    # Life

    def start(self) -> None:
        self._begin()
        self.thread.start()

    def unreachable(self) -> ControllerUnreachableError:
        return ControllerUnreachableError(self.path, self.thread.last_error or "no answer")

    def close(self) -> None:
        """End the connection; the controller still sends what it has accepted."""
        if self.is_closed:
            return
        self.is_closed = True
        self.thread.stop()
        self._end()
        self._end_all(ClosedError("the node"))

    def _handle_lost(self, reason: str) -> None:
        if self.is_closed or self.failure is not None:
            return
        if self._welcome.done():
            self.failure = ControllerLostError(self.path, printable(reason))
            NODE.error("%s", self.failure)
        else:  # whoever connects is told
            self.failure = ControllerUnreachableError(self.path, printable(reason))
        self._fail_requests(self.failure)

    def _handle_end(self) -> None:
        """All that was in the rings has been read."""
        if self.failure is not None:
            self._end_all(self.failure)

    def _handle_failure(self, traceback: str) -> None:
        self.failure = CoreFailedError(traceback)
        NODE.error("%s", self.failure)
        self._end_all(self.failure)

    def _fail_requests(self, error: Exception) -> None:
        super()._fail_requests(error)
        self._requests.clear()
        self._flushes.clear()
        self.room.set()

    # Groups

    def _check_change(self, change: Change[GroupBase[Any]]) -> None:
        for sink in (*change.joining, *change.opening):
            _check_sink(sink)
        if change.queue is not None:
            raise NeedsNodeError("queue")

    def _subscribe_on_core(
        self, change: Change[GroupBase[Any]], future: Future[dict[str, int]]
    ) -> None:
        joining, opening = change.joining, change.opening
        leaving, closing = change.leaving, change.closing
        wanted = local.Subscribe(
            request=0,
            join=tuple(sink.name for sink in joining),
            open=tuple(sink.name for sink in opening),
            leave=leaving,
            close=closing,
            waits=not any(sink.may_drop for sink in joining),
            behind=None if change.behind is None else str(change.behind),
            # Who chooses nothing takes what another application of the machine has chosen.
            empty=change.empty or (None if self.options.empty == "wait" else self.options.empty),
        )
        self._forget(leaving, closing)
        self._note_sinks(change)
        self._ask(_Request(future, joining, opening, (*leaving, *closing)), wanted)

    def _ask(self, request: _Request, frame: local.Subscribe) -> None:
        """Send a request; one that leaves groups goes behind the messages that were sent."""
        self._number += 1
        self._requests[self._number] = request
        is_behind = bool(request.gone) or any(
            name in self._going for name in (*frame.join, *frame.open)
        )
        self._going.update(request.gone)
        frame = msgspec.structs.replace(frame, request=self._number)
        if is_behind:
            self.thread.send_behind(local.KIND_FRAME, local.encode(frame))
        else:
            self.thread.send_frame(frame)

    def _take_request(self, number: int) -> _Request | None:
        """Return what was asked for; the controller has answered."""
        request = self._requests.pop(number, None)
        for name in () if request is None else request.gone:
            self._going[name] -= 1
            if not self._going[name]:
                del self._going[name]
        return request

    def _withdraw_on_core(self, leaving: list[str], closing: list[str]) -> None:
        self._forget(leaving, closing)
        asked = _Request(self.promises.make(), (), (), (*leaving, *closing))
        wanted = local.Subscribe(request=0, leave=tuple(leaving), close=tuple(closing))
        self._ask(asked, wanted)

    def leave_queues(self, names: Iterable[str]) -> Future[Any]:
        raise NeedsNodeError("queue")

    def _forget(self, leaving: Iterable[str], closing: Iterable[str]) -> None:
        gone = self._drop_sinks(leaving, closing)
        for name in leaving:
            self.thread.remove_ring(name)
        for left in gone:
            left.fail_on_core(ClosedError(f"group {left.name!r}"))

    def call(self, work: Callable[[], None]) -> None:
        self.thread.submit(work)

    @property
    def requests(self) -> Requests:
        raise NeedsNodeError("request and serve")

    def check_supports(self, what: str) -> None:
        """Raise NeedsNodeError for what no controller does."""
        if what not in ("views", "wait_members"):
            raise NeedsNodeError(what)

    # Flushing, counting

    def _flush_on_core(self, future: Future[tuple[Unconfirmed, ...]]) -> None:
        """The controller's node is to vouch for all that was sent so far."""
        self._flushes.begin(future)

    def untell(self, future: Future[tuple[Unconfirmed, ...]]) -> None:
        told = self._flushes.put_back(future)
        if told:
            self.thread.submit(lambda: self.session.put_back_unconfirmed(told))

    def _note_flush(self, number: int) -> None:
        self._flush_counts[number] = Counter(self.thread.counts)

    def take_unfinished(self) -> UnconfirmedError | None:
        """Return what nobody has vouched for if the connection ends now."""
        left = Counter(self.thread.counts)
        left.update(self.thread.unsent())
        left.subtract(self._flushed)
        found = tuple(
            Unconfirmed(Reason.CLOSED, self.session.node, name, count, (), ())
            for name, count in sorted(left.items())
            if count > 0
        )
        return UnconfirmedError(found) if found else None

    def _count_on_core(self, future: Future[NodeStats]) -> None:
        """Ask for what the controller's node has counted so far."""
        self._number += 1
        self._asked[self._number] = future
        self.thread.send_frame(local.Ask(self._number))

    def check_overrun(self, lane: SendQueue) -> None:
        if lane.room < -lane.room_max:
            raise QueueFullError(lane.queued_bytes())

    # What the controller says (element's thread)

    def _handle_frame(self, frame: local.FromController) -> None:
        if isinstance(frame, local.Welcome):
            self._handle_welcome(frame)
        elif isinstance(frame, local.Subscribed):
            self._handle_subscribed(frame)
        elif isinstance(frame, local.Refused):
            self._handle_refused(frame)
        elif isinstance(frame, local.ViewTold):
            view = _decode_view(frame.view)
            sink = (self._sinks if frame.is_member else self._openers).get(view.group)
            # One that came while the group was joined may be told twice.
            if sink is not None and (sink.view is None or sink.view.number < view.number):
                sink.view_on_core(view)
        elif isinstance(frame, local.EmptinessTold):
            self._handle_emptiness(frame)
        elif isinstance(frame, local.LostTold):
            self._flushes.handle_unconfirmed(
                MessagesUnconfirmed(_decode_unconfirmed(frame.messages))
            )
        elif isinstance(frame, local.FlushTold):
            counts = self._flush_counts.pop(frame.number, None)
            if counts is not None:
                self._flushed = counts
            self._flushes.handle_ended(
                FlushEnded(frame.number, _decode_unconfirmed(frame.unconfirmed))
            )
        elif isinstance(frame, local.Counted):
            future = self._asked.pop(frame.request, None)
            if future is not None:
                settle(future, _decode_stats(frame.stats))
        elif isinstance(frame, local.NodeTold):
            if self.session.node:
                self.exclusions += 1
            self.session.node, self.session.cluster = frame.node, frame.cluster
        elif isinstance(frame, local.AreYouThere):
            self.thread.send_frame(local.Here())
        else:
            assert_never(frame)

    def _handle_welcome(self, frame: local.Welcome) -> None:
        self.thread.welcome(self.thread.take_descriptors(4))
        self._application = frame.application
        self.session.node, self.session.cluster = frame.node, frame.cluster
        NODE.info("connected to the controller at %s, node %d", self.path, frame.node)
        settle(self._welcome, frame.node)

    def _handle_subscribed(self, frame: local.Subscribed) -> None:
        request = self._take_request(frame.request)
        descriptors = self.thread.take_descriptors(len(frame.rings))
        joining = {} if request is None else {sink.name: sink for sink in request.joining}
        for ring, descriptor in zip(frame.rings, descriptors, strict=True):
            sink = joining.get(ring.name)
            if sink is None or self._sinks.get(ring.name) is not sink:
                os.close(descriptor)  # nobody waits for it any more
                continue
            self.thread.add_ring(ring, descriptor, self._deliverer(sink), self._misser(sink))
        if request is None:
            return
        for place in frame.places:
            target = self._target(place)
            for sink in (*request.joining, *request.opening):
                if sink.name == place.name and sink in self._sinks_of(sink.name):
                    sink.ready_on_core(target)
        settle(request.future, {place.name: place.group for place in frame.places})

    def _target(self, place: local.Place) -> SendTarget:
        target = self._targets.get(place.name)
        if target is None:
            lane = self.thread.lane
            target = SendTarget(place.name, lane, place.number, is_enveloped=False)
            self._targets[place.name] = target
            lane.outbox.attach(target)
        target.id = place.group
        target.empty = _empty(place.empty)
        target.is_empty = place.is_empty
        return target

    def _handle_refused(self, frame: local.Refused) -> None:
        error = ControllerRefusedError(frame.reason)
        request = self._take_request(frame.request)
        if request is not None:
            for sink in request.joining:
                if self._sinks.get(sink.name) is sink:
                    del self._sinks[sink.name]
            for sink in request.opening:
                if self._openers.get(sink.name) is sink:
                    del self._openers[sink.name]
            fail(request.future, error)
        elif not frame.request:
            if not self._welcome.done():
                self.failure = error
                fail(self._welcome, error)
            self.thread.note_lost(frame.reason)

    def _handle_emptiness(self, frame: local.EmptinessTold) -> None:
        target = self._targets.get(frame.name)
        if target is not None:
            target.is_empty = frame.is_empty
            target.empty = _empty(frame.empty)
            target.waited = 0
        for sink in self._sinks_of(frame.name):
            sink.emptiness_on_core()
        self.room.set()

    def _deliverer(self, sink: GroupBase[Any]) -> Callable[[local.Batch], None]:
        session = self.session
        deliver, deliver_enveloped = sink.deliver_on_core, sink.deliver_enveloped_on_core
        own = 0 if sink.echo else self._application

        def take(batch: local.Batch) -> None:
            if batch.origin and batch.origin == own:
                return
            session.cluster = batch.cluster
            group = GroupId(0)
            messages = Messages(
                NodeId(batch.sender),
                batch.batch,
                batch.payloads,
                None if batch.numbers else group,
                batch.first,
                [group] * len(batch.payloads) if batch.numbers else (),
                batch.numbers,
            )
            if batch.is_enveloped:
                opened, envelopes, _ = open_envelopes(messages, group)
                deliver_enveloped(opened, envelopes)
            else:
                deliver(messages)

        return take

    def _misser(self, sink: GroupBase[Any]) -> Callable[[int], None] | None:
        if not sink.may_drop:
            return None

        def note(count: int) -> None:
            sink.missed_on_core(count)
            GROUPS.warning("dropped %d messages of %s: it is behind", count, printable(sink.name))

        return note


def _check_options(options: NodeOptions) -> None:
    """Refuse options of a node that the controller has for all its applications."""
    usual = NodeOptions()
    for each in fields(options):
        if each.name not in OWN_OPTIONS and getattr(options, each.name) != getattr(
            usual, each.name
        ):
            raise OptionError(
                each.name, "is the controller's to choose; give it to `quicksilver controller`"
            )


def _check_sink(sink: CoreSink) -> None:
    """Raise NeedsNodeError for what no controller does."""
    if not isinstance(sink, GroupBase):
        raise NeedsNodeError(f"group {sink.name!r} of a layer above groups")
    if is_pattern(sink.name):
        raise NeedsNodeError(f"pattern {sink.name!r}")
    if sink.retained is not None:
        raise NeedsNodeError("retain")


def _empty(text: str) -> Empty:
    return "drop" if text == "drop" else "error" if text == "error" else "wait"
