"""What holds for the whole process is left alone, and logging has stable names."""

from __future__ import annotations

import gc
import logging
import subprocess
import sys
from pathlib import Path

import pytest

import quicksilver
from quicksilver import sync
from quicksilver.multicast.config import EngineConfig
from tests.node.managers import managing
from tests.node.service import connect_sync

ROOT = Path(__file__).parents[2]


@pytest.mark.integration
def test_a_node_changes_nothing_of_the_process_unless_it_is_asked(gms: str) -> None:
    before = (gc.get_threshold(), gc.get_freeze_count(), sys.getswitchinterval())
    with sync.connect(gms, interface="lo") as node:
        node.join("quiet")
        assert (gc.get_threshold(), gc.get_freeze_count(), sys.getswitchinterval()) == before


@pytest.mark.integration
def test_a_node_that_is_asked_puts_the_switch_interval_back(gms: str) -> None:
    before = sys.getswitchinterval()
    with sync.connect(gms, interface="lo", switch_interval_s=0.002):
        assert sys.getswitchinterval() == pytest.approx(0.002)
    assert sys.getswitchinterval() == pytest.approx(before)


@pytest.mark.integration
def test_a_node_of_a_scope_does_so_too() -> None:
    before = sys.getswitchinterval()
    with managing("lan") as lan:
        with sync.connect(lan, interface="lo", switch_interval_s=0.002):
            assert sys.getswitchinterval() == pytest.approx(0.002)
        assert sys.getswitchinterval() == pytest.approx(before)


def test_tuning_is_one_call() -> None:
    """In a process of its own: it lasts. Python 3.12 itself begins with frozen objects."""
    program = (
        "import gc, sys, quicksilver\n"
        "before, frozen = gc.get_threshold(), gc.get_freeze_count()\n"
        "quicksilver.tune(gc=False)\n"
        "assert gc.get_threshold() == before and gc.get_freeze_count() == frozen\n"
        "assert abs(sys.getswitchinterval() - 0.001) < 1e-6\n"
        "quicksilver.tune(switch_interval_s=None)\n"
        "assert gc.get_freeze_count() > frozen and gc.get_threshold() != before\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)
    with pytest.raises(quicksilver.OptionError, match="switch_interval_s"):
        quicksilver.tune(switch_interval_s=0)


@pytest.mark.integration
def test_what_happens_is_logged_under_stable_names(
    gms: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Names and levels that docs/operations.md lists."""
    with (
        caplog.at_level(logging.DEBUG, "quicksilver"),
        connect_sync(gms) as node,
    ):
        group = node.join("logged")
        out = node.open("nobody")
        out.send(b"x")
        while not any("wait" in record.getMessage() for record in caplog.records):
            group.wait_members(1)
        node.leave(group, out)
        with pytest.raises(quicksilver.UnconfirmedError):
            node.flush(timeout=10)
    found = {(r.name, r.levelname, r.getMessage().split(" ")[0]) for r in caplog.records}
    assert ("quicksilver.node", "INFO", "connected") in found
    assert ("quicksilver.groups", "INFO", "joined") in found
    assert ("quicksilver.groups", "INFO", "opened") in found
    assert ("quicksilver.groups", "INFO", "left") in found
    assert ("quicksilver.groups", "DEBUG", "view") in found
    assert ("quicksilver.groups", "WARNING", "messages") in found
    assert ("quicksilver.groups", "WARNING", "1") in found
    assert ("quicksilver.node", "INFO", "closed") in found
    assert ("quicksilver.gms", "INFO", "node") in found


@pytest.mark.integration
def test_messages_that_a_full_queue_drops_are_logged_with_a_heartbeat(
    gms: str, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.WARNING, "quicksilver.groups"),
        connect_sync(gms, engine=EngineConfig()) as node,
    ):
        group = node.join("small", echo=True, queue_bytes=200, overflow="drop_oldest")
        for _ in range(50):
            group.send(bytes(100))
        while not any("dropped" in record.getMessage() for record in caplog.records):
            group.wait_members(1)
        assert group.dropped > 0
