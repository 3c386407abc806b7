"""Many runs: over processes, stopped early, kept and resumed."""

from __future__ import annotations

import os
import time
from multiprocessing import active_children
from pathlib import Path

import msgspec
import pytest

from quicksilver.lab.batch import ResultFile, run_batch


class Result(msgspec.Struct, frozen=True):
    name: str
    value: int


@pytest.fixture
def file(tmp_path: Path) -> ResultFile[Result]:
    found = ResultFile(tmp_path / "new" / "results.jsonl", Result, lambda result: result.name)
    found.open(fresh=False)
    return found


def double(number: int) -> int:
    return 2 * number


def process_of(number: int) -> int:
    time.sleep(0.05)
    return os.getpid()


def sleep_long(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def fail_on_three(number: int) -> int:
    if number == 3:
        raise LookupError(number)
    return number


def die_on_three(number: int) -> int:
    if number == 3:
        os._exit(9)
    return number


class TestRunning:
    def test_one_job_runs_here_and_in_order(self) -> None:
        begun: list[int] = []
        found = list(run_batch(double, range(4), on_start=begun.append))
        assert found == [(0, 0), (1, 2), (2, 4), (3, 6)]
        assert begun == [0, 1, 2, 3]

    @pytest.mark.slow
    def test_several_jobs_run_in_processes_of_their_own(self) -> None:
        found = dict(run_batch(process_of, range(6), jobs=2))
        assert sorted(found) == list(range(6))
        assert os.getpid() not in found.values()

    @pytest.mark.slow
    @pytest.mark.parametrize("jobs", [1, 2])
    def test_what_a_run_raises_ends_the_batch(self, jobs: int) -> None:
        with pytest.raises(LookupError):
            list(run_batch(fail_on_three, range(6), jobs=jobs))

    @pytest.mark.slow
    def test_a_process_that_dies_ends_the_batch(self) -> None:
        """Killed for want of memory, for example: better an error than waiting for ever."""
        with pytest.raises(RuntimeError, match="terminated abruptly"):
            list(run_batch(die_on_three, range(6), jobs=2))

    @pytest.mark.slow
    def test_stopping_early_ends_what_is_at_work(self) -> None:
        """The first failure is often enough; nobody waits for the rest."""
        before = set(active_children())
        began = time.monotonic()
        results = run_batch(sleep_long, [0.0, 300.0], jobs=2)
        assert next(results) == (0.0, 0.0)
        results.close()
        assert time.monotonic() - began < 60
        assert set(active_children()) <= before


class TestKeeping:
    def test_results_are_read_back(self, file: ResultFile[Result]) -> None:
        file.add(Result("a", 1))
        file.add(Result("b", 2))
        assert file.read() == [Result("a", 1), Result("b", 2)]

    def test_of_two_results_of_the_same_the_newer_counts(self, file: ResultFile[Result]) -> None:
        file.add(Result("a", 1))
        file.add(Result("b", 2))
        file.add(Result("a", 3))
        assert file.read() == [Result("b", 2), Result("a", 3)]

    def test_a_torn_last_line_is_no_result_and_the_next_one_is_whole(
        self, file: ResultFile[Result]
    ) -> None:
        """As after a crash in the middle of a write."""
        file.add(Result("a", 1))
        whole = file.path.read_bytes()
        file.path.write_bytes(whole + whole[: len(whole) // 2])
        assert file.read() == [Result("a", 1)]
        file.open(fresh=False)
        file.add(Result("b", 2))
        assert file.read() == [Result("a", 1), Result("b", 2)]

    def test_a_fresh_start_forgets(self, file: ResultFile[Result]) -> None:
        file.add(Result("a", 1))
        file.open(fresh=True)
        assert file.read() == []
