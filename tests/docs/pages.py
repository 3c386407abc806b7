"""The pages of the documentation, the blocks of code in them, and ways to run those."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue

from quicksilver.lab.processes import free_udp_port

ROOT = Path(__file__).parents[2]
LONG_S = 30.0


def read(name: str) -> str:
    """The text of a page."""
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(name: str, language: str = "python") -> list[str]:
    """A page's blocks of one language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", read(name), re.DOTALL | re.MULTILINE)


def steps(block: str) -> list[tuple[str, list[str]]]:
    """The commands of a block of the console, each with the lines that follow it."""
    found: list[tuple[str, list[str]]] = []
    for line in block.replace("\\\n", " ").splitlines():
        if line.startswith("$ "):
            found.append((line[2:].partition(" #")[0].strip(), []))
        else:
            found[-1][1].append(line)
    return found


def commands(name: str) -> list[str]:
    """All commands that a page shows, without what they print."""
    return [command for block in blocks(name, "console") for command, _ in steps(block)]


def put(block: str, places: Mapping[str, object]) -> str:
    """A block with the addresses and folders of a test instead of those that are shown."""
    for shown, real in places.items():
        assert shown in block
        block = block.replace(shown, str(real))
    return block


def on_free_ports(line: str) -> str:
    """A line that starts a GMS, so that it meets no other."""
    return f"{line} --port 0 --multicast-port {free_udp_port()}"


class Program:
    """A process that was started from a block, and the lines that it prints."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._lines: SimpleQueue[str] = SimpleQueue()
        self.process = process
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))

    def line(self) -> str:
        """The next line; fails if none comes."""
        try:
            return self._lines.get(timeout=LONG_S)
        except Empty:
            raise AssertionError(f"nothing more from {self.process.args!r}") from None

    def until(self, words: str) -> list[str]:
        """All lines up to one with these words in it."""
        lines = [self.line()]
        while words not in lines[-1]:
            lines.append(self.line())
        return lines

    def say(self, line: str) -> None:
        """Type a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def rest(self) -> list[str]:
        """All lines up to its end; fails if it does not end."""
        self.process.wait(LONG_S)
        self._reader.join()
        return [self._lines.get() for _ in range(self._lines.qsize())]

    def close(self) -> None:
        """Kill it, if it did not end before."""
        self.process.kill()
        self.process.wait()
        self._reader.join()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


@contextmanager
def _started(command: list[str], folder: Path, **environment: str) -> Iterator[Program]:
    program = Program(
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
            env={**os.environ, **environment},
        )
    )
    try:
        yield program
    finally:
        program.close()


def script(block: str, folder: Path, *arguments: str) -> AbstractContextManager[Program]:
    """Run a block of Python as a program of its own."""
    return _started([sys.executable, "-u", "-c", block, *arguments], folder)


def shell(line: str, folder: Path, gms: str = "") -> AbstractContextManager[Program]:
    """Run a line of the console as it is typed, with the GMS of a test where none is named."""
    here = str(Path(sys.executable).parent)
    environment = {"PATH": f"{here}{os.pathsep}{os.environ['PATH']}", "PYTHONUNBUFFERED": "1"}
    if gms:
        environment["QUICKSILVER_GMS"] = gms
    # A single command is waited for itself, so that killing it leaves nothing behind.
    command = line if "|" in line else f"exec {line}"
    return _started(["bash", "-c", command], folder, **environment)
