"""The papers' words next to our numbers."""

from __future__ import annotations

from quicksilver.experiments.base import Column
from quicksilver.experiments.catalogue import EXPERIMENTS
from quicksilver.experiments.summary import render_markdown, table_of


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
