"""How commands begin: what they import, what they say without arguments, and completion."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from quicksilver.cli.app import COMMANDS
from tests.cli.processes import run

PROGRAM = """
import sys
before = set(sys.modules)
from quicksilver.cli.main import run
run(sys.argv[1:])
print(*sorted(set(sys.modules) - before))
"""


def imported(*arguments: str) -> set[str]:
    """The modules that a command line imports, from its start to its end."""
    outcome = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return set(outcome.stdout.splitlines()[-1].split())


def packages(modules: set[str]) -> set[str]:
    """The packages of modules: of our own the second name, of others the first."""
    return {
        ".".join(name.split(".")[: 2 if name.startswith("quicksilver") else 1]) for name in modules
    }


@pytest.mark.slow
def test_the_version_imports_neither_the_engine_nor_a_library() -> None:
    """It is asked for by scripts, prompts and bug reports, and must answer at once."""
    found = packages(imported("--version"))
    assert {one for one in found if one.startswith("quicksilver")} == {
        "quicksilver",
        "quicksilver.cli",
    }
    assert not found & {"typer", "rich", "click", "msgspec", "asyncio", "logging"}


@pytest.mark.slow
def test_pub_imports_what_it_needs() -> None:
    """No other command, no tables, no simulator, no event loop."""
    modules = imported("pub", "a", "-n", "1", "--gms", "127.0.0.1:1", "--interface", "none")
    assert "quicksilver.node.sync" in modules, "it did not begin"
    others = {f"quicksilver.cli.{home.partition(':')[0]}" for home in COMMANDS.values()}
    assert modules & others == {"quicksilver.cli.pub"}
    assert not packages(modules) & {
        "asyncio",
        "ssl",
        "rich",
        "numpy",
        "pyarrow",
        "quicksilver.analysis",
        "quicksilver.experiments",
        "quicksilver.live",
        "quicksilver.recorder",
        "quicksilver.sim",
        "quicksilver.spark",
        "quicksilver.trials",
    }


def test_a_synchronous_node_makes_few_dataclasses() -> None:
    """Each takes half a millisecond to make, which was a third of the time of the import: what
    there are many of, events and states, are structs."""
    program = (
        "import dataclasses\n"
        "made, process = [], dataclasses._process_class\n"
        "def count(cls, *given):\n"
        "    made.append(cls.__name__)\n"
        "    return process(cls, *given)\n"
        "dataclasses._process_class = count\n"
        "import quicksilver.node.sync\n"
        "print(len(made))\n"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True
    )
    assert int(outcome.stdout) <= 25


@pytest.mark.slow
def test_the_package_runs_as_a_module() -> None:
    """Where scripts are not on the PATH, this is how it is started."""
    outcome = subprocess.run(
        [sys.executable, "-m", "quicksilver", "--version"],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert outcome.stdout.startswith("quicksilver ")


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("object",), ("bench",)], ids=" ".join)
def test_without_a_command_there_is_help(words: tuple[str, ...]) -> None:
    """On standard output, with the exit code of a command line that is not whole."""
    outcome = run(*words)
    assert outcome.returncode == 2
    assert " ".join(("Usage: quicksilver", *words)) in outcome.stdout
    assert outcome.stderr == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "offered"), [("quicksilver su", "sub"), ("quicksilver pub --beh", "--behind")]
)
def test_bash_completes_commands_and_options(typed: str, offered: str, tmp_path: Path) -> None:
    """The script that is shown works in a real shell."""
    program = tmp_path / "quicksilver"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m quicksilver "$@"\n')
    program.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        # The shell is named, not looked for among the parents of this process.
        "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1",
    }
    words = typed.split()
    script = f"""
        eval "$(quicksilver --show-completion bash)"
        COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}
        _quicksilver_completion quicksilver
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    outcome = subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
        check=True,
    )
    assert outcome.stdout.split() == [offered], outcome.stderr
