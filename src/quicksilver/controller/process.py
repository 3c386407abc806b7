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
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec

from quicksilver.controller.application import Application, Sent, encode
from quicksilver.controller.local_group import LocalSink
from quicksilver.membership.names import check_group_name
from quicksilver.multicast.sending.behind import Behind, parse_behind
from quicksilver.multicast.sending.empty import EMPTY_CHOICES
from quicksilver.multicast.sending.unconfirmed import Unconfirmed
from quicksilver.net.local_socket import LocalStream, listen_local
from quicksilver.net.shared_ring import is_supported
from quicksilver.node.core import NodeCore
from quicksilver.node.errors import NeedsNodeError, QuicksilverError
from quicksilver.node.messages import View
from quicksilver.node.options import NodeOptions
from quicksilver.node.promises import fail, settle
from quicksilver.stdx.text import printable
from quicksilver.wire import local

LOG = logging.getLogger("quicksilver.controller")

TICK_S = 0.25
"""How often the controller looks for what nobody has told it."""
LINGER_S = 10.0
"""How long what an application has sent may wait for the node after the application is gone."""
CLOSE_S = 5.0

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


class _Group:
    """A group as the controller has it for its applications."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0
        """Who has the lock or waits for it: the group is not forgotten meanwhile."""
        self.joined: LocalSink | None = None
        self.opened: LocalSink | None = None
        self.behind: str | None = None
        """What the first application chose that chose at all; the same for …"""
        self.empty: str | None = None

    def sinks(self) -> list[LocalSink]:
        return [sink for sink in (self.joined, self.opened) if sink is not None]


class _RefusalError(QuicksilverError):
    """A request that cannot be granted."""


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
        self._groups: dict[str, _Group] = {}
        self._number = 0
        self._identity = (0, 0)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._ended: asyncio.Future[None] = self._loop.create_future()

    # Life

    async def start(self) -> None:
        """Connect the node, then let applications in; raises what keeps it from that."""
        self.core.start()
        await self._wait(self.core.welcome)
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
        except OSError:
            return
        stream = LocalStream(sock, local.FRAME_BYTES_MAX, 16 << 20)
        if stream.peer_user() not in (os.geteuid(), 0):
            stream.close()
            return
        self._number += 1
        application = Application(self, stream, self._number, self._loop)
        self.applications.add(application)
        if len(self.applications) > self.options.applications_max:
            application.refuse(f"it has {self.options.applications_max} applications already")

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
            had = application.joined | application.opened
            try:
                if len(application.names) + len(wanted.join) + len(wanted.open) > local.NAMES_MAX:
                    raise _RefusalError("the application has had too many groups; connect again")
                for name in wanted.leave:
                    await self._leave(application, name)
                for name in wanted.close:
                    await self._close(application, name)
                rings = [await self._join(application, name, wanted) for name in wanted.join]
                for name in wanted.open:
                    await self._open(application, name, wanted)
                places = [self._place(application, name) for name in (*wanted.join, *wanted.open)]
            except (QuicksilverError, ValueError, TimeoutError, OSError) as error:
                application.tell(local.Refused(wanted.request, _why(error)))
                for name in set(wanted.join) - had:
                    await self._leave(application, name)
                for name in set(wanted.open) - had:
                    await self._close(application, name)
                return
            frame = local.Subscribed(wanted.request, tuple(places), tuple(r for r, _ in rings))
            application.tell(frame, tuple(descriptor for _, descriptor in rings))
            for name in (*wanted.join, *wanted.open):
                self._tell_present_view(application, name)
            if application.is_gone:
                await self._forget(application)

    def _place(self, application: Application, name: str) -> local.Place:
        number = application.number_of(name)
        sender = self.core.session.find_sender(name)
        is_empty = sender is not None and sender.is_empty
        return local.Place(name, number, 0 if sender is None else sender.id, is_empty)

    def _tell_present_view(self, application: Application, name: str) -> None:
        group = self._groups.get(name)
        for sink in () if group is None else group.sinks():
            if sink.view is not None and name in _names(application, sink):
                application.tell_view(sink.view, is_member=sink.is_member)

    # Memberships: one of each group for the machine, however many applications want it

    async def _join(
        self, application: Application, name: str, wanted: local.Subscribe
    ) -> tuple[local.Ring, int]:
        check_group_name(name)
        if name in application.joined:
            raise _RefusalError(f"the application has joined {name!r} already")
        async with self._changing(name) as group:
            self._choose(group, name, wanted)
            if group.joined is None:
                if sum(each.joined is not None for each in self._groups.values()) >= (
                    self.options.groups_max
                ):
                    raise _RefusalError(f"its applications are in {self.options.groups_max} groups")
                sink = self._make_sink(name, is_member=True)
                await self._ask(group, sink)
                group.joined = sink
            slot = application.take_slot()
            if slot is None:
                raise _RefusalError("the application is in too many groups")
            sink = group.joined
            application.joined.add(name)
            ring = await self._on_core(lambda: sink.attach(application, slot, waits=wanted.waits))
            return ring, sink.descriptor

    async def _open(self, application: Application, name: str, wanted: local.Subscribe) -> None:
        check_group_name(name)
        async with self._changing(name) as group:
            self._choose(group, name, wanted)
            if group.opened is None:
                sink = self._make_sink(name, is_member=False)
                await self._ask(group, sink)
                group.opened = sink
            application.opened.add(name)

    async def _leave(self, application: Application, name: str) -> None:
        if name not in application.joined:
            return
        async with self._changing(name) as group:
            application.joined.discard(name)
            sink = group.joined
            if sink is None:
                return
            application.free_slot(await self._on_core(lambda: sink.detach(application)))
            if not sink.readers:
                group.joined = None
                sink.close()
                await self._wait(self.core.subscribe(leave=[name]))

    async def _close(self, application: Application, name: str) -> None:
        if name not in application.opened:
            return
        async with self._changing(name) as group:
            application.opened.discard(name)
            if not any(name in each.opened for each in self.applications):
                group.opened = None
                await self._wait(self.core.subscribe(close=[name]))

    @asynccontextmanager
    async def _changing(self, name: str) -> AsyncIterator[_Group]:
        """Have a group for oneself; it is forgotten when no application has it."""
        group = self._groups.setdefault(name, _Group())
        group.users += 1
        try:
            async with group.lock:
                yield group
        finally:
            group.users -= 1
            if not group.users and not group.sinks():
                del self._groups[name]

    def _choose(self, group: _Group, name: str, wanted: local.Subscribe) -> None:
        """Note what is to be done about members; the first choice of the machine holds."""
        if wanted.behind is not None:
            parse_behind(wanted.behind)
        if wanted.empty is not None and wanted.empty not in EMPTY_CHOICES:
            raise ValueError(f"empty is {wanted.empty!r}")
        for choice in ("behind", "empty"):
            old, new = getattr(group, choice), getattr(wanted, choice)
            if old is None:
                setattr(group, choice, new)
            elif new is not None and new != old:
                raise _RefusalError(
                    f"another application of this machine has opened {name!r} with "
                    f"{choice}={old!r}, which holds for all of them; choose the same"
                )

    async def _ask(self, group: _Group, sink: LocalSink) -> None:
        behind: Behind | None = None if group.behind is None else parse_behind(group.behind)
        empty: Any = group.empty
        asked = {"join" if sink.is_member else "open_": [sink]}
        future = self.core.subscribe(**asked, behind=behind, empty=empty)  # type: ignore[arg-type]  # of the two
        try:
            await self._wait(future)
        except BaseException:
            self.core.withdraw([sink])
            sink.close()
            raise

    async def _wait(self, future: Future[Any]) -> Any:
        limit = self.core.options.connect_timeout_s
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), limit)
        except TimeoutError as error:
            if isinstance(error, QuicksilverError):
                raise
            raise self.core.unreachable() from None

    async def _on_core(self, work: Callable[[], T]) -> T:
        """Have the core thread do something and wait for it."""
        future: Future[T] = self.core.promises.make()

        def run() -> None:
            try:
                settle(future, work())
            except Exception as error:  # noqa: BLE001  # whoever waits gets it
                fail(future, error)

        self.core.call(run)
        return await asyncio.wrap_future(future)

    # News of the core (called on the core thread)

    def _make_sink(self, name: str, *, is_member: bool) -> LocalSink:
        def later(work: Callable[..., None]) -> Callable[..., None]:
            def call(*arguments: Any) -> None:
                with suppress(RuntimeError):  # the loop has ended
                    self._loop.call_soon_threadsafe(work, *arguments)

            return call

        return LocalSink(
            self.core,
            name,
            self.options.ring_bytes,
            is_member=is_member,
            on_view=later(self._tell_view),
            on_emptiness=later(self._tell_emptiness),
            on_room=later(self._read_held),
        )

    def _note_lost(self, messages: Unconfirmed) -> None:
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._tell_lost, messages)

    # The same on the loop

    def _tell_view(self, sink: LocalSink, view: View) -> None:
        for application in self._users(sink):
            application.tell_view(view, is_member=sink.is_member)

    def _tell_emptiness(self, sink: LocalSink) -> None:
        if sink.sender is not None:
            for application in self._users(sink):
                application.tell(local.EmptinessTold(sink.name, sink.sender.is_empty))
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
        return [each for each in self.applications if sink.name in _names(each, sink)]

    # What applications send

    def queue(self, application: Application, sent: Sent) -> bool:
        number, payloads, is_enveloped = sent
        name = application.names[number]
        group, session = self._groups.get(name), self.core.session
        sinks = [] if group is None else group.sinks()
        sender = next((sink.sender for sink in sinks if sink.sender is not None), None)
        if sender is None or self.core.failure is not None:
            return True  # it has left the group: nobody is promised anything
        lane = sender.lane
        size = sum(map(len, payloads))
        assert group is not None
        if group.joined is not None and group.joined.pending:
            return False
        if sender.is_empty and sender.empty == "wait" and not session.may_wait(sender, size):
            return False
        if lane.room < 0:
            lane.on_room.append(self._tell_room)
            if lane.room < 0:
                return False
        if group.joined is not None:
            group.joined.origins.add(application.number, payloads, is_enveloped=is_enveloped)
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
        for group in self._groups.values():
            if group.joined is not None and group.joined.pending:
                self.core.call(group.joined.write_pending)

    def _tell_room(self) -> None:
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._read_held)

    def flush(self, application: Application, number: int) -> None:
        self._spawn(self._flush(application, number))

    async def _flush(self, application: Application, number: int) -> None:
        # What may be lost was noted for the application before the flush ends.
        with suppress(QuicksilverError):
            await asyncio.wrap_future(self.core.flush())
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
        for sink in [group.joined for group in self._groups.values()]:
            if sink is not None and application in sink.readers:
                await self._on_core(lambda sink=sink: sink.detach(application))  # type: ignore[misc]
        until = self._loop.time() + LINGER_S
        while not application.read_own() and self._loop.time() < until:  # noqa: ASYNC110  # several things make room
            await asyncio.sleep(TICK_S / 10)
        async with application.lock:
            await self._forget(application)
        self.applications.discard(application)
        application.release()

    async def _forget(self, application: Application) -> None:
        with suppress(QuicksilverError):
            for name in sorted(application.joined):
                await self._leave(application, name)
            for name in sorted(application.opened):
                await self._close(application, name)

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
        for sink in [group.joined for group in self._groups.values()]:
            if sink is not None and sink.pending:
                holders.update(await self._on_core(lambda sink=sink: _press(sink)))  # type: ignore[misc]
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


def _names(application: Application, sink: LocalSink) -> set[str]:
    return application.joined if sink.is_member else application.opened


def _why(error: Exception) -> str:
    return str(error).removeprefix("the controller refused: ") or type(error).__name__
