"""A traced run becomes a section: seconds, delays, who repaired whom, a failure in tracks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from quicksilver.analysis.page import render
from quicksilver.trace import records
from quicksilver.trace.parquet import ParquetTrace
from tests.spark.soaking import only_in_soak

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("matplotlib")


def write(folder: Path) -> None:
    """Node 1 sends; node 2 loses packets that node 3 repairs; node 4 fails."""
    with ParquetTrace(folder, "r", "all") as trace:
        for node in (2, 3):
            trace(records.ViewInstalled(0.1, node, 7, 2, 3))
        trace(records.PacketSent(1.0, 1, 7, 2, 64))
        trace(records.PacketArrived(1.001, 3, 7, 2, 1, 64))
        trace(records.PacketsMissed(1.01, 2, 7, 2, 1, 5))
        trace(records.RepairsSent(1.02, 3, 7, 2, 1, 2, 5))
        trace(records.RoundCompleted(1.03, 2, 7, 2, 0, 0.002, 1, 5))
        trace(records.NodesFailed(1.5, 3, (4,)))
        for second in (1, 2, 3):
            for node in (1, 2):
                trace(_sample(float(second), node, 100 * second))


def _sample(at: float, node: int, total: int) -> records.NodeSampled:
    values = dict.fromkeys(records.NodeSampled.__struct_fields__, 0)
    values |= {"at": at, "node": node, "wall_s": at, "cpu_s": at / 10}  # type: ignore[dict-item]  # floats
    values["sent_messages" if node == 1 else "delivered_messages"] = total
    return records.NodeSampled(**values)


@only_in_soak
@pytest.mark.spark
def test_a_run_is_told(spark: SparkSession, tmp_path: Path) -> None:
    from quicksilver.spark.telemetry.run_report import section_of
    from quicksilver.spark.telemetry.views import make_views

    write(tmp_path)
    tables = make_views(spark, tmp_path, ["r"])
    section = section_of(tables, tmp_path, "r", tmp_path)
    titles = [picture.title for picture in section.pictures]
    assert titles[0] == "2 nodes by the second"
    assert titles[1].startswith("Delays of 1 sampled")
    assert titles[2].startswith("A failure")
    assert titles[-1].startswith("One recovery")
    (repairs,) = section.tables
    assert list(repairs.rows) == [("node 2", "5", "5", "node 3 (5)")]
    told = [(sentence.node, sentence.kind) for sentence in section.sentences]
    assert ("3", "RepairsSent") in told
    assert ("3", "NodesFailed") in told
    assert "node 3 (5)" in render("t", [section])
