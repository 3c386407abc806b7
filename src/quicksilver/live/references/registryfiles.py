"""A node's registry as a directory: one ``.liveobject`` file an entry, named by its file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from quicksilver.live.references.errors import Place
from quicksilver.live.references.model import Reference
from quicksilver.live.references.xml import SUFFIX, Parsed, load

ENTRIES_MAX = 10_000


class RegistryEntries(msgspec.Struct, frozen=True):
    """The references in a registry, and where their parts are."""

    references: Mapping[str, Reference]
    places: Mapping[str, Place]
    """By path, as the check says them: ``registry[name]/...``."""

    def around(self, parsed: Parsed) -> Parsed:
        """Return a parsed reference that also knows the places of the registry's parts."""
        return Parsed(parsed.reference, {**parsed.places, **self.places}, parsed.source)


def load_registry(directory: Path) -> RegistryEntries:
    """Read all entries; raises OSError or MalformedReferenceError for the first that is bad."""
    references: dict[str, Reference] = {}
    places: dict[str, Place] = {}
    files = sorted(path for path in directory.iterdir() if path.suffix == SUFFIX)
    for path in files[:ENTRIES_MAX]:
        parsed = load(path)
        references[path.stem] = parsed.reference
        for inner, place in parsed.places.items():
            places[f"registry[{path.stem}]/{inner}"] = place
    return RegistryEntries(references, places)
