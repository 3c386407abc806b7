"""Records as Parquet files, written by a thread of their own.

The engine's thread only appends to a queue that is bounded; what does not fit is
counted, not waited for (a simulator, whose time can stand still, waits instead).
The writing thread sorts records by kind into columns and makes a file of them when
there are enough or when they have waited long enough. A file is written under
another name and then renamed: after a crash there are whole files and at most one
torn one for each kind, which nobody reads.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec

from quicksilver.stdx.errors import QuicksilverError
from quicksilver.stdx.install import install_line
from quicksilver.trace.folders import KIND, run_folder, safe_name
from quicksilver.trace.records import AnyRecord, TraceEnded

if TYPE_CHECKING:
    import pyarrow

BUFFERED_MAX = 200_000
"""Records that wait for the writing thread; some 40 MB of memory at most."""

RECORDS_MAX = 20_000_000
"""Records of one writer in one run; a trace must not fill a disk."""

LOOK_S = 0.5
FILE_S = 10.0
FILE_ROWS = 100_000
"""A file is made of so many records of a kind, or of what came in so much time."""

_TYPES = {"int": "int64", "float": "float64", "str": "string", "tuple[int, ...]": "list<int64>"}


class TraceError(QuicksilverError):
    """A trace cannot be written; the text says what would do."""


def fields_of(kind: type[Any]) -> list[tuple[str, str]]:
    """Return a record's columns: their names and, as Arrow calls them, their types."""
    found = []
    for field in msgspec.structs.fields(kind):
        name = field.type.__name__ if isinstance(field.type, type) else str(field.type)
        found.append((field.name, _TYPES[name]))
    return found


def arrow_type(name: str) -> Any:
    """Return the Arrow type with such a name."""
    import pyarrow

    return {
        "int64": pyarrow.int64(),
        "float64": pyarrow.float64(),
        "string": pyarrow.string(),
        "list<int64>": pyarrow.list_(pyarrow.int64()),
    }[name]


class ParquetTrace:
    """A tracer that writes one run's records, of one process, into a folder of runs."""

    def __init__(
        self,
        folder: Path,
        run: str,
        writer: str,
        *,
        waits: bool = False,
        buffered_max: int = BUFFERED_MAX,
        records_max: int = RECORDS_MAX,
        file_rows: int = FILE_ROWS,
        file_s: float = FILE_S,
    ) -> None:
        """Make the folder; raises TraceError.

        ``writer`` tells the processes of a run apart. ``waits``: a record for which
        there is no room holds the caller up instead of being dropped.
        """
        try:
            import pyarrow.parquet  # noqa: F401  # only to see whether the extra is installed
        except ModuleNotFoundError:
            raise TraceError(f"traces need pyarrow: {install_line('record')}") from None
        self.run = run
        self.writer = safe_name(writer)
        self.folder = run_folder(folder, run)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TraceError(f"{self.folder}: {error.strerror}; choose another folder") from None
        self.dropped = 0
        self.written = 0
        self.problem: str | None = None
        """What ended the writing, if something did."""
        self._waits = waits
        self._buffered_max = buffered_max
        self._room = records_max
        self._file_rows = file_rows
        self._looks_a_file = max(1, round(file_s / LOOK_S))
        self._buffer: deque[AnyRecord] = deque()
        self._columns: dict[type[AnyRecord], _Columns] = {}
        self._files = self._number_of_files()
        self._last: AnyRecord | None = None
        self._work = threading.Event()
        self._taken = threading.Event()
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="quicksilver-trace", daemon=True)
        self._thread.start()

    def __call__(self, record: AnyRecord) -> None:
        # Both ends of a deque may be used by two threads without a lock.
        if len(self._buffer) < self._buffered_max:
            self._buffer.append(record)
            return
        if not self._waits or self.problem is not None:
            self.dropped += 1
            return
        while len(self._buffer) >= self._buffered_max and self._thread.is_alive():
            self._taken.clear()
            self._work.set()
            self._taken.wait(LOOK_S)
        self._buffer.append(record)

    def close(self) -> None:
        """Write what is left, and that the trace ended in order."""
        if not self._is_closing:
            self._is_closing = True
            self._work.set()
            self._thread.join()

    def __enter__(self) -> ParquetTrace:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # The writing thread

    def _run(self) -> None:
        looks = 0
        try:
            while not self._is_closing:
                self._work.wait(LOOK_S)
                self._work.clear()
                self._take()
                looks += 1
                self._write(least=1 if looks % self._looks_a_file == 0 else self._file_rows)
            self._take()
            self._end()
            self._write(least=1)
        except Exception as error:  # noqa: BLE001  # a node must not die of its trace
            self.problem = f"{type(error).__name__}: {error}"
            self._is_closing = True

    def _take(self) -> None:
        take = self._buffer.popleft
        for _ in range(len(self._buffer)):
            record = take()
            if not self._room:
                self.dropped += 1
                continue
            self._room -= 1
            kind = type(record)
            columns = self._columns.get(kind)
            if columns is None:
                columns = self._columns[kind] = _Columns(kind)
            columns.add(record, self.written)
            self.written += 1
            self._last = record
        self._taken.set()

    def _end(self) -> None:
        last = self._last
        if last is None:
            return
        ended = TraceEnded(last.at, last.node, self.written, self.dropped)
        columns = self._columns.setdefault(TraceEnded, _Columns(TraceEnded))
        columns.add(ended, self.written)

    def _write(self, least: int) -> None:
        import pyarrow.parquet

        for kind, columns in self._columns.items():
            if columns.count < least:
                continue
            place = self.folder / f"{KIND}{kind.__name__}"
            place.mkdir(exist_ok=True)
            name = f"{self.writer}-{self._files:06}.parquet"
            self._files += 1
            unfinished = place / f".{name}.unfinished"
            table = columns.take(self.writer)
            pyarrow.parquet.write_table(table, unfinished, compression="zstd")
            unfinished.rename(place / name)

    def _number_of_files(self) -> int:
        """One past the files that a writer of this name has left: none is written over."""
        pattern = f"{KIND}*/{self.writer}-*.parquet"
        numbers = [path.stem.rsplit("-", 1)[-1] for path in self.folder.glob(pattern)]
        return 1 + max((int(number) for number in numbers if number.isdecimal()), default=-1)


class _Columns:
    """Records of one kind, and their numbers."""

    def __init__(self, kind: type[AnyRecord]) -> None:
        self._fields = fields_of(kind)
        self._rows: list[tuple[Any, ...]] = []
        self._numbers: list[int] = []
        self._as_tuple = msgspec.structs.astuple

    @property
    def count(self) -> int:
        return len(self._rows)

    def add(self, record: AnyRecord, number: int) -> None:
        self._rows.append(self._as_tuple(record))
        self._numbers.append(number)

    def take(self, writer: str) -> pyarrow.Table:
        """Return the records as a table, and forget them."""
        import pyarrow

        columns: list[Sequence[Any]] = list(zip(*self._rows, strict=True))
        names = ["writer", "number", *(name for name, _ in self._fields)]
        arrays = [
            pyarrow.array([writer] * len(self._rows), pyarrow.string()),
            pyarrow.array(self._numbers, pyarrow.int64()),
            *(
                pyarrow.array(values, arrow_type(type_))
                for values, (_, type_) in zip(columns, self._fields, strict=True)
            ),
        ]
        self._rows, self._numbers = [], []
        return pyarrow.table(arrays, names=names)
