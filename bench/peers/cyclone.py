"""Cyclone DDS, a C implementation, through its own benchmark ``ddsperf``.

Reliable, keep-all, multicast on loopback, topic KS with samples of the given
size, published as fast as possible in bursts of 100. ``ddsperf`` prints one
line a second; whole seconds in which data flowed throughout are counted.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
from pathlib import Path

from bench.peers.result import PeerFailedError, PeerMissingError, PeerResult
from quicksilver.lab.processes import Children

NAME = "Cyclone DDS"
INSTALL = "apt-get install cyclonedds-tools"

_CONFIG = Path(__file__).with_name("cyclonedds.xml")
_SUB_LINE = re.compile(
    r"^\[\d+\]\s+(?P<time>[\d.]+)\s+size (?P<size>\d+) total (?P<total>\d+) lost (?P<lost>\d+)"
    r" delta (?P<delta>\d+)"
)


def parse_sub(lines: list[str], size: int) -> tuple[float, int]:
    """Return messages a second and messages lost, from the output of ``ddsperf sub``.

    The first and the last second with data are partial and left out.
    """
    samples: list[tuple[float, int]] = []
    lost = 0
    for line in lines:
        match = _SUB_LINE.match(line)
        if match is None or int(match["delta"]) == 0:
            continue
        if int(match["size"]) != size:
            raise PeerFailedError(f"ddsperf sent {match['size']} bytes instead of {size}")
        samples.append((float(match["time"]), int(match["total"])))
        lost = int(match["lost"])
    if len(samples) < 3:
        raise PeerFailedError("ddsperf: fewer than three seconds with data")
    # A line gives the total at its time, so lines 0..n-2 span n-2 whole seconds.
    (start, before), (stop, after) = samples[0], samples[-2]
    return (after - before) / (stop - start), lost


def run(receivers: int, size: int, seconds: float) -> PeerResult:
    if shutil.which("ddsperf") is None:
        raise PeerMissingError("ddsperf is not installed")
    # One run may not meet the participants of another that is just ending.
    domain = str(1 + os.getpid() % 200)
    environment = {"CYCLONEDDS_URI": _CONFIG.as_uri()}
    sending_s = math.ceil(seconds) + 2
    limit_s = sending_s + 3
    common = ["ddsperf", "-i", domain, "-k", "all"]
    with Children() as children:
        subs = [
            children.start(
                "ddsperf sub",
                [*common, "-D", str(limit_s), "-1", "sub", "listener"],
                environment=environment,
            )
            for _ in range(receivers)
        ]
        pub = children.start(
            "ddsperf pub",
            [
                *common,
                *("-D", str(sending_s), f"-Qminmatch:{receivers}", "-Qinitwait:5"),
                *("pub", "inf", "size", str(size), "burst", "100"),
            ],
            environment=environment,
        )
        for _ in pub.lines(limit_s + 10):
            pass
        measured = [parse_sub(list(sub.lines(limit_s + 10)), size) for sub in subs]
    return PeerResult(
        name=NAME,
        version=_version(),
        messages_per_second=min(rate for rate, _ in measured),
        lost=sum(lost for _, lost in measured),
        note="C; reliable UDP multicast, keep-all, batched writes",
    )


def _version() -> str:
    try:
        answer = subprocess.run(
            ["dpkg-query", "-W", "-f", "${Version}", "cyclonedds-tools"],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return answer.stdout.strip()
