"""Commands at an address where nobody listens: one line that says what to do."""

from __future__ import annotations

import functools
import io
from pathlib import Path

import pytest

from quicksilver.cli.main import run
from quicksilver.node.options import NodeOptions

pytestmark = pytest.mark.integration

EXAMPLES = Path(__file__).parents[2] / "examples" / "live"


@pytest.mark.parametrize(
    "command",
    [
        ("pub", "a", "-n", "1"),
        ("sub", "a"),
        ("record", "a", "--path", "recording"),
        ("object", "run", str(EXAMPLES / "counter.liveobject")),
        ("top", "--once"),
    ],
    ids=lambda command: command[0],
)
def test_no_gms_ends_with_one_line(
    command: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In this process, where nodes can be made to lose patience sooner than after ten seconds."""
    patient = NodeOptions.__init__
    impatient = functools.partialmethod(patient, connect_timeout_s=0.3)
    monkeypatch.setattr(NodeOptions, "__init__", impatient)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    monkeypatch.chdir(tmp_path)
    assert run([*command, "--gms", "127.0.0.1:1"]) == 1
    # Before it, those that go on trying say so.
    *_, line = capsys.readouterr().err.splitlines()
    assert line.startswith("quicksilver: no GMS at 127.0.0.1:1 ")
    assert "quicksilver gms" in line
