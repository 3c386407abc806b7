"""Numbers that nobody else has: unique by chance in the world, by seed in a simulation."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from quicksilver.live.runtime.context import Context
from quicksilver.live.runtime.errors import NoServiceError


class Identity:
    """A source of unique 62-bit numbers."""

    def __init__(self, draw: Callable[[], int] | None = None) -> None:
        """``draw`` gives random bits; by default the operating system's."""
        self._draw = draw if draw is not None else lambda: secrets.randbits(62)

    def unique(self) -> int:
        """Return a number that nobody else has."""
        return self._draw() & ((1 << 62) - 1)


_OF_THE_WORLD = Identity()


def unique_number(context: Context) -> int:
    """Return a unique number, from the runtime's own source if it has one."""
    try:
        return context.service(Identity).unique()
    except NoServiceError:
        return _OF_THE_WORLD.unique()
