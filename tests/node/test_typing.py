"""What type checkers see: groups of types, and mistakes in calls.

Mypy and Pyright read one file; a comment on a line says what each of them must find there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PROGRAM = """
import msgspec

import quicksilver
from quicksilver import sync


class Quote(msgspec.Struct):
    symbol: str
    price: float


async def in_asyncio() -> None:
    async with quicksilver.connect("127.0.0.1:7401", name="me", empty="drop") as node:
        group = await node.join("prices", Quote)
        await group.send(Quote("x", 1.0))
        await group.send(b"x")  # wrong
        message = await group.receive(timeout=1.0)
        message.payload.price.is_integer()
        message.payload.prize  # wrong
        async for each in group:
            each.payload.symbol.upper()
            each.payload.upper()  # wrong
        plain = await node.open("plain")
        await plain.send(b"x")
        await plain.send("x")  # wrong
        numbers = await node.open("numbers", int)
        numbers.post(5)
        numbers.post("5")  # wrong
        await node.join("prices", overflow="blok")  # wrong
        await node.join("prices", empty="never")  # wrong
        await node.join(5)  # wrong
    other = await quicksilver.connect("127.0.0.1:7401")
    await other.close(timeout=1)
    quicksilver.connect("127.0.0.1:7401", naem="x")  # wrong
    quicksilver.connect("127.0.0.1:7401", queue_bytes="x")  # wrong


def in_threads() -> None:
    with sync.connect("127.0.0.1:7401", name="me") as node:
        group = node.join("prices", Quote)
        group.send(Quote("x", 1.0))
        group.send(b"x")  # wrong
        for message in group.messages(timeout=1.0):
            message.payload.price.is_integer()
            message.payload.prize  # wrong
        node.join("prices", overflow="blok")  # wrong
    sync.connect("127.0.0.1:7401", naem="x")  # wrong
"""

WRONG = [n for n, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# wrong")]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("typing") / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return path


@pytest.mark.slow
def test_mypy_finds_the_mistakes_and_nothing_else(program: Path) -> None:
    """In its strict mode, from outside the package."""
    found = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--no-error-summary"),
            *("--config-file", os.devnull, "--follow-imports", "silent"),
            *("--cache-dir", str(program.parent / "cache"), str(program)),
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
        check=False,
    )
    lines = [line for line in found.stdout.splitlines() if ": error:" in line]
    assert sorted({int(line.split(":")[1]) for line in lines}) == WRONG, found.stdout


@pytest.mark.slow
def test_pyright_finds_the_mistakes_and_nothing_else(program: Path) -> None:
    """By the wheel that brings its own Node.js."""
    pytest.importorskip("basedpyright")
    (program.parent / "pyrightconfig.json").write_text(
        json.dumps(
            {
                "include": [program.name],
                "extraPaths": [str(ROOT / "src")],
                "typeCheckingMode": "standard",
            }
        ),
        encoding="utf-8",
    )
    found = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable],
        cwd=program.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    report = json.loads(found.stdout)["generalDiagnostics"]
    errors = [each for each in report if each["severity"] == "error"]
    lines = sorted({each["range"]["start"]["line"] + 1 for each in errors})
    assert lines == WRONG, json.dumps(errors, indent=1)
