"""The grammar for editors knows what the parser knows."""

from __future__ import annotations

import json
import re

import pytest

from quicksilver.cli.main import run
from quicksilver.properties import library
from quicksilver.properties.editor.textmate import SCOPES, make_grammar
from quicksilver.properties.syntax.spellings import BY_TOKEN, SPELLINGS
from quicksilver.properties.syntax.tokens import span_of, tokenize


def colour(line: str) -> list[tuple[int, int, str]]:
    """Return what an editor colours in a line: the leftmost match, of equals the first pattern."""
    patterns = [
        (one["name"].removesuffix(".quicksilver-pl"), re.compile(one["match"]))
        for one in make_grammar()["patterns"]
        if "match" in one and "name" in one
    ]
    found: list[tuple[int, int, str]] = []
    at = 0
    while at < len(line):
        matches = [
            (match.start(), order, match.end(), name)
            for order, (name, pattern) in enumerate(patterns)
            if (match := pattern.search(line, at)) and match.end() > match.start()
        ]
        if not matches:
            break
        start, _, end, name = min(matches)
        found.append((start, end, name))
        at = end
    return found


@pytest.mark.parametrize("name", library.names())
def test_every_token_of_the_library_has_its_colour(name: str) -> None:
    for line in library.text_of(name).splitlines():
        code = line.partition("//")[0]
        coloured = {(start, end): scope for start, end, scope in colour(code)}
        for token in tokenize(code).tokens:
            spelling = BY_TOKEN.get(token.type)
            span = span_of(token)
            if spelling is not None and spelling.group != "sign":
                expected = SCOPES[spelling.group]
                if spelling.ascii in {"true", "false"}:
                    expected = "constant.language"
                assert coloured[span.start, span.end] == expected, (line, str(token))
            elif token.type == "NUMBER":
                assert coloured[span.start, span.end] == "constant.numeric"


@pytest.mark.parametrize(
    "text", [text for one in SPELLINGS if one.group != "sign" for text in one.all]
)
def test_every_spelling_has_a_colour(text: str) -> None:
    (start, end, scope), *_ = colour(f"  {text} ")
    assert (start, end) == (2, 2 + len(text))
    assert not scope.startswith("variable.other")


def test_the_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pl", "grammar"]) == 0
    assert json.loads(capsys.readouterr().out) == make_grammar()
