"""External references: kept in a folder, and of the type that they are declared as (2.1.5 B)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quicksilver.live.references.catalogue import check_cast
from quicksilver.live.references.model import External
from quicksilver.live.references.names import list_names
from quicksilver.live.references.standard import FOLDER, FOLDER_ENDPOINT, FOLDER_ITEM
from quicksilver.live.types import model as types

if TYPE_CHECKING:
    from quicksilver.live.references.check.evaluator import Evaluator


def check_folder(
    evaluator: Evaluator,
    source: types.ObjectType,
    declared: types.ObjectType | None,
    path: str,
) -> None:
    """Check what an external reference is kept in: a folder, and likely one of such objects."""
    problem = evaluator.checker.check_object_subtype(source, FOLDER)
    if problem is not None:
        evaluator.error(path, "no-folder", f"what it is kept in is no folder: {problem.line}")
        return
    held = find_held(source)
    if held is None or declared is None:
        return
    misfit = evaluator.checker.check_object_subtype(held, declared)
    if misfit is not None and evaluator.checker.check_object_subtype(declared, held) is not None:
        text = f"the folder holds objects of another type: {misfit.line}"
        evaluator.warn(path, "unlikely-type", text)


def check_entry(
    evaluator: Evaluator,
    reference: External,
    declared: types.ObjectType | None,
    path: str,
) -> None:
    """Look at what the registry keeps under this name, as dereferencing would."""
    registry = evaluator.registry
    assert registry is not None
    name, fetching = reference.name, evaluator.fetching
    if name in fetching:
        circle = " → ".join([*fetching[fetching.index(name) :], name])
        evaluator.error(path, "circle", f"external references go in a circle: {circle}")
        return
    if name not in registry:
        known = list_names(sorted(registry), "nothing")
        evaluator.error(path, "unknown-entry", f"the registry has no {name!r}; it has {known}")
        return
    if name not in evaluator.entries:
        fetching.append(name)
        evaluator.entries[name] = evaluator.evaluate(registry[name], f"registry[{name}]", {})
        fetching.pop()
    meaning = evaluator.entries[name]
    if meaning is None:
        return
    if reference.parameters:
        if isinstance(meaning, types.ObjectType):
            evaluator.error(path, "bad-entry", f"the registry's {name!r} is no template")
        return
    meaning = evaluator.complete(meaning, f"registry[{name}]")
    if meaning is None:
        return
    if not isinstance(meaning, types.ObjectType):
        evaluator.error(path, "bad-entry", f"the registry's {name!r} is a template")
    elif declared is not None:
        problem = check_cast(evaluator.checker, evaluator.catalogue, meaning, declared)
        if problem is not None:
            text = f"the registry's {name!r} is of another type: {problem.line}"
            evaluator.error(path, "bad-entry", text)


def find_held(folder: types.ObjectType) -> types.ObjectType | None:
    """Return the type of what a folder holds, if its items say so."""
    port = folder.by_name.get(FOLDER_ENDPOINT)
    if not isinstance(port, types.EndpointType):
        return None
    item = port.outputs_by_name.get(FOLDER_ITEM)
    if item is None or not isinstance(item.value, types.StructOf):
        return None
    for field in item.value.fields:
        part = field.type
        if isinstance(part, types.ReferenceOf) and isinstance(part.target, types.ObjectType):
            return part.target
    return None
