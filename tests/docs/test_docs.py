"""The documentation fits the code: links, commands, targets of make, examples."""

from __future__ import annotations

import importlib
import re
import select
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from quicksilver.cli.app import app
from quicksilver.multicast.counters import Counters
from quicksilver.net import diagnosis
from tests.docs.pages import ROOT, blocks, commands, read, shell
from tests.node.service import running_gms

PAGES = sorted(
    path
    for folder in ("", "docs", "results", "bench/peers", "examples/spark/pipeline")
    for path in (ROOT / folder).glob("*.md")
)
NAMES = [str(path.relative_to(ROOT)) for path in PAGES]
COMMANDS: Any = typer.main.get_command(app)
SUBCOMMANDS: dict[str, Any] = COMMANDS.commands
OTHER_PROGRAMS = {
    "cd",
    "cp",
    "echo",
    "export",
    "kill",
    "make",
    "mkdir",
    "pip",
    "printf",
    "seq",
    "spark-pipelines",
}
RUN_BY = {
    "README.md": "tests/docs/test_docs.py",
    "docs/figures.md": "tests/spark/telemetry/test_traces.py",
    "docs/live-objects.md": "tests/docs/test_live_objects.py",
    "docs/live-runtime.md": "tests/docs/test_live_runtime.py",
    "docs/operations.md": "tests/docs/test_docs.py",
    "docs/planning.md": "tests/spark/test_docs.py",
    "docs/simulation.md": "tests/docs/test_docs.py",
    "docs/spark.md": "tests/spark/test_docs.py",
    "docs/types.md": "tests/live/types/test_docs.py",
}
"""The test that runs a page's blocks."""
TARGETS = set(
    re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
)


def anchors(text: str) -> set[str]:
    """The names that GitHub gives to a page's headings."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}


@pytest.mark.parametrize("name", NAMES)
def test_every_link_leads_somewhere(name: str) -> None:
    """To a file of this repository, and to a heading in it if one is named."""
    lost = []
    for target in re.findall(r"\]\(([^)\s]+)\)", read(name)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, heading = target.partition("#")
        file = (ROOT / name).parent / path if path else ROOT / name
        if not file.exists() or (
            heading and heading not in anchors(file.read_text(encoding="utf-8"))
        ):
            lost.append(target)
    assert lost == []


def test_the_index_lists_every_page() -> None:
    """A page that nothing leads to is not read."""
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert pages <= set(re.findall(r"\]\(([^)#]+)", read("docs/index.md")))


@pytest.mark.parametrize("name", NAMES)
def test_every_target_of_make_exists(name: str) -> None:
    """``make`` in code, with the targets behind it."""
    code = re.findall(r"`([^`\n]+)`", read(name)) + commands(name)
    named = {
        word
        for line in code
        if line.startswith("make ")
        for word in line.partition("#")[0].split()[1:]
        if "=" not in word
    }
    assert named <= TARGETS


def calls(lines: list[str]) -> Iterator[list[str]]:
    """Every program that lines of the console call, in words."""
    for line in lines:
        for part in re.split(r"[|;&]", line.partition(" #")[0]):
            words = shlex.split(part.replace("…", ""))
            while words and re.match(r"[A-Z_]+=", words[0]):
                del words[0]
            if words:
                yield words


def find_problem(words: list[str]) -> str:
    """What is wrong with a call: a command or an option that does not exist."""
    command = COMMANDS
    for position, word in enumerate(words):
        subcommands = getattr(command, "commands", {})
        if word in subcommands:
            command = subcommands[word]
        elif word.startswith("-"):
            options = {name for p in command.params for name in (*p.opts, *p.secondary_opts)}
            if word.partition("=")[0] not in options | {"--help", "-h"}:
                return f"no option {word} in: {' '.join(words)}"
        elif subcommands and position == 0:
            return f"no command {word}"
    return ""


@pytest.mark.parametrize("name", NAMES)
def test_every_command_and_option_in_a_sentence_exists(name: str) -> None:
    """A renamed option is found where it is mentioned, though the call may not be whole."""
    mentioned = calls(re.findall(r"`(quicksilver [^`\n]+)`", read(name)))
    assert [problem for words in mentioned if (problem := find_problem(words[1:]))] == []


@pytest.mark.parametrize("name", [name for name in NAMES if commands(name)])
def test_every_command_that_is_shown_is_understood(name: str) -> None:
    """Up to where it would begin: its options, their values, the arguments it must have."""
    for words in calls(commands(name)):
        if words[0] == "quicksilver":
            command, rest = COMMANDS, words[1:]
            while rest and rest[0] in getattr(command, "commands", {}):
                command = command.commands[rest[0]]
                rest = rest[1:]
            with command.make_context(words[0], rest):
                pass
        elif words[0].endswith("python"):
            check_program(words[1:])
        else:
            assert words[0] in OTHER_PROGRAMS, f"nothing checks {' '.join(words)}"


def check_program(words: list[str]) -> None:
    """Check that a module or file of ours is there, and knows the options that it is given."""
    if words[0] != "-m":
        assert (ROOT / words[0]).is_file()
        return
    outcome = subprocess.run(
        [sys.executable, *words[:2], "--help"],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
        cwd=ROOT,
    )
    assert {word for word in words[2:] if word.startswith("--")} <= set(
        re.findall(r"--\w[\w-]*", outcome.stdout)
    )


def test_the_readme_lists_every_command() -> None:
    """No more and no fewer."""
    rows = re.findall(r"^\| (`.*?`) \|", read("README.md"), re.MULTILINE)
    named = {word.split()[-1] for row in rows for word in re.findall(r"`([^`]+)`", row)}
    assert named == set(SUBCOMMANDS)


def test_operations_explain_every_counter() -> None:
    """A number that nobody can look up is no use."""
    explained = set(re.findall(r"`([a-z_]+)`", read("docs/operations.md")))
    assert set(Counters.__slots__) <= explained


def test_operations_say_what_the_doctor_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a system that allows too little: the same settings, and the same values."""
    monkeypatch.setattr(diagnosis, "read_setting", lambda _: 0)
    monkeypatch.setattr(diagnosis, "may_exceed_limits", lambda: False)
    (block,) = blocks("docs/operations.md", "ini")
    lines = [line.replace(" ", "") for line in block.splitlines()]
    assert [f"sysctl -w {line}" for line in lines] == [one.fix for one in diagnosis.check_buffers()]


