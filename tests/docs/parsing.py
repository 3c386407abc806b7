"""The blocks of code in a page, and the stage directions that say how they are run.

A stage direction is an HTML comment, which readers of the page do not see, on a line of its
own before a block::

    <!-- window: first -->             the last command keeps running in a window of this name
    <!-- in: first -->                 the block goes on in that window: it shows what follows
                                       there, and lines that begin with "> " are typed
    <!-- ctrl-c: first -->             (not about a block) end the window as a user would
    <!-- on: B -->                     on the second of two machines (network namespaces, as root)
    <!-- save as: hello.py -->         the block is a file; it runs when a command names it
    <!-- program -->                   Python that is run by itself, not in the page's namespace
    <!-- with: 40000 = 2000 -->        a test uses the second value in place of the first
    <!-- numbers vary -->              numbers of the output are not compared
    <!-- same: 0 missing -->           but these words are there as they stand, with their numbers
    <!-- any order -->                 lines of the output may change places
    <!-- without: secret -->           this window never shows that word
    <!-- exit code: 1 -->              what the last command ends with
    <!-- needs: zmq -->                run where this Python package is installed
    <!-- long: why -->                 run by `make docs-blocks`, not by `make test`
    <!-- not run: why -->              run by nobody; the reason is part of the list of blocks
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
RUN = ("python", "console")
"""Languages whose blocks are run. Others are files, output or drawings."""

WORDS = frozenset(
    (
        "window",
        "in",
        "ctrl-c",
        "on",
        "save as",
        "program",
        "with",
        "numbers vary",
        "same",
        "any order",
        "without",
        "exit code",
        "needs",
        "long",
        "not run",
    )
)
_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)$")
_DIRECTION = re.compile(r"^ *<!-- (?P<word>[a-z][a-z -]*?)(?:: (?P<value>.*?))? -->$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block of code, or a stage direction that stands alone (then without a language)."""

    page: str
    line: int
    language: str
    text: str
    directions: dict[str, list[str]] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """Where it is, as editors understand it."""
        return f"{self.page}:{self.line}"

    def first(self, word: str) -> str | None:
        """Return the value of a direction, or None if it is not there."""
        values = self.directions.get(word)
        return values[0] if values else None

    def has(self, word: str) -> bool:
        """Whether this direction was given."""
        return word in self.directions

    @property
    def is_run(self) -> bool:
        """Whether this block is code that somebody could type."""
        return self.language in RUN


@dataclass(frozen=True, slots=True)
class Step:
    """A command of a console, and the lines that follow it."""

    command: str
    shown: str


def read(name: str) -> str:
    """Return the text of a page."""
    return (ROOT / name).read_text(encoding="utf-8")


def parse_page(name: str) -> list[Block]:
    """Return the blocks of a page, in order."""
    return parse(name, read(name))


def texts(name: str, language: str) -> list[str]:
    """Return a page's blocks of one language."""
    return [block.text for block in parse_page(name) if block.language == language]


def parse(name: str, text: str) -> list[Block]:
    """Return the blocks of a text."""
    found: list[Block] = []
    pending: dict[str, list[str]] = {}
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        if direction := _DIRECTION.match(line):
            word, value = direction["word"], direction["value"] or ""
            if word == "ctrl-c":
                found.append(Block(page=name, line=number, language="", text=value))
            elif word in WORDS:
                pending.setdefault(word, []).append(value)
        elif fence := _FENCE.match(line):
            indent, body = fence["indent"], []
            for _, inner in lines:
                if inner == f"{indent}```":
                    break
                body.append(inner.removeprefix(indent))
            shown = " ".join(" ".join(body).split())
            for same in pending.get("same", ()):
                assert same in shown, f"{name}:{number}: no {same!r} in the block"
            found.append(
                Block(
                    page=name,
                    line=number,
                    language=fence["language"] or "drawing",
                    text="".join(f"{one}\n" for one in body),
                    directions=pending,
                )
            )
            pending = {}
        elif line.strip():
            assert not pending, f"{name}:{number}: {sorted(pending)} is not followed by a block"
    return found


def parse_steps(block: str) -> list[Step]:
    """Return the commands of a console, each with what it shows."""
    steps: list[tuple[list[str], list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            steps.append(([line[2:]], []))
            continue
        assert steps, f"a console begins with a command, not with {line!r}"
        command, shown = steps[-1]
        if not shown and command[-1].endswith("\\"):
            command.append(line)
        else:
            shown.append(line)
    return [
        Step(_without_remark("\n".join(command)), "".join(f"{one}\n" for one in shown))
        for command, shown in steps
    ]


def _without_remark(command: str) -> str:
    return re.sub(r"\s+# .*$", "", command).strip()
