"""All components of the library, and what references may say about them.

A catalogue that knows them needs their classes for the types only: nothing is
made, and a component imports what it needs of third parties when it is started.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Final

from quicksilver.live.components.interfaces import CheckpointedChannel, Membership
from quicksilver.live.references.catalogue import Catalogue
from quicksilver.live.runtime.components import announce
from quicksilver.live.runtime.runtime import Runtime
from quicksilver.live.types.declare import object_type_of

PACKAGES: Final = ("infrastructure", "applications", "platform")
"""Each has ``COMPONENTS``, a tuple of classes, and may have ``add_to``, which takes a catalogue."""


@cache
def standard_components() -> tuple[type, ...]:
    """Return all component classes of the library."""
    found: list[type] = []
    for package in _load_packages():
        found.extend(package.COMPONENTS)
    return tuple(found)


def add_standard_components(catalogue: Catalogue) -> None:
    """Make all components of the library known to a catalogue, with their types and wrappers."""
    catalogue.add_type("CheckpointedChannel", object_type_of(CheckpointedChannel))
    catalogue.add_type("Membership", object_type_of(Membership))
    for cls in standard_components():
        announce(cls, catalogue)
    for package in _load_packages():
        if hasattr(package, "add_to"):
            package.add_to(catalogue)


def equip(runtime: Runtime) -> None:
    """Let a runtime run all components of the library, and use its wrappers."""
    add_standard_components(runtime.catalogue)
    runtime.add_components(standard_components())


@cache
def _load_packages() -> tuple[ModuleType, ...]:
    return tuple(import_module(f"{__package__}.{package}") for package in PACKAGES)
