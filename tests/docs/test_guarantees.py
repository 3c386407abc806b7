"""Every guarantee, and every limit to what an attacker can do, names a test that is there."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from tests.docs.parsing import ROOT, read

PAGE = "docs/guarantees.md"
MARK = re.compile(r"<!-- test: (\S+) -->")
PROMISED, _, WANTED = read(PAGE).partition("\n## Wanted\n")
TRUST = read("docs/trust.md")
NAMED = MARK.findall(PROMISED) + MARK.findall(TRUST)
VERBS = (
    "join",
    "leave",
    "send",
    "receive",
    "members that do not keep up",
    "flush",
    "close",
    "crash",
    "exclusion",
    "empty group",
    "restart of the GMS",
    "recorder",
    "headers and keys",
    "requests",
    "names with levels",
    "queues",
    "last values",
    "finding the GMS",
    "live objects",
    "strangers",
)


@cache
def names_in(path: str) -> frozenset[str]:
    """Names of a file's tests, those in classes with their class."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    found = set()
    for node in tree.body:
        inside = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        found |= {
            prefix + one.name
            for one in inside
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
        }
    return frozenset(name for name in found if name.rpartition("::")[2].startswith("test_"))


@pytest.mark.parametrize("named", sorted(set(NAMED)))
def test_every_named_test_exists(named: str) -> None:
    path, _, name = named.partition("::")
    assert (ROOT / path).is_file(), named
    assert name in names_in(path), named


def test_every_sentence_names_a_test() -> None:
    """A promise that nothing shows is a wish; wishes have a chapter of their own."""
    bullets = [line for line in PROMISED.splitlines() if line.startswith("- ")]
    assert len(bullets) > 30
    assert [line for line in bullets if not MARK.search(line)] == []
    assert not MARK.search(WANTED)


def test_nothing_is_left_out() -> None:
    headings = re.findall(r"^### (.*)$", PROMISED, re.MULTILINE)
    assert headings == list(VERBS)


def test_every_attack_that_is_said_to_be_hard_names_a_test() -> None:
    """Only what is simply possible needs none."""
    table = [line for line in TRUST.splitlines() if line.startswith("| ")][2:]
    answers = {line: line.split(" | ")[1].strip() for line in table}
    assert sum(answer in ("no", "hardly") for answer in answers.values()) > 5
    hard = [line for line, answer in answers.items() if not answer.startswith("yes")]
    assert [line for line in hard if not MARK.search(line)] == []


def test_every_limit_names_a_test() -> None:
    _, _, limits = TRUST.partition("## What is bounded\n")
    bullets = limits.partition("\n## ")[0].split("\n- ")[1:]
    assert len(bullets) > 5
    assert [each for each in bullets if not MARK.search(each)] == []
