"""The tests run anywhere: in the background, under nohup, with signals blocked."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

SHOW = "print(open('/proc/self/status').read())"
PROGRAM = f"""
import os, signal, subprocess, sys
from tests.kit.signals import give_children_default_signals
for number in (signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))
give_children_default_signals()
os.kill(os.getpid(), signal.SIGINT)
subprocess.run([sys.executable, "-c", {SHOW!r}], check=True)
"""


@pytest.mark.slow
def test_children_begin_with_default_signals() -> None:
    """What the test run ignores, it goes on ignoring; a child of a test does not."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    status = dict(line.split(":", 1) for line in done.stdout.splitlines() if ":" in line)
    ignored = {number for number in range(1, 32) if int(status["SigIgn"], 16) >> number - 1 & 1}
    assert ignored <= {signal.SIGPIPE, signal.SIGXFSZ}, "what Python itself ignores"
    assert int(status["SigBlk"], 16) == 0
