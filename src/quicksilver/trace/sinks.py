"""Where records go: memory, or lines of JSON. Both are bounded."""

from __future__ import annotations

from collections import Counter, deque
from typing import IO

from quicksilver.trace.records import AnyRecord, encode_record


class MemoryTrace:
    """Keeps the newest records; ``dropped`` counts those it let go."""

    def __init__(self, records_max: int = 100_000) -> None:
        self.records: deque[AnyRecord] = deque(maxlen=records_max)
        self.dropped = 0

    def __call__(self, record: AnyRecord) -> None:
        if len(self.records) == self.records.maxlen:
            self.dropped += 1
        self.records.append(record)

    def counts(self) -> Counter[str]:
        """Return how many records of each type are kept."""
        return Counter(type(record).__name__ for record in self.records)


class LineTrace:
    """Writes one JSON object a line, up to ``bytes_max``; the rest is counted."""

    def __init__(self, file: IO[bytes], bytes_max: int = 1 << 30) -> None:
        self._file = file
        self._room = bytes_max
        self.dropped = 0

    def __call__(self, record: AnyRecord) -> None:
        line = encode_record(record) + b"\n"
        if len(line) > self._room:
            self.dropped += 1
            return
        self._room -= len(line)
        self._file.write(line)
