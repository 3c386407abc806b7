"""Which groups the controller's node is in: one membership for the machine, however many want it.

The node joins a group with the first application and leaves it with the last; the same goes for
groups that are opened for sending. All that one request needs is asked of the GMS at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import Future
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from quicksilver.controller.local_group import LocalSink
from quicksilver.membership.names import check_group_name
from quicksilver.multicast.sending.behind import parse_behind
from quicksilver.multicast.sending.empty import EMPTY_CHOICES
from quicksilver.multicast.sending.group import GroupSender
from quicksilver.node.core import NodeCore
from quicksilver.node.errors import QuicksilverError
from quicksilver.node.promises import fail, settle
from quicksilver.wire import local

if TYPE_CHECKING:
    from quicksilver.controller.application import Application

T = TypeVar("T")


class RefusalError(QuicksilverError):
    """A request that cannot be granted."""


class _Group:
    """A group as the controller has it for its applications."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0
        """Who has the lock or waits for it: the group is not forgotten meanwhile."""
        self.joined: LocalSink | None = None
        self.opened: LocalSink | None = None
        self.openers: set[Application] = set()
        self.behind: str | None = None
        """What the first application chose that chose at all; the same for …"""
        self.empty: str | None = None

    def sinks(self) -> list[LocalSink]:
        return [sink for sink in (self.joined, self.opened) if sink is not None]


