"""The runtime of live objects in one process: what proxies run in."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Coroutine, Iterable, Mapping, MutableMapping
from typing import Any, Protocol, TypeVar, runtime_checkable

from quicksilver.live.references.catalogue import Catalogue, load_installed
from quicksilver.live.references.library import LibraryPolicy
from quicksilver.live.references.model import Reference
from quicksilver.live.references.standard import add_standard
from quicksilver.live.references.xml import Parsed
from quicksilver.live.runtime.allowance import Allowance
from quicksilver.live.runtime.cells import Cell, Closeable
from quicksilver.live.runtime.components import Components
from quicksilver.live.runtime.connections import Attachment, Connection, attach, connect
from quicksilver.live.runtime.endpoints import EndpointReference, EndWatch, Handler, OnViolation
from quicksilver.live.runtime.errors import (
    ClosedError,
    ComponentFailedError,
    NoServiceError,
    WrongThreadError,
)
from quicksilver.live.runtime.executors import Executor
from quicksilver.live.runtime.folders import Library, Registry
from quicksilver.live.runtime.opening import Opener
from quicksilver.live.runtime.promises import Promise, Task, TaskCancelled
from quicksilver.live.runtime.proxies import Proxy, cast_proxy
from quicksilver.live.types.convert import Converters
from quicksilver.live.types.model import ObjectType
from quicksilver.live.types.reflect import value_type_of
from quicksilver.live.types.subtyping import Checker, check_match, standard_checker
from quicksilver.stdx.rand import Rng

LOOK_S = 0.02
"""Between two looks at components: what they wait for has no single place to tell it."""


@runtime_checkable
class Flushing(Protocol):
    """A service that takes things which arrive later."""

    def flush(self, done: Callable[[], None]) -> None:
        """Call back on the executor when all that was sent has arrived, or cannot any more."""


class _SettleWait:
    """A wait until what was asked for here has reached the others, before objects are closed.

    A component that keeps something on its way has an attribute ``is_settled``, False
    while it does; services have ``flush``. ``promise`` is kept with the names of those
    who were not done in time.
    """

    def __init__(self, runtime: Runtime, services: Iterable[object], timeout_s: float) -> None:
        self._runtime = runtime
        self._services = [one for one in services if isinstance(one, Flushing)]
        self._until = runtime.executor.now() + timeout_s
        self._flushing = 0
        self._is_flushed = False
        self.promise: Promise[list[str]] = Promise()
        self._look()

    def _look(self) -> None:
        names = [cell.name for cell in tuple(self._runtime.cells) if not cell.is_settled()]
        if not names and not self._is_flushed:
            # Only now: components give the services their last when they are ready for it.
            self._flush()
        if not names and self._is_flushed and not self._flushing:
            self.promise.keep([])
        elif self._runtime.executor.now() >= self._until:
            self.promise.keep(names or ["the network"])
        else:
            self._runtime.executor.call_later(LOOK_S, self._look)

    def _flush(self) -> None:
        self._is_flushed = True
        self._flushing = len(self._services)
        for service in self._services:
            service.flush(self._note_flushed)

    def _note_flushed(self) -> None:
        self._flushing -= 1


S = TypeVar("S")
T = TypeVar("T")

_LOG = logging.getLogger(__name__)

FAILURES_KEPT_MAX = 1000


class Runtime:
    """Runs objects on one executor. All methods are called there."""

    def __init__(
        self,
        executor: Executor,
        *,
        seed: int = 0,
        registry: Mapping[str, Reference] | None = None,
        policy: LibraryPolicy | None = None,
        services: Mapping[type, object] | None = None,
        checker: Checker | None = None,
        components: Iterable[type] = (),
        on_failure: Callable[[ComponentFailedError], None] | None = None,
        folder_timeout_s: float = 30.0,
    ) -> None:
        self.executor = executor
        self.catalogue = Catalogue()
        self.components = Components()
        self.registry: MutableMapping[str, Reference] = dict(registry or {})
        """The folder that this node keeps for itself."""
        self.policy = policy if policy is not None else LibraryPolicy()
        self.checker = checker if checker is not None else standard_checker()
        self.converters = Converters(self.checker)
        self.opener = Opener(self)
        self.folder_timeout_s = folder_timeout_s
        self.failures: list[ComponentFailedError] = []
        """What components raised, oldest first; at most ``FAILURES_KEPT_MAX``."""
        self._on_failure = on_failure
        self._services: dict[type, object] = dict(services or {})
        self._rng = Rng(seed)
        self._proxies: weakref.WeakSet[Proxy] = weakref.WeakSet()
        self.cells: dict[Cell, None] = {}
        """All components that run, oldest first."""
        self._opening: dict[Task[Proxy], None] = {}
        self._when_closed: list[Callable[[], Any]] = []
        self._is_closed = False
        add_standard(self.catalogue)
        load_installed(self.catalogue)
        self.add_components((Registry, Library))
        self.add_components(components)

    # What it can run

    def add_components(self, classes: Iterable[type]) -> None:
        """Make component classes known to references."""
        for cls in classes:
            self.components.add(cls, self.catalogue)

    def provide(self, kind: type[T], service: T) -> None:
        """Give components something of the outside, such as a network."""
        self._services[kind] = service

    def service(self, kind: type[T]) -> T:
        """Return the service of a kind; raises NoServiceError."""
        found = self._services.get(kind)
        if found is None:
            hint = (getattr(kind, "MISSING_HINT", "") or "it was started without one").strip()
            raise NoServiceError(kind.__name__, hint)
        return found  # type: ignore[return-value]  # provide() pairs them

    def derive_rng(self, name: str) -> Rng:
        """Return a stream of chance of its own for a name."""
        return self._rng.derive(name)

    # Objects

    def open(
        self, reference: Reference | Parsed, name: str = "", *, allowance: Allowance | None = None
    ) -> Task[Proxy]:
        """Dereference; the task's result is the proxy. Whoever holds it must close it.

        It raises UnsoundReferenceError, OpenError or ClosedError. With an allowance
        the object is a guest: that limits what it, and all that it opens, may start.
        """
        self._check_here()
        task = Task(self._open(reference, name, allowance))
        if not task.is_done:
            self._opening[task] = None
            task.when_done(lambda _: self._opening.pop(task))
        return task

    async def _open(
        self, reference: Reference | Parsed, name: str, allowance: Allowance | None
    ) -> Proxy:
        if self._is_closed:
            raise ClosedError("the runtime")
        try:
            proxy = await self.opener.open(reference, name, allowance=allowance)
        except TaskCancelled:
            if self.is_closed:
                raise ClosedError("the runtime") from None
            raise
        if self.is_closed:  # meanwhile
            proxy.close()
            raise ClosedError("the runtime")
        self._proxies.add(proxy)
        return proxy

    def cast(self, proxy: Proxy, type_: ObjectType) -> Task[Proxy]:
        """See a proxy as a type; if it is not of the type, a wrapper may make it one (2.1.4 F).

        The task raises CastError if there is none, and OpenError if it does not start.
        """
        return Task(cast_proxy(self, proxy, type_))

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> Task[T]:
        """Run a coroutine that waits for promises."""
        return Task(coroutine)

    def check_match(self, one: EndpointReference, other: EndpointReference) -> str | None:
        """Return why two endpoints do not match (2.1), registered converters counted; or None."""
        problem = check_match(self.checker, one.type, other.type, self.converters.conversions)
        return None if problem is None else problem.line

    def add_converter(self, source: type[S], target: type[T], convert: Callable[[S], T]) -> None:
        """Convert one class to another at connections; the static check knows it as well."""
        self.converters.register(source, target, convert)
        self.catalogue.add_conversion(value_type_of(source), value_type_of(target))

    def connect(self, one: EndpointReference, other: EndpointReference) -> Connection:
        """Join two endpoints; raises ConnectError or ClosedError."""
        self._check_here()
        return connect(self, one, other)

    def attach(
        self,
        endpoint: EndpointReference,
        handlers: Mapping[str, Handler] | Callable[..., Any] | None = None,
        *,
        name: str = "application",
        on_disconnected: Callable[[], None] | None = None,
    ) -> Attachment:
        """Connect plain functions to an endpoint; raises ConnectError."""
        self._check_here()
        return attach(self, endpoint, handlers, name=name, on_disconnected=on_disconnected)

    def watch(self, endpoint: EndpointReference, on_violation: OnViolation) -> None:
        """Check from now on that both sides of an endpoint keep its constraints."""
        end = endpoint.end
        end.watch = EndWatch(self, end, on_violation)
        if end.connection is not None:
            end.watch.note_connection(is_open=True)
            end.connection.bind()

    # Ends

    def settle(self, timeout_s: float) -> Promise[list[str]]:
        """Wait until what was asked for here has reached the others.

        The promise is kept with the names of components that were not done in time:
        closed now, they may lose something.
        """
        self._check_here()
        return _SettleWait(self, self._services.values(), timeout_s).promise

    def report(self, failure: ComponentFailedError) -> None:
        """Take note of a component that raised."""
        if len(self.failures) < FAILURES_KEPT_MAX:
            self.failures.append(failure)
        if self._on_failure is not None:
            try:
                self._on_failure(failure)
            except Exception:  # noqa: BLE001  # whoever is told must not make it worse
                _LOG.exception("a listener to failures of components failed")

    def dispose(self, owned: tuple[Closeable, ...]) -> None:
        """Close what a proxy held that nobody holds any more; from any thread."""
        if self._is_closed:
            return

        def close() -> None:
            for one in reversed(owned):
                one.close()

        self.executor.post(close)

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._is_closed

    def close(self) -> None:
        """Close all that is still open; the executor is its owner's to close."""
        if self._is_closed:
            return
        self._check_here()
        self._is_closed = True
        for task in list(self._opening):
            task.cancel()
        for proxy in sorted(self._proxies, key=lambda proxy: proxy.name):
            proxy.close()
        # What is left belongs to proxies that nobody holds any more.
        for cell in reversed(list(self.cells)):
            cell.close()
        callbacks, self._when_closed = self._when_closed, []
        for callback in reversed(callbacks):
            callback()

    def when_closed(self, callback: Callable[[], Any]) -> None:
        """Call back when all is closed: for services that were made for this runtime."""
        self._when_closed.append(callback)

    def _check_here(self) -> None:
        if not self.executor.is_here:
            raise WrongThreadError
