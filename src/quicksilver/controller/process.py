"""The controller: one node for all applications of a machine (dissertation 3.2.6).

Of the three patterns in Figure 3.20 this is the third: applications speak to the controller
alone, which is their proxy. Received messages go through shared memory (``local_group``), and
so does what they send (``application``). The first two, in which applications use the network
themselves and the manager only tells them how, are what ordinary nodes and the GMS do.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import msgspec

from quicksilver.controller.application import OUT_BYTES_MAX, Application, Sent, encode
from quicksilver.controller.local_group import LocalSink
from quicksilver.controller.memberships import Memberships, run_on_core, wait_for_core
from quicksilver.multicast.sending.unconfirmed import Reason, Unconfirmed
from quicksilver.net.local_socket import LocalStream, listen_local
from quicksilver.net.shared_ring import is_supported
from quicksilver.node.core import NodeCore
from quicksilver.node.errors import NeedsNodeError, QuicksilverError, UnconfirmedError
from quicksilver.node.messages import View
from quicksilver.node.options import NodeOptions
from quicksilver.stdx.text import printable
from quicksilver.wire import local

LOG = logging.getLogger("quicksilver.controller")

TICK_S = 0.25
"""How often the controller looks for what nobody has told it."""
LINGER_S = 10.0
"""How long what an application has sent may wait for the node after the application is gone."""
CLOSE_S = 5.0
PAUSE_S = 1.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerOptions:
    """Settings of a controller."""

    path: str
    """Where it listens: a Unix socket."""
    gms: str
    """The GMS of its node, as ``host:port``."""
    node: NodeOptions
    """Options of its node."""
    ring_bytes: int = 4 << 20
    """Memory of each group for messages that applications have not read; a power of two."""
    groups_max: int = 1024
    """Groups that the applications may have joined together."""
    applications_max: int = 256
    failure_timeout_s: float = 3.0
    """An application that holds others up and does not answer for so long is cut off."""


class Controller:
    """Serves applications until it is closed; lives in one event loop."""

    def __init__(self, options: ControllerOptions) -> None:
        """Take the path; raises SocketPathError, and what keeps a node from being made."""
        if not is_supported():
            raise NeedsNodeError("a machine without Linux 5.1 or newer on x86-64")
        self.options = options
        self._listener = listen_local(options.path)
        try:
            self.core = NodeCore(options.gms, replace(options.node, on_unconfirmed=self._note_lost))
        except BaseException:
            self._close_listener()
            raise
        self.applications: set[Application] = set()
        self.cut_offs = 0
        """How many applications were cut off or have died."""
        self._loop = asyncio.get_running_loop()
        self._memberships = Memberships(
            self.core,
            ring_bytes=options.ring_bytes,
            groups_max=options.groups_max,
            on_view=self._later(self._tell_view),
            on_emptiness=self._later(self._tell_emptiness),
            on_room=self._later(self._read_held),
        )
        self._number = 0
        self._identity = (0, 0)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._ended: asyncio.Future[None] = self._loop.create_future()

    # Life

    async def start(self) -> None:
        """Connect the node, then let applications in; raises what keeps it from that."""
        self.core.start()
        await wait_for_core(self.core, self.core.welcome)
        self._identity = (self.core.session.node, self.core.session.cluster)
        self._loop.add_reader(self._listener.fileno(), self._accept)
        self._spawn(self._tick())

    async def wait(self) -> None:
        """Wait until the node has failed; raises why."""
        await self._ended

    async def close(self) -> None:
        """Let the applications go, send what they have sent, and leave the cluster."""
        self._loop.remove_reader(self._listener.fileno())
        self._close_listener()
        for application in list(self.applications):
            application.refuse("the controller ends")
        if self.core.failure is None and not self.core.is_closed:
            with suppress(QuicksilverError, TimeoutError):
                await asyncio.wait_for(asyncio.wrap_future(self.core.flush()), CLOSE_S)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.to_thread(self.core.close)

    def _close_listener(self) -> None:
        self._listener.close()
        with suppress(OSError):
            os.unlink(self.options.path)

    def _spawn(self, work: Awaitable[Any]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._handle_done)

    def _handle_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None and not self._ended.done():
            self._ended.set_exception(task.exception())  # type: ignore[arg-type]  # not None

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except BlockingIOError:
            return
        except OSError as error:
            self._pause_accepting(error)
            return
        stream = LocalStream(sock, local.FRAME_BYTES_MAX, OUT_BYTES_MAX)
        if stream.peer_user() not in (os.geteuid(), 0):
            stream.close()
            return
        self._number += 1
        try:
            application = Application(self, stream, self._number, self._loop)
        except OSError as error:
            stream.close()
            self._pause_accepting(error)
            return
        self.applications.add(application)
        if len(self.applications) > self.options.applications_max:
            application.refuse(f"it has {self.options.applications_max} applications already")

    def _pause_accepting(self, error: OSError) -> None:
        """There are too many open files, say: try again in a moment instead of all the time."""
        LOG.warning("no application can connect: %s", error.strerror)
        descriptor = self._listener.fileno()
        self._loop.remove_reader(descriptor)

        def go_on() -> None:
            if self._listener.fileno() == descriptor:
                self._loop.add_reader(descriptor, self._accept)

        self._loop.call_later(PAUSE_S, go_on)

    # Frames

    def handle_frame(self, application: Application, frame: local.FromApplication) -> None:
        if isinstance(frame, local.Hello):
            if frame.version != local.VERSION:
                application.refuse(
                    f"it speaks version {local.VERSION}, the application {frame.version}"
                )
                return
            application.name = frame.name[:255]
            LOG.info("application %d (%s) connected", application.number, printable(frame.name))
            application.welcome(*self._identity, self.core.session.name)
        elif isinstance(frame, local.Subscribe):
            self._spawn(self._subscribe(application, frame))
        elif isinstance(frame, local.Ask):
            self._spawn(self._count(application, frame.request))

    async def _count(self, application: Application, request: int) -> None:
        with suppress(QuicksilverError):
            stats = await asyncio.to_thread(self.core.stats)
            application.tell(local.Counted(request, msgspec.Raw(encode(stats))))

    async def _subscribe(self, application: Application, wanted: local.Subscribe) -> None:
        async with application.lock:
            try:
                frame, descriptors = await self._memberships.change(application, wanted)
            except (QuicksilverError, ValueError, OSError) as error:
                application.tell(local.Refused(wanted.request, str(error)))
                return
            application.tell(frame, descriptors)
            for sink in self._memberships.sinks_of(application, (*wanted.join, *wanted.open)):
                if sink.view is not None:
                    application.tell_view(sink.view, is_member=sink.is_member)
            if application.is_gone:
                await self._memberships.forget(application)

    # News of the core (called on the core thread)

    def _later(self, work: Callable[..., None]) -> Callable[..., None]:
        """Return what has the loop call something soon."""

        def call(*arguments: Any) -> None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(work, *arguments)

        return call

    def _note_lost(self, messages: Unconfirmed) -> None:
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._tell_lost, messages)

    # The same on the loop

    def _tell_view(self, sink: LocalSink, view: View) -> None:
        for application in self._users(sink):
            application.tell_view(view, is_member=sink.is_member)

    def _tell_emptiness(self, sink: LocalSink) -> None:
        sender = sink.sender
        if sender is not None:
            for application in self._users(sink):
                application.tell(local.EmptinessTold(sink.name, sender.is_empty, sender.empty))
        self._read_held(sink)

    def _tell_lost(self, messages: Unconfirmed) -> None:
        for application in list(self.applications):
            if not messages.group or messages.group in application.sent:
                application.tell_lost(messages)

    def _read_held(self, sink: LocalSink | None = None) -> None:
        """Try again to queue what applications have sent and the node could not take."""
        del sink
        for application in list(self.applications):
            if application.held is not None:
                application.read_own()

    def _users(self, sink: LocalSink) -> list[Application]:
        return [each for each in self.applications if sink.name in each.names_of(sink.is_member)]

    # What applications send

    def queue(self, application: Application, sent: Sent) -> bool:
        number, payloads, is_enveloped = sent
        name = application.names[number]
        session = self.core.session
        joined, sender = self._memberships.find(name)
        if sender is None or self.core.failure is not None:
            return True  # it has left the group: nobody is promised anything
        lane = sender.lane
        size = sum(map(len, payloads))
        if joined is not None and joined.pending:
            return False
        if sender.is_empty and sender.empty == "wait" and not session.may_wait(sender, size):
            return False
        if lane.room < 0:
            if self._tell_room not in lane.on_room:
                lane.on_room.append(self._tell_room)
            if lane.room < 0:
                return False
        if joined is not None:
            joined.origins.add(application.number, payloads, is_enveloped=is_enveloped)
        if is_enveloped:
            for payload in payloads:
                session.put_enveloped(sender, payload)
        else:
            is_even = all(len(payload) == len(payloads[0]) for payload in payloads)
            lane.outbox.put_all(sender, payloads, is_even=is_even)
            lane.room -= size  # no call in between: see ``SendQueue``
        if self.core.thread.is_sleeping and not lane.is_blocked:
            self.core.thread.wake()
        return True

    def handle_progress(self) -> None:
        for sink in self._memberships.joined():
            if sink.pending:
                self.core.call(sink.write_pending)

    def _tell_room(self) -> None:
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._read_held)

    def flush(self, application: Application, number: int) -> None:
        self._spawn(self._flush(application, number))

    async def _flush(self, application: Application, number: int) -> None:
        # What may be lost was noted for the application before the flush ends, except what only
        # the flush itself has found out.
        try:
            await asyncio.wrap_future(self.core.flush())
        except UnconfirmedError as error:
            for each in error.messages:
                if each.reason is Reason.NETWORKS:
                    self._tell_lost(each)
        except QuicksilverError:
            pass
        self.core.check_alive()
        application.tell_flushed(number)

    # Applications that end or do not answer

    def handle_gone(self, application: Application, reason: str) -> None:
        LOG.info("application %d is gone: %s", application.number, printable(reason))
        self.cut_offs += 1
        self._spawn(self._bury(application))

    async def _bury(self, application: Application) -> None:
        """Send what it had sent, leave its groups and release its memory."""
        # Nobody waits for it from now on.
        for sink in self._memberships.joined():
            if application in sink.readers:
                await run_on_core(self.core, partial(sink.detach, application))
        until = self._loop.time() + LINGER_S
        while not application.read_own() and self._loop.time() < until:  # noqa: ASYNC110  # several things make room
            await asyncio.sleep(TICK_S / 10)
        async with application.lock:
            await self._memberships.forget(application)
        self.applications.discard(application)
        application.release()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self.core.check_alive()
            session = self.core.session
            identity = (session.node, session.cluster)
            if identity != self._identity and identity[0]:
                self._identity = identity
                for application in list(self.applications):
                    application.tell(local.NodeTold(*identity))
            await self._look_at_holders()
            self._read_held()

    async def _look_at_holders(self) -> None:
        """Ask applications that hold others up whether they are there; cut off the silent."""
        holders: set[Application] = set()
        for sink in self._memberships.joined():
            if sink.pending:
                holders.update(await run_on_core(self.core, partial(_press, sink)))
        now = self._loop.time()
        for application in list(self.applications):
            if application not in holders:
                application.pinged_at = None
            elif application.pinged_at is None:
                application.pinged_at = now
                application.tell(local.AreYouThere())
            elif now - application.pinged_at > self.options.failure_timeout_s:
                application.refuse("it held others up and did not answer")


def _press(sink: LocalSink) -> Iterable[Application]:
    """Write what can be written (core thread); return who keeps the rest from it."""
    sink.write_pending()
    return sink.holders()
