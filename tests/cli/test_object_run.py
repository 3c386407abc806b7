"""``quicksilver object run``: lines in, lines out, one-line errors, a clean end."""

from __future__ import annotations

import hashlib
import io
import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quicksilver.cli.main import run as run_main
from quicksilver.cli.object_terminal import (
    LineError,
    PlainFace,
    TextFace,
    find_text,
    parse_values,
    to_text,
)
from quicksilver.live.references.builder import external, library, primitive
from quicksilver.live.references.xml import write
from quicksilver.live.types.build import endpoint, event, object_type
from quicksilver.live.types.model import BYTES, INT, STR, ListOf, ReferenceOf, ValueType
from tests.cli.processes import read_event, run, running, running_gms

EXAMPLES = Path(__file__).parents[2] / "examples" / "live"
TEXT = str(EXAMPLES / "shared-text-over-a-group.liveobject")


def example(name: str) -> str:
    return str(EXAMPLES / f"{name}.liveobject")


class Recorder:
    """What a face said to the object and showed to the user."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str, tuple[Any, ...]]] = []
        self.shown: list[str] = []

    def say(self, endpoint: str, event: str, values: tuple[Any, ...]) -> None:
        self.said.append((endpoint, event, values))

    def show(self, event: dict[str, Any], words: str) -> None:
        self.shown.append(words)


CHANNEL = endpoint([event("send", message=BYTES)], [event("receive", message=BYTES)])
POINTS = endpoint(
    [
        event("move", x=INT, label=STR),
        event("reset"),
        event("send", points=ListOf(INT)),
        event("keep", reference=ReferenceOf(object_type({}))),
    ],
    [],
)


PROMISE = "not (receive(m) and previous once receive(m))"
PROMISED = endpoint(
    [event("send", message=BYTES)],
    [event("receive", message=BYTES)],
    provides=[("temporal", PROMISE)],
)
REPEATER = f"""
from quicksilver.live.components.interfaces import ChannelDeliveries, ChannelRequests
from quicksilver.live.types.declare import endpoint, live_object

@live_object
class Repeater:
    channel = endpoint(
        ChannelRequests, ChannelDeliveries, provides=[("temporal", "{PROMISE}")]
    )
    def channel_send(self, message):
        self.channel.receive(message)
