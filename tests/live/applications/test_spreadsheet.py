"""The spreadsheet bridge: what is saved is shared, what is shared is in the file."""

from __future__ import annotations

import datetime
import os
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from quicksilver.live.components.applications.spreadsheet import Spreadsheet
from quicksilver.live.components.applications.table import Table
from quicksilver.live.references.builder import primitive
from quicksilver.live.references.model import Reference
from tests.live.applications.desk import Desk, User
from tests.live.applications.memory_channels import MemoryCheckpointed

KINDS = (Spreadsheet, Table, MemoryCheckpointed)
CHANNEL = primitive("test.checkpointed", group="t")
TABLE = primitive("quicksilver.table", channel=CHANNEL)


class Sheet:
    """A file that somebody edits with an office program."""

    def __init__(self, path: Path) -> None:
        self.path = path
        workbook = openpyxl.Workbook()
        workbook.active.title = "Prices"
        workbook.create_sheet("Notes")["A1"] = "leave me alone"
        workbook.save(path)
        self._saves = 0

    def reference(self, cells: str = "A1:C10", **more: Any) -> Reference:
        return primitive(
            "quicksilver.spreadsheet",
            channel=CHANNEL,
            path=str(self.path),
            sheet="Prices",
            cells=cells,
            **more,
        )

    def save(self, **cells: Any) -> None:
        workbook = openpyxl.load_workbook(self.path)
        for name, value in cells.items():
            workbook["Prices"][name] = value
        workbook.save(self.path)
        # Two saves within one tick of the file system's clock must look like two.
        self._saves += 1
        status = self.path.stat()
        os.utime(self.path, ns=(status.st_atime_ns, status.st_mtime_ns + self._saves))

    @property
    def cells(self) -> dict[str, Any]:
        workbook = openpyxl.load_workbook(self.path)
        assert workbook["Notes"]["A1"].value == "leave me alone"
        rows = workbook["Prices"].iter_rows()
        return {c.coordinate: c.value for row in rows for c in row if c.value is not None}

    def kind(self, name: str) -> str:
        return str(openpyxl.load_workbook(self.path)["Prices"][name].data_type)


@pytest.fixture
def sheets(tmp_path: Path) -> tuple[Sheet, Sheet]:
    return Sheet(tmp_path / "north.xlsx"), Sheet(tmp_path / "south.xlsx")


def join(desk: Desk, sheet: Sheet) -> User:
    return desk.join(sheet.reference(), "Table")


def test_cells_go_both_ways_and_never_come_back_as_new(sheets: tuple[Sheet, Sheet]) -> None:
    north, south = sheets
    north.save(A1="apples", B1=3)
    desk = Desk(kinds=KINDS)
    users = [join(desk, sheet) for sheet in sheets]
    desk.run(5.0)
    assert south.cells == {"A1": "apples", "B1": 3}
    south.save(B1=4.5, C2=True)
    desk.run(5.0)
    north.save(A1=None)
    desk.run(5.0)
    assert north.cells == south.cells == {"B1": 4.5, "C2": True}
    sent = len(desk.hub.sent)
    stamps = [sheet.path.stat().st_mtime_ns for sheet in sheets]
    desk.run(30.0)
    assert len(desk.hub.sent) == sent == 5
    assert [sheet.path.stat().st_mtime_ns for sheet in sheets] == stamps
    assert [user.got("problem") for user in users] == [[], []]


def test_a_program_fills_a_sheet_and_hears_what_is_saved(sheets: tuple[Sheet, Sheet]) -> None:
    north, _ = sheets
    desk = Desk(kinds=KINDS)
    program = desk.join(TABLE, "Table")
    join(desk, north)
    desk.run()
    program.port.put("B2", {"value": 12})
    desk.run(3.0)
    assert north.cells == {"B2": 12}
    north.save(B2=13)
    desk.run(3.0)
    assert program.last("changed") == ("B2", {"value": 13})


def test_cells_outside_the_range_are_nobodys_business(sheets: tuple[Sheet, Sheet]) -> None:
    north, south = sheets
    desk = Desk(kinds=KINDS)
    program = desk.join(TABLE, "Table")
    user = join(desk, north)
    join(desk, south)
    desk.run()
    north.save(D1="private", A11="private", A1="shared")
    for key in ("D1", "A11", "$A$2", "a3", "nonsense", "A0"):
        program.port.put(key, {"value": "intruder"})
    program.port.put("A4", {"value": 1, "other": 2})
    program.port.put("A5", {"value": b"bytes"})
    program.port.put("A6", {"value": "\x00"})
    desk.run(5.0)
    assert south.cells == {"A1": "shared"}
    assert north.cells == {"D1": "private", "A11": "private", "A1": "shared"}
    assert len(user.got("problem")) == 9
    assert not user.proxy.failures


