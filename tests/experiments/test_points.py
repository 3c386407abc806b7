"""One tiny point of every simulated experiment runs, and its columns are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from quicksilver.experiments.base import Context, Value
from quicksilver.experiments.catalogue import EXPERIMENTS
from quicksilver.experiments.runner import run_points
from quicksilver.experiments.store import PointStore, render_markdown

TINY: dict[str, Value] = {"nodes": 3, "seconds": 0.1, "warmup": 0.05, "machine": "gigabit"}
OTHERS: dict[str, dict[str, Value]] = {
    "sleep": {"perturbed": True, "sleep": 0.02, "every": 0.05},
    "loss": {"perturbed": True, "every": 0.03},
    "freeze": {"freeze": 0.05, "seconds": 0.6, "warmup": 0.6},
    "crash": {"seconds": 0.8, "warmup": 0.2},
    "joins": {"seconds": 0.2, "warmup": 0.2},
    "churn": {"changes": 20.0, "visitors": 1},
    "stalls": {"fault": "slow", "freeze": 0.3, "after": 0.3},
    "overload": {"load": 1.1, "seconds": 1.1},
    "light": {"rate": 500.0},
    "groups": {"groups": 20},
    "members": {"nodes": 12, "group_size": 4, "crashes": 2},
    "agree": {"light_seconds": 0.3},
}
SIMULATED = [name for name, each in EXPERIMENTS.items() if "sim" in each.places]
ONLY_WHERE = {
    "agree": {"others_cpu_percent"},
    # Kept by simulation and reality alike, or by one of the two only.
    "groups": {"sender_rss_empty_bytes", "sender_rss_bytes", "receiver_rss_bytes"}
    | {"sender_cpu_us_per_message"},
}


def tiny_point(name: str) -> tuple[dict[str, list[Value]], dict[str, Value]]:
    experiment = EXPERIMENTS[name]
    axes = {axis: [values[0]] for axis, values in experiment.quick.items()}
    settings = dict(experiment.settings)
    for key, value in (TINY | OTHERS.get(name, {})).items():
        if key in axes:
            axes[key] = [value]
        elif key in settings:
            settings[key] = value
    return axes, settings


@pytest.mark.slow
@pytest.mark.parametrize("name", SIMULATED)
def test_a_tiny_point_gives_every_column(name: str, tmp_path: Path) -> None:
    experiment = EXPERIMENTS[name]
    axes, settings = tiny_point(name)
    points = list(experiment.points(axes=axes, settings=settings, place="sim", rounds=1, seed=1))
    store = PointStore(tmp_path)
    store.open(fresh=False)
    (done,) = run_points(points, store)
    assert done.metrics is not None
    row = store.finished()[0].row()
    missing = {column.name for column in experiment.columns} - row.keys()
    allowed = {"disturbed_messages_per_second", "disturbed_loss_percent", "repair_ms_mean"}
    assert missing <= ONLY_WHERE.get(name, set()) | allowed
    if "messages_per_second" in row:
        assert row["messages_per_second"] > 0
        assert row["node_seconds_per_second"] > 0
    text = render_markdown(experiment, [row], tuple(axes), "quicksilver experiment")
    assert experiment.claim in text
    assert "| sim |" in text
    traces = store.traces_of(points[0])
    if traces.exists():
        assert list(traces.glob("kind=ViewInstalled/*.parquet"))
        assert list(traces.glob("kind=TraceEnded/*.parquet"))


@pytest.mark.slow
def test_points_that_are_there_are_not_run_again(tmp_path: Path) -> None:
    experiment = EXPERIMENTS["scale"]
    axes, settings = tiny_point("scale")
    store = PointStore(tmp_path)
    store.open(fresh=False)

    def points(*nodes: int) -> list[object]:
        axes["nodes"] = list(nodes)
        found = experiment.points(axes=axes, settings=settings, place=None, rounds=1, seed=1)
        return list(run_points(list(found), store))

    (first,) = points(2)
    assert first.metrics is not None  # type: ignore[attr-defined]
    again, new = points(2, 3)
    assert again.metrics is None  # type: ignore[attr-defined]
    assert new.metrics is not None  # type: ignore[attr-defined]


@pytest.mark.slow
def test_the_same_seed_measures_the_same(tmp_path: Path) -> None:
    """All but how long it took."""
    experiment = EXPERIMENTS["loss"]
    axes, settings = tiny_point("loss")
    (point,) = experiment.points(axes=axes, settings=settings, place=None, rounds=1, seed=5)

    def measure() -> dict[str, object]:
        found = experiment.run(point, Context(seed=point.seed))
        timed = {"wall_s", "total_wall_s", "node_seconds_per_second"}
        return {key: value for key, value in found.items() if key not in timed}

    assert measure() == measure()
