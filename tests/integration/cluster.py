"""Real processes for the integration tests: a GMS and members, on loopback."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from quicksilver.lab.processes import free_udp_port

ROOT = Path(__file__).parents[2]


class Process:
    """A child that speaks JSON lines."""

    def __init__(self, argv: list[str], prefix: tuple[str, ...] = ()) -> None:
        self.child = subprocess.Popen(
            [*prefix, sys.executable, *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )
        self._buffer = b""

    def read(self, timeout_s: float = 30.0) -> dict[str, Any]:
        deadline = time.monotonic() + timeout_s
        assert self.child.stdout is not None
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            ready, _, _ = select.select([self.child.stdout], [], [], max(0.0, left))
            if not ready:
                raise TimeoutError(f"process {self.child.pid} said nothing for {timeout_s} s")
            data = os.read(self.child.stdout.fileno(), 1 << 16)
            if not data:
                raise EOFError(f"process ended with {self.child.wait()}")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found

    def ask(self, timeout_s: float = 30.0, **order: Any) -> dict[str, Any]:
        assert self.child.stdin is not None
        self.child.stdin.write(json.dumps(order).encode() + b"\n")
        self.child.stdin.flush()
        return self.read(timeout_s)

    def signal(self, number: int) -> None:
        self.child.send_signal(number)

    def kill(self) -> None:
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGCONT)
            self.child.kill()
        self.child.wait()
        for pipe in (self.child.stdin, self.child.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


class Cluster:
    """A GMS and its members; nothing survives the test."""

    def __init__(self, state: Path | None = None, *gms_options: str) -> None:
        self.state = state
        self.gms_options = gms_options
        self.port = 0
        self.multicast_port = free_udp_port()
        self.processes: list[Process] = []
        self.gms = self.start_gms()

    def start_gms(self) -> Process:
        argv = ["-m", "quicksilver.cli.main", "gms", "--port", str(self.port), "--json"]
        argv += ["--multicast-port", str(self.multicast_port)]
        if self.state is not None:
            argv += ["--state", str(self.state)]
        self.gms = Process([*argv, *self.gms_options])
        self.processes.append(self.gms)
        self.address = self.gms.read()["address"]
        self.port = int(self.address.rpartition(":")[2])
        return self.gms

    def member(self, name: str, groups: list[str] | None = None, **settings: Any) -> Process:
        settings = {"gms": self.address, "name": name, **settings}
        member = Process(["-m", "tests.integration.member", json.dumps(settings)])
        self.processes.append(member)
        member.read()
        if groups:
            member.ask(do="join", groups=groups)
        return member

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self.processes:
            process.kill()


def wait_complete(
    member: Process, expected: dict[str, int], timeout_s: float = 30.0
) -> dict[str, Any]:
    """Wait until a member has every stream up to the expected number; return its report."""
    deadline = time.monotonic() + timeout_s
    while True:
        report = member.ask(do="report")
        streams = report["streams"]
        if all(streams.get(n, {}).get("next") == count for n, count in expected.items()):
            return report
        if time.monotonic() > deadline:
            raise AssertionError(f"incomplete: expected {expected}, have {streams}")
        time.sleep(0.05)
