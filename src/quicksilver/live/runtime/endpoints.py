"""The two sides of an endpoint of a running proxy (2.1.4 C).

Inside, a component holds a ``Port``: its methods are the events that go out.
Outside, whoever has the proxy holds an ``EndpointReference``, which is good for
connecting and nothing else. Between the two is the ``End``: what is connected
to what, who handles what comes in, who watches.

An ``EndWatch`` puts monitors at a running end: a broken promise is told, with the events
that prove it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from quicksilver.live.monitors import Violation, Watch
from quicksilver.live.runtime.errors import ComponentFailedError, QueueFullError
from quicksilver.live.types.declare import EndpointSignatures
from quicksilver.live.types.interfaces import Signature
from quicksilver.live.types.model import EndpointType

if TYPE_CHECKING:
    from quicksilver.live.runtime.cells import Cell
    from quicksilver.live.runtime.connections import Connection
    from quicksilver.live.runtime.runtime import Runtime


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

    def inlet(self, event: str, connection: Connection) -> Handler:
        """Return what the other side calls: the handler, guarded, and watched if it is.

        A caller may keep it beyond the connection's end: then it goes nowhere.
        """
        handler = self.find_handler(event)
        if self.watch is not None:
            handler = self.watch.wrap("in", event, self.signatures.inputs[event], handler)
        if self.is_queued:
            return self._queue(event, handler, connection)
        return self._guard(event, handler, connection)

    def _guard(self, event: str, handler: Handler, connection: Connection) -> Handler:
        cell = self.cell
        name = self.name
        if len(self.signatures.inputs[event].arguments) == 1:

            def take_one(value: Any) -> None:
                if self.connection is not connection:
                    return
                try:
                    handler(value)
                except Exception as error:  # noqa: BLE001  # a component's error stays with it
                    cell.fail(f"{name}.{event}", error)

            return take_one

        def take(*values: Any, **named: Any) -> None:
            if self.connection is not connection:
                return
            try:
                handler(*values, **named)
            except Exception as error:  # noqa: BLE001  # a component's error stays with it
                cell.fail(f"{name}.{event}", error)

        return take

    def _queue(self, event: str, handler: Handler, connection: Connection) -> Handler:
        where = f"{self.name}.{event}"

        def take(*values: Any, **named: Any) -> None:
            # What was sent before the end is handled, and then the end is told of.
            if self.connection is connection:
                self._post(where, lambda: handler(*values, **named))

        return take

    def _post(self, where: str, step: Callable[[], Any]) -> None:
        cell = self.cell
        limit = QUEUED_MAX if cell.allowance is None else cell.allowance.limits.queued_max
        if self.queued >= limit:
            cell.fail(where, QueueFullError(str(self), limit))
            return
        self.queued += 1
        guarded = cell.guard(where, step)

        def run() -> None:
            self.queued -= 1
            guarded()

        cell.runtime.executor.post(run)

    def tell(self, what: str, handler: Handler | None) -> None:
        """Let the owner know that it was connected or disconnected, in turn if it is queued."""
        if handler is None or self.cell.is_over:
            return
        where = f"{self.name}_{what}"
        if self.is_queued:
            self._post(where, handler)
        else:
            self.cell.guard(where, handler)()


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


Way: TypeAlias = Literal["in", "out"]
OnViolation: TypeAlias = Callable[[str, Violation], None]
"""Takes the name of the endpoint and what was broken there."""


class EndWatch:
    """The monitors of one end."""

    def __init__(self, runtime: Runtime, end: End, on_violation: OnViolation) -> None:
        self._runtime = runtime
        self._name = str(end)
        self._on_violation = on_violation
        self._watch = Watch(end.type, formalisms=runtime.checker.formalisms)

    def wrap(self, way: Way, event: str, signature: Signature, inner: Handler) -> Handler:
        """Return the function with the monitors before it."""
        converters = self._runtime.converters
        names = [argument.name for argument in signature.arguments]
        # Formulas speak of plain values: fields are looked up by name.
        fronts = {
            argument.name: front
            for argument in signature.arguments
            if (front := converters.adapter(argument.annotation).to_plain) is not None
        }

        def watched(*values: Any, **named: Any) -> Any:
            given = {**dict(zip(names, values, strict=False)), **named}
            try:
                plain = {n: fronts[n](v) if n in fronts else v for n, v in given.items()}
                value: Any = plain if len(names) > 1 else next(iter(plain.values()), None)
                self._take(way, event, value)
            except Exception as error:  # noqa: BLE001  # watching never disturbs what is watched
                self._report(error)
            return inner(*values, **named)

        return watched

    def note_connection(self, *, is_open: bool) -> None:
        """Take the event that the endpoint was connected, or disconnected."""
        now = self._runtime.executor.now()
        watch = self._watch
        handle = watch.handle_connect if is_open else watch.handle_disconnect
        try:
            self._tell(handle(instance=self._name, now=now))
        except Exception as error:  # noqa: BLE001  # watching never disturbs what is watched
            self._report(error)

    def _take(self, way: Way, event: str, value: Any) -> None:
        now = self._runtime.executor.now()
        self._tell(self._watch.handle_event(way, event, value, instance=self._name, now=now))

    def _tell(self, violations: list[Violation]) -> None:
        for violation in violations:
            self._on_violation(self._name, violation)

    def _report(self, error: Exception) -> None:
        self._runtime.report(ComponentFailedError(self._name, "its watch", error))
