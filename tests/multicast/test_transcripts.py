"""Transcripts of the recovery protocol: what comes in (``>>``), what goes out (``<<``).

Each file of ``testdata`` tells one story. After a deliberate change of the
protocol, ``REGENERATE=1 pytest tests/multicast/test_transcripts.py`` writes what
happens now; read the difference before you commit it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.multicast.ring import Transcript

TESTDATA = Path(__file__).parent / "testdata"


def replay(text: str) -> str:
    """Return the transcript with what really happens in place of the ``<<`` lines."""
    transcript = Transcript()
    lines = []
    for line in text.splitlines():
        if line.startswith("<<"):
            continue
        lines.append(line)
        if line.startswith(">>"):
            lines += [f"<< {effect}" for effect in transcript.run(line.removeprefix(">>"))]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("path", sorted(TESTDATA.glob("*.txt")), ids=lambda path: path.stem)
def test_the_protocol_follows_its_transcript(path: Path) -> None:
    """Token rounds, repairs, silence and lost tokens, step by step."""
    written = path.read_text(encoding="utf-8")
    happened = replay(written)
    if os.environ.get("REGENERATE"):
        path.write_text(happened, encoding="utf-8")
    assert happened == written or os.environ.get("REGENERATE")


def test_there_are_transcripts() -> None:
    """A folder that was not found would test nothing."""
    assert len(list(TESTDATA.glob("*.txt"))) >= 5