def test_formulas_stay_at_home_and_none_come_in(sheets: tuple[Sheet, Sheet]) -> None:
    north, south = sheets
    desk = Desk(kinds=KINDS)
    program = desk.join(TABLE, "Table")
    for sheet in sheets:
        join(desk, sheet)
    desk.run()
    north.save(A1="=B1*2", B1=5)
    program.port.put("A2", {"value": '=WEBSERVICE("http://evil.example")'})
    desk.run(5.0)
    assert south.cells == {"B1": 5, "A2": '=WEBSERVICE("http://evil.example")'}
    assert north.cells["A1"] == "=B1*2"
    assert north.kind("A1") == "f"
    assert north.kind("A2") == south.kind("A2") == "s"


def test_formulas_are_shared_if_wanted(sheets: tuple[Sheet, Sheet]) -> None:
    north, south = sheets
    desk = Desk(kinds=KINDS)
    for sheet in sheets:
        desk.join(sheet.reference(formulas=True), "Table")
    desk.run()
    north.save(A1="=B1*2")
    desk.run(5.0)
    assert south.kind("A1") == "f"


def test_a_date_is_text_elsewhere_and_stays_a_date_at_home(sheets: tuple[Sheet, Sheet]) -> None:
    north, south = sheets
    desk = Desk(kinds=KINDS)
    for sheet in sheets:
        join(desk, sheet)
    desk.run()
    north.save(A1=datetime.date(2026, 3, 1))
    desk.run(5.0)
    assert south.cells == {"A1": "2026-03-01T00:00:00"}
    assert north.kind("A1") == "d"


def test_nothing_is_written_while_an_office_program_has_the_file(
    sheets: tuple[Sheet, Sheet],
) -> None:
    north, _ = sheets
    desk = Desk(kinds=KINDS)
    program = desk.join(TABLE, "Table")
    join(desk, north)
    desk.run()
    lock = north.path.parent / f".~lock.{north.path.name}#"
    lock.touch()
    program.port.put("A1", {"value": 1})
    desk.run(5.0)
    assert north.cells == {}
    lock.unlink()
    desk.run(5.0)
    assert north.cells == {"A1": 1}


def test_of_two_changes_of_one_cell_the_later_counts_everywhere(
    sheets: tuple[Sheet, Sheet],
) -> None:
    north, south = sheets
    desk = Desk(kinds=KINDS)
    for sheet in sheets:
        join(desk, sheet)
    desk.run(3.0)
    for round_ in range(5):
        north.save(A1=f"north {round_}")
        south.save(A1=f"south {round_}")
        desk.run(0.35 * round_)
    desk.run(5.0)
    assert north.cells == south.cells
    assert north.cells["A1"] in {"north 4", "south 4"}


def test_a_file_that_is_gone_or_broken_for_a_while_is_told_of_once(
    sheets: tuple[Sheet, Sheet],
) -> None:
    north, _ = sheets
    desk = Desk(kinds=KINDS)
    user = join(desk, north)
    desk.run()
    whole = north.path.read_bytes()
    north.path.unlink()
    desk.run(5.0)
    north.path.write_bytes(b"PK half a file")
    desk.run(5.0)
    north.path.write_bytes(whole)
    north.save(A1="back")
    desk.run(5.0)
    assert len(user.got("problem")) == 2
    assert user.last("changed") == ("A1", {"value": "back"})
    assert not user.proxy.failures


def test_no_half_written_file_is_left(
    sheets: tuple[Sheet, Sheet], monkeypatch: pytest.MonkeyPatch
) -> None:
    north, _ = sheets
    desk = Desk(kinds=KINDS)
    program = desk.join(TABLE, "Table")
    user = join(desk, north)
    desk.run()
    before = north.path.read_bytes()

    def fail(self: object, file: Any) -> None:
        file.write(b"half")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(openpyxl.Workbook, "save", fail)
        program.port.put("A1", {"value": 1})
        desk.run(5.0)
    assert north.path.read_bytes() == before
    assert "No space left" in user.got("problem")[0]
    desk.run(5.0)
    assert north.cells == {"A1": 1}
    assert sorted(path.name for path in north.path.parent.iterdir()) == ["north.xlsx", "south.xlsx"]


@pytest.mark.parametrize(
    ("cells", "problem"),
    [("", "no end"), ("A:B", "no end"), ("A1:ZZ9999", "at most"), ("!!", "no range")],
)
def test_a_range_that_makes_no_sense_is_said_in_one_line(
    sheets: tuple[Sheet, Sheet], cells: str, problem: str
) -> None:
    with pytest.raises(Exception, match=problem) as caught:
        Desk(kinds=KINDS).join(sheets[0].reference(cells), "Table")
    assert "\n" not in str(caught.value)
