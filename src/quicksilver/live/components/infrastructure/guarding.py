"""Callbacks of services, with a component's errors kept to the component."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec

from quicksilver.live.runtime.context import Context

P = ParamSpec("P")


def guarded(context: Context, callback: Callable[P, None]) -> Callable[P, None]:
    """Return a callback that a service may call: what it raises ends the component, no more."""

    def call(*values: P.args, **named: P.kwargs) -> None:
        try:
            callback(*values, **named)
        except Exception as error:  # noqa: BLE001  # a component's error stays with it
            context.fail(error)

    return call
