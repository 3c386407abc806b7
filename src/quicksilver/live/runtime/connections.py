"""Connections: two matching endpoints of two proxies, joined (2.1, 2.1.4 C).

Everything is decided when a connection is made: the types match or it is
refused, and for each event there is one function from the caller to the
handler, with the conversion in it if the two sides use different classes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from quicksilver.live.runtime.endpoints import End, EndpointReference, Handler
from quicksilver.live.runtime.errors import ClosedError, ConnectError
from quicksilver.live.types.bridges import bridge_event
from quicksilver.live.types.errors import LiveTypeError

if TYPE_CHECKING:
    from quicksilver.live.runtime.runtime import Runtime


class Connection:
    """Two ends that are joined until either side closes, fails, or ``close`` is called."""

    __slots__ = ("_is_ended", "_runtime", "_told", "_when_closed", "one", "other")

    def __init__(self, runtime: Runtime, one: End, other: End) -> None:
        self._runtime = runtime
        self.one = one
        self.other = other
        self._told: list[End] = []
        """Ends whose owners know of the connection, and must be told of its end."""
        self._is_ended = False
        self._when_closed: list[Callable[[], None]] = []

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
                    target.inlet(name, self),
                    converters=runtime.converters,
                    checker=runtime.checker,
                )
            except LiveTypeError as error:
                raise ConnectError(str(source), str(target), str(error)) from error
            routes.append((source, name, outlet))
        return routes

    def open(self) -> None:
        """Let events pass and tell both sides; raises ConnectError if one ends it at once."""
        ends = (self.one, self.other)
        for end in ends:
            end.connection = self
        # Both watches first: the first owner to be told may send at once.
        for end in ends:
            if end.watch is not None:
                end.watch.note("connected")
        for end in ends:
            if self.is_open:
                self._told.append(end)
                end.tell("connected", end.on_connected)
        if not self.is_open:
            failure = self.one.cell.failure or self.other.cell.failure
            why = f": {failure}" if failure is not None else ""
            raise ConnectError(str(self.one), str(self.other), f"they were parted at once{why}")

    def when_closed(self, callback: Callable[[], None]) -> None:
        """Call back when the two sides are parted, at once if they are (2.1.4 D)."""
        if self._is_ended:
            callback()
        else:
            self._when_closed.append(callback)

    def close(self) -> None:
        """Part the two sides; both are told. Closing twice changes nothing."""
        if not self.is_open:
            return
        ends = (self.one, self.other)
        for end in ends:
            end.connection = None
            end.unbind()
        for end in ends:
            if end.watch is not None:
                end.watch.note("disconnected")
        for end in ends:
            if end in self._told:
                end.tell("disconnected", end.on_disconnected)
        self._is_ended = True
        callbacks, self._when_closed = self._when_closed, []
        for callback in callbacks:
            callback()

    def __repr__(self) -> str:
        state = "" if self.is_open else ", closed"
        return f"<connection {self.one} - {self.other}{state}>"


def connect(
    runtime: Runtime,
    one: EndpointReference,
    other: EndpointReference,
    *,
    is_known_to_match: bool = False,
) -> Connection:
    """Join two endpoints and tell both; raises ConnectError or ClosedError.

    They are known to match if one was made to be whatever the other asks for.
    """
    here, there = one.end, other.end
    for end in (here, there):
        if end.cell.is_over:
            raise ClosedError(end.cell.name)
        if end.connection is not None:
            raise ConnectError(str(here), str(there), f"{end} is connected already")
    if here is there:
        raise ConnectError(str(here), str(there), "an endpoint cannot be connected to itself")
    problem = None if is_known_to_match else runtime.check_match(one, other)
    if problem is not None:
        raise ConnectError(str(here), str(there), problem)
    connection = Connection(runtime, here, there)
    connection.bind()
    connection.open()
    return connection
