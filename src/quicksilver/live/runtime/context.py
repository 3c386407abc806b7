"""What a component may ask of the runtime it runs in: time, chance, other objects, services."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from quicksilver.live.references.model import Reference
from quicksilver.live.runtime.allowance import Allowance
from quicksilver.live.runtime.connections import Connection
from quicksilver.live.runtime.endpoints import EndpointReference, Port
from quicksilver.live.runtime.errors import ClosedError, NoEndpointError
from quicksilver.live.runtime.promises import Promise, Task
from quicksilver.stdx.rand import Rng

if TYPE_CHECKING:
    from quicksilver.live.runtime.cells import Cell
    from quicksilver.live.runtime.executors import Timer
    from quicksilver.live.runtime.proxies import Proxy
    from quicksilver.live.runtime.runtime import Runtime

P = ParamSpec("P")
T = TypeVar("T")


class Context:
    """The world as one component sees it; ``self.context`` in its methods.

    All that a component starts here ends with it.
    """

    __slots__ = ("_cell", "_rng")

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._rng: Rng | None = None

    @property
    def name(self) -> str:
        """Where this component stands, for messages: ``text.channel``."""
        return self._cell.name

    @property
    def runtime(self) -> Runtime:
        """The runtime around."""
        return self._cell.runtime

    @property
    def rng(self) -> Rng:
        """Chance: seeded, so that a simulated run can be repeated."""
        if self._rng is None:
            self._rng = self._cell.runtime.derive_rng(self._cell.name)
        return self._rng

    def now(self) -> float:
        """Seconds from some fixed point; never goes back."""
        return self._cell.runtime.executor.now()

    def post(self, step: Callable[[], Any]) -> None:
        """Run a step soon, after what is under way; may be called from any thread."""
        self._cell.runtime.executor.post(self._cell.guard("a posted step", step))

    def call_later(self, delay_s: float, step: Callable[[], Any]) -> Timer:
        """Run a step after some time, unless the component has ended by then."""
        return self._cell.call_later(delay_s, "a timer", step)

    def guard(self, callback: Callable[P, Any]) -> Callable[P, None]:
        """Return a callback for a service: what it raises ends this component, no more."""

        def call(*values: P.args, **named: P.kwargs) -> None:
            try:
                callback(*values, **named)
            except Exception as error:  # noqa: BLE001  # a component's error stays with it
                self.fail(error)

        return call

    def sleep(self, seconds: float) -> Promise[None]:
        """Return a promise that is kept after some time: ``await self.context.sleep(1)``."""
        promise: Promise[None] = Promise()
        self.call_later(seconds, lambda: promise.keep(None))
        return promise

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> Task[T]:
        """Run a coroutine that waits for promises; its errors are the component's."""
        return self._cell.spawn(getattr(coroutine, "__name__", "a coroutine"), coroutine)

    def service(self, kind: type[T]) -> T:
        """Return what the runtime was given of this kind; raises NoServiceError."""
        return self._cell.runtime.service(kind)

    async def open(
        self, reference: Reference, name: str = "", *, allowance: Allowance | None = None
    ) -> Proxy:
        """Dereference: the new proxy lives until it is closed, or this component ends.

        With an allowance it is a guest, as is all that it opens.
        """
        cell = self._cell
        label = f"{cell.name}.{name}" if name else cell.name
        proxy = await cell.runtime.opener.open(reference, label, within=cell, allowance=allowance)
        if cell.is_over:
            proxy.close()
            raise ClosedError(cell.name)
        cell.hold(proxy)
        proxy.when_closed(lambda: cell.release(proxy))
        return proxy

    async def attach(self, port: Port, reference: Reference, name: str = "") -> Proxy:
        """Dereference, and connect a port of ours to the endpoint of the new proxy that matches."""
        proxy = await self.open(reference, name)
        mine = self.reference_to(port)
        runtime = self._cell.runtime
        try:
            endpoints = list(proxy.endpoints())
            if not endpoints:
                raise NoEndpointError(proxy.name, port._end.name, "none")
            fitting = [one for one in endpoints if runtime.check_match(mine, one) is None]
            self.connect(port, (fitting or endpoints)[0])  # if none matches, it says why
        except BaseException:
            proxy.close()
            raise
        return proxy

    def connect(self, port: Port | EndpointReference, other: EndpointReference) -> Connection:
        """Connect a port of ours, or any endpoint, to another; raises ConnectError."""
        cell = self._cell
        one = self.reference_to(port) if isinstance(port, Port) else port
        connection = cell.runtime.connect(one, other)
        cell.hold(connection)
        connection.when_closed(lambda: cell.release(connection))
        return connection

    def reference_to(self, port: Port) -> EndpointReference:
        """Return a port of ours as others see it."""
        end = port._end
        return EndpointReference(end, end.type)

    def fail(self, error: Exception) -> None:
        """End this component because of an error."""
        self._cell.fail("its own judgement", error)
