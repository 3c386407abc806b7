"""``quicksilver scope demo``: three networks, real processes, and mishaps."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.processes import check_one_line, run
from tests.net.namespaces import why_impossible

pytestmark = [pytest.mark.integration, pytest.mark.slow]

possible = pytest.mark.skipif(bool(why_impossible()), reason=why_impossible() or "possible")


@pytest.mark.namespaces
@possible
def test_a_topic_crosses_three_networks_while_processes_are_killed() -> None:
    """Every survivor has every message once and in order, and nothing is left behind."""
    before = abandoned()
    done = run(
        *("scope", "demo", "--json", "--nodes", "3", "--seconds", "8", "--rate", "100"),
        *("--mishaps", "node,gateway,host"),
        timeout_s=240.0,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["subscribers"] == 3 * 3 - 2
    assert (told["missing"], told["duplicates"], told["disordered"]) == (0, 0, 0)
    # Publishers survive, and nobody gets its own messages.
    assert told["deliveries"] == told["messages"] * told["subscribers"] - told["messages"]
    assert told["messages"] > 0
    assert told["datagrams_dropped"] > 0, "loss was injected"
    assert len(told["mishaps"]) == 3
    assert told["unconfirmed"] == {}, "every publisher learns that all have everything"
    assert abandoned() == before


def abandoned() -> list[str]:
    """Return the routers of networks whose process is gone; other tests make some as well."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    names = [line.split()[0] for line in listed.stdout.splitlines() if line.strip()]
    routers = {name: name.removeprefix("qs").removesuffix("-rt") for name in names}
    return sorted(
        name
        for name, process in routers.items()
        if name.endswith("-rt") and not Path("/proc", process).exists()
    )


def test_mistakes_are_told_in_one_line() -> None:
    check_one_line(run("scope", "demo", "--mishaps", "flood"), 2, "there is no mishap 'flood'")
    check_one_line(run("scope", "demo", "--loss", "much"), 2, "loss=much")


def test_it_says_that_it_needs_root() -> None:
    """A user without rights reads what to do, and no traceback."""
    code = (
        "import os, sys; os.geteuid = lambda: 1000; "
        "from quicksilver.cli.main import run; sys.exit(run(['scope', 'demo']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
    )
    check_one_line(done, 1, "run as root")
