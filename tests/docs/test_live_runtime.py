"""The examples of docs/live-runtime.md run as they are shown, against a real GMS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from quicksilver.live.references.builder import STARTERS
from quicksilver.live.references.xml import write
from tests.docs.pages import ROOT, blocks, commands, put, script, shell
from tests.node.service import running_gms

pytestmark = pytest.mark.integration

PAGE = "docs/live-runtime.md"
IN_ASYNCIO, IN_THREADS, PUBLISHES, JOINS = blocks(PAGE)


@pytest.fixture(scope="module")
def gms() -> Iterator[str]:
    with running_gms() as address:
        yield address


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What ``quicksilver object new shared-text notes.liveobject`` writes, and a registry."""
    (tmp_path / "registry").mkdir()
    (tmp_path / "notes.liveobject").write_text(write(STARTERS["shared-text"]()), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("block", [IN_ASYNCIO, IN_THREADS])
def test_a_program_edits_and_is_told(block: str, folder: Path, gms: str) -> None:
    """It prints the text, and ends by itself without an error."""
    with script(put(block, {"127.0.0.1:7401": gms}), folder) as program:
        assert program.until("hello")[-1] == "hello"
        assert program.process.wait(20) == 0


def test_a_text_of_one_process_is_written_by_another(folder: Path) -> None:
    """Through the address that the first one prints; when that ends, the other is told."""
    place = f"live+unix:{folder}/socket"
    publishes = put(PUBLISHES, {"live+unix:/run/user/1000/notes": place})
    with script(publishes, folder) as publisher:
        address = publisher.line()
        assert address.startswith(f"{place}#")
        with script(JOINS, folder, address) as writer:
            writer.until("hello from the other process")
            publisher.close()
            writer.until("the connection was lost")


def test_the_object_runs_in_the_terminal(gms: str) -> None:
    (line,) = commands(PAGE)
    with shell(line, ROOT, gms) as terminal:
        terminal.until("(empty)")
        terminal.say("append milk")
        assert terminal.line() == "1 | milk"
