"""``quicksilver record`` as a user runs it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from quicksilver.recorder.folders import data_path, folder_of, index_path, segment_stems
from quicksilver.recorder.reader import LogReader
from tests.cli.processes import check_one_line, read_event, run, running, running_gms

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def gms() -> Iterator[str]:
    with running_gms() as address:
        yield address


def test_records_until_interrupted(gms: str, tmp_path: Path) -> None:
    """What pub sent is on disk after Ctrl-C, and the last line says how much."""
    with running("record", "a", "b", "--path", str(tmp_path), "--gms", gms, "--json") as process:
        assert read_event(process)["event"] == "ready"
        sent = run("pub", "a", "--count", "200", "--gms", gms)
        assert sent.returncode == 0, sent.stderr
        process.send_signal(signal.SIGINT)
        event = read_event(process)
        while event["event"] == "progress":
            event = read_event(process)
        assert event["event"] == "stopped"
        assert [(one["group"], one["durable"]) for one in event["groups"]] == [("a", 200), ("b", 0)]
        assert process.wait(10) == 130
    assert LogReader(tmp_path, "a").bounds() == (0, 200)


def test_what_was_reported_as_safe_survives_a_kill(gms: str, tmp_path: Path) -> None:
    """The reported offset is a promise; the log goes on after it."""
    arguments = ("record", "k", "--path", str(tmp_path), "--gms", gms, "--json")
    with running(*arguments, "--flush-ms", "5") as process:
        assert read_event(process)["event"] == "ready"
        with running("pub", "k", "--count", "1000000", "--rate", "20000", "--gms", gms):
            reported = 0
            while reported == 0:
                reported = read_event(process)["groups"][0]["durable"]
            process.kill()
            process.wait()
    _, past = LogReader(tmp_path, "k").bounds()
    assert past >= reported > 0
    with running(*arguments) as process:
        assert read_event(process)["event"] == "ready"
    # Whole batches past what was promised are kept, too.
    first, after = LogReader(tmp_path, "k").bounds()
    assert first == 0
    assert after >= past


def test_mistakes_are_one_line(gms: str, tmp_path: Path) -> None:
    """What happened, and what to do."""
    path = str(tmp_path)
    with running("record", "a", "--path", path, "--gms", gms, "--json") as process:
        read_event(process)
        check_one_line(
            run("record", "a", "--path", path, "--gms", gms), 1, "another recorder: give each"
        )


def test_a_damaged_log_is_refused_in_one_line_and_repaired_on_request(
    gms: str, tmp_path: Path
) -> None:
    """Never a shorter log without a word, never an offset twice."""
    arguments = ("record", "r", "--path", str(tmp_path), "--gms", gms)
    for _ in range(2):
        with running(*arguments, "--segment-bytes", "1", "--json") as process:
            read_event(process)
            assert run("pub", "r", "--count", "50", "--gms", gms).returncode == 0
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 130
    folder = folder_of(tmp_path, "r")
    first = segment_stems(folder)[-1]
    data_path(folder, first).unlink()
    index_path(folder, first).unlink()
    check_one_line(run(*arguments), 1, "the file is missing: offsets")
    with running(*arguments, "--repair", "--json") as process:
        repaired = read_event(process)
        assert repaired["event"] == "repaired"
        assert repaired["lost"] == [[first, 100]]
        read_event(process)
        assert run("pub", "r", "--count", "5", "--gms", gms).returncode == 0
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
    assert LogReader(tmp_path, "r").bounds() == (0, 105)
    assert segment_stems(folder)[-1] >= 100


def test_doctor_names_java_and_spark() -> None:
    """One line each."""
    outcome = run("doctor")
    assert "PySpark" in outcome.stdout
    assert any(line.startswith("java") for line in outcome.stdout.splitlines())
