"""``.liveobject`` files: references as XML.

``parse`` reads safely and keeps the place of every part. ``write`` gives the
one pretty form of a reference, in which everything is kept: ``parse(write(r))``
is ``r``. ``canonical`` gives the bytes that identify it: no white space, and no
titles or documentation, on which nothing depends. Same meaning, same bytes,
same ``fingerprint``. A registry is a directory of such files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from quicksilver.live.references.errors import Place, UnfitReferenceError
from quicksilver.live.references.model import Reference
from quicksilver.live.references.xml.elements import (
    DEFAULT_LIMITS,
    ROOT,
    Limits,
    parse_elements,
    render_elements,
)
from quicksilver.live.references.xml.grammar import Reading
from quicksilver.live.references.xml.rules import LIVEOBJECT

SUFFIX: Final = ".liveobject"
ENTRIES_MAX: Final = 10_000
"""A registry's files after these, in order of their names, are not read."""

_FINGERPRINT = "fingerprint"


class Parsed(msgspec.Struct, frozen=True):
    """A reference and where its parts were found."""

    reference: Reference
    places: Mapping[str, Place]
    """The place of every part, by its path."""

    source: str = ""

    def locate(self, path: str) -> Place:
        """Return the place of a part, or of the nearest part around it that has one."""
        return locate(self.places, path, self.source)


def locate(places: Mapping[str, Place], path: str, source: str = "") -> Place:
    """Return the place of a part, or of the nearest part around it, under the part's own path."""
    around = path
    while around:
        place = places.get(around)
        if place is not None:
            return Place(path, place.line, place.column, place.source)
        around = around.rpartition("/")[0]
    return Place(path, source=source)


def parse(data: bytes | str, *, source: str = "", limits: Limits = DEFAULT_LIMITS) -> Parsed:
    """Return the reference in a file; raises MalformedReferenceError naming the place."""
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogatepass")
    root = parse_elements(data, limits, source)
    reading = Reading(source)
    if root.tag != ROOT:
        raise reading.fail(root, root.tag, f"the root is <{ROOT}>, not <{root.tag[:40]}>")
    try:
        reference = LIVEOBJECT.read(reading, root, "")
    except RecursionError:  # the caller's own stack is already deep
        raise reading.fail(root, ROOT, "nested too deep to be read here") from None
    return Parsed(reference, MappingProxyType(reading.places), source)


def load(path: Path, *, limits: Limits = DEFAULT_LIMITS) -> Parsed:
    """Read a file; raises OSError if it cannot be read, MalformedReferenceError if it is bad.

    No more of the file is read than a reference may have.
    """
    with path.open("rb") as file:
        data = file.read(limits.bytes_max + 1)
    return parse(data, source=str(path), limits=limits)


def write(reference: Reference) -> str:
    """Return the text of a file that holds this reference, for people to read.

    Raises UnfitReferenceError if it is too deep or too large to be read again.
    """
    return _check_size(_document(reference, with_hints=True, is_pretty=True))


def canonical(reference: Reference) -> bytes:
    """Return the bytes that are the same exactly when the meaning is."""
    return _check_size(_document(reference, with_hints=False, is_pretty=False)).encode()


def fingerprint(reference: Reference) -> str:
    """Return the SHA-256 of the canonical form, in hexadecimal."""
    kept: str | None = reference.__dict__.get(_FINGERPRINT)
    if kept is None:
        kept = reference.__dict__[_FINGERPRINT] = hashlib.sha256(canonical(reference)).hexdigest()
    return kept


def _document(reference: Reference, *, with_hints: bool, is_pretty: bool) -> str:
    try:
        root = LIVEOBJECT.write(reference, with_hints=with_hints)
        assert root is not None
        return render_elements(root, is_pretty=is_pretty)
    except RecursionError:
        raise UnfitReferenceError("the reference", "is nested too deep to be written") from None


def _check_size(text: str) -> str:
    if len(text) * 4 > DEFAULT_LIMITS.bytes_max and len(text.encode()) > DEFAULT_LIMITS.bytes_max:
        problem = f"would be a file of more than {DEFAULT_LIMITS.bytes_max} bytes"
        raise UnfitReferenceError("the reference", problem)
    return text


class RegistryEntries(msgspec.Struct, frozen=True):
    """The references in a registry, and where their parts are."""

    references: Mapping[str, Reference]
    places: Mapping[str, Place]
    """By path, as the check says them: ``registry[name]/...``."""

    def around(self, parsed: Parsed) -> Parsed:
        """Return a parsed reference that also knows the places of the registry's parts."""
        return Parsed(parsed.reference, {**parsed.places, **self.places}, parsed.source)


def load_registry(directory: Path) -> RegistryEntries:
    """Read a directory of ``.liveobject`` files, each an entry named by its file.

    Raises OSError or MalformedReferenceError for the first that is bad.
    """
    references: dict[str, Reference] = {}
    places: dict[str, Place] = {}
    files = sorted(path for path in directory.iterdir() if path.suffix == SUFFIX)
    for path in files[:ENTRIES_MAX]:
        parsed = load(path)
        references[path.stem] = parsed.reference
        for inner, place in parsed.places.items():
            places[f"registry[{path.stem}]/{inner}"] = place
    return RegistryEntries(references, places)
