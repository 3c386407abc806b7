"""Connections: two matching endpoints of two proxies, joined (2.1, 2.1.4 C).

Everything is decided when a connection is made: the types match or it is
refused, and for each event there is one function from the caller to the
handler, with the conversion in it if the two sides use different classes.

``attach`` connects plain Python code, without a component class around it:

    port = attach(runtime, proxy.endpoint("Text"), {"changed": print}).port
    port.edit(0, 0, "hello")

Values are plain there: scalars, lists, and mappings for structs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from quicksilver.live.runtime.blueprints import signatures_of_type
from quicksilver.live.runtime.cells import Cell
from quicksilver.live.runtime.endpoints import End, EndpointReference, Handler, Port
from quicksilver.live.runtime.errors import ClosedError, ConnectError
from quicksilver.live.types.bridges import bridge_event
from quicksilver.live.types.build import flip
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
                end.watch.note_connection(is_open=True)
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
                end.watch.note_connection(is_open=False)
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


class Attachment:
    """The other side of somebody's endpoint; closing it parts them."""

    def __init__(self, cell: Cell, end: End) -> None:
        self._cell = cell
        self._end = end

    @property
    def port(self) -> Port:
        """The events that can be sent into the endpoint, as methods."""
        return self._end.port

    @property
    def is_connected(self) -> bool:
        """Whether the endpoint is still there."""
        return self._end.connection is not None

    def close(self) -> None:
        """Part from the endpoint."""
        self._cell.close()

    def __enter__(self) -> Attachment:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def attach(
    runtime: Runtime,
    endpoint: EndpointReference,
    handlers: Mapping[str, Handler] | Callable[..., Any] | None = None,
    *,
    name: str = "application",
    on_disconnected: Callable[[], None] | None = None,
) -> Attachment:
    """Connect functions to an endpoint.

    With a mapping, events without a function are ignored; a single function is
    given the name of each event before its values. Raises ConnectError.
    """
    type_ = flip(endpoint.type)

    def find_handler(event: str) -> Handler:
        if handlers is None:
            return _ignore
        if callable(handlers):
            return lambda *values, **named: handlers(event, *values, **named)
        return handlers.get(event, _ignore)

    if isinstance(handlers, Mapping):
        unknown = handlers.keys() - type_.inputs_by_name.keys()
        if unknown:
            problem = f"it has no event {min(unknown)!r} going out"
            raise ConnectError(name, str(endpoint.end), problem)
    cell = Cell(runtime, name)
    end = End(
        cell,
        endpoint.end.name,
        type_,
        signatures_of_type(type_),
        find_handler,
        on_disconnected=on_disconnected,
    )
    cell.ends[end.name] = end
    try:
        # Its owner takes on what the endpoint requires. The flipped type would not say so:
        # formulas that speak of "in" and "out" are the endpoint's own.
        connection = connect(
            runtime, EndpointReference(end, type_), endpoint, is_known_to_match=True
        )
    except BaseException:
        cell.close()
        raise
    cell.is_starting = False
    connection.when_closed(cell.close)  # it can never be connected again
    return Attachment(cell, end)


def _ignore(*_: Any, **__: Any) -> None:
    """Take an event that nobody wants."""
