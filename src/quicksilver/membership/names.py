"""What a group may be called, and what a name says of a group: one rule for both sides.

Two kinds of groups are made by quicksilver itself and begin with ``$``. *Attendance* groups
carry no messages: their members only know each other, and they have no regions. *Private*
groups are heard by their members alone: they have a region of their own, without multicast,
and the plan of all other groups is the same with and without them.
"""

from __future__ import annotations

from quicksilver.membership.patterns import find_pattern_problem, is_pattern
from quicksilver.stdx.errors import QuicksilverError
from quicksilver.wire.gms import GROUP_NAME_BYTES_MAX

_SHOWN_MAX = 40

ATTENDANCE = "$attend."
PRIVATE = "$private."
QUEUE = f"{ATTENDANCE}queue."
"""Followed by the queue, which has one level, and the group."""


def is_attendance(name: str) -> bool:
    """Whether the members of a group only know each other, and send nothing."""
    return name.startswith(ATTENDANCE)


def shared_group(name: str) -> str:
    """Return the group whose messages the members of a queue share; empty for other names."""
    levels = name.split(".", 3)
    is_queue = len(levels) == 4 and name.startswith(QUEUE)
    return levels[3] if is_queue else ""


def is_private(name: str) -> bool:
    """Whether a group has a region of its own."""
    return name.startswith(PRIVATE)


class BadGroupNameError(QuicksilverError, ValueError):
    """The group name is not valid."""

    def __init__(self, name: object, problem: str) -> None:
        super().__init__(name, problem)
        self.name = name
        """The name that was given."""
        self.problem = problem
        """What is wrong with the name."""

    def __str__(self) -> str:
        name = self.name
        shown = ascii(name[:_SHOWN_MAX] if isinstance(name, str) else name)
        return f"group name {shown} {self.problem}"


def find_name_problem(name: object) -> str | None:
    """Say what is wrong with a group name, or return None.

    A name is printable, not empty, and at most 255 bytes of UTF-8; no level of it is a
    wildcard.
    """
    problem = _find_text_problem(name)
    if problem is None and is_pattern(str(name)):
        return "has a wildcard: patterns can be joined, and neither opened nor sent to"
    return problem


def find_pattern_name_problem(pattern: object) -> str | None:
    """Say what is wrong with a pattern, or return None."""
    return _find_text_problem(pattern) or find_pattern_problem(str(pattern))


def _find_text_problem(name: object) -> str | None:
    if not isinstance(name, str):
        return f"is of type {type(name).__name__}: give the name as text"
    if not name:
        return "is empty: give the group a name"
    if not name.isprintable():
        return "has characters that cannot be printed: remove them"
    # Four bytes a character at most: short names need no encoding to be judged.
    if len(name) * 4 > GROUP_NAME_BYTES_MAX:
        size = len(name.encode("utf-8", "surrogatepass"))
        if size > GROUP_NAME_BYTES_MAX:
            return f"has {size} bytes, the limit is {GROUP_NAME_BYTES_MAX}: shorten it"
    return None


def check_pattern(pattern: object) -> None:
    """Raise BadGroupNameError unless ``pattern`` may be subscribed to."""
    problem = find_pattern_name_problem(pattern)
    if problem is not None:
        raise BadGroupNameError(pattern, problem)


def check_group_name(name: object) -> None:
    """Raise BadGroupNameError unless ``name`` may be used for a group."""
    problem = find_name_problem(name)
    if problem is not None:
        raise BadGroupNameError(name, problem)
