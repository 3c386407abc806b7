"""Wrappers: objects that make another object into one of a type that it is not (2.1.4 F).

When a reference is declared as a type that its object does not have, or a proxy
is cast to one, a wrapper that is known to the catalogue may stand between: it is
connected to one endpoint of the object, and shows endpoints of its own. As the
reference says so wherever it goes, the wrapper runs on every node where the
object does, and the distributed object as a whole is wrapped (Example d).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from quicksilver.live.references.model import Reference
from quicksilver.live.types.adapting import check_match
from quicksilver.live.types.diagnosis import Diagnosis
from quicksilver.live.types.model import Endpoint, EndpointType, ObjectType
from quicksilver.live.types.subtyping import Checker

if TYPE_CHECKING:
    from quicksilver.live.references.catalogue import Catalogue


class Wrapper(msgspec.Struct, frozen=True, kw_only=True):
    """An object to put around others, and how it is connected to them."""

    title: str
    """What it is called in names of proxies; of two that would do, the first in order is taken."""

    reference: Reference
    """How to make it."""

    type: ObjectType
    """What ``reference`` makes."""

    inside: str
    """Its endpoint that is connected to what it wraps."""

    wraps: str
    """The endpoint that it wraps."""

    shows: dict[str, str]
    """Endpoints of the wrapped object as seen from outside, and which of its own each is."""

    def find_type(
        self, inner: ObjectType, checker: Checker, catalogue: Catalogue
    ) -> ObjectType | None:
        """Return the type of an object with this around it; None if it cannot be put around it."""
        wrapped = inner.by_name.get(self.wraps)
        mine = self.type.by_name.get(self.inside)
        if not isinstance(wrapped, EndpointType) or not isinstance(mine, EndpointType):
            return None
        if check_match(checker, wrapped, mine, catalogue.conversions) is not None:
            return None
        shown = {
            one.name: one.type
            for one in inner.endpoints
            if one.name != self.wraps and one.name not in self.shows
        }
        for name, own in self.shows.items():
            shown[name] = self.type.by_name[own]
        return ObjectType(tuple(Endpoint(name, type_) for name, type_ in shown.items()))


def find_wrapper(
    checker: Checker, catalogue: Catalogue, inner: ObjectType, wanted: ObjectType
) -> Wrapper | None:
    """Return the wrapper that makes objects of one type into objects of another."""
    for wrapper in catalogue.wrappers():
        made = wrapper.find_type(inner, checker, catalogue)
        if made is not None and checker.check_object_subtype(made, wanted) is None:
            return wrapper
    return None


def check_cast(
    checker: Checker, catalogue: Catalogue, inner: ObjectType, wanted: ObjectType
) -> Diagnosis | None:
    """Return why an object cannot be seen as a type, not even with a wrapper; None if it can."""
    problem = checker.check_object_subtype(inner, wanted)
    if problem is None or find_wrapper(checker, catalogue, inner, wanted) is not None:
        return None
    return problem
