"""What a group may be called: one rule for the node's side and the service."""

from __future__ import annotations

from quicksilver.wire.gms import GROUP_NAME_BYTES_MAX

_SHOWN_MAX = 40


class BadGroupNameError(ValueError):
    """A group name that no GMS would accept; the caller's mistake."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(name, problem)
        self.name = name
        self.problem = problem

    def __str__(self) -> str:
        shown = ascii(self.name[:_SHOWN_MAX])
        return f"group name {shown} {self.problem}"


def find_name_problem(name: str) -> str | None:
    """Say what is wrong with a group name, or return None.

    A name is printable, not empty, and at most 255 bytes of UTF-8.
    """
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


def check_group_name(name: str) -> None:
    """Raise BadGroupNameError unless ``name`` may be used for a group."""
    problem = find_name_problem(name)
    if problem is not None:
        raise BadGroupNameError(name, problem)
