"""The examples of the pages that need Spark, as they are shown.

Those of docs/spark.md have a GMS, a recorder and programs as processes around them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from quicksilver.experiments.sweep import load_sweep
from quicksilver.trace.folders import find_runs
from tests.docs.pages import Program, blocks, commands, on_free_ports, put, script, shell
from tests.spark.connector.cluster import wait_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.integration]

PAGE = "docs/spark.md"
SESSION, ANY_SESSION, TABLE, LISTENER, STREAM, LATE_JOINER, MISTAKE = blocks(PAGE)
GMS, RECORD, PUBLISH = commands(PAGE)
ROWS = 1000


class Tutorial:
    """The three terminals of the page, and where they are in this test."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.recording = folder / "recording"
        self._folder = folder
        gms = stack.enter_context(shell(on_free_ports(GMS), folder))
        (self.gms,) = re.findall(r"at (\S+:\d+)", gms.line())
        record = put(RECORD, {"/tmp/recording": self.recording, "127.0.0.1:7500": "127.0.0.1:0"})
        recorder = stack.enter_context(shell(record, folder, self.gms))
        (self.recorder,) = re.findall(r"(127\.0\.0\.1:\d+)", recorder.line())
        publish = stack.enter_context(shell(PUBLISH, folder, self.gms))
        assert publish.line().startswith("sent 1,000 messages to prices, all acknowledged")
        wait_rows(self.recording, "prices", ROWS)

    def fit(self, block: str) -> str:
        """Return a block with the places of this test."""
        places = {
            "/tmp/recording": self.recording,
            "/tmp/checkpoint": self._folder / "checkpoint",
            "127.0.0.1:7401": self.gms,
            "127.0.0.1:7500": self.recorder,
        }
        return put(block, {shown: real for shown, real in places.items() if shown in block})

    def start(self, block: str) -> AbstractContextManager[Program]:
        """Run a block as a program of its own."""
        return script(self.fit(block), self._folder)

    def run(self, block: str, scope: dict[str, Any]) -> None:
        """Run a block here, next to Spark."""
        exec(self.fit(block), scope)


@pytest.fixture(scope="module")
def tutorial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tutorial]:
    with ExitStack() as stack:
        yield Tutorial(tmp_path_factory.mktemp("tutorial"), stack)


@pytest.fixture
def shared(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    """The session of all tests, for blocks that ask Spark for one: they do not end or change it."""
    before = spark.conf.getAll
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    yield spark
    for name, value in spark.conf.getAll.items():
        if before.get(name) not in {None, value}:
            spark.conf.set(name, before[name])


@pytest.mark.parametrize("block", [SESSION, ANY_SESSION])
def test_a_session_reads_the_recording(
    block: str, tutorial: Tutorial, shared: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ours, and any other."""
    tutorial.run(block, {})
    assert capsys.readouterr().out == f"{ROWS}\n"


def test_the_recording_is_a_table(
    tutorial: Tutorial, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    scope: dict[str, Any] = {"spark": spark}
    tutorial.run(TABLE, scope)
    assert scope["prices"].count() == ROWS
    assert re.search(r"\|\s+1\|\s+0\|20", capsys.readouterr().out)


def test_the_stream_is_doubled_into_a_group(tutorial: Tutorial, spark: SparkSession) -> None:
    """The listener prints every row, and none twice."""
    scope: dict[str, Any] = {"spark": spark}
    with tutorial.start(LISTENER) as listener:
        tutorial.run(STREAM, scope)
        try:
            heard = [listener.line() for _ in range(ROWS)]
        finally:
            scope["query"].stop()
    assert sorted(heard) == sorted(f"None b'{2 * n}'" for n in range(1, ROWS + 1))


def test_a_late_joiner_gets_what_was_recorded(tutorial: Tutorial) -> None:
    with tutorial.start(LATE_JOINER) as late:
        heard = [late.line().split(maxsplit=2)[1:] for _ in range(ROWS)]
    assert heard == [[str(n), f"b'{n + 1}'"] for n in range(ROWS)]


def test_a_mistake_is_one_line(
    tutorial: Tutorial, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line that the comment in the block promises."""
    tutorial.run(MISTAKE, {"spark": spark})
    (promised,) = re.findall(r"# (unknown option .*) …", MISTAKE)
    assert capsys.readouterr().out.startswith(promised)


def test_the_sweep_runs(spark: SparkSession, tmp_path: Path) -> None:
    """The file of docs/planning.md, with simulations of a tenth of a second."""
    from quicksilver.spark.sweep import run_sweep, summarise

    (text,) = blocks("docs/planning.md", "toml")
    file = tmp_path / "size.toml"
    file.write_text(put(text, {"seconds = 2.0": "seconds = 0.1, rate = 1000"}), encoding="utf-8")
    summary = summarise(run_sweep(spark, load_sweep(file), tmp_path / "out"))
    assert (summary.simulations, summary.failed) == (9, 0)
    assert len(find_runs(tmp_path / "out" / "traces")) == 9
