"""``quicksilver pub`` on a machine whose link is down for six seconds."""

from __future__ import annotations

import json
import subprocess
import threading
import time

import pytest

from tests.cli.processes import COMMAND, read_event
from tests.net.namespaces import network, why_impossible

pytestmark = [
    pytest.mark.namespaces,
    pytest.mark.slow,
    pytest.mark.skipif(bool(why_impossible()), reason=why_impossible() or "possible"),
]

COUNT = 2400
RATE = 200


def test_it_fails_and_says_how_many_messages_may_not_have_arrived() -> None:
    """It said that all were acknowledged, while half of them were gone with an exclusion."""
    with network(3, subnet=12) as machines:
        argv = [*COMMAND, "gms", "--host", machines.addresses[0], "--port", "0", "--json"]
        address = str(read_event(machines.start(0, argv))["address"])
        got: list[int] = []
        sub = machines.start(1, [*COMMAND, "sub", "g", "--gms", address, "--json"])
        reader = threading.Thread(target=_read, args=(sub, got), daemon=True)
        reader.start()
        argv = [*COMMAND, "pub", "g", "-n", str(COUNT), "--rate", str(RATE)]
        pub = machines.start(2, [*argv, "--flush", "60", "--gms", address, "--json"])
        deadline = time.monotonic() + 60
        while len(got) < RATE and time.monotonic() < deadline:
            time.sleep(0.05)
        machines.set_link(2, up=False)
        time.sleep(6)
        machines.set_link(2, up=True)
        out, err = pub.communicate(timeout=120)
        assert pub.returncode == 1, (out, err)
        last = json.loads(err.strip().splitlines()[-1])["text"]
        assert last.startswith(f"sent {COUNT:,} messages to g, but "), err
        assert "may not have arrived" in last
        assert "this node was excluded" in last
        summary = json.loads(out.strip().splitlines()[-1])
        lost = sum(each["count"] for each in summary["unconfirmed"] if each["reason"] == "excluded")
        assert summary["acknowledged"] == COUNT - lost
        deadline = time.monotonic() + 20
        while len(got) < summary["acknowledged"] and time.monotonic() < deadline:
            time.sleep(0.05)
        assert summary["acknowledged"] <= len(got) < COUNT


def _read(process: subprocess.Popen[str], got: list[int]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        number = json.loads(line).get("sequence")
        if number is not None:
            got.append(number)
