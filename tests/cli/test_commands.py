"""Commands as processes: what they print, and how they fail."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.processes import check_one_line, read_event, run, running, running_gms

pytestmark = pytest.mark.integration


class TestHelp:
    def test_the_version_is_printed(self) -> None:
        """What a bug report begins with."""
        assert run("--version").stdout.startswith("quicksilver ")


class TestGms:
    def test_it_says_where_it_listens_and_ends_on_sigterm(self) -> None:
        """A supervisor stops it like this, and finds the signal in the exit code."""
        with running("gms", "--port", "0", "--json") as process:
            ready = read_event(process)
            assert ready["event"] == "ready"
            assert ready["address"].startswith("127.0.0.1:")
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 143

    def test_a_port_in_use_is_one_line(self) -> None:
        """The most common mistake of all."""
        with running_gms() as address:
            check_one_line(run("gms", "--port", address.rpartition(":")[2]), 1, "in use")

    def test_a_locked_state_file_is_one_line(self, tmp_path: Path) -> None:
        """Two services on one state would hand out the same numbers."""
        state = str(tmp_path / "state.db")
        with running_gms("--state", state):
            outcome = run("gms", "--port", "0", "--state", state)
            check_one_line(outcome, 1, "another GMS uses this file")


class TestPubSub:
    def test_lines_arrive_in_order(self) -> None:
        """The first thing that anybody tries."""
        with (
            running_gms() as gms,
            running("sub", "a", "b", "-n", "6", "--json", "--gms", gms) as sub,
        ):
            assert read_event(sub)["event"] == "ready"
            outcome = run("pub", "a", "b", "--gms", gms, "--json", given="one\ntwo\nthree\n")
            assert outcome.returncode == 0, outcome.stderr
            summary = json.loads(outcome.stdout)
            assert summary["messages"] == summary["acknowledged"] == 6
            messages = [read_event(sub) for _ in range(6)]
            assert sub.wait(10) == 0
        for group in ("a", "b"):
            mine = [m for m in messages if m["group"] == group]
            assert [m["payload"] for m in mine] == ["one", "two", "three"]
            assert [m["sequence"] for m in mine] == [0, 1, 2]

    def test_generated_messages_survive_loss(self) -> None:
        """Loss on the way in is repaired before anything is shown."""
        options = ("-n", "2000", "--json", "--hex", "--faults", "loss=5%,burst=3")
        with running_gms() as gms, running("sub", "a", *options, "--gms", gms) as sub:
            read_event(sub)
            outcome = run("pub", "a", "-n", "2000", "--size", "300", "--gms", gms, "--json")
            assert outcome.returncode == 0, outcome.stderr
            messages = [read_event(sub) for _ in range(2000)]
            assert sub.wait(10) == 0
        assert [m["sequence"] for m in messages] == list(range(2000))
        assert all(len(m["payload"]) == 600 and m["encoding"] == "hex" for m in messages)

    def test_too_few_messages_in_time_is_a_failure(self) -> None:
        """A script that waits for messages must notice that they did not come."""
        with running_gms() as gms:
            outcome = run("sub", "a", "-n", "1", "--seconds", "0.3", "--gms", gms)
            assert outcome.returncode == 1
            assert outcome.stderr.splitlines() == [
                "quicksilver: ready: node 1 has joined a",
                "quicksilver: 0 of 1 messages arrived within 0.3 s",
            ]

    def test_a_group_without_members_is_named_at_once_and_at_the_end(self) -> None:
        """A mistyped name looks like this: the user learns what is waited for."""
        with running_gms() as gms:
            outcome = run("pub", "a", "-n", "3", "--flush", "1.5", "--gms", gms)
        assert outcome.returncode == 1
        first, last = outcome.stderr.splitlines()
        assert first.startswith("quicksilver: nobody has joined 'a'; waiting 1.5 s")
        assert last.startswith("quicksilver: nobody joined 'a' within 1.5 s, so nothing was sent")

    def test_ctrl_c_ends_quietly(self) -> None:
        """Nobody wants a traceback for that."""
        with running_gms() as gms, running("sub", "a", "--json", "--gms", gms) as sub:
            read_event(sub)
            sub.send_signal(signal.SIGINT)
            assert sub.wait(10) == 130
            assert sub.stderr is not None
            assert sub.stderr.read() == ""


class TestLogs:
    def test_what_happens_is_logged_on_request(self) -> None:
        """As JSON, each line an object; without -v a good start is not worth a line."""
        with running_gms() as gms:
            command = ("sub", "a", "--seconds", "0.3", "--gms", gms)
            quiet, loud = run(*command), run(*command, "-v", "--log-json")
        assert quiet.stderr.splitlines() == ["quicksilver: ready: node 1 has joined a"]
        logs = [json.loads(one) for one in loud.stderr.splitlines() if one.startswith("{")]
        assert {one["event"] for one in logs} == {"log"}
        assert "quicksilver.node" in {one["logger"] for one in logs}


class TestTop:
    def test_nodes_and_regions_are_listed(self) -> None:
        """Everything that the table shows is in the JSON form too."""
        command = ("sub", "a", "--json", "--name", "window")
        with running_gms() as gms, running(*command, "--gms", gms) as sub:
            node = read_event(sub)["node"]
            outcome = run("top", "--once", "--interval", "0.8", "--json", "--gms", gms)
            assert outcome.returncode == 0, outcome.stderr
            shown = json.loads(outcome.stdout)
            assert [(one["id"], one["name"]) for one in shown["nodes"]] == [(node, "window")]
            assert shown["nodes"][0]["groups"] == 1
            assert shown["regions"][0]["members"] == 1
            table = run("top", "--once", "--interval", "0.2", "--gms", gms).stdout
            assert "sent/s" in table
            assert "239.192." in table


class TestDoctor:
    def test_findings_are_reported_for_programs(self) -> None:
        """Loopback works wherever these tests run."""
        outcome = run("doctor", "--interface", "127.0.0.1", "--json")
        report = json.loads(outcome.stdout)
        assert report["ok"] is True
        assert outcome.returncode == 0
        assert {"multicast", "mtu", "receive buffer"} <= {f["check"] for f in report["findings"]}

    def test_something_essential_that_is_broken_fails(self) -> None:
        """So that a deployment script can stop there."""
        outcome = run("doctor", "--interface", "no-such-interface")
        assert outcome.returncode == 1
        assert "broken" in outcome.stdout


class TestUp:
    def test_a_cluster_starts_talks_and_stops(self) -> None:
        """Every node hears the others in the groups that it joined."""
        options = ("-n", "3", "--groups", "a:0-1,b", "--rate", "50", "--seconds", "4", "--json")
        outcome = run("up", *options)
        assert outcome.returncode == 0, outcome.stderr
        events = [json.loads(line) for line in outcome.stdout.splitlines()]
        ready = {e["process"] for e in events if e["event"] == "ready"}
        assert ready == {"node-0", "node-1", "node-2"}
        heard = {(e["process"], e["group"]) for e in events if e["event"] == "received"}
        assert {("node-0", "a"), ("node-1", "a"), ("node-2", "b")} <= heard
        assert ("node-2", "a") not in heard
        assert events[-1]["event"] == "stopped"

    @pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
    def test_a_signal_stops_all_of_it(self, number: int, code: int) -> None:
        """Quietly, and with the exit code that shells give to it."""
        with running("up", "-n", "2", "--json") as process:
            while read_event(process)["event"] != "ready":
                pass
            children = _children_of(process.pid)
            process.send_signal(number)
            assert process.wait(20) == code
            assert process.stderr is not None
            assert process.stderr.read() == ""
            assert not any(_is_running(child) for child in children)

    def test_children_do_not_outlive_a_killed_parent(self) -> None:
        """SIGKILL leaves no time to clean up; the kernel does it."""
        with running("up", "-n", "2", "--json") as process:
            while read_event(process)["event"] != "ready":
                pass
            children = _children_of(process.pid)
            assert len(children) == 3
            process.kill()
            process.wait(10)
            deadline = time.monotonic() + 5
            while any(_is_running(child) for child in children):
                assert time.monotonic() < deadline, "a child lives on"
                time.sleep(0.02)


class TestDemo:
    def test_nothing_is_missing_under_loss(self) -> None:
        """Overlapping groups, every subscriber losing packets in bursts."""
        outcome = run("demo", "--messages", "400", "--no-kill", "--json", timeout_s=90)
        assert outcome.returncode == 0, outcome.stdout + outcome.stderr
        report = json.loads(outcome.stdout)
        assert report["complete"] is True
        assert report["subscribers"]["sub-2"]["messages"] == 2 * 3 * 400
        assert sum(s["packets_lost"] for s in report["subscribers"].values()) > 0

    def test_nothing_is_missing_when_one_is_killed(self) -> None:
        """What ``make demo`` shows, with fewer messages."""
        outcome = run("demo", "--messages", "2000", "--json", timeout_s=90)
        assert outcome.returncode == 0, outcome.stdout + outcome.stderr
        report = json.loads(outcome.stdout)
        assert report["killed"] == "sub-3"
        assert set(report["subscribers"]) == {"sub-0", "sub-1", "sub-2", "sub-4", "sub-5"}


def _children_of(parent: int) -> list[int]:
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True, check=True
    )
    return [int(pid) for pid in listed.stdout.split()]


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    # A zombie has ended; whoever adopted it has not looked yet.
    return state != "Z" and os.path.exists(f"/proc/{pid}")