def test_what_the_glossary_names_exists() -> None:
    """A term that moved or was renamed is found where it is explained."""
    names = re.findall(r"`([a-z_]+(?:\.[A-Za-z_]+)+)`", read("docs/glossary.md"))
    assert names
    for name in names:
        try:
            importlib.import_module(f"quicksilver.{name}")
        except ImportError:
            module, _, attribute = name.rpartition(".")
            assert hasattr(importlib.import_module(f"quicksilver.{module}"), attribute), name


def test_every_command_has_a_form_for_programs() -> None:
    """As the README says."""
    without = [
        name
        for name, command in SUBCOMMANDS.items()
        for leaf in getattr(command, "commands", {name: command}).values()
        if "--json" not in {option for parameter in leaf.params for option in parameter.opts}
    ]
    assert without == []


def test_every_block_is_run_by_a_test() -> None:
    """A page with code has a test of its own, which takes the page's blocks and knows them all."""
    kinds = ("ini", "python", "sql", "toml", "xml")
    assert {name for name in NAMES if any(blocks(name, kind) for kind in kinds)} == set(RUN_BY)
    for name, test in RUN_BY.items():
        assert Path(name).name in read(test)


@pytest.mark.slow
@pytest.mark.parametrize("block", blocks("docs/simulation.md"))
def test_the_simulations_examples_run(block: str) -> None:
    """They print what went wrong, which nothing does, or what a broken engine does wrong."""
    exec(block, {"__name__": "example"})


@pytest.mark.integration
@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("docs/experiments.md", ["quicksilver experiment list"]),
        ("docs/simulation.md", ["quicksilver sim --seed 7", "quicksilver sim --seed 7 --json"]),
        (
            "docs/simulation.md",
            [
                "quicksilver sim --seed 45 --shrink --write-plan plan.json",
                "quicksilver sim --plan plan.json",
            ],
        ),
    ],
)
def test_commands_that_take_seconds_run(name: str, lines: list[str], tmp_path: Path) -> None:
    """As they are typed; other pages with a console have tests of their own, or take minutes."""
    for line in lines:
        assert line in commands(name)
        with shell(line, tmp_path) as program:
            assert program.rest()
            assert program.process.returncode == 0


@pytest.mark.integration
def test_the_readmes_ten_lines_run() -> None:
    """In two processes: whoever joined first hears the other."""
    (block,) = blocks("README.md")
    with running_gms() as gms:
        program = block.replace("127.0.0.1:7401", gms)
        assert program != block
        command = [sys.executable, "-u", "-c", program]
        started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        try:
            ready, _, _ = select.select([one.stdout for one in started], [], [], 20)
            assert ready, "nobody heard anything"
            assert ready[0].readline().endswith(" 0 b'EURUSD 1.0842'\n")
        finally:
            for one in started:
                one.kill()
                one.communicate()
