"""kill -9 while a log is written: nothing that was reported as safe is lost."""

from __future__ import annotations

import random
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from quicksilver.recorder.reader import LogReader
from quicksilver.recorder.writer import LogConfig, LogWriter
from tests.recorder.logs import GROUP, value, values

WRITER = """
    import sys
    from pathlib import Path
    from quicksilver.recorder.writer import LogConfig, LogWriter

    writer = LogWriter(Path(sys.argv[1]), "prices", LogConfig(segment_bytes=20_000))
    while True:
        first = writer.durable
        rows = range(first, first + 1 + first % 50)
        writer.pending.append(
            [b"message %d" % n for n in rows],
            cluster=7, sender=1, sequences=rows, batch=3, at_us=first,
        )
        print(writer.flush(), flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_what_was_acknowledged_survives_a_kill(tmp_path: Path, seed: int) -> None:
    """The writer says how far it is safe; it is killed at a random moment, again and again."""
    chance = random.Random(seed)
    acknowledged = 0
    for _ in range(3):
        child = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(WRITER), str(tmp_path)],
            stdout=subprocess.PIPE,
        )
        assert child.stdout is not None
        assert child.stdout.readline()
        time.sleep(chance.random() * 0.1)
        child.kill()
        said = child.stdout.read().split()
        child.stdout.close()
        child.wait()
        acknowledged = max([acknowledged, *map(int, said)])
        _, past = LogReader(tmp_path, GROUP).bounds()
        assert past >= acknowledged
        assert values(tmp_path) == [value(number) for number in range(past)]
    writer = LogWriter(tmp_path, GROUP, LogConfig())
    assert writer.durable >= acknowledged > 0
    writer.close()
