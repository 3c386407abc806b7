"""The documentation fits the code: links, commands, targets of make, examples."""

from __future__ import annotations

import ast
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
from tests.node.service import running_gms

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for folder in ("", "docs", "results", "bench/peers", "examples/spark/pipeline")
    for path in (ROOT / folder).glob("*.md")
)
NAMES = [str(path.relative_to(ROOT)) for path in PAGES]
COMMANDS: Any = typer.main.get_command(app)
SUBCOMMANDS: dict[str, Any] = COMMANDS.commands
TARGETS = set(
    re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
)


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


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
    code = re.findall(r"`([^`\n]+)`", read(name)) + console_lines(read(name))
    named = {
        word
        for line in code
        if line.startswith("make ")
        for word in line.partition("#")[0].split()[1:]
        if "=" not in word
    }
    assert named <= TARGETS


def console_lines(text: str) -> list[str]:
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [
        line[2:]
        for block in blocks
        for line in block.replace("\\\n", " ").splitlines()
        if line.startswith("$ ")
    ]


def quicksilver_calls(text: str) -> Iterator[list[str]]:
    """Every call of the command that a page shows, in words."""
    for line in console_lines(text) + re.findall(r"`(quicksilver [^`\n]+)`", text):
        for part in re.split(r"[|;&]", line.partition(" #")[0]):
            words = shlex.split(part.replace("…", ""))
            if words and words[0].endswith("quicksilver"):
                yield words[1:]


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
def test_every_command_and_option_exists(name: str) -> None:
    """A renamed option is found where it is shown to users."""
    assert [
        problem for words in quicksilver_calls(read(name)) if (problem := find_problem(words))
    ] == []


def test_the_readme_lists_every_command() -> None:
    """No more and no fewer."""
    rows = re.findall(r"^\| (`.*?`) \|", read("README.md"), re.MULTILINE)
    named = {word.split()[-1] for row in rows for word in re.findall(r"`([^`]+)`", row)}
    assert named == set(SUBCOMMANDS)


def test_operations_explain_every_counter() -> None:
    """A number that nobody can look up is no use."""
    explained = set(re.findall(r"`([a-z_]+)`", read("docs/operations.md")))
    assert set(Counters.__slots__) <= explained


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


def python_blocks(name: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", read(name), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("name", [name for name in NAMES if python_blocks(name)])
def test_every_import_that_is_shown_works(name: str) -> None:
    """What a reader copies first; pages with doctests are run as a whole elsewhere."""
    for block in python_blocks(name):
        if ">>>" in block:
            continue
        tree = compile(block, name, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("quicksilver"):
                module = importlib.import_module(str(node.module))
                for alias in node.names:
                    if not hasattr(module, alias.name):
                        importlib.import_module(f"{node.module}.{alias.name}")


@pytest.mark.slow
@pytest.mark.parametrize("block", python_blocks("docs/simulation.md"))
def test_the_simulations_examples_run(block: str) -> None:
    """They print what went wrong, which nothing does, or what a broken engine does wrong."""
    exec(block, {"__name__": "example"})


@pytest.mark.integration
def test_the_readmes_ten_lines_run() -> None:
    """In two processes: whoever joined first hears the other."""
    (block,) = python_blocks("README.md")
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
