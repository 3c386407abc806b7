"""A range of a spreadsheet as a live object: what is saved goes out, others' cells come in.

A row of the table is a cell: its key is the cell's name (``B2``), its one column
``value`` what is in it; an empty cell is no row. Types: numbers, text, truth and,
as text, dates. Formulas stay in their file, and a text from elsewhere that begins
like a formula stays text, unless ``formulas`` says otherwise.

When a bridge starts the channel is right about all cells that it has; what only
the file has is sent. So a cell that was emptied elsewhere while no bridge ran here
comes back: a file does not tell what it once had.

The file is read and written whole, on the runtime's own thread, and nothing is
written while an office program holds it open. What openpyxl does not know, such
as some charts, is lost when it is written.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from quicksilver.live.codec import BadMessageError
from quicksilver.live.components.applications.table import Cell, Row, TableBridge
from quicksilver.live.components.interfaces import CheckpointedChannel
from quicksilver.live.components.packages import need
from quicksilver.live.runtime.components import component
from quicksilver.live.services.storage import SharedFiles
from quicksilver.live.types.declare import Given, live_object
from quicksilver.live.types.reflect import Ref
from quicksilver.stdx.errors import QuicksilverError

if TYPE_CHECKING:
    from openpyxl import Workbook


FILE_BYTES_MAX: Final = 20 << 20
CELLS_MAX: Final = 10_000
TEXT_CHARACTERS_MAX: Final = 32_767
"""What a cell can hold."""


class SheetError(QuicksilverError):
    """A file or a range that cannot be bridged, and what to do about it."""


class FileChangedError(QuicksilverError):
    """Somebody saved the file while it was being written here: read it again."""


class SheetRange:
    """A rectangle of cells."""

    def __init__(self, path: Path, sheet: str, cells: str, *, with_formulas: bool) -> None:
        """Check what can be checked without the file; raises SheetError."""
        self._openpyxl = need("openpyxl", "the spreadsheet")
        self._path = path
        self._sheet = sheet
        self._with_formulas = with_formulas
        try:
            bounds = self._openpyxl.utils.range_boundaries(cells.replace("$", "").upper())
        except (ValueError, TypeError) as error:
            raise SheetError(f"{cells!r} is no range of cells: write A1:D20") from error
        if None in bounds:
            raise SheetError(f"{cells!r} has no end: write A1:D20")
        self._left, self._top, self._right, self._bottom = bounds
        size = (self._right - self._left + 1) * (self._bottom - self._top + 1)
        if not 0 < size <= CELLS_MAX:
            raise SheetError(f"{cells!r} is {size} cells: at most {CELLS_MAX}, first corner first")
        self._seen: tuple[int, int] | None = None
        self._hash = b""

    def holds(self, name: str) -> bool:
        """Whether this is the plain name of a cell within the range."""
        try:
            row, column = self._openpyxl.utils.cell.coordinate_to_tuple(name)
        except (ValueError, TypeError, self._openpyxl.utils.exceptions.CellCoordinatesException):
            return False
        letter = self._openpyxl.utils.get_column_letter(column)
        return (
            name == f"{letter}{row}"
            and self._left <= column <= self._right
            and self._top <= row <= self._bottom
        )

    @property
    def is_locked(self) -> bool:
        """Whether an office program has the file open: what is written now it would undo."""
        folder, name = self._path.parent, self._path.name
        return (folder / f".~lock.{name}#").exists() or (folder / f"~${name}").exists()

    # Reading

    def read_if_changed(self) -> dict[str, Cell] | None:
        """Return the cells that are not empty; None: the file is as it was. Raises SheetError."""
        try:
            status = self._path.stat()
            seen = (status.st_mtime_ns, status.st_size)
            if seen == self._seen:
                return None
            data = self._read_bytes()
        except OSError as error:
            raise SheetError(f"{self._path}: {error.strerror or error}") from error
        self._seen = seen
        mark = hashlib.sha256(data).digest()
        if mark == self._hash:
            return None
        workbook = self._load(data)
        self._hash = mark
        return self._read_cells(workbook)

    def _read_bytes(self) -> bytes:
        with self._path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise SheetError(f"{self._path}: has more than {FILE_BYTES_MAX} bytes")
        return data

    def _load(self, data: bytes) -> Workbook:
        import io

        try:
            workbook: Workbook = self._openpyxl.load_workbook(io.BytesIO(data))
        except Exception as error:  # a broken archive raises many things
            raise SheetError(f"{self._path}: is no xlsx file: {error}") from error
        if self._sheet not in workbook.sheetnames:
            raise SheetError(f"{self._path}: has no sheet {self._sheet!r}")
        return workbook

    def _read_cells(self, workbook: Workbook) -> dict[str, Cell]:
        found: dict[str, Cell] = {}
        rows = workbook[self._sheet].iter_rows(
            min_col=self._left, max_col=self._right, min_row=self._top, max_row=self._bottom
        )
        for row in rows:
            for cell in row:
                value = self._to_plain(cell)
                if value is not None:
                    found[cell.coordinate] = value
        return found

    def _to_plain(self, cell: Any) -> Cell:
        value = cell.value
        if cell.data_type == "f":
            return str(value) if self._with_formulas else None
        match value:
            case None | bool() | int() | float() | str():
                return value
            case datetime.datetime() | datetime.date() | datetime.time():
                return value.isoformat()
            case _:
                return str(value)

    # Writing

    def write(self, changes: dict[str, Cell]) -> None:
        """Set cells; None empties. Raises FileChangedError, SheetError, BadMessageError."""
        try:
            data = self._read_bytes()
            if hashlib.sha256(data).digest() != self._hash:
                self._seen = None
                raise FileChangedError
            workbook = self._load(data)
            sheet = workbook[self._sheet]
            for name, value in changes.items():
                self._set(sheet[name], value)
            self._save(workbook)
        except OSError as error:
            raise SheetError(f"{self._path}: {error.strerror or error}") from error

    def _set(self, cell: Any, value: Cell) -> None:
        if value is None and cell.data_type == "f" and not self._with_formulas:
            return  # formulas stay where they are
        if value is not None and self._to_plain(cell) == value:
            return  # a date stays a date
        cell.value = value
        if isinstance(value, str) and cell.data_type != "s" and not self._with_formulas:
            # A text from elsewhere must never become a formula: it could reach out of the file.
            cell.data_type = "s"

    def _save(self, workbook: Workbook) -> None:
        handle, name = tempfile.mkstemp(suffix=".xlsx", dir=self._path.parent, prefix=".live-")
        temporary = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                workbook.save(file)
                file.flush()
                os.fsync(file.fileno())
            written = temporary.read_bytes()
            temporary.chmod(self._path.stat().st_mode & 0o777)
            # Between this look and the renaming somebody may save: a moment, not excluded.
            if hashlib.sha256(self._read_bytes()).digest() != self._hash:
                self._seen = None
                raise FileChangedError
            temporary.replace(self._path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        self._hash = hashlib.sha256(written).digest()
        status = self._path.stat()
        self._seen = (status.st_mtime_ns, status.st_size)


def check_cell(value: Cell) -> None:
    """Refuse what a cell cannot hold; raises BadMessageError."""
    match value:
        case bytes():
            raise BadMessageError("a cell", "cannot hold bytes")
        case str() if len(value) > TEXT_CHARACTERS_MAX:
            raise BadMessageError("a cell", f"holds at most {TEXT_CHARACTERS_MAX} characters")
        case str() if any(ord(one) < 32 and one not in "\t\n\r" for one in value):
            raise BadMessageError("a cell", "cannot hold control characters")
        case int() if abs(value) > 1 << 53:
            raise BadMessageError("a cell", "holds whole numbers of 53 bits")


VALUE: Final = "value"


@component("quicksilver.spreadsheet", type_name="Spreadsheet")
@live_object(title="Spreadsheet")
class Spreadsheet(TableBridge):
    """a range of a sheet in an xlsx file, whose changes are shared and which applies others'

    At most 10,000 cells in a file of at most 20 MiB, looked at every ``poll_s`` seconds.
    """

    def __init__(
        self,
        channel: Given[Ref[CheckpointedChannel]],
        path: Given[str],
        sheet: Given[str],
        cells: Given[str],
        poll_s: Given[float] = 1.0,
        formulas: Given[bool] = False,
    ) -> None:
        super().__init__(channel, poll_s)
        file = self.context.service(SharedFiles).find(path)
        self._range = SheetRange(file, sheet, cells, with_formulas=formulas)
        found = self._range.read_if_changed()
        self._known: dict[str, Cell] = found or {}
        """The cells as the file last had them."""
        self._unsent: dict[str, Cell] = {}
        self._number = 0
        self._last_problem = ""

    def begin(self, is_new: bool) -> None:
        """Send what only the file has; write what the channel has."""
        self._find()
        self._unsent = {name: value for name, value in self._known.items() if name not in self.rows}
        self.dirty |= {name for name in self.rows if self._range.holds(name)}
        self._send()
        self.flush_soon()

    # From the file

    def look(self) -> None:
        """Send what was saved by others."""
        self._find()
        self._send()

    def _find(self) -> None:
        try:
            found = self._range.read_if_changed()
        except SheetError as error:
            self._complain(str(error))
            return
        if found is None:
            return
        self._last_problem = ""
        before, self._known = self._known, found
        for name in sorted(before.keys() | found.keys()):
            if before.get(name) != found.get(name):
                self._unsent[name] = found.get(name)

    def _send(self) -> bool:
        while self._unsent:
            if not self.may_send:
                return False
            name, value = self._unsent.popitem()
            self._number += 1
            self.send_local(name, None if value is None else {VALUE: value}, self._number)
        return True

    # From the channel

    def write(self, keys: list[str]) -> None:
        """Write cells into the file."""
        # What others saved until now goes first, or it would be overwritten unseen.
        self._find()
        if not self._send() or self._range.is_locked:
            self.dirty.update(keys)
            return
        changes = self._changes(keys)
        if not changes:
            return
        try:
            self._range.write(changes)
        except FileChangedError:
            self.dirty.update(keys)
            self.flush_soon()
            return
        except SheetError as error:
            self.dirty.update(keys)
            self._complain(str(error))
            return
        for name, value in changes.items():
            if value is None:
                self._known.pop(name, None)
            else:
                self._known[name] = value

    def _changes(self, keys: list[str]) -> dict[str, Cell]:
        changes: dict[str, Cell] = {}
        for name in keys:
            if name in self.on_its_way:
                continue
            row = self.rows.get(name)
            try:
                if row is not None:
                    self.check_request(name, row)
            except BadMessageError as error:
                self.table.problem(f"cell {name} is not in the file: {error}")
                continue
            value = None if row is None else row[VALUE]
            if self._range.holds(name) and self._known.get(name) != value:
                changes[name] = value
        return changes

    def check_request(self, key: str, row: Row) -> None:
        """Refuse what is not a cell of the range."""
        if not self._range.holds(key):
            raise BadMessageError(f"cell {key}", "lies outside the range")
        if row.keys() != {VALUE}:
            raise BadMessageError(f"cell {key}", f"has one column, {VALUE}")
        check_cell(row[VALUE])

    def _complain(self, problem: str) -> None:
        """Say a problem once, not at every look."""
        if problem != self._last_problem:
            self._last_problem = problem
            self.table.problem(problem)
