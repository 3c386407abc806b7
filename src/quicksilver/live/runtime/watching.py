"""Monitors at running endpoints: a broken promise is told, with the events that prove it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from quicksilver.live.monitors import Violation, Watch
from quicksilver.live.runtime.endpoints import End, Handler
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
        names = [argument.name for argument in signature.arguments]

        def watched(*values: Any, **named: Any) -> Any:
            value: Any
            if len(names) == 1:
                value = values[0] if values else named.get(names[0])
            else:
                value = {**dict(zip(names, values, strict=False)), **named} or None
            self._take(way, event, value)
            return inner(*values, **named)

        return watched

    def note(self, what: str) -> None:
        """Take the event that the endpoint was connected or disconnected."""
        now = self._runtime.executor.now()
        watch = self._watch
        handle = watch.handle_connect if what == "connected" else watch.handle_disconnect
        for violation in handle(instance=self._name, now=now):
            self._on_violation(self._name, violation)

    def _take(self, way: Way, event: str, value: Any) -> None:
        now = self._runtime.executor.now()
        found = self._watch.handle_event(way, event, value, instance=self._name, now=now)
        for violation in found:
            self._on_violation(self._name, violation)
