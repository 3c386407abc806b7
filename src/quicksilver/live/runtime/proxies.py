"""Proxies: running objects, as those who opened them hold them.

A proxy owns what is behind it: one component, or the parts of a composite and
the connections between them. Closing it ends all of that; a proxy that nobody
holds any more is closed as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from quicksilver.live.references.catalogue import Wrapper, find_wrapper
from quicksilver.live.references.names import list_names
from quicksilver.live.runtime.endpoints import End, EndpointReference
from quicksilver.live.runtime.errors import (
    CastError,
    ClosedError,
    ComponentFailedError,
    NoEndpointError,
)
from quicksilver.live.types.errors import Diagnosis, Step
from quicksilver.live.types.model import Endpoint, EndpointType, ObjectType

if TYPE_CHECKING:
    from quicksilver.live.runtime.cells import Cell, Closeable
    from quicksilver.live.runtime.runtime import Runtime


class Proxy:
    """A running object: endpoints to connect, and a lifetime."""

    def __init__(
        self,
        runtime: Runtime,
        name: str,
        type_: ObjectType,
        ends: Mapping[str, End],
        owned: tuple[Closeable, ...],
        cells: tuple[Cell, ...],
        original: Proxy | None = None,
    ) -> None:
        self._runtime = runtime
        self.name = name
        self.type = type_
        self._ends = dict(ends)
        self._owned = owned
        self.cells = cells
        """The components behind it."""
        self._original = original
        """The proxy that this one shows as another type; it is kept alive, and owns all."""
        self._is_closed = False
        self._when_closed: list[Callable[[], None]] = []

    # Endpoints

    def endpoint(self, name: str) -> EndpointReference:
        """Return an endpoint by name; raises NoEndpointError or ClosedError."""
        if self.is_closed:
            raise ClosedError(self.name)
        end = self._ends.get(name)
        if end is None:
            raise NoEndpointError(self.name, name, list_names(sorted(self._ends), "none"))
        declared = self.type.by_name[name]
        assert isinstance(declared, EndpointType)
        return EndpointReference(end, declared)

    def endpoints(self) -> Iterator[EndpointReference]:
        """Yield all endpoints, by name."""
        return (self.endpoint(name) for name in sorted(self._ends))

    def cast(self, type_: ObjectType) -> Proxy:
        """Return this proxy seen as a type, which hides all else; raises CastError.

        Both are one object: closing either closes it, and it lives while either is
        held. Where a wrapper makes it what it is not, the new proxy owns this one; a
        wrapper that takes its time needs ``Runtime.cast``.
        """
        task = self._runtime.cast(self, type_)
        if not task.is_done:
            task.cancel()
            problem = Diagnosis(Step("whole"), "the wrapper does not start at once: Runtime.cast")
            raise CastError(self.name, problem)
        return task.result()

    def show_as(self, type_: ObjectType) -> Proxy:
        """Return this proxy with the endpoints of a supertype of its type."""
        ends = {name: self._ends[name] for name in type_.by_name}
        return Proxy(self._runtime, self.name, type_, ends, (), self.cells, original=self)

    # Life

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._is_closed if self._original is None else self._original.is_closed

    @property
    def failures(self) -> list[ComponentFailedError]:
        """What went wrong in the components behind it."""
        return [cell.failure for cell in self.cells if cell.failure is not None]

    def close(self) -> None:
        """End everything behind this proxy; on the runtime's executor. Twice is once."""
        if self._original is not None:
            self._original.close()
            return
        if self._is_closed:
            return
        self._is_closed = True
        # From the outside in: what the parts say to each other at the end is not heard outside.
        # A single component ends at once, and is not told that it loses what it uses.
        if self._owned != self.cells:
            for end in self._ends.values():
                if end.connection is not None:
                    end.connection.close()
        for owned in reversed(self._owned):
            owned.close()
        callbacks, self._when_closed = self._when_closed, []
        for callback in callbacks:
            callback()

    def when_closed(self, callback: Callable[[], None]) -> None:
        """Call back when this proxy is closed, at once if it is."""
        if self._original is not None:
            self._original.when_closed(callback)
        elif self._is_closed:
            callback()
        else:
            self._when_closed.append(callback)

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._is_closed and self._owned:
            self._runtime.dispose(self._owned)

    def __repr__(self) -> str:
        state = ", closed" if self.is_closed else ""
        return f"<proxy {self.name}{state}>"


async def cast_proxy(runtime: Runtime, proxy: Proxy, type_: ObjectType) -> Proxy:
    """Return a proxy seen as a type, with a wrapper around it if it is not of the type.

    The proxy that was cast stays as it is if this fails; otherwise the new one owns it.
    """
    problem = runtime.checker.check_object_subtype(proxy.type, type_)
    if problem is None:
        return proxy.show_as(type_)
    wrapper = find_wrapper(runtime.checker, runtime.catalogue, proxy.type, type_)
    if wrapper is None:
        raise CastError(proxy.name, problem)
    return (await _wrap(runtime, proxy, wrapper)).show_as(type_)


async def _wrap(runtime: Runtime, proxy: Proxy, wrapper: Wrapper) -> Proxy:
    allowance = next((cell.allowance for cell in proxy.cells if cell.allowance is not None), None)
    around = await runtime.opener.open(
        wrapper.reference, f"{proxy.name}.{wrapper.title}", allowance=allowance
    )
    try:
        wrapped, mine = proxy.endpoint(wrapper.wraps), around.endpoint(wrapper.inside)
        connection = runtime.connect(wrapped, mine)
    except BaseException:
        around.close()
        raise
    ends: dict[str, End] = {}
    types: list[Endpoint] = []
    shown = {one: one for one in proxy.type.by_name if one != wrapper.wraps} | wrapper.shows
    for name, inner in shown.items():
        endpoint = (around if name in wrapper.shows else proxy).endpoint(inner)
        ends[name] = endpoint.end
        types.append(Endpoint(name, endpoint.type))
    assert all(isinstance(one.type, EndpointType) for one in types)
    owned = (proxy, around, connection)
    cells = proxy.cells + around.cells
    return Proxy(runtime, proxy.name, ObjectType(tuple(types)), ends, owned, cells)
