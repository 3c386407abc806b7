"""Numbers by which replicas and sources are told apart."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Final

from quicksilver.stdx.rand import Rng

if TYPE_CHECKING:
    from quicksilver.live.runtime.context import Context
    from quicksilver.live.runtime.runtime import Runtime

IDENTITY_BITS: Final = 53
"""As many as Yjs allows for a replica's number."""

_drawn: weakref.WeakKeyDictionary[Runtime, int] = weakref.WeakKeyDictionary()


def draw_identity(context: Context) -> int:
    """Return a number that no other component has, of this runtime or another.

    Besides chance, which number this is in its runtime and the time go in: two
    proxies may have one name, and processes may all be started with one seed.
    """
    number = _drawn.get(context.runtime, 0) + 1
    _drawn[context.runtime] = number
    label = f"{context.now()!r} {number}"
    return Rng(context.rng.bits64()).derive(label).bits64() >> (64 - IDENTITY_BITS)
