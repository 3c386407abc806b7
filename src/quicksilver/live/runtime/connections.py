"""Connections: two matching endpoints of two proxies, joined (2.1, 2.1.4 C).

Everything is decided when a connection is made: the types match or it is
refused, and for each event there is one function from the caller to the
handler, with the conversion in it if the two sides use different classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quicksilver.live.runtime.endpoints import End, EndpointReference, Handler
from quicksilver.live.runtime.errors import ClosedError, ConnectError
from quicksilver.live.types.bridges import bridge_event
from quicksilver.live.types.errors import LiveTypeError

if TYPE_CHECKING:
    from quicksilver.live.runtime.runtime import Runtime


class Connection:
    """Two ends that are joined until either side closes, fails, or ``close`` is called."""

    __slots__ = ("_runtime", "one", "other")

    def __init__(self, runtime: Runtime, one: End, other: End) -> None:
        self._runtime = runtime
        self.one = one
        self.other = other

    @property
    def is_open(self) -> bool:
        """Whether events pass."""
        return self.one.connection is self

    def bind(self) -> None:
        """Make the functions between the two sides; raises ConnectError if one cannot be."""
        ways = [*self._route(self.one, self.other), *self._route(self.other, self.one)]
        for end, event, outlet in ways:
            end.bind(event, outlet)

    def _route(self, source: End, target: End) -> list[tuple[End, str, Handler]]:
        runtime = self._runtime
        inputs = target.signatures.inputs
        routes: list[tuple[End, str, Handler]] = []
        for name, signature in source.signatures.outputs.items():
            wanted = inputs.get(name)
            if wanted is None:  # hidden by a cast on the other side
                continue
            try:
                outlet = bridge_event(
                    signature,
                    wanted,
                    target.inlet(name),
                    converters=runtime.converters,
                    checker=runtime.checker,
                )
            except LiveTypeError as error:
                raise ConnectError(str(source), str(target), str(error)) from error
            routes.append((source, name, outlet))
        return routes

    def close(self) -> None:
        """Part the two sides; both are told. Closing twice changes nothing."""
        if not self.is_open:
            return
        ends = (self.one, self.other)
        for end in ends:
            end.connection = None
            end.unbind()
        for end in ends:
            tell(end, "disconnected", end.on_disconnected)

    def __repr__(self) -> str:
        state = "" if self.is_open else ", closed"
        return f"<connection {self.one} - {self.other}{state}>"


def connect(runtime: Runtime, one: EndpointReference, other: EndpointReference) -> Connection:
    """Join two endpoints and tell both; raises ConnectError or ClosedError."""
    here, there = one.end, other.end
    for end in (here, there):
        if end.cell.is_over:
            raise ClosedError(end.cell.name)
        if end.connection is not None:
            raise ConnectError(str(here), str(there), f"{end} is connected already")
    if here is there:
        raise ConnectError(str(here), str(there), "an endpoint cannot be connected to itself")
    problem = runtime.checker.check_match(one.type, other.type)
    if problem is not None:
        raise ConnectError(str(here), str(there), problem.line)
    connection = Connection(runtime, here, there)
    connection.bind()
    here.connection = there.connection = connection
    for end in (here, there):
        if connection.is_open:
            tell(end, "connected", end.on_connected)
    return connection


def tell(end: End, what: str, handler: Handler | None) -> None:
    """Let an end's owner and watch know that it was connected or disconnected."""
    if end.watch is not None:
        end.watch.note(what)
    if handler is None or end.cell.is_over:
        return
    try:
        handler()
    except Exception as error:  # noqa: BLE001  # a component's error stays with it
        end.cell.fail(f"{end.name}_{what}", error)
