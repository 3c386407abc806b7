"""``quicksilver pl check | fmt | explain | list``: what they print, and how they fail."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from quicksilver.cli.main import run as run_here
from quicksilver.properties import library
from tests.cli.processes import check_one_line, run
from tests.properties.printed import CODE_5_1

WRONG = "protocol P {\n  rules {\n    A = 1;\n    B := 2 +;\n  }\n}\n"


@pytest.mark.slow
class TestProcess:
    """A few through a real process; the rest below calls the same entry point."""

    def test_a_sound_program(self) -> None:
        outcome = run("pl", "check", "cleanup")
        assert (outcome.returncode, outcome.stdout) == (0, "cleanup: sound\n")

    def test_errors_are_one_line(self, tmp_path: Path) -> None:
        check_one_line(run("pl", "explain", "claenup"), 1, "did you mean cleanup?")
        check_one_line(run("pl", "check", str(tmp_path / "no.pl")), 1, "No such file")
        check_one_line(run("pl", "fmt", "cleanup"), 2, "is not a file")


def say(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run_here(["pl", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def wrong(tmp_path: Path) -> str:
    path = tmp_path / "wrong.pl"
    path.write_text(WRONG, encoding="utf-8")
    return str(path)


class TestCheck:
    def test_the_whole_library(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, _ = say(capsys, "check", *library.names())
        assert code == 0
        assert out.splitlines() == [f"{name}: sound" for name in library.names()]

    def test_every_error_has_its_place(
        self, capsys: pytest.CaptureFixture[str], wrong: str
    ) -> None:
        code, out, _ = say(capsys, "check", wrong)
        assert code == 1
        lines = out.splitlines()
        assert [line.partition(": ")[0] for line in lines] == [
            f"{wrong}:3:7",
            f"{wrong}:4:13",
            wrong,
        ]
        assert lines[0].endswith("assign with :=")
        assert lines[-1] == f"{wrong}: 2 errors"

    def test_json(self, capsys: pytest.CaptureFixture[str], wrong: str) -> None:
        code, out, _ = say(capsys, "check", "--json", wrong, "cleanup")
        first, second = (json.loads(line) for line in out.splitlines())
        assert code == 1
        assert (first["event"], first["sound"], second["sound"]) == ("checked", False, True)
        assert first["findings"][0] == {
            "line": 3,
            "column": 7,
            "end_line": 3,
            "end_column": 8,
            "severity": "error",
            "code": "syntax",
            "text": "`=` cannot stand here",
            "why": "expected `(`, `[` or an assignment (:=, ∪=, ∩=, +=, max=, min=)",
            "suggestion": "assign with :=",
        }

    def test_what_is_no_text_is_refused(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        path = tmp_path / "bytes.pl"
        path.write_bytes(b"\xff\xfe\x00")
        code, _, err = say(capsys, "check", str(path))
        assert (code, err.count("\n")) == (1, 1)
        assert "is not text in UTF-8" in err


class TestFormat:
    def test_files_are_written_in_place(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        path = tmp_path / "cleanup.pl"
        path.write_text(CODE_5_1, encoding="utf-8")
        assert say(capsys, "fmt", "--check", str(path))[:2] == (1, f"{path}: would change\n")
        assert path.read_text(encoding="utf-8") == CODE_5_1
        assert say(capsys, "fmt", str(path))[:2] == (0, f"{path}: changed\n")
        assert say(capsys, "fmt", "--check", str(path))[:2] == (0, "")
        assert say(capsys, "fmt", "--ascii", "--json", str(path))[0] == 0
        assert path.read_text(encoding="utf-8").isascii()

    def test_standard_input(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys, "stdin", io.StringIO(CODE_5_1))
        code, out, _ = say(capsys, "fmt", "-")
        assert code == 0
        assert out.startswith("protocol Cleanup {\n  interface {\n")

    def test_a_program_with_errors_is_left_alone(
        self, capsys: pytest.CaptureFixture[str], wrong: str
    ) -> None:
        code, out, err = say(capsys, "fmt", wrong)
        assert (code, out) == (1, "")
        assert len(err.splitlines()) == 2
        assert Path(wrong).read_text(encoding="utf-8") == WRONG


class TestExplain:
    def test_sentences(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, _ = say(capsys, "explain", "cleanup")
        assert code == 0
        assert out.splitlines()[2] == "  R2  for the whole system: Cleanup := Stable"

    def test_json(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, _ = say(capsys, "explain", "--json", "cleanup")
        told = json.loads(out)
        assert (code, told["program"], len(told["digest"])) == (0, "Cleanup", 32)
        assert told["arrows"][2] == {
            "from": {"level": "top", "name": "Stable"},
            "to": {"level": "top", "name": "Cleanup"},
            "label": "R2",
            "how": "",
        }

    def test_a_drawing(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        path = tmp_path / "out.svg"
        code, out, _ = say(capsys, "explain", "cleanup", "--svg", str(path))
        assert code == 0
        assert out.startswith(f"{path}: ")
        assert ET.parse(path).getroot().tag.endswith("svg")
        _, drawing, _ = say(capsys, "explain", "cleanup", "--svg", "-")
        assert drawing == path.read_text(encoding="utf-8")

    def test_a_wrong_program(self, capsys: pytest.CaptureFixture[str], wrong: str) -> None:
        code, out, err = say(capsys, "explain", wrong)
        assert (code, out) == (1, "")
        assert err.startswith(f"quicksilver: {wrong}:3:7: error: ")
        assert err.endswith("(and 1 more)\n")


def test_the_library_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = say(capsys, "list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == list(library.names())
    assert "Gives a lock to one node at a time." in out
