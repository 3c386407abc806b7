"""Live objects in a few lines.

In asyncio:

    from quicksilver import live

    async with live.platform("127.0.0.1:7401", registry="registry/") as platform:
        async with await platform.open("notes.liveobject") as notes:
            text = notes.attach("Text", {"changed": print})
            text.port.edit(0, 0, "hello")
            await platform.settle()  # until the others have it

In scripts and threads, where every call waits until it is done:

    with live.platform_in_thread("127.0.0.1:7401") as platform:
        with platform.open("notes.liveobject") as notes:
            text = notes.attach("Text", {"changed": print})
            text.say("edit", 0, 0, "hello")

Without an address, groups are those of this process alone. Functions that are
attached run on the platform's executor: in asyncio on the loop, otherwise on a
thread of the platform's.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from quicksilver.live.components.library import equip
from quicksilver.live.components.platform.encryption import KeyRing
from quicksilver.live.components.platform.hosting import Host
from quicksilver.live.references.library import LibraryPolicy
from quicksilver.live.references.model import Reference
from quicksilver.live.references.xml import Parsed, load, load_registry
from quicksilver.live.runtime.connections import Attachment
from quicksilver.live.runtime.endpoints import EndpointReference, Handler, OnViolation
from quicksilver.live.runtime.errors import ComponentFailedError, NoEndpointError
from quicksilver.live.runtime.executors import AsyncioExecutor, Executor, ThreadExecutor
from quicksilver.live.runtime.proxies import Proxy
from quicksilver.live.runtime.runtime import Runtime
from quicksilver.live.services.datagrams import Datagrams, SocketDatagrams
from quicksilver.live.services.groups import Groups
from quicksilver.live.services.local import LocalGroups, LocalNetwork
from quicksilver.live.services.on_node import NodeGroups
from quicksilver.live.services.storage import FileStorage, SharedFiles, Storage

Openable: TypeAlias = str | Path | Reference | Parsed
"""A ``.liveobject`` file, or what was read from one."""
Handlers: TypeAlias = Mapping[str, Handler] | Callable[..., Any] | None
Registry: TypeAlias = str | Path | Mapping[str, Reference] | None
LOOPBACK: Final = "127.0.0.1"
SETTLE_S: Final = 5.0
"""How long ``settle`` waits if it is not told."""
OnFailure: TypeAlias = Callable[[ComponentFailedError], None]


class PlatformOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What this node gives to objects, and allows them."""

    registry: Registry = None
    """What external references lead to: a directory of files, or a mapping of references."""

    libraries: Sequence[str] = ()
    """Places that code may be loaded from."""

    keys: str | Path | None = None
    """A directory of key files, for encryption."""

    store: str | Path | None = None
    """A directory where objects keep what must survive."""

    files: str | Path | None = None
    """A directory whose databases and spreadsheets objects may open."""

    host: Host | None = None
    """What guests of platform objects may do here; None: there are no guests."""

    on_failure: OnFailure | None = None
    """Told of each component that fails."""


def make_runtime(
    executor: Executor, options: PlatformOptions, interface: str = LOOPBACK
) -> Runtime:
    """Return a runtime with the whole library, and what this node allows.

    Datagrams go through the interface with the address ``interface``.
    """
    registry = options.registry
    if isinstance(registry, str | Path):
        registry = load_registry(Path(registry)).references
    runtime = Runtime(
        executor,
        seed=secrets.randbits(63),
        registry=registry,
        policy=LibraryPolicy(sources=tuple(options.libraries)),
        on_failure=options.on_failure,
    )
    equip(runtime)
    if options.keys is not None:
        runtime.provide(KeyRing, KeyRing.load(Path(options.keys)))
    if options.host is not None:
        runtime.provide(Host, options.host)
    if options.store is not None:
        storage = FileStorage(Path(options.store))
        runtime.provide(Storage, storage)
        runtime.when_closed(storage.close)
    if options.files is not None:
        runtime.provide(SharedFiles, SharedFiles(options.files))
    runtime.provide(Datagrams, SocketDatagrams(executor, interface))
    return runtime


