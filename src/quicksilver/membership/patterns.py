"""Names with levels, and patterns that match many of them.

A name has levels separated by dots: ``prices.eu.EURUSD``. A pattern is a name in which
``*`` stands for any one level and ``>``, as the last level, for one or more. Names that begin
with ``$`` belong to quicksilver itself: no pattern matches them unless it begins with the
same level.

A name may also be a path, as those of topics that span networks are: ``campus/library/news``.
The pattern ``campus/library/*`` stands for all names that have one part more than
``campus/library``.

Two indexes answer the two questions of a membership service in time that depends on
levels and matches, not on how many names and patterns there are: which patterns a new
group matches, and which groups a new pattern matches.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

V = TypeVar("V")

ANY_LEVEL = "*"
ANY_REST = ">"
ANY_PART = "/*"
_OWN = "$"


def is_pattern(name: str) -> bool:
    """Whether a name has a level, or a last part, that stands for others."""
    if ANY_LEVEL not in name and ANY_REST not in name:
        return False
    if name.endswith(ANY_PART):
        return True
    levels = name.split(".")
    return ANY_LEVEL in levels or ANY_REST in levels


def find_pattern_problem(pattern: str) -> str | None:
    """Say what is wrong with a pattern that ``names.find_name_problem`` has no word against."""
    if pattern.endswith(ANY_PART):
        is_bad = pattern == ANY_PART or is_pattern(pattern.removesuffix(ANY_PART))
        return "has nothing, or a wildcard, before '/*': name the path there" if is_bad else None
    levels = pattern.split(".")
    if ANY_REST in levels[:-1]:
        return "has '>' before its last level: use '*' there"
    if "" in levels:
        return "has an empty level: remove the dot"
    return None


def matches(pattern: str, name: str) -> bool:
    """Whether a name is one of those that a pattern stands for."""
    if pattern.endswith(ANY_PART):
        return _path_pattern(name) == pattern
    wanted, levels = pattern.split("."), name.split(".")
    if levels[0].startswith(_OWN) and wanted[0] != levels[0]:
        return False
    if wanted[-1] == ANY_REST:
        wanted.pop()
        if len(levels) <= len(wanted):
            return False
    elif len(levels) != len(wanted):
        return False
    return all(
        level == want or want == ANY_LEVEL for level, want in zip(levels, wanted, strict=False)
    )


def _path_pattern(name: str) -> str | None:
    """Return the pattern that stands for a name because of its parts; None: it is no path."""
    path, slash, _ = name.rpartition("/")
    return path + ANY_PART if slash else None


class _Branch(Generic[V]):
    """One level of an index."""

    __slots__ = ("branches", "values")

    def __init__(self) -> None:
        self.branches: dict[str, _Branch[V]] = {}
        self.values: set[V] = set()


class _Index(Generic[V]):
    """Values by the levels of a name or pattern."""

    def __init__(self) -> None:
        self._root: _Branch[V] = _Branch()
        self._count = 0

    def __len__(self) -> int:
        """Return how many values there are."""
        return self._count

    def add(self, name: str, value: V) -> None:
        branch = self._root
        for level in name.split("."):
            found = branch.branches.get(level)
            if found is None:
                found = branch.branches[level] = _Branch()
            branch = found
        if value not in branch.values:
            branch.values.add(value)
            self._count += 1

    def find(self, name: str) -> set[V]:
        """Return the values of one name or pattern."""
        branch: _Branch[V] | None = self._root
        for level in name.split("."):
            branch = None if branch is None else branch.branches.get(level)
        return set() if branch is None else branch.values

    def discard(self, name: str, value: V) -> None:
        """Forget a value, and the levels that lead to nothing else."""
        path = [self._root]
        levels = name.split(".")
        for level in levels:
            found = path[-1].branches.get(level)
            if found is None:
                return
            path.append(found)
        if value in path[-1].values:
            path[-1].values.discard(value)
            self._count -= 1
        for level in reversed(levels):
            branch = path.pop()
            if branch.values or branch.branches:
                return
            del path[-1].branches[level]


class PatternIndex(_Index[V]):
    """Patterns, and what is asked for with them."""

    def match(self, name: str) -> set[V]:
        """Return the values of all patterns that stand for a name."""
        levels = name.split(".")
        found: set[V] = set()
        by_path = _path_pattern(name)
        if by_path is not None:
            found |= self.find(by_path)
        reached: list[_Branch[V]] = [self._root]
        for depth, level in enumerate(levels):
            is_own = depth == 0 and level.startswith(_OWN)
            following: list[_Branch[V]] = []
            for branch in reached:
                branches = branch.branches
                if not is_own:
                    if (rest := branches.get(ANY_REST)) is not None:
                        found |= rest.values
                    if (one := branches.get(ANY_LEVEL)) is not None:
                        following.append(one)
                if (same := branches.get(level)) is not None:
                    following.append(same)
            reached = following
            if not reached:
                return found
        for branch in reached:
            found |= branch.values
        return found


class NameIndex(_Index[V]):
    """Names, and whom they belong to; each value has one name."""

    def __init__(self) -> None:
        super().__init__()
        self._by_path: dict[str, set[V]] = {}
        """Those whose names are paths, by the pattern that stands for them."""

    def add(self, name: str, value: V) -> None:
        super().add(name, value)
        pattern = _path_pattern(name)
        if pattern is not None:
            self._by_path.setdefault(pattern, set()).add(value)

    def discard(self, name: str, value: V) -> None:
        super().discard(name, value)
        pattern = _path_pattern(name)
        if pattern is not None and value in self._by_path.get(pattern, ()):
            self._by_path[pattern].discard(value)
            if not self._by_path[pattern]:
                del self._by_path[pattern]

    def match(self, pattern: str) -> list[V]:
        """Return the values of all names that a pattern stands for."""
        if pattern.endswith(ANY_PART):
            return list(self._by_path.get(pattern, ()))
        reached: list[_Branch[V]] = [self._root]
        wanted = pattern.split(".")
        for depth, want in enumerate(wanted):
            following: list[_Branch[V]] = []
            if want == ANY_REST:
                return [v for b in reached for v in self._below(b, is_root=depth == 0)]
            for branch in reached:
                if want == ANY_LEVEL:
                    following += self._visible(branch, is_root=depth == 0)
                elif (same := branch.branches.get(want)) is not None:
                    following.append(same)
            reached = following
        return [value for branch in reached for value in branch.values]

    @staticmethod
    def _visible(branch: _Branch[V], *, is_root: bool) -> list[_Branch[V]]:
        """Return what ``*`` reaches from a branch."""
        if not is_root:
            return list(branch.branches.values())
        return [b for level, b in branch.branches.items() if not level.startswith(_OWN)]

    def _below(self, branch: _Branch[V], *, is_root: bool) -> Iterator[V]:
        waiting = self._visible(branch, is_root=is_root)
        while waiting:
            each = waiting.pop()
            yield from each.values
            waiting += each.branches.values()