class Memberships:
    """The groups of all applications; lives in the controller's loop."""

    def __init__(
        self,
        core: NodeCore,
        *,
        ring_bytes: int,
        groups_max: int,
        on_view: Callable[..., None],
        on_emptiness: Callable[..., None],
        on_room: Callable[..., None],
    ) -> None:
        self._core = core
        self._groups_max = groups_max
        self._groups: dict[str, _Group] = {}
        self._on_emptiness = on_emptiness
        self._make_sink = partial(
            LocalSink,
            core,
            ring_capacity=ring_bytes,
            on_view=on_view,
            on_emptiness=on_emptiness,
            on_room=on_room,
        )

    # What there is

    def joined(self) -> list[LocalSink]:
        """Return the groups that applications have joined."""
        return [group.joined for group in self._groups.values() if group.joined is not None]

    def find(self, name: str) -> tuple[LocalSink | None, GroupSender | None]:
        """Return what takes a group's messages, if applications have joined it, and how the group
        is sent to."""
        group = self._groups.get(name)
        if group is None:
            return None, None
        senders = (sink.sender for sink in group.sinks() if sink.sender is not None)
        return group.joined, next(senders, None)

    def sinks_of(self, application: Application, names: Iterable[str]) -> list[LocalSink]:
        """Return what an application has of some groups."""
        groups = [self._groups[name] for name in names if name in self._groups]
        sinks = [sink for group in groups for sink in group.sinks()]
        return [sink for sink in sinks if sink.name in application.names_of(sink.is_member)]

    # Changes

    async def change(
        self, application: Application, wanted: local.Subscribe
    ) -> tuple[local.Subscribed, tuple[int, ...]]:
        """Do what an application asks for; return the answer, and the descriptors of its rings.

        Raises RefusalError, or what the node raises; then nothing was joined or opened.
        """
        for name in wanted.leave:
            await self._leave(application, name)
        for name in wanted.close:
            await self._close(application, name)
        names = (*wanted.join, *wanted.open)
        for name in names:
            check_group_name(name)
        for name in wanted.join:
            if name in application.joined:
                raise RefusalError(f"the application has joined {name!r} already")
        if len(application.names) + len(names) > local.NAMES_MAX:
            raise RefusalError("the application has had too many groups; connect again")
        if len(wanted.join) > application.slots_left():
            raise RefusalError("the application is in too many groups")
        rings: list[tuple[local.Ring, int]] = []
        async with AsyncExitStack() as stack:
            # In one order for all, so that no two wait for each other.
            groups = {
                name: await stack.enter_async_context(self._changing(name))
                for name in sorted(set(names))
            }
            for name, group in groups.items():
                self._check_choices(group, name, wanted)
            await self._subscribe(groups, wanted)
            for name, group in groups.items():
                await self._choose(group, name, wanted)
            for name in wanted.join:
                sink = groups[name].joined
                assert sink is not None
                slot = application.take_slot()
                application.joined.add(name)
                attach = partial(sink.attach, application, slot, waits=wanted.waits)
                rings.append((await run_on_core(self._core, attach), sink.descriptor))
            for name in wanted.open:
                groups[name].openers.add(application)
                application.opened.add(name)
        places = tuple(self._place(application, name) for name in names)
        frame = local.Subscribed(wanted.request, places, tuple(ring for ring, _ in rings))
        return frame, tuple(descriptor for _, descriptor in rings)

    async def forget(self, application: Application) -> None:
        """Leave all that an application was in; it is gone, so nobody waits for the GMS."""
        for name in sorted(application.joined):
            await self._leave(application, name)
        for name in sorted(application.opened):
            await self._close(application, name)

    async def _subscribe(self, groups: dict[str, _Group], wanted: local.Subscribe) -> None:
        """Have the node join and open what it is not in yet."""
        joining = [name for name in dict.fromkeys(wanted.join) if groups[name].joined is None]
        opening = [name for name in dict.fromkeys(wanted.open) if groups[name].opened is None]
        if joining and len(self.joined()) + len(joining) > self._groups_max:
            raise RefusalError(f"its applications may be in {self._groups_max} groups together")
        made = [
            *(self._make_sink(name=name, is_member=True) for name in joining),
            *(self._make_sink(name=name, is_member=False) for name in opening),
        ]
        if not made:
            return
        future = self._core.subscribe(
            join=[sink for sink in made if sink.is_member],
            open_=[sink for sink in made if not sink.is_member],
        )
        try:
            await wait_for_core(self._core, future)
        except BaseException:
            self._core.withdraw(made)
            for sink in made:
                sink.close()
            raise
        for sink in made:
            if sink.is_member:
                groups[sink.name].joined = sink
            else:
                groups[sink.name].opened = sink

    async def _leave(self, application: Application, name: str) -> None:
        if name not in application.joined:
            return
        async with self._changing(name) as group:
            application.joined.discard(name)
            sink = group.joined
            assert sink is not None
            slot = await run_on_core(self._core, partial(sink.detach, application))
            application.free_slot(slot)
            if not sink.readers:
                group.joined = None
                sink.close()
                await self._wait_unless_gone(application, self._core.subscribe(leave=[name]))

    async def _close(self, application: Application, name: str) -> None:
        if name not in application.opened:
            return
        async with self._changing(name) as group:
            application.opened.discard(name)
            group.openers.discard(application)
            if not group.openers and group.opened is not None:
                group.opened = None
                await self._wait_unless_gone(application, self._core.subscribe(close=[name]))

    async def _wait_unless_gone(self, application: Application, future: Future[Any]) -> None:
        if not application.is_gone:
            await wait_for_core(self._core, future)

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

    def _place(self, application: Application, name: str) -> local.Place:
        number = application.number_of(name)
        _, sender = self.find(name)
        assert sender is not None
        return local.Place(name, number, sender.id, sender.is_empty, sender.empty)

    # What is to be done about members: the first choice holds for the machine

    def _check_choices(self, group: _Group, name: str, wanted: local.Subscribe) -> None:
        if wanted.behind is not None:
            parse_behind(wanted.behind)
        if wanted.empty is not None and wanted.empty not in EMPTY_CHOICES:
            raise ValueError(f"empty is {wanted.empty!r}")
        for choice, old, new in (
            ("behind", group.behind, wanted.behind),
            ("empty", group.empty, wanted.empty),
        ):
            if old is not None and new is not None and new != old:
                raise RefusalError(
                    f"another application of this machine has opened {name!r} with "
                    f"{choice}={old!r}, which holds for all of them; choose the same"
                )

    async def _choose(self, group: _Group, name: str, wanted: local.Subscribe) -> None:
        """Let the node do what was chosen; each change of memberships made it forget that."""
        group.behind = group.behind or wanted.behind
        group.empty = group.empty or wanted.empty
        behind, empty = group.behind, group.empty

        def choose() -> None:
            groups = self._core.session.engine.outgoing.groups
            if behind is not None:
                groups.set_behind(name, parse_behind(behind))
            if empty is not None:
                choice: Any = empty
                groups.set_empty(name, choice)

        if behind is not None or empty is not None:
            await run_on_core(self._core, choose)
            for sink in group.sinks():
                self._on_emptiness(sink)


async def wait_for_core(core: NodeCore, future: Future[T]) -> T:
    """Wait for an answer of the GMS; raises GmsUnreachableError if none comes in time."""
    try:
        return await asyncio.wait_for(asyncio.wrap_future(future), core.options.connect_timeout_s)
    except TimeoutError as error:
        if isinstance(error, QuicksilverError):
            raise
        raise core.unreachable() from None


async def run_on_core(core: NodeCore, work: Callable[[], T]) -> T:
    """Have the core thread do something, and wait for it."""
    future: Future[T] = core.promises.make()

    def run() -> None:
        try:
            settle(future, work())
        except Exception as error:  # noqa: BLE001  # whoever waits gets it
            fail(future, error)

    core.call(run)
    return await asyncio.wrap_future(future)
