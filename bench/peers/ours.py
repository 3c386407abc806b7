"""quicksilver itself, through its own command, as any user would run it."""

from __future__ import annotations

import json
import shutil
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bench.peers.result import PeerFailedError, PeerMissingError, PeerResult
from quicksilver.lab.processes import Children
from quicksilver.stdx.install import DISTRIBUTION, install_line

NAME = "quicksilver"
INSTALL = f"make setup ({install_line('cli')})"


def parse_bench(output: str) -> tuple[float, int]:
    """Return messages a second and messages lost, from ``bench throughput --json``.

    The JSON object may span lines and stand among others.
    """
    decoder = json.JSONDecoder()
    position = output.find("{")
    while position >= 0:
        try:
            answer, _ = decoder.raw_decode(output, position)
        except ValueError:
            answer = None
        if isinstance(answer, dict) and "messages_per_second" in answer:
            return float(answer["messages_per_second"]), int(answer.get("lost", 0))
        position = output.find("{", position + 1)
    if "No module named" in output or "No such command" in output:
        raise PeerMissingError("this installation has no `quicksilver bench throughput`")
    said = output.strip().splitlines()[-1:] or ["nothing"]
    raise PeerFailedError(f"quicksilver bench gave no messages_per_second; it said: {said[0]}")


def run(receivers: int, size: int, seconds: float) -> PeerResult:
    program = _program()
    with Children() as children:
        bench = children.start(
            NAME,
            [
                *(program, "bench", "throughput", "--receivers", str(receivers), "--groups", "1"),
                *("--size", str(size), "--seconds", f"{seconds:g}", "--json"),
            ],
        )
        # The command also measures its ceiling, and starts and stops a cluster.
        output = "\n".join([*bench.lines(3 * seconds + 90), bench.last_words])
    rate, lost = parse_bench(output)
    return PeerResult(
        name=NAME,
        version=_version(),
        messages_per_second=rate,
        lost=lost,
        note="Python; reliable UDP multicast, one send a message",
    )


def _program() -> str:
    beside = Path(sys.executable).with_name("quicksilver")
    program = str(beside) if beside.exists() else shutil.which("quicksilver")
    if program is None:
        raise PeerMissingError("the quicksilver command is not installed")
    return program


def _version() -> str:
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "unknown"
