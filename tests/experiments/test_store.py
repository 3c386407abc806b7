"""An experiment's folder: points are kept, and told apart."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from quicksilver.experiments.base import Column, ExperimentError, Point
from quicksilver.experiments.catalogue import EXPERIMENTS
from quicksilver.experiments.store import PointStore, render_markdown, table_of


def point(nodes: int, round_: int = 0, seed: int = 1) -> Point:
    return Point("scale", "sim", round_, seed, {"nodes": nodes, "size": 1000}, ("nodes",))


@pytest.fixture
def store(tmp_path: Path) -> PointStore:
    found = PointStore(tmp_path / "scale")
    found.open(fresh=False)
    return found


def test_a_finished_point_is_read_back(store: PointStore) -> None:
    store.add(point(2), {"messages_per_second": 5.0})
    (found,) = store.finished()
    assert found.point == point(2).id
    row = found.row()
    assert row["nodes"] == 2
    assert row["messages_per_second"] == 5.0
    assert row["place"] == "sim"


def test_a_point_is_the_same_only_with_the_same_parameters_and_seed() -> None:
    assert point(2).id == point(2).id
    assert len({point(2).id, point(3).id, point(2, 1).id, point(2, seed=9).id}) == 4


def test_a_fresh_start_forgets(store: PointStore) -> None:
    store.add(point(2), {"value": 1})
    store.open(fresh=True)
    assert store.finished() == []


def test_a_folder_that_cannot_be_made_is_the_users_problem(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(ExperimentError, match="choose another --out"):
        PointStore(tmp_path / "file" / "scale").open(fresh=False)


def test_what_was_asked_for_is_written_as_json(store: PointStore) -> None:
    store.write_run({"experiment": "scale", "seed": 1})
    found = msgspec.json.decode((store.folder / "run.json").read_bytes())
    assert found == {"experiment": "scale", "seed": 1}


def scale_row(nodes: int, rate: float, token_ms: float) -> dict[str, object]:
    return {
        "place": "sim",
        "round": 0,
        "nodes": nodes,
        "senders": 1,
        "messages_per_second": rate,
        "token_rtt_ms": token_ms,
        "ack_ms_mean": token_ms + 2,
    }


def test_rows_come_in_the_order_of_the_axes() -> None:
    rows = [scale_row(200, 99.0, 3.0), scale_row(2, 100.0, 0.3)]
    head, body = table_of(EXPERIMENTS["scale"], rows, ("nodes", "senders"))
    assert head[:3] == ["nodes", "senders", "where"]
    assert [cells[0] for cells in body] == ["2", "200"]


def test_a_claim_that_holds_and_one_that_does_not_are_told_apart() -> None:
    scale = EXPERIMENTS["scale"]
    rows = [scale_row(2, 100.0, 0.3), scale_row(10, 100.0, 1.0), scale_row(200, 99.0, 1.9)]
    assert all(finding.holds in (True, None) for finding in scale.findings(rows))
    rows[2] = scale_row(200, 90.0, 20.0)
    text = render_markdown(scale, rows, ("nodes", "senders"), "quicksilver experiment scale")
    assert "**does not hold**" in text
    assert "90.0 %" in text


def test_a_value_that_was_not_measured_is_a_dash() -> None:
    assert Column("x", "x").show({}) == "–"
    assert Column("x", "x", "{:.1f}", 1e-6).show({"x": 2_500_000}) == "2.5"
    assert Column("x", "x", "{}").show({"x": "sim"}) == "sim"
