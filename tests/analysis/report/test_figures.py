"""Figures take what points have; pages need nothing else."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.analysis.drawing import draw_bars, draw_distribution
from quicksilver.analysis.errors import BadInputError
from quicksilver.analysis.estimates import half_width
from quicksilver.analysis.figures import bars_of, counts_of, lines_of
from quicksilver.analysis.page import Picture, Section, Sentence, render
from quicksilver.analysis.report.events import (
    Event,
    Round,
    busiest_stretch,
    choose_sentences,
    choose_stretches,
    tell,
)
from quicksilver.analysis.report.experiments import in_words, section_of
from quicksilver.analysis.report.papers import BARS, DISTRIBUTIONS, FIGURES
from quicksilver.analysis.report.timelines import choose_tracks, draw_events
from quicksilver.experiments.catalogue import EXPERIMENTS
from quicksilver.stdx.bins import number_of, upper_ms

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


def test_every_figure_has_a_name_of_its_own_and_a_claim_of_its_experiment() -> None:
    figures = [*FIGURES, *DISTRIBUTIONS, *BARS]
    assert len({figure.name for figure in figures}) == len(figures)
    for figure in figures:
        assert figure.paper in EXPERIMENTS[figure.experiment].claims, figure.name


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
    (tmp_path / "points.jsonl").write_text(text, encoding="utf-8")
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


def test_a_failure_and_the_most_losses_are_shown_and_one_loss_close_up() -> None:
    losses = [Event(50 + at / 100, 1, "PacketsMissed", "") for at in range(20)]
    failure = Event(10.0, 2, "NodesFailed", "", failed=(9,))
    stretches = choose_stretches([failure, *losses])
    assert [(round(start, 2), round(end, 2)) for _, start, end in stretches] == [
        (9.0, 11.0),
        (50.0, 50.19),
        (49.98, 50.1),
    ]
    assert choose_stretches([]) == []
    (alone,) = choose_stretches([Event(3.0, 1, "ViewInstalled", "")])
    assert alone[1] == 3.0


def test_tracks_are_of_those_who_failed_lost_and_repaired() -> None:
    events = [
        Event(1.0, 5, "NodesFailed", "", failed=(9,)),
        Event(1.0, 3, "PacketsMissed", "", other=7),
        *(Event(1.0, node, "ViewInstalled", "") for node in range(100, 130)),
    ]
    assert choose_tracks(events, limit=3) == [3, 7, 9]


def test_counts_of_rounds_are_added_up_and_what_is_no_count_is_left_out() -> None:
    figure = next(d for d in DISTRIBUTIONS if d.name == "groups-tokens")
    rows = [
        {"experiment": "groups", "groups": 16, "token_rtt_bins": [[3, 2], [4, 1]]},
        {"experiment": "groups", "groups": 16, "token_rtt_bins": [[4, 5], ["x", 1], [9**9, 1]]},
        {"experiment": "groups", "groups": 256, "token_rtt_bins": None},
    ]
    assert counts_of(figure, rows) == {"16 groups": [(3, 2), (4, 6)]}


def test_bars_are_of_the_kinds_that_were_run() -> None:
    figure = next(b for b in BARS if b.name == "memory-allocating")
    rows = [
        {"experiment": "memory", "variant": kind, "rate": 0.0, figure.y: y}
        for kind, y in (("made-anew", 2.0), ("base", 1.0), ("base", 3.0), ("unknown", 9.0))
    ]
    (bars,) = bars_of(figure, rows).values()
    assert [(kind, value.y) for kind, value in bars] == [("base", 2.0), ("made-anew", 2.0)]


def test_bars_of_two_editions_stand_side_by_side(tmp_path: Path) -> None:
    """The longest stall before and after; a fault that only one was asked has one bar."""
    figure = next(b for b in BARS if b.name == "stalls-longest")
    rows = [
        {"experiment": "stalls", "edition": edition, "fault": fault, "rate": rate, figure.y: y}
        for edition, fault, rate, y in (
            ("before", "crash", 0.0, 3.0),
            ("before", "mute", 0.0, 10.0),
            ("before", "mute", 100.0, 99.0),
            ("after", "mute", 0.0, 0.1),
            ("after", "mute", 0.0, 0.3),
        )
    ]
    groups = bars_of(figure, rows)
    assert {
        group: [(kind, round(value.y, 6)) for kind, value in bars] for group, bars in groups.items()
    } == {"before": [("crash", 3.0), ("mute", 10.0)], "after": [("mute", 0.2)]}
    draw_bars(tmp_path, figure, groups)
    drawn = (tmp_path / "stalls-longest.svg").read_text(encoding="utf-8")
    assert all(word in drawn for word in ("before", "after", "crash", "mute"))


def test_several_metrics_of_a_figure_are_lines_of_their_own() -> None:
    figure = next(f for f in FIGURES if f.name == "loss-recovery")
    rows = [
        {
            "experiment": "loss",
            "nodes": nodes,
            "perturbed": perturbed,
            "token_rtt_ms": 1.0,
            "repair_ms_mean": 9.0 if perturbed else None,
        }
        for nodes in (10, 20)
        for perturbed in (False, True)
    ]
    labels = [line.label for line in lines_of(figure, rows)]
    assert labels == ["token, one perturbed", "token, undisturbed", "repair"]


@pytest.mark.slow
def test_distributions_bars_and_events_are_drawn(tmp_path: Path) -> None:
    draw_distribution(tmp_path, DISTRIBUTIONS[0], {"a": [(3, 2)], "b": [(3, 1), (30, 4)]})
    draw_distribution(tmp_path, DISTRIBUTIONS[-1], {"a": [(3, 2), (9, 1)]})
    events = [
        Event(1.0, 2, "PacketsMissed", "", other=1, packets=4),
        Event(1.1, 3, "RepairsSent", "", other=2, packets=4),
        Event(1.2, 3, "NodesFailed", "", failed=(1,)),
    ]
    rounds = [Round(1.0, 0, 0.001), Round(1.1, 1, 0.002)]
    tracks = draw_events(tmp_path, "e", "t", events, rounds, [(1.05, 2)], (0.9, 1.3), 0.0)
    assert tracks == 3
    for name in (DISTRIBUTIONS[0].name, DISTRIBUTIONS[-1].name, "e"):
        assert (tmp_path / f"{name}.png").stat().st_size > 1000
        assert b"<svg" in (tmp_path / f"{name}.svg").read_bytes()


def test_contents_link_to_every_figure() -> None:
    picture = Picture(image="data:,", title="a < b")
    page = render("t", [Section(name="x", title="s", origin="o", pictures=[picture, picture])])
    for anchor in ("s0", "s0-f0", "s0-f1"):
        assert f'href="#{anchor}"' in page
        assert f'id="{anchor}"' in page
    assert "a < b" not in page


@given(st.floats(min_value=1e-7, max_value=1e6))
def test_a_delay_is_in_its_bin(delay_s: float) -> None:
    number = number_of(delay_s)
    assert delay_s * 1e3 <= upper_ms(number) * (1 + 1e-9)
    if number:
        assert delay_s * 1e3 >= upper_ms(number - 1) * (1 - 1e-9)
