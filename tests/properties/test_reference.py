"""The reference, the index and the drawing say what the code does."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from quicksilver.properties import library
from quicksilver.properties.check.aggregation import FITTING
from quicksilver.properties.compile.program import compile_text
from quicksilver.properties.explain.drawing import draw
from quicksilver.properties.syntax.parse import NESTING_MAX, PROGRAM_CHARS_MAX
from quicksilver.properties.syntax.spellings import BY_TOKEN, KEYWORDS, SPELLINGS
from tests.docs.parsing import ROOT, read, texts

REFERENCE = read("docs/properties/reference.md")
GRAMMAR = texts("docs/properties/reference.md", "text")[0]
SOURCES = ROOT / "src" / "quicksilver" / "properties"


def test_the_grammar_has_every_word_and_sign_in_ascii() -> None:
    quoted = set(re.findall(r'"([^"\n]+)"', GRAMMAR))
    words = {word for text in quoted for word in (text, text.removeprefix("."))}
    signs = {one.ascii for one in SPELLINGS} - {"."}
    assert signs - words == set()
    known = (
        signs | KEYWORDS | {"int", "bool", "address", "intset", "set", "pair", "map", ".", "x", "y"}
    )
    assert words - known == {".first", ".second", ""}


def test_the_table_has_every_other_spelling() -> None:
    table = REFERENCE.partition("## Grammar")[0].replace("\\|", "|")
    for one in SPELLINGS:
        for text in one.all if len(one.all) > 1 else ():
            assert f"`{text}`" in table, text


def test_limits_are_those_of_the_parser() -> None:
    assert f"at most {PROGRAM_CHARS_MAX:,}\ncharacters" in REFERENCE
    assert f"more than {NESTING_MAX} deep" in REFERENCE


def test_every_aggregation_operator_is_explained() -> None:
    (paragraph,) = re.findall(r"`children\(op\)\.P` puts together.*?\n\n", REFERENCE, re.DOTALL)
    for name in FITTING:
        shown = BY_TOKEN[name].unicode if name in BY_TOKEN else f"{name}(n)"
        assert f"`{shown}`" in paragraph


def test_every_code_of_the_checker_is_listed() -> None:
    """Codes are the values of ``code=`` where findings are made."""
    made: set[str] = set()
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_code = isinstance(node, ast.keyword) and node.arg == "code"
            if is_code and isinstance(node.value, ast.Constant):
                made.add(str(node.value.value))
    _, _, section = REFERENCE.partition("## What the checker finds")
    rows = re.findall(r"^\| (`.*?) \|", section.partition("## Beyond")[0], re.MULTILINE)
    assert {code for row in rows for code in re.findall(r"`(\w+)`", row)} == made


def test_the_index_lists_the_library() -> None:
    section = read("docs/properties/index.md").partition("## The library")[2].partition("## Com")[0]
    rows = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(library.names())


def test_the_drawing_of_the_tutorial_is_the_one_that_explain_draws() -> None:
    kept = Path(ROOT / "docs" / "figures" / "pl-cleanup.svg").read_text(encoding="utf-8")
    assert kept == draw(compile_text(library.text_of("cleanup")))
