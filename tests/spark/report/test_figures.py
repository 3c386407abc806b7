"""Figures take what points have; pages need nothing else."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from quicksilver.experiments.catalogue import EXPERIMENTS
from quicksilver.spark.errors import BadInputError
from quicksilver.spark.report.events import Event, busiest_stretch, choose_sentences, tell
from quicksilver.spark.report.experiments import in_words, section_of
from quicksilver.spark.report.figures import lines_of
from quicksilver.spark.report.intervals import half_width
from quicksilver.spark.report.page import Section, Sentence, render
from quicksilver.spark.report.papers import FIGURES

pytest.importorskip("matplotlib")

THROUGHPUT = next(figure for figure in FIGURES if figure.name == "scale-throughput")


def row(nodes: int, rate: float, round_: int = 0, senders: int = 1) -> dict[str, object]:
    return {
        "experiment": "scale",
        "point": f"sim_nodes-{nodes}_round-{round_}_0",
        "place": "sim",
        "round": round_,
        "seed": 1,
        "nodes": nodes,
        "senders": senders,
        "messages_per_second": rate,
    }


def test_rounds_become_a_mean_with_an_interval() -> None:
    """Student's t with two degrees of freedom."""
    (line,) = lines_of(THROUGHPUT, [row(2, r * 1e3, i) for i, r in enumerate((9.0, 10.0, 11.0))])
    (value,) = line.values
    assert (value.x, value.y, value.runs) == (2.0, pytest.approx(10.0), 3)
    assert value.half_width == pytest.approx(4.303 / 3**0.5)


def test_one_run_has_no_interval() -> None:
    assert half_width([1.0]) is None
    assert half_width([1.0] * 30) == 0.0


def test_what_varies_makes_lines() -> None:
    lines = lines_of(THROUGHPUT, [row(2, 1.0), row(2, 2.0, senders=2), row(5, 3.0, senders=2)])
    assert [line.label for line in lines] == ["1 sender", "2 senders"]
    assert [len(line.values) for line in lines] == [1, 2]


def test_other_experiments_and_points_without_the_metric_are_left_out() -> None:
    assert lines_of(THROUGHPUT, [row(2, 1.0) | {"experiment": "loss"}]) == []
    assert lines_of(THROUGHPUT, [row(2, 1.0) | {"messages_per_second": None}]) == []


def test_a_line_in_words_says_how_it_changes() -> None:
    lines = lines_of(THROUGHPUT, [row(2, 1000e3), row(200, 950e3)])
    assert in_words(lines, "k") == "1,000 to 950 k from 2 to 200 (-5.0 %)."


def test_every_figure_names_an_experiment_that_exists() -> None:
    assert {figure.experiment for figure in FIGURES} <= set(EXPERIMENTS)
    assert len({figure.name for figure in FIGURES}) == len(FIGURES)


@pytest.mark.slow
def test_a_folder_becomes_a_section_with_drawings_inside(tmp_path: Path) -> None:
    folder, out = tmp_path / "scale", tmp_path / "out"
    folder.mkdir()
    out.mkdir()
    points = [(2, 100.0), (50, 90.0)]
    lines = [
        {
            "experiment": "scale",
            "point": f"p{nodes}",
            "place": "sim",
            "round": 0,
            "seed": 1,
            "parameters": {"nodes": nodes, "senders": 1},
            "metrics": {"messages_per_second": rate, "token_rtt_ms": 1.0, "ack_ms_mean": 2.0},
        }
        for nodes, rate in points
    ]
    text = b"\n".join(map(msgspec.json.encode, lines))
    (folder / "points.jsonl").write_bytes(text + b'\n{"experiment": "torn')
    section = section_of(folder, out)
    assert EXPERIMENTS["scale"].claim == section.claim
    page = render("title", [section])
    assert "data:image/svg+xml;base64," in page
    assert "http" not in page.replace("http://www.w3.org", "")
    assert (out / "scale-throughput.png").stat().st_size > 1000


@pytest.mark.parametrize("text", ["", '{"experiment": "torn'])
def test_an_experiment_without_points_is_said_in_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "points.jsonl").write_text(text)
    with pytest.raises(BadInputError, match="no finished point"):
        section_of(tmp_path, tmp_path)


def test_pages_escape_what_they_are_given() -> None:
    section = Section(
        name="a", title="<script>", origin="x", sentences=[Sentence("0", "1", "<i>", "<em>")]
    )
    page = render("t", [section])
    assert "<script>" not in page
    assert "<em>" not in page
    assert "<i>" not in page


def test_a_repair_is_told_with_both_nodes() -> None:
    base = {"at": 1.0, "node": 3, "region": 1, "view": 1, "packets": 2, "sender": 9, "to": 4}
    event = tell(base | {"kind": "RepairsSent"})
    assert event is not None
    assert (event.sentence, event.other) == ("sends node 4 2 packets of node 9", 4)
    assert tell(base | {"kind": "RoundCompleted"}) is None


def test_the_busiest_stretch_is_found() -> None:
    times = [0.0, 1.0, 50.0, 50.1, 50.2, 99.0]
    assert busiest_stretch(times, 2.0) == (50.0, 52.0)
    assert busiest_stretch([], 2.0) == (0.0, 0.0)


def test_rare_events_are_not_crowded_out() -> None:
    losses = [Event(float(at), 1, "PacketsMissed", "") for at in range(500)]
    view = Event(900.0, 1, "ViewInstalled", "")
    chosen = choose_sentences([*losses, view], limit=10)
    assert view in chosen
    assert len(chosen) == 10
