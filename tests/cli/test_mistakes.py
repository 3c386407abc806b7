"""Mistakes on the command line, found before anything is connected: one line each."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
import typer

from quicksilver.cli.app import make_app
from quicksilver.cli.main import run


def check_fails(
    capsys: pytest.CaptureFixture[str], command: str, exit_code: int, words: str
) -> None:
    """Assert that a command, run in this process, fails with one readable line."""
    assert run(command.split()) == exit_code
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("quicksilver: ")
    assert words in line


@pytest.mark.parametrize(
    ("command", "exit_code", "words"),
    [
        ("gms --host 192.0.2.77 --port 0", 1, "does not have"),
        ("gms --pool 10.0.0.0/8", 2, "not multicast"),
        ("gms --planner magic", 2, "magic"),
        ("gms --failure-timeout 0.2 --heartbeat 0.5", 2, "several heartbeats"),
        ("sub a --gms nowhere", 2, "host:port"),
        ("sub a --faults los=1%", 2, "unknown"),
        ("pub a -n 1 --size 17MiB", 1, "over the limit"),
        ("up -n 2 --groups a:0-5", 2, "no node 5"),
        ("up -n 2 --loss lots", 2, "--loss lots"),
        ("record a --path x --listen x", 2, "give host:port"),
        ("controller --gms 127.0.0.1:1 --ring-bytes 5000", 2, "power of two"),
        ("controller --gms 127.0.0.1:1 --path /proc/no/such", 1, "cannot listen at /proc/no/such"),
    ],
)
def test_a_bad_value_is_named(
    capsys: pytest.CaptureFixture[str], command: str, exit_code: int, words: str
) -> None:
    """With what would do."""
    check_fails(capsys, command, exit_code, words)


def test_a_state_file_of_another_version(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Misreading it would be worse than stopping."""
    state = tmp_path / "state.db"
    with sqlite3.connect(state) as database:
        database.execute("CREATE TABLE other (x)")
        database.execute("PRAGMA user_version = 99")
    database.close()
    check_fails(capsys, f"gms --port 0 --state {state}", 1, "schema version 99")


def leaves(command: Any, words: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every command below one, as what one types."""
    below = getattr(command, "commands", {})
    return [words] + [leaf for name in below for leaf in leaves(below[name], (*words, name))]


@pytest.mark.parametrize("words", leaves(typer.main.get_command(make_app())), ids=" ".join)
def test_every_command_explains_itself(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    """Help is where everybody looks first."""
    assert run([*words, "--help"]) == 0
    assert " ".join(("Usage: quicksilver", *words)) in capsys.readouterr().out
