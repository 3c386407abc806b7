"""The tutorial, from its first window to its last, prints what docs/tutorial.md says."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.docs.pages import Program, blocks, on_free_ports, put, shell, steps

pytestmark = pytest.mark.integration

PAGE = "docs/tutorial.md"
INSTALL, GMS, FIRST, QUOTES, SECOND, RAIN, LOSS, TOP, CRASH, DEMO = map(
    steps, blocks(PAGE, "console")
)
HEARD, SURVIVED = (block.splitlines() for block in blocks(PAGE, "text"))


def shape(line: str) -> str:
    """A line without its measurements and without the spaces that align it.

    Nor does it matter whether a member that was killed is counted out when ``pub`` begins.
    """
    line = re.sub(r" by the members that stayed \([^)]*\)", "", line)
    return " ".join(re.sub(r"\d[\d.,]*( [kM]?msg/s| [kMG]?B/s)?", "0", line).split())


class Windows:
    """Terminals that know the same GMS."""

    def __init__(self, folder: Path, gms: str) -> None:
        self._folder, self._gms = folder, gms

    def open(self, command: str) -> AbstractContextManager[Program]:
        """Start a command and keep it running."""
        return shell(command, self._folder, self._gms)

    def run(self, command: str, promised: list[str]) -> None:
        """Run a command to its end; it prints what is promised, with other measurements."""
        with self.open(command) as program:
            assert [shape(line) for line in program.rest()] == [shape(line) for line in promised]


@contextmanager
def windows(folder: Path) -> Iterator[Windows]:
    ((command, (ready,)),) = GMS
    with shell(on_free_ports(command), folder) as gms:
        line = gms.line()
        assert shape(line) == shape(ready)
        yield Windows(folder, line.split()[3].rstrip(","))


def take(program: Program, promised: list[str]) -> None:
    assert [program.line() for _ in promised] == promised


def test_the_story(tmp_path: Path) -> None:
    """Every number of a node, a view and a message is the one on the page; less is sent."""
    (first,), (second,), (lossy, send), (top,), (kill, again) = FIRST, SECOND, LOSS, TOP, CRASH
    with windows(tmp_path) as here, here.open(first[0]) as one:
        take(one, first[1])
        here.run(*QUOTES[0])
        take(one, HEARD)
        with here.open(second[0]) as two:
            take(two, second[1])
            take(one, ["prices view 2: 1 3 (+3)"])
            here.run(*RAIN[0])
            take(one, ["prices 4#0 rain"])
            assert {two.line(), two.line()} == {"prices 4#0 rain", "weather 4#0 rain"}
            two.process.send_signal(signal.SIGINT)
            take(one, ["prices view 3: 1 (-3)"])
        with here.open(lossy[0]) as two:
            take(one, ["prices view 4: 1 5 (+5)"])
            with here.open(put(send[0], {"15000": "9000"})) as publisher:
                two.until("prices 6#1500")
                check_top(here, *top)
                assert [shape(line) for line in publisher.rest()] == [shape(send[1][0])]
            for _ in range(9000):
                one.line()
            here.run(put(kill[0], {"28594": two.process.pid}), kill[1])
            here.run(*again)
        # Whoever sends before the GMS has counted the dead node out is heard before the view.
        assert sorted(one.line() for _ in SURVIVED) == sorted(SURVIVED)


def check_top(here: Windows, command: str, promised: list[str]) -> None:
    """The same table: its headings, its nodes and its region, whatever the rates are."""
    with here.open(command) as program:
        shown = program.rest()
    assert len(shown) == len(promised)
    for number in (1, 2, 6, 7):
        assert shape(shown[number]) == shape(promised[number])
    for number in (3, 4, 5):
        columns = [line.split() for line in (shown[number], promised[number])]
        assert [(one[0], one[2], one[3], one[-1]) for one in columns[:1]] == [
            (one[0], one[2], one[3], one[-1]) for one in columns[1:]
        ]


def test_the_demonstration_reports_as_shown(tmp_path: Path) -> None:
    """With fewer messages: it is the same table."""
    ((command, promised),) = DEMO
    with shell(put(command, {"40000": "2000"}), tmp_path) as program:
        assert [shape(line) for line in program.rest()] == [shape(line) for line in promised]


def test_the_doctor_checks_what_is_shown(tmp_path: Path) -> None:
    _, (command, (heading, *rows, _)) = INSTALL
    with shell(command, tmp_path) as program:
        lines = program.rest()
    assert shape(lines[0]) == shape(heading)
    assert {row.split()[0] for row in rows} <= {line.split()[0] for line in lines}