def _split(options: dict[str, Any]) -> tuple[PlatformOptions, dict[str, Any]]:
    """Return the options of a platform, and those that are left: of its node."""
    mine = options.keys() & set(PlatformOptions.__struct_fields__)
    node_options = {name: value for name, value in options.items() if name not in mine}
    return PlatformOptions(**{name: options[name] for name in mine}), node_options


def read(target: Openable) -> Reference | Parsed:
    """Return a reference; raises OSError or MalformedReferenceError if a file is none."""
    return load(Path(target)) if isinstance(target, str | Path) else target


class _Object:
    """A running object, whoever holds it."""

    def __init__(self, runtime: Runtime, proxy: Proxy) -> None:
        self._runtime = runtime
        self.proxy = proxy

    @property
    def endpoints(self) -> list[str]:
        """Names of the endpoints that are free."""
        return list(self._free())

    @property
    def failures(self) -> list[ComponentFailedError]:
        """What went wrong in its components."""
        return self.proxy.failures

    def _free(self) -> dict[str, EndpointReference]:
        names = sorted(self.proxy.type.by_name)
        found = {name: self.proxy.endpoint(name) for name in names}
        return {name: one for name, one in found.items() if not one.is_connected}

    def _find(self, name: str) -> EndpointReference:
        if name:
            return self.proxy.endpoint(name)
        free = self._free()
        if len(free) != 1:
            known = ", ".join(free) or "none"
            raise NoEndpointError(self.proxy.name, "", f"{known}; say which")
        return next(iter(free.values()))


class LiveObject(_Object):
    """A running object in asyncio; leaving its context closes it."""

    def attach(
        self,
        endpoint: str = "",
        handlers: Handlers = None,
        *,
        on_disconnected: Callable[[], None] | None = None,
    ) -> Attachment:
        """Connect functions to an endpoint, by default the only one that is free."""
        return self._runtime.attach(self._find(endpoint), handlers, on_disconnected=on_disconnected)

    def watch(self, on_violation: OnViolation) -> None:
        """Check from now on that promises are kept, at all endpoints."""
        for one in self.proxy.endpoints():
            self._runtime.watch(one, on_violation)

    def close(self) -> None:
        """End it."""
        self.proxy.close()

    async def __aenter__(self) -> LiveObject:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


class Platform:
    """Where objects run, in asyncio; made by ``platform``."""

    def __init__(self, runtime: Runtime, executor: AsyncioExecutor) -> None:
        self.runtime = runtime
        self.executor = executor

    def add_components(self, *classes: type) -> None:
        """Let references use component classes of this program."""
        self.runtime.add_components(classes)

    async def settle(self, timeout_s: float = SETTLE_S) -> list[str]:
        """Wait until what was asked for here has reached the others; return who was not done."""
        return await self.executor.future(self.runtime.settle(timeout_s))

    async def open(self, target: Openable, name: str = "") -> LiveObject:
        """Dereference a file or a reference; raises what is wrong with it."""
        proxy = await self.executor.future(self.runtime.open(read(target), name))
        return LiveObject(self.runtime, proxy)


@asynccontextmanager
async def platform(
    gms: str | None = None, *, network: LocalNetwork | None = None, **options: Any
) -> AsyncIterator[Platform]:
    """Run objects on this loop, in the groups of the GMS at ``host:port``.

    Without an address, in groups of this process; several platforms may share a
    ``network`` of that kind. Options are fields of ``PlatformOptions``; all others are
    fields of ``NodeOptions``.
    """
    from quicksilver.node.aio import connect

    mine, node_options = _split(options)
    executor = AsyncioExecutor()
    runtime = make_runtime(executor, mine)
    async with AsyncExitStack() as stack:
        stack.callback(runtime.close)  # if no node can be connected
        if gms is None:
            runtime.provide(Groups, LocalGroups(network or LocalNetwork(), executor))
        else:
            node = await stack.enter_async_context(connect(gms, **node_options))
            runtime.provide(Groups, NodeGroups(node, executor))
        try:
            yield Platform(runtime, executor)
        finally:
            runtime.close()
            await asyncio.sleep(0)  # what was posted on the way out


