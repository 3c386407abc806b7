"""Composites: endpoints exist, connections match, and exports make the type (2.1.5 A)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from quicksilver.live.references.check.arguments import Slot
from quicksilver.live.references.model import Composite, Endpoint
from quicksilver.live.references.names import list_names
from quicksilver.live.types import model as types
from quicksilver.live.types.subtyping import check_match

if TYPE_CHECKING:
    from quicksilver.live.references.check.evaluator import Evaluator


def find_composite_type(
    evaluator: Evaluator, reference: Composite, path: str, scope: Mapping[str, Slot]
) -> types.ObjectType | None:
    """Return the type of a composite: its exported endpoints. None if one is unknown."""
    inside = _Inside(evaluator, path)
    if not reference.components:
        evaluator.warn(path, "empty", "a composite without components does nothing")
    seen: dict[str, int] = {}
    for component in reference.components:
        count = seen[component.name] = seen.get(component.name, 0) + 1
        place = f"{path}/component[{component.name}]"
        if count > 1:
            place = f"{place}#{count}"
            text = f"two components are called {component.name!r}"
            evaluator.error(place, "duplicate-name", text)
        type_ = evaluator.evaluate_object(component.reference, place, scope)
        inside.components.setdefault(component.name, type_)
    for connection in reference.connections:
        inside.connect(connection.one, connection.other)
    made: list[types.Endpoint] = []
    is_known = True
    names: set[str] = set()
    for export in reference.exports:
        place = f"{path}/export[{export.name}]"
        if export.name in names:
            evaluator.error(
                f"{place}#2", "duplicate-name", f"two exports are called {export.name!r}"
            )
            continue
        names.add(export.name)
        inside.engage(export.endpoint, place, "exported")
        inner = inside.find(export.endpoint, place)
        if inner is None:
            is_known = False
        else:
            made.append(types.Endpoint(export.name, inner))
    inside.look_for_loose_ends()
    return types.ObjectType(tuple(made)) if is_known else None


class _Inside:
    """The components of one composite, and which of their endpoints are taken."""

    def __init__(self, evaluator: Evaluator, path: str) -> None:
        self._evaluator = evaluator
        self._path = path
        self._engaged: dict[Endpoint, str] = {}
        self.components: dict[str, types.ObjectType | None] = {}

    def find(self, endpoint: Endpoint, place: str) -> types.EndpointType | types.Parameter | None:
        """Return the type of an endpoint; says if there is none, is silent if it is unknown."""
        if endpoint.component not in self.components:
            known = list_names(self.components)
            text = f"no component is called {endpoint.component!r}; there is: {known}"
            self._evaluator.error(place, "unknown-component", text)
            return None
        owner = self.components[endpoint.component]
        if owner is None:
            return None
        found = owner.by_name.get(endpoint.name)
        if found is None:
            known = list_names(owner.by_name)
            text = (
                f"the component {endpoint.component!r} has no endpoint {endpoint.name!r}; "
                f"it has: {known}"
            )
            self._evaluator.error(place, "unknown-endpoint", text)
        return found

    def engage(self, endpoint: Endpoint, place: str, how: str) -> None:
        """Take an endpoint, which connects "to a single other, matching endpoint" (2.1.4 C)."""
        earlier = self._engaged.get(endpoint)
        if earlier is not None:
            text = f"the endpoint {endpoint} is already {earlier}"
            self._evaluator.error(place, "endpoint-taken", text)
            return
        self._engaged[endpoint] = how

    def connect(self, one: Endpoint, other: Endpoint) -> None:
        """Check a connection: both endpoints exist, are free, and match (2.1)."""
        place = f"{self._path}/connection[{one},{other}]"
        if one == other:
            self._evaluator.error(place, "self-connection", f"{one} is connected to itself")
            return
        here, there = self.find(one, place), self.find(other, place)
        self.engage(one, place, f"connected to {other}")
        self.engage(other, place, f"connected to {one}")
        if not isinstance(here, types.EndpointType) or not isinstance(there, types.EndpointType):
            return
        evaluator = self._evaluator
        conversions = evaluator.catalogue.conversions
        problem = check_match(evaluator.checker, here, there, conversions)
        if problem is not None:
            text = f"{one} and {other} do not match: {problem.line}"
            self._evaluator.error(place, "mismatch", text)

    def look_for_loose_ends(self) -> None:
        """Say which endpoints nothing can ever reach."""
        for name, type_ in self.components.items():
            for endpoint in type_.by_name if type_ is not None else ():
                if Endpoint(name, endpoint) not in self._engaged:
                    self._evaluator.warn(
                        f"{self._path}/component[{name}]",
                        "loose-endpoint",
                        f"the endpoint {name}.{endpoint} is neither connected nor exported",
                    )
