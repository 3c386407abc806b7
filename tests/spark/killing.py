"""Ending processes with -9: a job's, and those that Spark started for it."""

from __future__ import annotations

import os
import signal
from pathlib import Path


def session_processes(session: int, words: str = "") -> list[int]:
    """The processes of a session, those whose command line has the words."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except (OSError, ValueError):
            continue
        if int(fields[3]) == session and words in command:
            found.append(int(entry.name))
    return found


def kill(processes: list[int]) -> None:
    """Kill them all; one that is gone already is no problem."""
    for process in processes:
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue
