"""Names and texts that a reference may hold, and the well-known identifiers.

What may stand in a name is decided here once, so that no later step meets a
name that XML cannot carry or that hides in a terminal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from typing import Final

from quicksilver.live.references.errors import UnfitReferenceError

LIBRARY: Final = "0x1"
"""The library template: a folder of the objects that a file of code implements."""

REGISTRY: Final = "0x2"
"""The registry: the folder that each node keeps for itself."""

SHARED_TEXT: Final = "0x3"
"""The template of a text that many people edit (Code 2.2, line 02)."""

LIBRARY_URL: Final = "URL"
LIBRARY_SHA256: Final = "SHA256"

NAME_CHARACTERS_MAX: Final = 200
LINE_CHARACTERS_MAX: Final = 2000
NAMES_SHOWN_MAX: Final = 8
TEXT_CHARACTERS_MAX: Final = 1 << 20

_UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_INVISIBLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_HEX = re.compile(r"0[xX]([0-9a-fA-F]{1,32})")
_DOTTED = re.compile(r"[A-Za-z_][\w-]*(\.[A-Za-z_][\w-]*)+", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}")


def check_text(what: str, text: str) -> None:
    """Raise UnfitReferenceError unless XML can carry this text."""
    if len(text) > TEXT_CHARACTERS_MAX:
        raise UnfitReferenceError(what, f"has more than {TEXT_CHARACTERS_MAX} characters")
    if not text.isascii() or not text.isprintable():
        found = _UNWRITABLE.search(text)
        if found is not None:
            raise UnfitReferenceError(
                what, f"holds the character U+{ord(found.group()):04X}, which XML cannot carry"
            )


def check_line(what: str, text: str) -> None:
    """Raise UnfitReferenceError unless an attribute can carry this text."""
    if len(text) > LINE_CHARACTERS_MAX:
        raise UnfitReferenceError(what, f"has more than {LINE_CHARACTERS_MAX} characters")
    check_text(what, text)


def check_endpoint_name(name: str) -> None:
    """Raise UnfitReferenceError unless an endpoint may have this name."""
    _check_visible("an endpoint's name", name)


def check_name(what: str, name: str) -> None:
    """Raise UnfitReferenceError unless a part of a reference may have this name.

    A dot separates a component from its endpoint, so a name has none.
    """
    _check_visible(what, name)
    if "." in name:
        raise UnfitReferenceError(f"{what} {name!r}", "holds a dot")


def _check_visible(what: str, name: str) -> None:
    if not name:
        raise UnfitReferenceError(what, "is empty")
    if len(name) > NAME_CHARACTERS_MAX:
        raise UnfitReferenceError(what, f"has more than {NAME_CHARACTERS_MAX} characters")
    if name.isascii() and name.isprintable():
        if name[0] == " " or name[-1] == " ":
            raise UnfitReferenceError(f"{what} {name!r}", "begins or ends with a space")
        return
    if _UNWRITABLE.search(name) or _INVISIBLE.search(name):
        raise UnfitReferenceError(f"{what} {name!a}", "holds a control character")
    if name != name.strip():
        raise UnfitReferenceError(f"{what} {name!r}", "begins or ends with a space")


def show_name(name: str) -> str:
    """Return a name for a path: as it is if it may be one, else something safe to print."""
    if len(name) <= NAME_CHARACTERS_MAX and not (
        _UNWRITABLE.search(name) or _INVISIBLE.search(name)
    ):
        return name
    return ascii(name[:40])


def list_names(names: Iterable[str], none: str = "none") -> str:
    """Return the first few of many names, for a sentence that says what there is."""
    shown = [show_name(name) for name in islice(names, NAMES_SHOWN_MAX + 1)]
    if len(shown) > NAMES_SHOWN_MAX:
        shown[-1] = "…"
    return ", ".join(shown) or none


def normalise_identifier(text: str) -> str:
    """Return the one way to write an identifier; raises UnfitReferenceError for no identifier."""
    found = _HEX.fullmatch(text)
    if found is not None:
        return f"{int(found.group(1), 16):#x}"
    if len(text) <= NAME_CHARACTERS_MAX and _DOTTED.fullmatch(text):
        return text
    raise UnfitReferenceError(
        f"the identifier {text[:40]!a}",
        "is neither a 128-bit number such as 0x2 nor a name with dots such as acme.channel",
    )


def normalise_lines(what: str, text: str) -> str:
    """Return text without the spaces around its lines and the empty lines around it."""
    check_text(what, text)
    return "\n".join(line.strip() for line in text.strip().splitlines())


def is_sha256(text: str) -> bool:
    """Whether this has the form of a SHA-256 in hexadecimal."""
    return _SHA256.fullmatch(text) is not None
