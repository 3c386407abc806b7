"""Plain Python code at an endpoint, without a component class around it.

    port = attach(runtime, proxy.endpoint("Text"), {"changed": print}).port
    port.edit(0, 0, "hello")

Values are plain there: scalars, lists, and mappings for structs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from quicksilver.live.runtime.blueprints import signatures_of_type
from quicksilver.live.runtime.cells import Cell
from quicksilver.live.runtime.connections import connect
from quicksilver.live.runtime.endpoints import End, EndpointReference, Handler, Port
from quicksilver.live.runtime.errors import ConnectError
from quicksilver.live.types.build import flip

if TYPE_CHECKING:
    from quicksilver.live.runtime.runtime import Runtime


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
