"""Help is plain English: every option has some, and a few habits are ruled out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from quicksilver.cli.app import make_app
from quicksilver.cli.main import run

RIDDLES = [
    r"\bharm\b",
    r"^of (the|a|one|such)\b",
    r"\bthe next ones follow\b",
    r"^whose\b",
    r"\bwho joins what\b",
    r"\b(messages|bytes|seconds|one|object|packets) an? (second|message|line|core|node)\b",
    r"\bso (many|much|often)\b(?!.*\bmilliseconds\b)",
    r"^another\b\.?$",
    r"\btell all\b",
    r"\bas many as can be\b",
]
"""What stood in help texts once, and what it looks like."""


def leaves(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield words, command
    for name, below in getattr(command, "commands", {}).items():
        yield from leaves(below, (*words, name))


COMMANDS = dict(leaves(typer.main.get_command(make_app())))
TEXTS = [
    (" ".join((*words, parameter.opts[0])), str(parameter.help or ""))
    for words, command in COMMANDS.items()
    for parameter in command.params
] + [(" ".join(words) or "quicksilver", str(command.help)) for words, command in COMMANDS.items()]


def test_every_option_and_command_is_explained() -> None:
    assert [name for name, text in TEXTS if len(text.split()) < 2] == []


def test_every_text_is_made_of_sentences() -> None:
    """A capital at the beginning, or a name of an option; a full stop at the end."""
    wrong = [
        name
        for name, text in TEXTS
        if not text.rstrip().endswith(".") or not (text[0].isupper() or text[0] in ".-`")
    ]
    assert wrong == []


@pytest.mark.parametrize("riddle", RIDDLES)
def test_no_riddles(riddle: str) -> None:
    """Subject, verb, object; "per" where it means per."""
    assert [name for name, text in TEXTS if re.search(riddle, text.lower(), re.MULTILINE)] == []


@pytest.mark.parametrize("words", list(COMMANDS), ids=lambda words: " ".join(words) or "alone")
def test_help_fits_and_swallows_nothing(
    words: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No line is wider than a common terminal, and brackets are not taken for markup."""
    monkeypatch.setenv("COLUMNS", "80")
    assert run([*words, "--help"]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    letters = re.sub(r"[^\w\[\]/*]", "", shown)
    for parameter in COMMANDS[words].params:
        for part in re.findall(r"\[[^\]]*\]", str(parameter.help or "")):
            assert re.sub(r"[^\w\[\]/*]", "", part) in letters
