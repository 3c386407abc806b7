"""Processes of a measurement end with it."""

from __future__ import annotations

import os
import sys

import pytest

from bench.peers.children import Children
from bench.peers.result import PeerFailedError, PeerMissingError

pytestmark = pytest.mark.slow

SLEEPER = "import os, time; print('pid', os.getpid(), flush=True); time.sleep(60)"


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_children_are_gone_when_the_block_fails() -> None:
    """A failed measurement must not disturb the next one."""
    pids: list[int] = []

    def fail() -> None:
        with Children() as children:
            child = children.start([sys.executable, "-c", SLEEPER])
            pids.append(int(child.expect("pid", 10).split()[1]))
            assert is_alive(pids[0])
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert not is_alive(pids[0])


def test_waiting_is_limited() -> None:
    """A peer that hangs costs its time limit and no more."""
    with Children() as children:
        child = children.start([sys.executable, "-c", SLEEPER])
        child.expect("pid", 10)
        with pytest.raises(PeerFailedError, match="no 'report' within"):
            child.expect("report", 0.05)


def test_last_words_are_quoted() -> None:
    """When a peer dies, its own error is the best explanation."""
    with Children() as children:
        child = children.start([sys.executable, "-c", "raise SystemExit('no such stack')"])
        with pytest.raises(PeerFailedError, match="no such stack"):
            child.expect("joined", 10)


def test_a_program_that_does_not_exist_is_missing() -> None:
    """Missing is a row with advice, also where the PATH has a folder that may not be read."""
    with Children() as children, pytest.raises(PeerMissingError, match="no-such-program"):
        children.start(["no-such-program"])
