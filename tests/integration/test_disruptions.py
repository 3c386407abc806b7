"""Crashes, freezes, joins, leaves and GMS restarts under full-rate traffic.

Real processes on loopback. The rest of the group goes on, nothing that was
acknowledged is lost, and a frozen node catches up or is told that it is out.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cluster import Cluster, Process, wait_complete

pytestmark = pytest.mark.integration


def finish(sender: Process, receivers: list[Process], group: str = "g") -> dict[str, object]:
    """Stop the sender and check that everyone has all it sent, without faults."""
    stopped = sender.ask(do="stop", timeout_s=60)
    assert not stopped["errors"]
    name = f"{stopped['node']}/{group}"
    for receiver in receivers:
        report = wait_complete(receiver, {name: stopped["sent"][group]})
        assert report["streams"][name]["faults"] == 0
        assert report["streams"][name]["count"] == (
            stopped["sent"][group] - report["streams"][name]["first"]
        )
    return stopped


def wait_report(member: Process, is_so: Callable[[dict[str, Any]], bool]) -> None:
    """Wait until what a member reports is as it should be."""
    deadline = time.monotonic() + 20
    while not is_so(report := member.ask(do="report")):
        assert time.monotonic() < deadline, f"it never came to that: {report}"
        time.sleep(0.02)


def wait_flow(receivers: list[Process], messages: int = 1000) -> None:
    """Wait until every receiver has got so many messages more."""

    def got(report: dict[str, Any]) -> int:
        return sum(stream["count"] for stream in report["streams"].values())

    for receiver in receivers:
        enough = got(receiver.ask(do="report")) + messages
        wait_report(receiver, lambda report, enough=enough: got(report) >= enough)


def test_everything_arrives_under_loss_duplication_and_reordering() -> None:
    """The faults of the host are repaired at full rate."""
    with Cluster() as cluster:
        faults = "loss=2%,burst=5,dup=1%,reorder=1%,kinds=data,seed=3"
        receivers = [cluster.member(f"r{i}", ["g"], faults=faults) for i in range(3)]
        sender = cluster.member("s")
        sender.ask(do="send", group="g")
        time.sleep(2)
        stopped = finish(sender, receivers)
        assert stopped["sent"]["g"] > 1000  # type: ignore[index]


def test_a_killed_receiver_does_not_stop_the_rest() -> None:
    """SIGKILL under load: a view change, and the others have everything."""
    with Cluster() as cluster:
        receivers = [cluster.member(f"r{i}", ["g"]) for i in range(4)]
        sender = cluster.member("s")
        sender.ask(do="send", group="g")
        wait_flow(receivers)
        receivers[0].kill()
        wait_report(receivers[1], lambda report: report["members"] == {"g": 3})
        wait_flow(receivers[1:])
        finish(sender, receivers[1:])


def test_a_killed_sender_leaves_all_receivers_with_the_same_messages() -> None:
    """What one survivor delivered, all deliver (dissertation 4.2.1)."""
    with Cluster() as cluster:
        receivers = [
            cluster.member(f"r{i}", ["g"], faults=f"loss=5%,kinds=data,seed={i}") for i in range(3)
        ]
        sender = cluster.member("s")
        sender.ask(do="send", group="g", rate=20_000)
        wait_flow(receivers, 5000)
        sender.kill()
        deadline = time.monotonic() + 15
        while True:
            reports = [receiver.ask(do="report")["streams"] for receiver in receivers]
            ends = {next(iter(streams.values()))["next"] for streams in reports}
            time.sleep(0.5)
            again = [receiver.ask(do="report")["streams"] for receiver in receivers]
            if len(ends) == 1 and again == reports:
                break
            assert time.monotonic() < deadline, f"receivers differ: {reports}"
        assert all(next(iter(s.values()))["faults"] == 0 for s in reports)


def test_a_frozen_receiver_is_excluded_told_and_comes_back() -> None:
    """SIGSTOP until the others have a view without it: they go on; it returns as a new one."""
    with Cluster() as cluster:
        receivers = [cluster.member(f"r{i}", ["g"]) for i in range(3)]
        sender = cluster.member("s")
        sender.ask(do="send", group="g")
        wait_flow(receivers)
        receivers[0].signal(signal.SIGSTOP)
        wait_report(receivers[1], lambda report: report["members"] == {"g": 2})
        wait_flow(receivers[1:])
        receivers[0].signal(signal.SIGCONT)
        wait_report(receivers[0], lambda report: report["exclusions"] > 0)
        wait_report(receivers[0], lambda report: report["members"] == {"g": 3})
        finish(sender, receivers[1:])


def test_a_short_freeze_is_caught_up() -> None:
    """SIGSTOP for one second at 20 MB/s: nobody is excluded and nothing is missing."""
    with Cluster() as cluster:
        receivers = [cluster.member(f"r{i}", ["g"]) for i in range(3)]
        sender = cluster.member("s")
        sender.ask(do="send", group="g", rate=20_000)
        wait_flow(receivers)
        receivers[0].signal(signal.SIGSTOP)
        time.sleep(1)
        receivers[0].signal(signal.SIGCONT)
        wait_flow(receivers)
        finish(sender, receivers)
        assert receivers[0].ask(do="report")["exclusions"] == 0


def test_a_freeze_at_full_rate_holds_nobody_up() -> None:
    """The others get everything; whoever was away does too, or is told that it begins again."""
    with Cluster() as cluster:
        receivers = [cluster.member(f"r{i}", ["g"]) for i in range(3)]
        sender = cluster.member("s")
        sender.ask(do="send", group="g")
        wait_flow(receivers)
        receivers[0].signal(signal.SIGSTOP)
        wait_flow(receivers[1:], 200_000)
        receivers[0].signal(signal.SIGCONT)
        wait_flow(receivers)
        finish(sender, receivers[1:])
        (stream,) = receivers[0].ask(do="report")["streams"].values()
        exclusions = receivers[0].ask(do="report")["exclusions"]
        assert stream["faults"] == 0 or exclusions == 1


def test_joins_and_leaves_during_traffic() -> None:
    """Members come and go; those that stay deliver everything in order."""
    with Cluster() as cluster:
        receivers = [cluster.member(f"r{i}", ["g"]) for i in range(3)]
        sender = cluster.member("s")
        sender.ask(do="send", group="g")
        wait_flow(receivers)
        late = cluster.member("late", ["g"])
        receivers[0].ask(do="join", groups=["other"])
        wait_flow([*receivers, late])
        receivers[1].ask(do="leave", groups=["g"])
        wait_flow([receivers[0], receivers[2], late])
        finish(sender, [receivers[0], receivers[2], late])


def test_the_gms_may_be_killed_and_restarted(tmp_path: Path) -> None:
    """Kill -9 of the GMS under load: traffic goes on, views go on, nothing is lost."""
    with Cluster(tmp_path / "gms.sqlite") as cluster:
        receivers = [cluster.member(f"r{i}", ["g"]) for i in range(3)]
        sender = cluster.member("s")
        sender.ask(do="send", group="g")
        wait_flow(receivers)
        cluster.gms.kill()
        wait_flow(receivers)
        time.sleep(1)  # long enough for a GMS that is down to be noticed
        wait_flow(receivers)
        cluster.start_gms()
        late = cluster.member("late", ["g"])
        wait_flow([*receivers, late])
        finish(sender, [*receivers, late])
        assert all(r.ask(do="report")["exclusions"] == 0 for r in receivers)
