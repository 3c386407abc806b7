"""Positions in several groups at once, and how far one micro-batch goes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from quicksilver.recorder.errors import NoLogError, OffsetsLostError
from quicksilver.recorder.reader import LogReader
from quicksilver.spark.connector.options import EARLIEST, LATEST, SourceOptions, Start
from quicksilver.spark.errors import OptionError

Offsets: TypeAlias = dict[str, int]
"""The next offset of each group; what Spark keeps in its checkpoint."""


class Positions:
    """The recorded groups that a query reads."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._readers: dict[str, LogReader] = {}

    def reader(self, group: str) -> LogReader:
        """Return the log of a group; raises NoLogError."""
        found = self._readers.get(group)
        if found is None:
            found = self._readers[group] = LogReader(Path(self._options.path), group)
        return found

    def groups(self) -> list[str]:
        """Return the groups there are to read."""
        return self._options.groups()

    def bounds(self, group: str) -> tuple[int, int]:
        """Return the first offset and the one past the last; raises NoLogError."""
        return self.reader(group).bounds()

    def start(self) -> Offsets:
        """Return where a new query begins."""
        options = self._options
        return {
            group: self._resolve(group, options.starting, options.starting_us, "startingOffsets")
            for group in self._require_groups()
        }

    def end(self) -> Offsets:
        """Return where a batch query ends."""
        options = self._options
        return {
            group: self._resolve(group, options.ending, options.ending_us, "endingOffsets")
            for group in self._require_groups()
        }

    def latest(self) -> Offsets:
        """Return the ends of all groups; one that is not recorded yet is left out."""
        found: Offsets = {}
        for group in self.groups():
            try:
                found[group] = self.bounds(group)[1]
            except NoLogError:
                continue
        return found

    def _require_groups(self) -> list[str]:
        groups = self.groups()
        for group in groups:
            self.reader(group)  # says what is there if this is not
        return groups

    def _resolve(self, group: str, wanted: Start, time_us: int | None, option: str) -> int:
        first, past = self.bounds(group)
        if time_us is not None:
            return self.reader(group).find_time(time_us)
        match wanted:
            case "earliest":
                return first
            case "latest":
                return past
            case _:
                offset = wanted.get(group)
        if offset is None:
            raise OptionError(f"option {option}: it says nothing about group {group!r}")
        if offset == EARLIEST:
            return first
        if offset == LATEST:
            return past
        if not first <= offset <= past:
            if self._options.fails_on_loss:
                why = f"the log holds {first} to {past - 1}"
                raise OffsetsLostError(group, offset, first if offset < first else offset + 1, why)
            return min(max(offset, first), past)
        return offset


def limit_rows(start: Mapping[str, int], end: Mapping[str, int], rows_max: int) -> Offsets:
    """Return how far to go with so many rows, shared in proportion to what each group has."""
    backlog = {group: max(0, past - start.get(group, 0)) for group, past in end.items()}
    total = sum(backlog.values())
    if total <= rows_max:
        return dict(end)
    shares = {group: rows * rows_max // total for group, rows in backlog.items()}
    left = rows_max - sum(shares.values())
    # What rounding left over goes to those with the most to read, one row each.
    for group in sorted(backlog, key=lambda one: (-backlog[one], one)):
        if left and shares[group] < backlog[group]:
            shares[group] += 1
            left -= 1
    return {group: start.get(group, 0) + shares[group] for group in end}
