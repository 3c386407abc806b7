"""JGroups 2.12, Java, a UDP stack tuned for this work: reliable FIFO multicast with bundling.

``JGroupsBench.java`` is compiled on first use into ``out/``. Every process sends
or receives two seconds unmeasured first, so that the virtual machines are warm.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from bench.peers.result import (
    PeerFailedError,
    PeerMissingError,
    PeerResult,
    parse_report,
    summarize,
)
from quicksilver.lab.processes import Children

NAME = "JGroups"
INSTALL = "apt-get install libjgroups-java default-jdk-headless"

_HERE = Path(__file__).parent
_SOURCE = _HERE / "JGroupsBench.java"
_CONFIG = _HERE / "jgroups-udp.xml"
_CLASSES = _HERE.parents[1] / "out" / "peers"
_JARS = ("jgroups.jar", "commons-logging.jar", "log4j-1.2.jar")


NOTE = "Java; reliable UDP multicast (NAKACK), bundled"


def class_path(folder: Path = Path("/usr/share/java")) -> str:
    """Return the jars that exist; the logging ones are optional to JGroups."""
    if not (folder / _JARS[0]).exists():
        raise PeerMissingError(f"{_JARS[0]} is not installed")
    return os.pathsep.join(str(folder / jar) for jar in _JARS if (folder / jar).exists())


def parse_version(line: str) -> str:
    """Return ``2.12.2.Final`` from ``joined JGroups 2.12.2.Final ...``."""
    for word in line.split()[1:]:
        if word[0].isdigit():
            return word
    return "unknown"


def run(receivers: int, size: int, seconds: float) -> PeerResult:
    return run_stack(
        str(_CONFIG), receivers, size, seconds, name=NAME, note=f"{NOTE}, tuned for this work"
    )


def run_stack(
    stack: str, receivers: int, size: int, seconds: float, *, name: str, note: str
) -> PeerResult:
    """Measure with ``stack``: a file, or one that JGroups ships inside its jar."""
    path = class_path()
    for program in ("javac", "java"):
        if shutil.which(program) is None:
            raise PeerMissingError(f"{program} is not installed")
    _compile(path)
    port = 45_000 + os.getpid() % 5_000
    java = [
        *("java", "-server", "-Xms64m", "-Xmx512m", "-XX:+UseParallelGC"),
        "-Djava.net.preferIPv4Stack=true",
        "-Djgroups.bind_addr=127.0.0.1",
        f"-Djgroups.udp.mcast_port={port}",
        "-Djgroups.udp.ip_ttl=0",
        *("-cp", f"{_CLASSES}{os.pathsep}{path}", "JGroupsBench"),
    ]
    arguments = [stack, str(size), str(seconds)]
    with Children() as children:
        # The sender goes first and is the coordinator: members that start together
        # may found clusters of their own, which merge only half a minute later.
        sender = children.start("JGroups sender", [*java, "send", *arguments, str(receivers)])
        version = parse_version(sender.expect_line("joined", 20))
        subs = [
            children.start("JGroups receiver", [*java, "receive", *arguments])
            for _ in range(receivers)
        ]
        for sub in subs:
            sub.expect_line("joined", 30)
        sender.expect_line("sent", seconds + 40)
        reports = [parse_report(sub.expect_line("report", 30)) for sub in subs]
    rate, lost = summarize(reports)
    return PeerResult(
        name=name,
        version=version,
        messages_per_second=rate,
        lost=lost,
        note=note,
    )


def _compile(path: str) -> None:
    target = _CLASSES / "JGroupsBench.class"
    if target.exists() and target.stat().st_mtime >= _SOURCE.stat().st_mtime:
        return
    _CLASSES.mkdir(parents=True, exist_ok=True)
    answer = subprocess.run(
        ["javac", "-nowarn", "-cp", path, "-d", str(_CLASSES), str(_SOURCE)],
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode != 0:
        first = (answer.stderr or answer.stdout).strip().splitlines()[:1]
        raise PeerFailedError(f"javac: {' '.join(first)}")
