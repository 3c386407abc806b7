"""Commands as a user runs them: processes, their output and their exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from quicksilver.lab.processes import free_udp_port

COMMAND = [sys.executable, "-m", "quicksilver.cli.main"]


def run(
    *arguments: str,
    given: str = "",
    timeout_s: float = 30.0,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run one command to its end."""
    return subprocess.run(
        [*COMMAND, *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        env={**os.environ, **(environment or {})},
    )


def check_one_line(outcome: subprocess.CompletedProcess[str], exit_code: int, words: str) -> None:
    """Assert that a command failed with one readable line."""
    assert outcome.returncode == exit_code, outcome.stderr
    lines = outcome.stderr.strip().splitlines()
    assert len(lines) == 1, outcome.stderr
    assert lines[0].startswith("quicksilver: ")
    assert words in lines[0]


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Keep a command running; it is killed at the end, if it did not end before."""
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def read_event(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Return the next JSON line that a process prints."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        assert process.stderr is not None
        raise AssertionError(f"the process ended: {process.stderr.read()}")
    event = json.loads(line)
    assert isinstance(event, dict)
    return event


@contextmanager
def running_gms(*arguments: str) -> Iterator[str]:
    """Keep a GMS running on free ports, its multicast port among them; yields its address."""
    ports = ("--port", "0", "--multicast-port", str(free_udp_port()))
    with running("gms", *ports, "--json", *arguments) as process:
        yield str(read_event(process)["address"])
