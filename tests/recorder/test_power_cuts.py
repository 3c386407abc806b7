"""The power goes between any two steps of a recorder: nothing that was told is lost.

A power cut alone never makes a recorder refuse a log: what was not synced was not
promised, and a torn tail is cut off without a word.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from quicksilver.recorder.group_log import GroupLog
from quicksilver.recorder.reader import LogReader
from quicksilver.recorder.retention import Retention
from quicksilver.recorder.writer import LogConfig
from tests.recorder.logs import GROUP, batch, flush, value
from tests.recorder.power import CuttableDisk, PowerCutError

CONFIG = LogConfig(segment_bytes=4_000)


class Run:
    """A recorder's life up to a power cut."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.told = 0
        """How far rows were said to be safe."""

    def open(self, steps: int) -> tuple[GroupLog | None, CuttableDisk]:
        """Open the log; None if the power went meanwhile."""
        disk = CuttableDisk(self.path, steps)
        try:
            return GroupLog(self.path, GROUP, CONFIG, disk), disk
        except PowerCutError:
            return None, disk

    def record(self, log: GroupLog) -> None:
        """Write batches, begin segments, forget some, and close."""
        for number in range(5):
            first = log.writer.durable
            log.take(batch(first, 7), first)
            rows = log.cut()
            assert rows is not None
            self.told = log.write(rows)
            if number == 3:
                found = log.find_cut(Retention(bytes_max=5_000), 0)
                if found is not None:
                    log.forget(found[1])
                    log.trim(found[0], log.memory(None, found[0]))
        log.close()

    def live(self, steps: int, chance: random.Random) -> bool:
        """Open and record until the power goes, and leave what it leaves; False if it did not."""
        log, disk = self.open(steps)
        is_cut = log is None
        if log is not None:
            try:
                self.record(log)
            except PowerCutError:
                is_cut = True
                log.writer.abandon()
        # Whatever a reader could see is told, too.
        self.told = max(self.told, LogReader(self.path, GROUP).bounds()[1])
        if is_cut:
            disk.aftermath(chance)
        return is_cut

    def check(self) -> None:
        """All that was told is there, and new rows come after it."""
        log = GroupLog(self.path, GROUP, LogConfig(segment_bytes=4_000, does_sync=False))
        past = log.writer.durable
        assert past >= self.told
        log.take(batch(past, 3), past)
        flush(log)
        log.writer.abandon()
        reader = LogReader(self.path, GROUP)
        first, end = reader.bounds()
        assert end == past + 3
        got = [one for rows in reader.read(first, end) for one in rows.column("value").to_pylist()]
        assert got == [value(number) for number in range(first, end)]


def cut_everywhere(make: Callable[[int], Run], seed: int) -> int:
    """Cut the power at each step of a recorder's second life; return how many there are."""
    steps = 0
    while True:
        run = make(steps)
        chance = random.Random(seed * 1_000 + steps)
        if not run.live(steps, chance):
            return steps
        # And once more, while the log is being opened or a little later.
        run.live(chance.randrange(30), chance)
        run.check()
        steps += 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("lives", [0, 1])
def test_what_was_told_survives_a_cut_at_any_step(tmp_path: Path, seed: int, lives: int) -> None:
    """With a log that is new, and with one that was recorded before."""

    def make(steps: int) -> Run:
        run = Run(tmp_path / f"{steps}")
        run.path.mkdir()
        for _ in range(lives):
            assert not run.live(10_000, random.Random(seed))
        return run

    assert cut_everywhere(make, seed) > 50


def test_a_disk_that_forgets_to_sync_is_found_out(tmp_path: Path) -> None:
    """The test above can fail: without syncs, rows that were told are lost or refused."""
    failures = 0
    for seed in range(10):
        path = tmp_path / f"{seed}"
        path.mkdir()
        disk = CuttableDisk(path, 10_000)
        disk.sync = lambda file: None  # type: ignore[method-assign]  # as a disk that lies
        log = GroupLog(path, GROUP, CONFIG, disk)
        log.take(batch(0, 50), 0)
        flush(log)
        log.writer.abandon()
        disk.aftermath(random.Random(seed))
        try:
            again = GroupLog(path, GROUP, CONFIG)
        except Exception:  # noqa: BLE001  # any refusal
            failures += 1
            continue
        failures += again.writer.durable < 50
        again.writer.abandon()
    assert failures > 0
