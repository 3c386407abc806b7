"""The documentation fits the code: links, commands, targets of make, examples."""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from quicksilver.cli.app import make_app
from quicksilver.multicast.counters import Counters
from quicksilver.net import diagnosis
from tests.docs.parsing import ROOT, parse_page, parse_steps, read, texts
from tests.docs.story import pages

NAMES = pages()
COMMANDS: Any = typer.main.get_command(make_app())
SUBCOMMANDS: dict[str, Any] = COMMANDS.commands
OTHER_PROGRAMS = {
    "/opt/quicksilver/bin/pip",
    "cd",
    "cp",
    "docker",
    "echo",
    "export",
    "git",
    "hyperfine",
    "kill",
    "kubectl",
    "make",
    "mkdir",
    "pip",
    "printf",
    "python3",
    "sed",
    "seq",
    "spark-pipelines",
    "uvx",
    "systemctl",
    "time",
}
TARGETS = set(
    re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
)


def commands(name: str, *, only_left_out: bool = False) -> list[str]:
    """The commands that a page shows, or those that ordinary tests do not run."""
    return [
        step.command.replace("\\\n", " ")
        for block in parse_page(name)
        if block.language == "console"
        if not only_left_out or block.has("not run") or block.has("long")
        for step in parse_steps(block.text)
    ]


def anchors(text: str) -> set[str]:
    """The names that GitHub gives to a page's headings."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}


@pytest.mark.parametrize("name", NAMES)
def test_every_link_leads_somewhere(name: str) -> None:
    """To a file of this repository (a site has no folders), and to a heading if one is named."""
    lost = []
    for target in re.findall(r"\]\(([^)\s]+)\)", read(name)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, heading = target.partition("#")
        file = (ROOT / name).parent / path if path else ROOT / name
        if not file.is_file() or (
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


@pytest.mark.parametrize("name", [name for name in NAMES if commands(name, only_left_out=True)])
def test_every_command_that_no_test_runs_is_understood(name: str) -> None:
    """Up to where it would begin: its options, their values, the arguments it must have."""
    for words in calls(commands(name, only_left_out=True)):
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


def test_operations_list_every_command() -> None:
    """No more and no fewer, as the README does in a paragraph."""
    _, _, section = read("docs/operations.md").partition("## Commands")
    rows = re.findall(r"^\| (`.*?`) \|", section.partition("## Looking")[0], re.MULTILINE)
    named = {word.split()[-1] for row in rows for word in re.findall(r"`([^`]+)`", row)}
    assert named == set(SUBCOMMANDS)
    _, _, paragraph = read("README.md").partition("## Commands")
    words = {word.split()[-1] for word in re.findall(r"`([^`]+)`", paragraph.partition("##")[0])}
    assert words - {"--help", "--json"} == set(SUBCOMMANDS)


def test_operations_explain_every_counter() -> None:
    """A number that nobody can look up is no use."""
    explained = set(re.findall(r"`([a-z_]+)`", read("docs/operations.md")))
    assert set(Counters.__slots__) <= explained


def test_operations_say_what_the_doctor_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a system that allows too little: the same settings, and the same values."""
    monkeypatch.setattr(diagnosis, "read_setting", lambda _: 0)
    monkeypatch.setattr(diagnosis, "may_exceed_limits", lambda: False)
    (block,) = texts("docs/operations.md", "ini")
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