class SyncAttachment:
    """Functions at an endpoint, used from other threads."""

    def __init__(self, executor: ThreadExecutor, attachment: Attachment) -> None:
        self._executor = executor
        self._attachment = attachment

    @property
    def is_connected(self) -> bool:
        """Whether the endpoint is still there."""
        return self._attachment.is_connected

    def say(self, event: str, *values: Any) -> None:
        """Send an event into the endpoint; raises AttributeError if it has none of that name."""
        self._executor.call(lambda: getattr(self._attachment.port, event)(*values))

    def close(self) -> None:
        """Part from the endpoint."""
        self._executor.call(self._attachment.close)


class SyncObject(_Object):
    """A running object, used from other threads; leaving its context closes it."""

    def __init__(self, runtime: Runtime, proxy: Proxy, executor: ThreadExecutor) -> None:
        super().__init__(runtime, proxy)
        self._executor = executor

    def attach(
        self,
        endpoint: str = "",
        handlers: Handlers = None,
        *,
        on_disconnected: Callable[[], None] | None = None,
    ) -> SyncAttachment:
        """Connect functions to an endpoint; they are called on the platform's thread."""
        made = self._executor.call(
            lambda: self._runtime.attach(
                self._find(endpoint), handlers, on_disconnected=on_disconnected
            )
        )
        return SyncAttachment(self._executor, made)

    def watch(self, on_violation: OnViolation) -> None:
        """Check from now on that promises are kept, at all endpoints."""

        def begin() -> None:
            for one in self.proxy.endpoints():
                self._runtime.watch(one, on_violation)

        self._executor.call(begin)

    def close(self) -> None:
        """End it."""
        self._executor.call(self.proxy.close)

    def __enter__(self) -> SyncObject:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SyncPlatform:
    """Where objects run, on a thread; made by ``platform_in_thread``."""

    def __init__(self, runtime: Runtime, executor: ThreadExecutor) -> None:
        self.runtime = runtime
        self.executor = executor

    def add_components(self, *classes: type) -> None:
        """Let references use component classes of this program."""
        self.executor.call(lambda: self.runtime.add_components(classes))

    def settle(self, timeout_s: float = SETTLE_S) -> list[str]:
        """Wait until what was asked for here has reached the others; return who was not done."""
        return self.executor.call(lambda: self.runtime.settle(timeout_s))

    def open(self, target: Openable, name: str = "") -> SyncObject:
        """Dereference a file or a reference; raises what is wrong with it."""
        reference = read(target)
        proxy = self.executor.call(lambda: self.runtime.open(reference, name))
        return SyncObject(self.runtime, proxy, self.executor)


@contextmanager
def platform_in_thread(
    gms: str | None = None, *, network: LocalNetwork | None = None, **options: Any
) -> Iterator[SyncPlatform]:
    """Run objects on a thread of their own; see ``platform`` for the arguments."""
    from quicksilver.node.sync import connect

    mine, node_options = _split(options)
    with ExitStack() as stack:
        executor = ThreadExecutor()
        stack.callback(executor.close)
        runtime = make_runtime(executor, mine)
        stack.callback(executor.call, runtime.close)  # if no node can be connected
        if gms is None:
            runtime.provide(Groups, LocalGroups(network or LocalNetwork(), executor))
        else:
            node = stack.enter_context(connect(gms, **node_options))
            runtime.provide(Groups, NodeGroups(node, executor))
        try:
            yield SyncPlatform(runtime, executor)
        finally:
            executor.call(runtime.close)
            executor.call(lambda: None)  # what was posted on the way out
