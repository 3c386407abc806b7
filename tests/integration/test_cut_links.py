"""Real links go down, come back, and change their addresses: who learns what, and when."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.cluster import ROOT
from tests.net.namespaces import Network, network, why_impossible

pytestmark = [
    pytest.mark.integration,
    pytest.mark.namespaces,
    pytest.mark.slow,
    pytest.mark.skipif(bool(why_impossible()), reason=why_impossible() or "possible"),
]

TIMEOUT_S = 1.0
HEARTBEAT_S = 0.2
SLACK_S = 4.0
"""For a machine on which much else runs."""


class Machines:
    """A GMS on the first machine, a member on each of the others, all in one group."""

    def __init__(self, net: Network) -> None:
        self.net = net
        self.gms = f"{net.addresses[0]}:7401"
        argv = [
            *(sys.executable, "-m", "quicksilver.cli.main", "gms", "--json", "--host", "0.0.0.0"),
            *("--failure-timeout", str(TIMEOUT_S), "--heartbeat", str(HEARTBEAT_S)),
        ]
        self.service = net.start(0, argv)
        assert self.service.stdout is not None
        assert json.loads(self.service.stdout.readline())["event"] == "ready"
        self.members = [self._start_member(i) for i in range(1, len(net.names))]
        for member in self.members:
            self.ask(member, do="join", groups=["g"])
        for member in self.members:
            self.ask(member, do="send", group="g", rate=50, size=100)

    def _start_member(self, index: int) -> subprocess.Popen[str]:
        settings = {"gms": self.gms, "name": f"m{index}", "interface": self.net.interface}
        script = str(ROOT / "tests" / "integration" / "member.py")
        process = self.net.start(index, [sys.executable, script, json.dumps(settings)])
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["ready"]
        return process

    def ask(self, member: subprocess.Popen[str], **order: Any) -> dict[str, Any]:
        assert member.stdin is not None
        assert member.stdout is not None
        member.stdin.write(json.dumps(order) + "\n")
        member.stdin.flush()
        answer: dict[str, Any] = json.loads(member.stdout.readline())
        return answer

    def report(self, at: int) -> dict[str, Any]:
        return self.ask(self.members[at], do="report")

    def exclusions(self) -> list[int]:
        return [self.report(at)["exclusions"] for at in range(len(self.members))]

    def wait(self, at: int, seconds: float, what: str, **wanted: Any) -> float:
        """Wait for a member to report something; return how long that took."""
        began = time.monotonic()
        while time.monotonic() < began + seconds:
            found = self.report(at)
            if all(found[key] == value for key, value in wanted.items()):
                return time.monotonic() - began
            time.sleep(0.05)
        raise AssertionError(f"{what}: not within {seconds} s: {found}")

    def snapshot(self) -> dict[str, Any]:
        top = [
            sys.executable,
            "-m",
            "quicksilver.cli.main",
            "top",
            "--once",
            "--json",
            "--gms",
            self.gms,
        ]
        found: dict[str, Any] = json.loads(self.net.run(0, [*top, "--interval", "0.1"]).stdout)
        return found


@pytest.fixture
def machines() -> Iterator[Machines]:
    with network(4, subnet=9) as net:
        yield Machines(net)


def test_a_gms_without_its_link_excludes_nobody(machines: Machines) -> None:
    """Five of five nodes were excluded, with messages lost."""
    time.sleep(1.0)
    machines.net.set_link(0, up=False)
    time.sleep(5 * TIMEOUT_S)
    machines.net.set_link(0, up=True)
    time.sleep(3 * TIMEOUT_S)
    assert machines.exclusions() == [0, 0, 0]
    shown = machines.snapshot()
    assert shown["gms"]["failed"] == 0
    assert shown["gms"]["holds"] == 1
    assert [node["connected"] for node in shown["nodes"]] == [True] * 3


def test_a_node_that_was_cut_off_learns_it_soon(machines: Machines) -> None:
    """TCP alone took 24 s after a cut of 30 s: it tries more and more seldom."""
    machines.net.set_link(3, up=False)
    time.sleep(14.0)  # TCP tries after 12.6 s, and then after 25.4
    machines.net.set_link(3, up=True)
    machines.wait(2, TIMEOUT_S + SLACK_S, "the cut-off node learns it", exclusions=1)
    assert machines.exclusions() == [0, 0, 1]


def test_a_node_whose_address_changes_comes_back_under_the_new_one(machines: Machines) -> None:
    """It did not within 17 s: its sockets and its connection belonged to the old address."""
    net = machines.net
    old, new = net.addresses[3], "10.77.9.200"
    net.run(3, ["ip", "address", "del", f"{old}/24", "dev", net.interface])
    net.run(3, ["ip", "address", "add", f"{new}/24", "dev", net.interface])
    net._add_multicast_route(3)
    machines.wait(2, 2 * TIMEOUT_S + SLACK_S, "it says Hello anew", exclusions=1)
    deadline = time.monotonic() + TIMEOUT_S + SLACK_S
    while time.monotonic() < deadline:
        shown = {node["name"]: node for node in machines.snapshot()["nodes"]}
        if "m3" in shown and shown["m3"]["groups"] == 1:
            break
    assert shown["m3"]["address"].startswith(f"{new}:")
    number = str(shown["m3"]["id"])
    time.sleep(2.0)
    heard = machines.report(0)["streams"]
    assert any(name.split("/")[0] == number for name in heard), heard
    assert machines.exclusions() == [0, 0, 1]
