"""What commands print: JSON in which every object has an event, and text that obeys nobody."""

from __future__ import annotations

import ast
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

import quicksilver.cli
from quicksilver.cli import output
from quicksilver.cli.logs import start_logging
from quicksilver.cli.main import run
from quicksilver.cli.screen import SafeTable, make_console, styled

HOME = Path(quicksilver.cli.__file__).parent
HOSTILE = "x[/oops] [red]\x1b[2J\x07\x9b31m\r\u202e"


def is_tame(text: str) -> bool:
    """Whether a terminal would show a text as it is."""
    return all(line.isprintable() for line in text.split("\n"))


@pytest.fixture
def as_json() -> Iterator[None]:
    with output.speaking(as_json=True):
        yield


class TestText:
    def test_answers_remarks_and_errors_are_escaped(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        output.say(f"one {HOSTILE}\ntwo")
        output.remark(HOSTILE)
        output.tell_error(HOSTILE, 1)
        captured = capsys.readouterr()
        assert is_tame(captured.out)
        assert is_tame(captured.err)
        assert captured.out.count("\n") == 2
        assert captured.err.count("\n") == 2
        assert r"x[/oops] [red]\x1b[2J" in captured.out

    def test_tables_show_cells_as_they_are(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Neither as markup, nor as control characters."""
        table = SafeTable("name", box=None)
        table.add_row(HOSTILE)
        console = make_console()
        console.print(table)
        console.print(styled(HOSTILE, "red"))
        console.print("pip install 'quicksilver-multicast[spark]'")
        shown = capsys.readouterr().out
        assert is_tame(shown)
        assert shown.count("x[/oops] [red]") == 2
        assert "'quicksilver-multicast[spark]'" in shown

    def test_payloads_are_text_in_one_line(self) -> None:
        assert output.show_payload(b"a\x1b[2Jb\n\xff \xe2\x82\xac") == r"a\x1b[2Jb\n\xff €"

    def test_rich_is_used_in_one_place(self) -> None:
        """Elsewhere a string with brackets would be read as markup again."""
        users = set()
        for path in HOME.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rich"):
                    users.add(path.relative_to(HOME).as_posix())
        # All but `screen` name types of it only.
        assert users == {"doctor.py", "scope_top.py", "screen.py", "top.py"}

    def test_standard_output_is_written_in_few_places(self) -> None:
        """Each of them writes what is escaped, a picture, a schema, or the user's own program."""
        found = {
            path.relative_to(HOME).as_posix()
            for path in HOME.rglob("*.py")
            if "sys.stdout.write(" in path.read_text(encoding="utf-8")
        }
        assert found == {"main.py", "object.py", "object_run.py", "output.py", "pl.py", "sub.py"}


class TestJson:
    def test_every_object_has_an_event(self, capsys: pytest.CaptureFixture[str]) -> None:
        output.emit("ready", {"node": 1})
        assert json.loads(capsys.readouterr().out) == {"event": "ready", "node": 1}

    def test_nothing_else_writes_objects(self) -> None:
        """Whoever encodes JSON by hand may forget the event."""
        found = set()
        for path in HOME.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Attribute) and ast.unparse(node) in {
                    "json.dumps",
                    "msgspec.json.encode",
                    "msgspec.json.Encoder",
                }:
                    found.add(path.relative_to(HOME).as_posix())
        # Files that are written, orders to children, and values in a line for people.
        assert found == {
            "bench/gateways.py",
            "bench/measures.py",
            "bench/messaging.py",
            "bench/sharing.py",
            "logs.py",
            "object_terminal.py",
            "output.py",
            "sim.py",
            "soak.py",
        }

    @pytest.mark.parametrize(
        ("payload", "encoding"),
        [(b"plain", "utf-8"), ("größe".encode(), "utf-8"), (b"\xff\x00", "base64"), (b"", "utf-8")],
    )
    def test_bytes_say_how_to_read_them(self, payload: bytes, encoding: str) -> None:
        """The text "/wA=" and the bytes ff 00 are not the same."""
        import base64

        found = output.encode_payload(payload)
        assert found["encoding"] == encoding
        decode = base64.b64decode if encoding == "base64" else str.encode
        assert decode(found["payload"]) == payload
        assert bytes.fromhex(output.encode_payload(payload, is_hex=True)["payload"]) == payload

    @pytest.mark.usefixtures("as_json")
    def test_remarks_and_errors_are_objects(self, capsys: pytest.CaptureFixture[str]) -> None:
        output.remark(HOSTILE)
        output.tell_error("no", 2)
        first, second = map(json.loads, capsys.readouterr().err.splitlines())
        assert first["event"] == "remark"
        assert is_tame(first["text"])
        assert second == {"event": "error", "text": "no", "exit_code": 2}

    @pytest.mark.parametrize(
        ("command", "code"),
        [
            ("sub a --gms nowhere --json", 2),
            ("pub --json", 2),
            ("nothing --json", 2),
            ("sim --plan no-such-file --json", 1),
        ],
    )
    def test_a_command_that_fails_says_so_in_json(
        self, capsys: pytest.CaptureFixture[str], command: str, code: int
    ) -> None:
        """Whatever goes wrong: a program reads both streams without guessing."""
        assert run(command.split()) == code
        captured = capsys.readouterr()
        (line,) = captured.err.splitlines()
        problem = json.loads(line)
        assert (problem["event"], problem["exit_code"]) == ("error", code)
        assert problem["text"]
        assert captured.out == ""

    def test_after_two_dashes_nothing_is_an_option(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(["object", "check", "--", "--json"]) == 1
        assert capsys.readouterr().err.startswith("quicksilver: ")


class TestLogs:
    @pytest.fixture(autouse=True)
    def loggers(self) -> Iterator[None]:
        logger = logging.getLogger("quicksilver")
        before = (logger.handlers[:], logger.level, logger.propagate)
        yield
        logger.handlers[:], _, logger.propagate = before
        logger.setLevel(before[1])

    @pytest.mark.parametrize(
        ("verbose", "shown"),
        [(0, ["warning"]), (1, ["info", "warning"]), (2, ["debug", "info", "warning"])],
    )
    def test_more_is_shown_the_more_is_asked_for(
        self, capsys: pytest.CaptureFixture[str], verbose: int, shown: list[str]
    ) -> None:
        start_logging(verbose, as_json=False)
        logger = logging.getLogger("quicksilver.node")
        logger.debug("d")
        logger.info("i")
        logger.warning("w")
        lines = capsys.readouterr().err.splitlines()
        assert [line.split()[1] for line in lines] == shown
        assert all(line.split()[2] == "quicksilver.node:" for line in lines)

    def test_names_of_others_are_escaped(self, capsys: pytest.CaptureFixture[str]) -> None:
        for as_json in (False, True):
            start_logging(1, as_json=as_json)
            logging.getLogger("quicksilver.node").info("joined %s", HOSTILE)
        captured = capsys.readouterr().err
        assert is_tame(captured)
        assert captured.count("\n") == 2

    def test_json_has_the_fields_of_a_record(self, capsys: pytest.CaptureFixture[str]) -> None:
        start_logging(1, as_json=True)
        logging.getLogger("quicksilver.gms").info("joined", extra={"group": "a", "path": Path("x")})
        (line,) = capsys.readouterr().err.splitlines()
        record = json.loads(line)
        assert record.pop("time").endswith("Z")
        assert record == {
            "event": "log",
            "level": "info",
            "logger": "quicksilver.gms",
            "text": "joined",
            "fields": {"group": "a", "path": "x"},
        }

    def test_starting_again_shows_no_line_twice(self, capsys: pytest.CaptureFixture[str]) -> None:
        start_logging(1, as_json=False)
        start_logging(1, as_json=False)
        logging.getLogger("quicksilver.node").info("once")
        assert capsys.readouterr().err.count("once") == 1
