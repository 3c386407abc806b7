"""Where records go in tests and in one process: memory, bounded. For files see ``parquet``."""

from __future__ import annotations

from collections import Counter, deque

from quicksilver.trace.records import AnyRecord


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
