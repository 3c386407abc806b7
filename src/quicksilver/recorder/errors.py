"""What can be wrong with a recording, as errors that hold data."""

from __future__ import annotations

from pathlib import Path

from quicksilver.node.errors import QuicksilverError


class RecorderError(QuicksilverError):
    """Base of all errors about recordings."""


class NoLogError(RecorderError):
    """There is no recording where one is looked for."""

    def __init__(self, path: Path, known: tuple[str, ...] = ()) -> None:
        super().__init__(path, known)
        self.path = path
        self.known = known

    def __str__(self) -> str:
        there = f"; there is: {', '.join(self.known[:8])}" if self.known else ""
        return f"{self.path} holds no recorded group{there}; record one with `quicksilver record`"


class OtherVersionError(RecorderError):
    """A segment was written by a quicksilver whose recordings this one does not read."""

    def __init__(self, path: Path, version: str, supported: str) -> None:
        super().__init__(path, version, supported)
        self.path = path
        self.version = version
        self.supported = supported

    def __str__(self) -> str:
        is_older = self.version.isdecimal() and int(self.version) < int(self.supported)
        remedy = "record into another --path" if is_older else "update it"
        reads = f"this quicksilver reads {self.supported}: {remedy}"
        return f"{self.path} has version {self.version}; {reads}"


class DamagedSegmentError(RecorderError):
    """Bytes of a segment are not the ones that were written."""

    def __init__(self, path: Path, first: int, end: int, problem: str) -> None:
        super().__init__(path, first, end, problem)
        self.path = path
        self.first = first
        self.end = end
        """The offset after the last row that is damaged."""
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}: offsets {self.first} to {self.end - 1} are damaged"


class OffsetsLostError(RecorderError):
    """Offsets that were asked for are not there any more."""

    def __init__(self, group: str, first: int, end: int, why: str) -> None:
        super().__init__(group, first, end, why)
        self.group = group
        self.first = first
        self.end = end
        self.why = why

    def __str__(self) -> str:
        return (
            f"offsets {self.first} to {self.end - 1} of group {self.group!r} are lost: {self.why}"
        )


class StateFileError(RecorderError):
    """A small file beside the segments is missing or damaged."""

    def __init__(self, path: Path, consequence: str) -> None:
        super().__init__(path, consequence)
        self.path = path
        self.consequence = consequence

    def __str__(self) -> str:
        return (
            f"{self.path} is missing or damaged: {self.consequence}; put the file back, "
            "or record with --repair, which makes it anew from the segments"
        )


class DamagedLogError(RecorderError):
    """A recorder will not go on with a log of which safe rows cannot be read."""

    def __init__(self, problem: RecorderError) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return (
            f"{self.problem}; put the file back, or record with --repair, which keeps the damaged "
            "bytes, gives these offsets to nobody and goes on after them"
        )


class LogBusyError(RecorderError):
    """Another recorder writes into this folder."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path} is being written by another recorder: give each its own --path"


class LogBrokenError(RecorderError):
    """A log could not be written any further."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.path} cannot be written: {self.problem}; mend it and record again"


class PeerError(RecorderError):
    """Another recorder did not answer as it should."""

    def __init__(self, address: str, problem: str) -> None:
        super().__init__(address, problem)
        self.address = address
        self.problem = problem

    def __str__(self) -> str:
        return f"recorder at {self.address}: {self.problem}"
