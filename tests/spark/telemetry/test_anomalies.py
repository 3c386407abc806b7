"""A healthy run shows nothing, a sick one shows who is to blame."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.soaking import only_in_soak

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def blamed(tables: dict[str, DataFrame], name: str, column: str) -> dict[str, set[object]]:
    """Who a view names, by run."""
    found: dict[str, set[object]] = {}
    for row in tables[name].collect():
        value = row[column]
        found.setdefault(row["run"], set()).add(tuple(value) if isinstance(value, list) else value)
    return found


@pytest.mark.spark
def test_views_name_the_culprit_in_made_rows(spark: SparkSession) -> None:
    """Two runs of three receivers: in one all is well, in the other node 3 is not."""
    from quicksilver.spark.telemetry import schemas
    from quicksilver.spark.telemetry.transforms import GOLD
    from quicksilver.spark.telemetry.views import register

    rows = MadeRows()
    for second in range(24):
        for run in ("well", "sick"):
            rows.add_second(run, second, is_sick=run == "sick" and second % 6 == 5)
    contracts = {"trace": schemas.SILVER, **schemas.GOLD}
    tables = register(
        {
            name: spark.createDataFrame(
                [tuple(row.get(column) for column in contracts[name]) for row in rows.of(name)],
                schemas.ddl(contracts[name]),
            )
            for name in ("trace", *GOLD)
        }
    )
    assert blamed(tables, "slow_receivers", "node") == {"sick": {3}}
    assert blamed(tables, "convoys", "waited_for") == {"sick": {3}}
    assert blamed(tables, "oscillation", "period_s") == {"sick": {6.0}}
    assert blamed(tables, "priority_inversions", "node") == {"sick": {3}}
    assert blamed(tables, "hot_regions", "region") == {"sick": {7}}
    assert blamed(tables, "partitions", "nodes") == {"sick": {(4,)}}


class MadeRows:
    """Rows of gold tables: node 1 sends to 2, 3 and 4 in region 7, and to regions 8 and 9."""

    def __init__(self) -> None:
        self._rows: dict[str, list[dict[str, object]]] = {}

    def of(self, name: str) -> list[dict[str, object]]:
        return self._rows.get(name, [])

    def add(self, name: str, run: str, second: int, **values: object) -> None:
        row = {"run": run, "second": second, "at": float(second), **values}
        self._rows.setdefault(name, []).append(row)

    def add_second(self, run: str, second: int, *, is_sick: bool) -> None:
        """In a sick second all stand still for node 3, whose alarms wait behind data."""
        for node in (1, 2, 3, 4):
            is_culprit = is_sick and node == 3
            self.add(
                "node_seconds",
                run,
                second,
                node=node,
                delivered_per_s=0.0 if node == 1 else 10.0 if is_sick else 500.0,
                queued_bytes=300_000 if is_sick and node == 1 else 0,
                alarm_delay_ms=400.0 if is_culprit else 0.5,
                inversion_ms=40.0 if is_culprit else 0.2,
            )
            self.add("node_totals", run, second, node=node, alarm_delay_ms=0.5, cpu_s=1.0 * second)
            if node > 1:
                slow = run == "sick" and node == 3
                packets = {"sender": 1, "node": node, "region": 7, "packets": 10}
                self.add("latencies", run, second, bin=60 if slow else 30, **packets)
        for region in (7, 8, 9):
            is_hot = run == "sick" and region == 7
            load = {"acks": 2, "sampled_packets": 1280 if is_hot else 128, "lost_packets": 0}
            self.add("region_seconds", run, second, node=1, region=region, **load)
            ack_ms = 90.0 if is_hot else 20.0
            self.add("ack_times", run, second, node=1, region=region, ack_ms=ack_ms)
        if not is_sick:
            self.add_ack(run, second, slowest=2)
        elif second == 5:
            self.add("trace", run, second, kind="NodesFailed", node=1, failed=[4, 5])
        if second % 6 == 0 and run == "sick" and second:
            self.add_ack(run, second, slowest=3)

    def add_ack(self, run: str, second: int, *, slowest: int) -> None:
        """Ten a second; those of node 3 come when it has woken up."""
        for tenth in (5,) if slowest == 3 else range(10):
            values = {"region": 7, "view": 1, "node": 1, "slowest": slowest}
            row = {"kind": "AckReceived", **values}
            self.add("trace", run, second, **row)
            # Before the others of the same second.
            at = second - 0.05 if slowest == 3 else second + tenth / 10
            self._rows["trace"][-1]["at"] = at


@only_in_soak
@pytest.mark.spark
def test_simulated_ailments_are_found_and_nothing_else(spark: SparkSession, tmp_path: Path) -> None:
    """The nodes of the simulator are numbered from 0, incarnations from 1."""
    from quicksilver.spark.telemetry.views import make_views
    from tests.spark.telemetry.ailments import FAULTS, run

    for name in FAULTS:
        run(tmp_path, name)
    tables = make_views(spark, tmp_path, list(FAULTS))
    assert blamed(tables, "slow_receivers", "node") == {
        "sleeper": {2},
        "convoy": {2},
        "overload": {6},
    }
    assert blamed(tables, "convoys", "waited_for") == {"convoy": {2}}
    assert blamed(tables, "oscillation", "period_s") == {"convoy": {6.0}}
    assert blamed(tables, "priority_inversions", "node") == {"overload": {6}}
    assert blamed(tables, "hot_regions", "region") == {"hot": {2}}
    assert blamed(tables, "partitions", "nodes") == {"partition": {(9, 10)}}