"""


class TestPlainFace:
    def make(self) -> tuple[PlainFace, Recorder]:
        recorder = Recorder()
        face = PlainFace({"c": CHANNEL, "p": POINTS}, recorder.say, recorder.show)
        return face, recorder

    def test_events_are_said_and_shown(self) -> None:
        face, recorder = self.make()
        face.take_line("c.send hello world")
        face.take_line("move 3 over there")
        face.take_line("reset")
        face.take_line("p.send [1, 2]")
        face.take_event("c", "receive", (b"hello",))
        face.take_event("c", "receive", (b"\xff",))
        assert recorder.said == [
            ("c", "send", (b"hello world",)),
            ("p", "move", (3, "over there")),
            ("p", "reset", ()),
            ("p", "send", ([1, 2],)),
        ]
        assert recorder.shown == ['c.receive "hello"', 'c.receive {"base64":"/w=="}']

    @pytest.mark.parametrize(
        ("line", "problem"),
        [
            (
                "send x",
                "said by several endpoints; there is: c.send, p.keep, p.move,",
            ),
            ("nonsense", "'nonsense' is no event"),
            ("move x y", "'x' is not int"),
            ("move 3", "the value 'label' is missing"),
            ("reset now", "takes no value"),
            ("p.send {", "is not list"),
            ("keep nowhere.liveobject", "by the name of its file"),
        ],
    )
    def test_lines_that_make_no_sense(self, line: str, problem: str) -> None:
        face, recorder = self.make()
        with pytest.raises(LineError, match=problem.replace("[", r"\[")):
            face.take_line(line)
        assert recorder.said == []

    def test_texts_may_look_like_numbers(self) -> None:
        assert parse_values("17", [STR], ("text",)) == ["17"]
        assert parse_values('"quoted"', [STR], ("text",)) == ["quoted"]

    def test_json_may_have_spaces(self) -> None:
        types: list[ValueType] = [STR, ListOf(INT), STR]
        assert parse_values('"a b" [1, 2] c d', types, ("", "", "")) == ["a b", [1, 2], "c d"]
        assert parse_values('"a [1] c', types, ("", "", "")) == ['"a', [1], "c"]

    def test_a_text_may_be_that_of_a_file(self, tmp_path: Path) -> None:
        file = tmp_path / "it"
        file.write_text("what it says", encoding="utf-8")
        assert parse_values(f"@{file}", [STR], ("text",)) == ["what it says"]
        assert parse_values('"@it"', [STR], ("text",)) == ["@it"]
        with pytest.raises(LineError, match="@FILE stands for what a file says"):
            parse_values(f"@{tmp_path / 'nowhere'}", [STR], ("text",))

    def test_anything_can_be_shown(self) -> None:
        assert to_text({1: {b"a"}, "b": object}) == {"1": ["a"], "b": str(object)}


class TestTextFace:
    def edit(self, text: str, line: str) -> str:
        """Return a text after a line was carried out on it."""
        recorder = Recorder()
        face = TextFace("Text", recorder.say, recorder.show)
        face.take_event("Text", "changed", (text,))
        face.take_line(line)
        ((_, _, (position, removed, inserted)),) = recorder.said
        return text[:position] + inserted + text[position + removed :]

    def test_edits_by_line(self) -> None:
        assert self.edit("", "append one") == "one\n"
        assert self.edit("zero", "append one") == "zero\none\n"
        assert self.edit("a\nb\n", "insert 2 x y") == "a\nx y\nb\n"
        assert self.edit("a\nb\n", "insert 3 c") == "a\nb\nc\n"
        assert self.edit("a\nb\nc", "replace 3 d") == "a\nb\nd"
        assert self.edit("a\nb\n", "replace 1 x") == "x\nb\n"
        assert self.edit("a\nb\n", "delete 1") == "b\n"

    @pytest.mark.parametrize("line", ["delete 3", "insert 0 x", "replace x y", "hello", "delete"])
    def test_what_cannot_be_done(self, line: str) -> None:
        with pytest.raises(LineError):
            self.edit("a\nb\n", line)

    def test_a_text_is_recognised(self) -> None:
        edits = event("edit", position=INT, removed=INT, inserted=STR)
        text = endpoint([edits], [event("changed", text=STR)])
        assert find_text({"c": CHANNEL, "t": text}) == "t"
        assert find_text({"c": CHANNEL}) is None


@pytest.mark.slow
class TestCommand:
    def test_a_text_alone(self) -> None:
        outcome = run("object", "run", "--local", TEXT, given="append hello\nappend you\nquit\n")
        assert outcome.returncode == 0, outcome.stderr
        assert outcome.stdout == "(empty)\n1 | hello\n1 | hello\n2 | you\n"

    def test_broken_promises_are_reported(self, tmp_path: Path) -> None:
        """A library whose object repeats itself although it promises not to."""
        code = tmp_path / "library.py"
        code.write_text(REPEATER, encoding="utf-8")
        mark = hashlib.sha256(code.read_bytes()).hexdigest()
        type_ = object_type({"channel": PROMISED})
        file = tmp_path / "repeater.liveobject"
        file.write_text(
            write(external("Repeater", type_, library(code.as_uri(), mark))), encoding="utf-8"
        )
        outcome = run(
            *("object", "run", "--local", "--watch", "--allow-library", code.as_uri(), str(file)),
            given="send one\nsend one\n",
        )
        assert outcome.returncode == 1, outcome.stderr
        lines = outcome.stdout.splitlines()
        assert lines[0] == 'channel.receive "one"'
        assert lines[1].startswith("! repeater.channel: provided temporal 'not (receive(m)")

    @pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
    def test_signals_end_it_cleanly(self, how: signal.Signals, code: int) -> None:
        with running("object", "run", "--local", "--json", TEXT) as process:
            assert read_event(process)["event"] == "ready"
            process.send_signal(how)
            _, problems = process.communicate(timeout=20)
            assert process.returncode == code
            assert problems == ""


@pytest.mark.slow
class TestInThisProcess:
    """What needs no process of its own is quicker without."""

    @pytest.fixture
    def run_here(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> Callable[..., tuple[int, str]]:
        def run_here(*arguments: str, given: str = "") -> tuple[int, str]:
            monkeypatch.setattr("sys.stdin", io.StringIO(given))
            code = run_main(["object", "run", "--local", *arguments])
            return code, capsys.readouterr().err

        return run_here

    def test_errors_are_one_line(
        self, tmp_path: Path, run_here: Callable[..., tuple[int, str]]
    ) -> None:
        bad = tmp_path / "bad.liveobject"
        bad.write_text("<liveobject", encoding="utf-8")
        unsound = tmp_path / "unsound.liveobject"
        unsound.write_text(write(primitive("acme.no")), encoding="utf-8")
        for file, words in (
            (str(bad), "bad.liveobject:1:"),
            (str(tmp_path / "missing.liveobject"), "No such file"),
            (str(unsound), "'acme.no'"),
            (example("code-2-3-library"), "not on this node's list"),
        ):
            code, said = run_here(file)
            assert code == 1
            assert said.startswith("quicksilver: ")
            assert said.count("\n") == 1
            assert words in said

    def test_what_is_missing_is_told_with_the_place_and_the_option(
        self, tmp_path: Path, run_here: Callable[..., tuple[int, str]]
    ) -> None:
        bare = tmp_path / "bare.liveobject"
        bare.write_text(write(primitive("quicksilver.timer")), encoding="utf-8")
        for arguments, place, hint in (
            ((str(bare),), "bare.liveobject:3:3: primitive: ", "until it is given interval_s"),
            ((example("persistent-channel"),), ":3:3: parameterized: ", "--store DIR"),
            ((example("sqlite"),), ":3:3: parameterized: ", "--files DIR"),
            ((example("platform"),), ":3:3: parameterized: ", "--host NAME"),
            ((example("persistent-channel"), "--store", f"{bare}/x"), "/x: ", "Not a directory"),
        ):
            code, said = run_here(*arguments)
            assert code == 1
            assert len(said.splitlines()) == 1
            assert place in said
            assert hint in said

    def test_changes_that_reach_nobody_are_told(
        self,
        tmp_path: Path,
        run_here: Callable[..., tuple[int, str]],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr("quicksilver.cli.object_run.SETTLE_S", 0.1)
        channel = primitive("quicksilver.checkpointed-channel", group="g", founders=2)
        file = tmp_path / "lonely.liveobject"
        file.write_text(write(primitive("quicksilver.counter", channel=channel)), encoding="utf-8")
        code, said = run_here(str(file), given="add 1\n")
        assert code == 1
        ready, problem = said.splitlines()
        assert ready == "quicksilver: lonely runs; endpoints: Counter"
        assert "the last changes may be lost: after 0.1 s" in problem


def wait_for(process: subprocess.Popen[str], text: str) -> None:
    """Read what a process shows until it shows this text."""
    while True:
        shown = read_event(process)
        if shown.get("text") == text:
            return


@pytest.mark.integration
def test_a_shared_text_on_three_terminals() -> None:
    """Three processes, a real GMS: each edits, all see the same."""
    with running_gms() as gms:
        command = ("object", "run", "--json", "--gms", gms, TEXT)
        with running(*command) as one, running(*command) as two, running(*command) as three:
            everybody = (one, two, three)
            for process in everybody:
                assert read_event(process) == {
                    "event": "ready",
                    "object": "shared-text-over-a-group",
                    "endpoints": ["Editor"],
                }
            lines: list[str] = []
            for number, process in enumerate(everybody, 1):
                assert process.stdin is not None
                process.stdin.write(f"append line {number}\n")
                process.stdin.flush()
                lines.append(f"line {number}\n")
                for other in everybody:
                    wait_for(other, "".join(lines))
            assert two.stdin is not None
            two.stdin.write("replace 1 changed\ndelete 2\n")
            two.stdin.flush()
            for process in everybody:
                wait_for(process, "changed\nline 3\n")
            for process in everybody:
                assert process.stdin is not None
                process.stdin.write("quit\n")
                process.stdin.flush()
                assert process.wait(timeout=30) == 0


@pytest.mark.integration
@pytest.mark.parametrize("file", [TEXT, str(EXAMPLES / "shared-text.liveobject")])
def test_who_quits_right_after_an_edit_loses_nothing(file: str) -> None:
    """Each comes, edits before it has heard of the others, and is gone; one stays and has all."""
    with running_gms() as gms:
        command = ("object", "run", "--json", "--gms", gms, file)
        with running(*command) as stays:
            wait_until_ready(stays)
            for number in range(3):
                outcome = run(*command, given=f"append line {number}\n")
                assert outcome.returncode == 0, outcome.stderr
            lines = {f"line {number}" for number in range(3)}
            while set(str(read_event(stays).get("text")).splitlines()) != lines:
                pass


@pytest.mark.integration
def test_an_object_is_started_in_another_process() -> None:
    """Two hosts of a platform, a real GMS: one has an object started and stopped on the other."""
    platform = str(EXAMPLES / "platform.liveobject")

    def wait_until(process: subprocess.Popen[str], event: str, *values: Any) -> None:
        while True:
            heard = read_event(process)
            if heard["event"] == event and heard.get("values", [])[: len(values)] == [*values]:
                return

    with running_gms() as gms:
        command = ("object", "run", "--json", "--gms", gms, platform, "--host")
        with running(*command, "a") as one:
            wait_until_ready(one)
            with running(*command, "b") as two:
                wait_until(one, "hosts", ["a", "b"])
                assert one.stdin is not None
                counter = EXAMPLES / "counter.liveobject"
                one.stdin.write(f'start sum {counter} ["b"]\nstart x nowhere ["b"]\n')
                one.stdin.flush()
                wait_until(two, "placed", "sum", ["b"])
                wait_until(one, "reported", "sum", "b", "started")
                one.stdin.write("stop sum\n")
                one.stdin.flush()
                wait_until(one, "reported", "sum", "b", "stopped")


def wait_until_ready(process: subprocess.Popen[str]) -> None:
    assert read_event(process)["event"] == "ready"


def test_json_lines_are_json() -> None:
    outcome = run("object", "run", "--local", "--json", "--plain", TEXT, given="bogus\n")
    assert outcome.returncode == 0
    events = [json.loads(line) for line in outcome.stdout.splitlines()]
    assert [one["event"] for one in events] == ["ready", "changed", "changed", "error"]
