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

from typing import Final

from quicksilver.live.components.applications.bridge import TableBridge
from quicksilver.live.components.applications.codec import BadMessageError
from quicksilver.live.components.applications.files import SharedFiles
from quicksilver.live.components.applications.spreadsheet_file import (
    FileChangedError,
    SheetError,
    SheetRange,
    check_cell,
)
from quicksilver.live.components.applications.table import Cell, Row
from quicksilver.live.components.interfaces import CheckpointedChannel
from quicksilver.live.runtime.components import component
from quicksilver.live.types.declare import Given, live_object
from quicksilver.live.types.reflect import Ref

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
