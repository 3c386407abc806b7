"""Who joins which groups: ``a:0-3,b:2-5,c``.

Groups are separated by commas. After a colon come the nodes that join it, by
number from 0: single ones, ranges with a dash, several joined with a plus sign
(``b:0-2+5``). A group without a colon is joined by all.
"""

from __future__ import annotations

from quicksilver.cli.problems import MisuseError
from quicksilver.membership.names import find_name_problem


class GroupSpecError(MisuseError):
    """A specification that cannot be read."""

    def __init__(self, part: str, problem: str) -> None:
        super().__init__(part, problem)
        self.part = part
        self.problem = problem

    def __str__(self) -> str:
        return f"groups {self.part!r}: {self.problem}; write for example a:0-3,b:2-5+7,c"


def parse_groups(text: str, nodes: int) -> dict[str, tuple[int, ...]]:
    """Return the members of each group, ascending; raises GroupSpecError."""
    found: dict[str, tuple[int, ...]] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, colon, members = part.partition(":")
        problem = find_name_problem(name)
        if problem is not None:
            raise GroupSpecError(part, f"the name {problem}")
        if name in found:
            raise GroupSpecError(part, f"{name} is given twice")
        found[name] = _parse_members(part, members, nodes) if colon else tuple(range(nodes))
    if not found:
        raise GroupSpecError(text, "no group is named")
    return found


def groups_of(groups: dict[str, tuple[int, ...]], node: int) -> list[str]:
    """Return the groups that one node joins."""
    return [name for name, members in groups.items() if node in members]


def _parse_members(part: str, text: str, nodes: int) -> tuple[int, ...]:
    members: set[int] = set()
    for piece in text.split("+"):
        first, dash, last = piece.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise GroupSpecError(part, f"{piece!r} is neither a node nor a range of nodes")
        start, stop = int(first), int(last if dash else first)
        if stop < start:
            raise GroupSpecError(part, f"the range {piece!r} runs backwards")
        if stop >= nodes:
            raise GroupSpecError(part, f"there is no node {stop}: they are 0 to {nodes - 1}")
        members.update(range(start, stop + 1))
    return tuple(sorted(members))
