"""The two sides of an endpoint of a running proxy (2.1.4 C).

Inside, a component holds a ``Port``: its methods are the events that go out.
Outside, whoever has the proxy holds an ``EndpointReference``, which is good for
connecting and nothing else. Between the two is the ``End``: what is connected
to what, who handles what comes in, who watches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from quicksilver.live.runtime.errors import QueueFullError
from quicksilver.live.types.declare import EndpointSignatures
from quicksilver.live.types.model import EndpointType

if TYPE_CHECKING:
    from quicksilver.live.runtime.cells import Cell
    from quicksilver.live.runtime.connections import Connection
    from quicksilver.live.runtime.watching import EndWatch

Handler: TypeAlias = Callable[..., Any]

QUEUED_MAX = 10_000
"""Events that may wait for one queued endpoint."""


class Port:
    """An endpoint as its owner sees it: call a method, and the event goes out.

    While nothing is connected, events go nowhere and are counted.
    """

    __slots__ = ("__dict__", "_end")

    def __init__(self, end: End) -> None:
        self._end = end

    @property
    def is_connected(self) -> bool:
        """Whether somebody is on the other side."""
        return self._end.connection is not None

    if TYPE_CHECKING:

        def __getattr__(self, event: str) -> Handler:
            """Return the function that sends an event out."""

    def __repr__(self) -> str:
        return f"<port {self._end}>"


class End:
    """One endpoint of one running component."""

    __slots__ = (
        "__weakref__",
        "cell",
        "connection",
        "dropped",
        "find_handler",
        "is_queued",
        "name",
        "on_connected",
        "on_disconnected",
        "port",
        "queued",
        "signatures",
        "type",
        "watch",
    )

    def __init__(
        self,
        cell: Cell,
        name: str,
        type_: EndpointType,
        signatures: EndpointSignatures,
        find_handler: Callable[[str], Handler],
        *,
        is_queued: bool = False,
        on_connected: Handler | None = None,
        on_disconnected: Handler | None = None,
    ) -> None:
        self.cell = cell
        self.name = name
        self.type = type_
        self.signatures = signatures
        self.find_handler = find_handler
        self.is_queued = is_queued
        self.on_connected = on_connected
        self.on_disconnected = on_disconnected
        self.connection: Connection | None = None
        self.watch: EndWatch | None = None
        self.dropped = 0
        """Events that went out while nothing was connected."""
        self.queued = 0
        self.port = Port(self)
        self.unbind()

    def __str__(self) -> str:
        return f"{self.cell.name}.{self.name}"

    def drop(self, *_: Any, **__: Any) -> None:
        """Take an event that has nowhere to go."""
        self.dropped += 1

    def bind(self, event: str, outlet: Handler) -> None:
        """Have an event that goes out call this."""
        if self.watch is not None:
            outlet = self.watch.wrap("out", event, self.signatures.outputs[event], outlet)
        self.port.__dict__[event] = outlet

    def unbind(self) -> None:
        """Have all events that go out go nowhere."""
        drop = self.drop
        ports = self.port.__dict__
        for event in self.signatures.outputs:
            ports[event] = drop

    def inlet(self, event: str) -> Handler:
        """Return what the other side calls: the handler, guarded, and watched if it is."""
        handler = self.find_handler(event)
        if self.watch is not None:
            handler = self.watch.wrap("in", event, self.signatures.inputs[event], handler)
        if self.is_queued:
            return self._queue(event, handler)
        return self._guard(event, handler)

    def _guard(self, event: str, handler: Handler) -> Handler:
        cell = self.cell
        name = self.name
        if len(self.signatures.inputs[event].arguments) == 1:

            def take_one(value: Any) -> None:
                try:
                    handler(value)
                except Exception as error:  # noqa: BLE001  # a component's error stays with it
                    cell.fail(f"{name}.{event}", error)

            return take_one

        def take(*values: Any, **named: Any) -> None:
            try:
                handler(*values, **named)
            except Exception as error:  # noqa: BLE001  # a component's error stays with it
                cell.fail(f"{name}.{event}", error)

        return take

    def _queue(self, event: str, handler: Handler) -> Handler:
        cell = self.cell
        post = cell.runtime.executor.post
        guarded = self._guard(event, handler)

        def take(*values: Any, **named: Any) -> None:
            if self.queued >= QUEUED_MAX:
                cell.fail(f"{self.name}.{event}", QueueFullError(str(self), QUEUED_MAX))
                return
            self.queued += 1

            def run() -> None:
                self.queued -= 1
                if not cell.is_over:
                    guarded(*values, **named)

            post(run)

        return take


class EndpointReference:
    """An endpoint of a proxy, from outside: something to connect."""

    __slots__ = ("end", "type")

    def __init__(self, end: End, type_: EndpointType) -> None:
        self.end = end
        self.type = type_
        """What the endpoint was declared to be; the end itself may be a subtype."""

    @property
    def is_connected(self) -> bool:
        """Whether the endpoint is taken."""
        return self.end.connection is not None

    def __repr__(self) -> str:
        return f"<endpoint {self.end}>"
