"""The grammar by which editors colour programs (TextMate), made from the table of spellings."""

from __future__ import annotations

import json
import re
from typing import Any

from quicksilver.properties.syntax.spellings import (
    CONTAINERS,
    KEYWORDS,
    NAME_PATTERN,
    NUMBER_PATTERN,
    SCALARS,
    SPELLINGS,
    Group,
)

SCOPES: dict[Group, str] = {
    "section": "keyword.other.section",
    "control": "keyword.control",
    "place": "variable.language",
    "modifier": "storage.modifier",
    "word": "support.function",
    "operator": "keyword.operator",
    "sign": "punctuation",
}
CONSTANTS = ("true", "false")


def make_grammar() -> dict[str, Any]:
    """Return the grammar; ``json.dumps`` of it is what editors read."""
    patterns: list[dict[str, Any]] = [
        {"name": _scope("comment.line"), "match": "//.*$"},
        {"name": _scope("comment.block"), "begin": r"/\*", "end": r"\*/"},
        {"name": _scope("constant.language"), "match": _words(CONSTANTS)},
        {"name": _scope("storage.type"), "match": _words((*SCALARS, *CONTAINERS))},
        {
            "match": rf"\b(protocol)\s+({NAME_PATTERN})",
            "captures": {
                "1": {"name": _scope(SCOPES["section"])},
                "2": {"name": _scope("entity.name.type")},
            },
        },
        {
            "match": rf"([;}}])\s*(\(\s*{NAME_PATTERN}\s*\))(?=\s*$)",
            "captures": {
                "1": {"name": _scope("punctuation")},
                "2": {"name": _scope("entity.name.label")},
            },
        },
    ]
    operators: list[str] = []
    for group, scope in SCOPES.items():
        texts = [text for one in SPELLINGS if one.group == group for text in one.all]
        words = [text for text in texts if text in KEYWORDS and text not in CONSTANTS]
        signs = [text for text in texts if text not in KEYWORDS]
        if group == "operator":
            operators = signs
        elif group != "sign":
            signs = [re.escape(text) for text in signs]
            patterns.append({"name": _scope(scope), "match": "|".join([_words(words), *signs])})
            continue
        if words:
            patterns.append({"name": _scope(scope), "match": _words(words)})
    ordered = sorted(operators, key=lambda text: (-len(text), text))
    # Longer signs come first; `union=` begins where a word does.
    signs_pattern = "|".join(
        (rf"\b{re.escape(text)}" if text[0].isascii() and text[0].isalpha() else re.escape(text))
        for text in ordered
    )
    patterns.insert(6, {"name": _scope(SCOPES["operator"]), "match": signs_pattern})
    patterns.append({"name": _scope("constant.numeric"), "match": rf"\b{NUMBER_PATTERN}\b"})
    patterns.append({"name": _scope("variable.other"), "match": rf"\b{NAME_PATTERN}\b"})
    return {
        "$schema": (
            "https://raw.githubusercontent.com/martinring/tmlanguage/master/tmlanguage.json"
        ),
        "name": "Properties Language",
        "scopeName": "source.quicksilver-pl",
        "fileTypes": ["pl"],
        "patterns": patterns,
    }


def render_grammar() -> str:
    """Return the grammar as a file."""
    return json.dumps(make_grammar(), ensure_ascii=False, indent=2) + "\n"


def _scope(name: str) -> str:
    return f"{name}.quicksilver-pl"


def _words(words: tuple[str, ...] | list[str]) -> str:
    return rf"\b({'|'.join(sorted(words))})\b"
