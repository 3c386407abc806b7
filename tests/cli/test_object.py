"""``quicksilver object`` as a process: what it prints, and how it fails."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from quicksilver.cli.main import run as run_here
from quicksilver.live.references.builder import STARTERS
from tests.cli.processes import check_one_line, run

EXAMPLES = Path(__file__).parents[2] / "examples" / "live"
CODE_2_2 = str(EXAMPLES / "code-2-2-shared-text.liveobject")
CODE_2_4 = str(EXAMPLES / "code-2-4-hybrid.liveobject")


@pytest.mark.slow
class TestProcess:
    """A few through a real process; the rest below calls the same entry point."""

    def test_a_sound_reference(self) -> None:
        """One line with its type."""
        outcome = run("object", "check", CODE_2_2)
        assert outcome.returncode == 0, outcome.stderr
        assert outcome.stdout.startswith(f"{CODE_2_2}: sound, of type Text[")

    def test_a_terminal_that_knows_only_ascii(self) -> None:
        """What it cannot show comes as an escape, never as a traceback."""
        ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
        outcome = run("object", "show", CODE_2_4, environment=ascii_only)
        assert outcome.returncode == 0, outcome.stderr
        assert r"external object \u201cMyChannel\u201d as Channel" in outcome.stdout

    def test_a_missing_file_is_one_line(self, tmp_path: Path) -> None:
        """The most common mistake."""
        check_one_line(run("object", "check", str(tmp_path / "no.liveobject")), 1, "No such file")
        check_one_line(run("object", "show", str(tmp_path)), 1, "Is a directory")


def say(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run_here(["object", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


class TestCheck:
    def test_all_examples_at_once(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A line each."""
        files = sorted(map(str, EXAMPLES.glob("*.liveobject")))
        code, out, _ = say(capsys, "check", *files)
        assert code == 0
        assert [line.partition(": sound")[0] for line in out.splitlines()] == files

    def test_an_error_has_file_line_and_column(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        """In the form that editors understand, with the path through the reference."""
        text = Path(CODE_2_2).read_text(encoding="utf-8").replace('id="0x3"', 'id="0x33"')
        file = tmp_path / "bad.liveobject"
        file.write_text(text, encoding="utf-8")
        line = next(n for n, one in enumerate(text.splitlines(), 1) if "0x33" in one)
        code, out, _ = say(capsys, "check", str(file))
        assert code == 1
        assert out.splitlines() == [
            (
                f"{file}:{line}:7: error: nothing built in has the identifier '0x33'; "
                "did you mean '0x3'? (at parameterized/using/primitive)"
            )
        ]

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("", "no element found"),
            ("<a", "not well-formed"),
            ("<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "no document type and no entities"),
            (
                '<liveobject xmlns="urn:quicksilver:liveobject:1">'
                + "<composite><component name='a'>" * 90,
                "more than 100 deep",
            ),
        ],
    )
    def test_malformed_files_are_one_line(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, reason: str
    ) -> None:
        """Bad input of the issue: each one clear error naming the place."""
        file = tmp_path / "bad.liveobject"
        file.write_text(text, encoding="utf-8")
        code, out, err = say(capsys, "check", str(file))
        assert code == 1
        assert len(out.splitlines()) == 1
        assert out.startswith(f"{file}:1:")
        assert reason in out
        assert not err
        assert say(capsys, "show", str(file))[0] == 1

    def test_json_has_everything(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        """One object a file."""
        bad = tmp_path / "bad.liveobject"
        bad.write_text("<a/>", encoding="utf-8")
        code, out, _ = say(capsys, "check", CODE_2_2, str(bad), "--json")
        good, wrong = map(json.loads, out.splitlines())
        assert code == 1
        assert good["sound"]
        assert good["endpoints"] == ["Text"]
        assert len(good["fingerprint"]) == 64
        assert good["findings"] == []
        assert not wrong["sound"]
        assert wrong["findings"][0]["code"] == "malformed"
        assert wrong["findings"][0]["line"] == 1

    def test_a_registry_is_followed(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        """Through to an error in one of its files."""
        good = str(EXAMPLES / "registry-lan-x")
        assert say(capsys, "check", CODE_2_4, "--registry", good)[0] == 0
        entry = tmp_path / "MyPlatform.liveobject"
        entry.write_text(Path(CODE_2_4).read_text(encoding="utf-8"), encoding="utf-8")
        code, out, _ = say(capsys, "check", CODE_2_4, "--registry", str(tmp_path))
        assert code == 1
        assert f"{entry}:" in out
        assert "external references go in a circle: MyPlatform → MyPlatform" in out


class TestShow:
    def test_the_dissertations_notation(self, capsys: pytest.CaptureFixture[str]) -> None:
        """As Code 2.4 has it."""
        code, out, _ = say(capsys, "show", CODE_2_4)
        assert code == 0
        assert "external object “MyChannel” as Channel" in out
        assert "fingerprint " in out

    def test_a_drawing(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        """To a file, or to standard output."""
        target = tmp_path / "out.svg"
        assert say(capsys, "show", CODE_2_2, "--svg", str(target))[0] == 0
        assert ET.parse(target).getroot().tag.endswith("svg")
        code, out, _ = say(capsys, "show", CODE_2_2, "--svg", "-")
        assert code == 0
        assert out == target.read_text(encoding="utf-8")

    def test_json(self, capsys: pytest.CaptureFixture[str]) -> None:
        """The reference as data."""
        code, out, _ = say(capsys, "show", CODE_2_4, "--json")
        assert code == 0
        assert json.loads(out)["reference"]["name"] == "MyChannel"


class TestCatalogue:
    def test_types(self, capsys: pytest.CaptureFixture[str]) -> None:
        """By name, with their parameters."""
        code, out, _ = say(capsys, "types")
        assert code == 0
        assert "Folder[Key, Object]" in out
        _, out, _ = say(capsys, "types", "--json")
        rows = {row["name"]: row for row in map(json.loads, out.splitlines())}
        assert rows["Folder"]["parameters"] == ["Key", "Object"]

    def test_components(self, capsys: pytest.CaptureFixture[str]) -> None:
        """The library and the registry are always there."""
        code, out, _ = say(capsys, "components")
        assert code == 0
        assert "registry" in out
        _, out, _ = say(capsys, "components", "--json")
        rows = {row["identifier"]: row for row in map(json.loads, out.splitlines())}
        assert [one["name"] for one in rows["0x1"]["parameters"]] == ["URL", "SHA256"]


class TestNew:
    @pytest.mark.parametrize("name", sorted(STARTERS))
    def test_what_is_written_is_sound(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
    ) -> None:
        """A start without a single finding."""
        target = tmp_path / "mine.liveobject"
        assert say(capsys, "new", name, str(target))[0] == 0
        code, out, _ = say(capsys, "check", str(target), "--json")
        assert code == 0
        assert json.loads(out)["findings"] == []

    def test_nothing_is_overwritten(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        """Unless that is wanted."""
        target = tmp_path / "mine.liveobject"
        target.write_text("precious", encoding="utf-8")
        code, _, err = say(capsys, "new", "library", str(target))
        assert code == 1
        assert "--force" in err
        assert target.read_text(encoding="utf-8") == "precious"
        assert say(capsys, "new", "library", str(target), "--force")[0] == 0

    def test_an_unknown_template_is_misuse(self, capsys: pytest.CaptureFixture[str]) -> None:
        """With the ones there are."""
        code, _, err = say(capsys, "new", "frob")
        assert code == 2
        assert "composite, external" in err
        assert len(err.splitlines()) == 1


class TestDiff:
    def test_differences_and_none(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Exit codes as of diff."""
        one = str(EXAMPLES / "registry-lan-x" / "MyPlatform.liveobject")
        other = str(EXAMPLES / "registry-lan-y" / "MyPlatform.liveobject")
        assert say(capsys, "diff", one, one) == (0, "no difference\n", "")
        code, out, _ = say(capsys, "diff", one, other)
        assert code == 1
        assert "192.168.0.100:60000' → 'tcp://192.168.1.100:60000'" in out
        _, out, _ = say(capsys, "diff", one, other, "--json")
        assert {json.loads(line)["path"] for line in out.splitlines()} == {
            "argument[LocalController]",
            "doc",
        }


class TestSchema:
    def test_it_is_printed_as_a_file_or_as_json(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Redirected into a file, it is what an editor can use."""
        code, out, _ = say(capsys, "schema")
        assert code == 0
        assert ET.fromstring(out).tag == "{http://www.w3.org/2001/XMLSchema}schema"
        assert json.loads(say(capsys, "schema", "--json")[1]) == {"event": "schema", "schema": out}
