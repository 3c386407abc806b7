"""Text that others wrote, made fit to be shown.

A name or a reason that came over the network may hold what a terminal obeys:
escape sequences, line breaks, marks that turn the direction of writing. Whatever
shows such text passes it through here first. Markup of ``rich`` is not a matter
of characters: hand it a ``rich.text.Text``, which does not read any.
"""

from __future__ import annotations

CHARS_MAX = 300
"""No reason of ours is longer."""


def printable(text: str, chars_max: int = CHARS_MAX) -> str:
    """Return ``text`` on one line, unprintable characters as escapes, cut if it is long."""
    shown = text[:chars_max]
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() else _escape(c) for c in shown)
    return shown if len(text) <= chars_max else shown + "…"


def _escape(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
