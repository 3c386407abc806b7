"""Known errors become one line; bugs keep their traceback."""

from __future__ import annotations

import importlib.util

import pytest
import typer

from quicksilver.cli import main
from quicksilver.cli.problems import CommandError, MisuseError, describe
from quicksilver.membership.store import StoreLockedError
from quicksilver.net.faults import FaultError
from quicksilver.net.interfaces import InterfaceError
from quicksilver.node.errors import GmsUnreachableError


@pytest.mark.parametrize(
    ("error", "exit_code", "words"),
    [
        (GmsUnreachableError("h:1", "refused"), 1, "no GMS at h:1"),
        (InterfaceError("no interface", "bring one up"), 1, "bring one up"),
        (FaultError("x", "unknown"), 2, "write for example"),
        (StoreLockedError("f"), 1, "another GMS uses this file"),
        (MisuseError("two\nlines"), 2, "two lines"),
        (CommandError("no"), 1, "no"),
        (TimeoutError(), 1, "no answer in time"),
        (FileNotFoundError(2, "No such file or directory", "plan.json"), 1, "plan.json: No such"),
        (typer.BadParameter("is wrong."), 2, "is wrong"),
    ],
)
def test_a_known_error_is_one_line(error: Exception, exit_code: int, words: str) -> None:
    """What happened and what to do next, without line breaks."""
    problem = describe(error)
    assert problem is not None
    assert problem.exit_code == exit_code
    assert words in problem.line
    assert "\n" not in problem.line


def test_a_bug_is_not_explained_away() -> None:
    """An error that nobody foresaw must be seen in full."""
    assert describe(KeyError("x")) is None
    assert describe(AssertionError()) is None


def test_without_the_extra_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The library alone needs no typer; the command must say so, not fail with a traceback."""
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "typer" else real(name)
    )
    assert main.run(["pub", "a"]) == 1
    line = "quicksilver: the command line needs: pip install 'quicksilver-multicast[cli]'\n"
    assert capsys.readouterr().err == line
    assert main.run(["--version"]) == 0
