"""Monitors at running endpoints: a broken promise is told, with the events that prove it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from quicksilver.live.monitors import Violation, Watch
from quicksilver.live.runtime.endpoints import End, Handler
from quicksilver.live.runtime.errors import ComponentFailedError
from quicksilver.live.types.interfaces import Signature

if TYPE_CHECKING:
    from quicksilver.live.runtime.runtime import Runtime

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
