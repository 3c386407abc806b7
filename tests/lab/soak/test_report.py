"""Memory, descriptors and threads that grow are found; what is level is not."""

from __future__ import annotations

import os
import subprocess
import sys

from quicksilver.lab.child import PARENT_VARIABLE
from quicksilver.lab.soak.report import (
    Vitals,
    check_vitals,
    find_children_left,
    growth_allowed,
    growth_bytes,
    read_vitals,
)

MB = 1_000_000


def samples(*mb: float, descriptors: int = 8, threads: int = 3) -> list[Vitals]:
    return [Vitals(at, int(one * MB), descriptors, threads) for at, one in enumerate(mb)]


def test_growth_is_that_of_the_second_half() -> None:
    """What a process takes to warm up is no leak."""
    assert growth_bytes(samples(*range(50), *[50] * 50)) == 0
    assert round(growth_bytes(samples(*range(100))) / MB) == 49


def test_growth_beyond_the_bound_is_found() -> None:
    assert check_vitals(samples(*[40] * 50), 1 * MB) == []
    assert "memory grew by 49 MB" in check_vitals(samples(*range(100)), 32 * MB)[0]


def test_a_long_soak_is_judged_more_strictly() -> None:
    """Within minutes caches fill; what still grows after that grows for ever."""
    slow = samples(*(50 + at / 10 for at in range(200)))
    assert check_vitals(slow, growth_allowed(60)) == []
    (found,) = check_vitals(slow, growth_allowed(1800))
    assert "memory grew by 10 MB" in found


def test_descriptors_and_threads_that_stay_are_found() -> None:
    later = samples(*[40] * 50, descriptors=20, threads=4)
    found = check_vitals(samples(*[40] * 50) + later, 1 * MB)
    assert found == ["descriptors grew from 8 to 20", "threads grew from 3 to 4"]


def test_this_process_has_vitals_and_one_that_is_gone_has_none() -> None:
    mine = read_vitals(os.getpid(), 1.0)
    assert mine is not None
    assert mine.rss_bytes > MB
    assert mine.descriptors >= 3
    assert mine.threads >= 1
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert read_vitals(gone.pid, 1.0) is None


def test_a_process_that_was_left_behind_is_found() -> None:
    sleeper = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]
    environment = os.environ | {PARENT_VARIABLE: str(os.getpid())}
    with subprocess.Popen(sleeper, env=environment, stdout=subprocess.PIPE) as left:
        assert left.stdout is not None
        left.stdout.readline()
        assert left.pid in find_children_left(os.getpid())
        left.kill()
