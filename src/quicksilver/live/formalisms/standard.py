"""The formalisms that come with the platform, and the registry that everybody shares."""

from __future__ import annotations

from functools import cache

from quicksilver.live.formalisms.base import Formalisms
from quicksilver.live.formalisms.cardinality import Cardinality
from quicksilver.live.formalisms.delivery import Delivery
from quicksilver.live.formalisms.security import Security
from quicksilver.live.formalisms.temporal.formalism import Temporal
from quicksilver.live.formalisms.timing import Timing


def make_formalisms(*, use_entry_points: bool = True) -> Formalisms:
    """Return a new registry with the built-in formalisms."""
    formalisms = Formalisms(use_entry_points=use_entry_points)
    for formalism in (Delivery(), Temporal(), Cardinality(), Timing(), Security()):
        formalisms.register(formalism)
    return formalisms


@cache
def standard_formalisms() -> Formalisms:
    """Return the registry used where no other is given."""
    return make_formalisms()
