"""From folders to parameters, figures and a page; one line for what does not do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("matplotlib")

from quicksilver.analysis.errors import BadInputError
from quicksilver.analysis.model.job import fit_runs, load_parameters, parse_sizes
from quicksilver.analysis.model.observations import Observation
from quicksilver.cli.main import run


def no_traces(paths: Sequence[Path]) -> list[Observation]:
    raise AssertionError(f"{paths} are experiments")


def point(nodes: int, rate: float, experiment: str = "scale") -> dict[str, Any]:
    busy = 1.0 if not rate else rate / 10_000
    speed = rate or 9_800.0
    ack_ms = 5 + 0.2 * nodes + 2 * busy
    return {
        "experiment": experiment,
        "point": f"n{nodes}-{rate:g}",
        "place": "sim",
        "round": 0,
        "seed": 1,
        "parameters": {"nodes": nodes, "senders": 1, "rate": rate, "size": 1000, "machine": "here"},
        "metrics": {
            "messages_per_second": speed,
            "ack_ms_mean": ack_ms,
            "token_rtt_ms": 0.3 + 0.2 * nodes,
            "token_interval_ms": 2.0 + busy,
            "packet_ms_mean": 0.4,
            "pending_messages_mean": speed * ack_ms / 1e3,
            "sender_memory_bytes_mean": 1e6 + speed * ack_ms,
            "sender_cpu_percent": 100 * busy,
        },
    }


def write(folder: Path, *points: dict[str, Any]) -> Path:
    folder.mkdir(parents=True)
    (folder / "points.jsonl").write_bytes(b"\n".join(map(msgspec.json.encode, points)) + b"\n")
    return folder


@pytest.fixture(scope="module")
def fitted_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    home = tmp_path_factory.mktemp("model")
    sizes = write(home / "scale", *(point(n, 0.0) for n in (2, 5, 10, 20, 50)))
    rates = write(home / "rate", *(point(10, r) for r in (1000.0, 2000.0, 4000.0, 8000.0)))
    fit_runs([sizes, rates], home / "out", read_traces=no_traces)
    return home, home / "out"


@pytest.mark.slow
def test_runs_become_parameters_figures_and_a_page(fitted_once: tuple[Path, Path]) -> None:
    _, out = fitted_once
    page = (out / "model.html").read_text(encoding="utf-8")
    for number in ("4.50", "4.51", "4.52", "4.53", "4.54", "4.55", "4.56", "4.57"):
        assert f"Figure {number}" in page, number
    assert "http" not in page.replace("http://www.w3.org", "")
    assert len(list(out.glob("model-*.png"))) == len(list(out.glob("model-*.svg"))) >= 8


@pytest.mark.slow
def test_parameters_are_read_back_and_predict(
    fitted_once: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    _, out = fitted_once
    assert load_parameters(out / "parameters.json") == load_parameters(out)
    command = ["model", "predict", "--parameters", str(out / "parameters.json")]
    assert run([*command, "--nodes", "1000,5000", "--json"]) == 0
    found = msgspec.json.decode(capsys.readouterr().out)
    assert {each["nodes"] for each in found["predictions"]} == {1000, 5000}
    assert {"papers, 4.10", "4.10, nested rings"} <= {each["form"] for each in found["predictions"]}


def test_one_point_is_said_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write(tmp_path / "scale", point(10, 0.0))
    assert run(["model", "fit", str(folder), "--out", str(tmp_path / "out")]) == 0
    text = capsys.readouterr().out
    assert "not fitted: 4.5 needs runs with different numbers of nodes: quicksilver exp" in text
    command = ["model", "predict", "--parameters", str(tmp_path / "out"), "--nodes", "9"]
    assert run(command) == 1
    problem = capsys.readouterr().err
    assert "lacks what a prediction needs" in problem
    assert problem.count("\n") == 1


@pytest.mark.parametrize(
    ("files", "line"),
    [
        ({}, "not a folder of results"),
        ({"points.jsonl": ""}, "no finished point"),
        ({"notes.txt": "a"}, "has no runs"),
    ],
)
def test_empty_folders_are_said_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], files: dict[str, str], line: str
) -> None:
    folder = tmp_path / "nothing"
    if files:
        folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    assert run(["model", "fit", str(folder)]) == 1
    problem = capsys.readouterr().err
    assert line in problem
    assert problem.count("\n") == 1


def test_other_experiments_are_left_out_and_named(tmp_path: Path) -> None:
    folder = write(tmp_path / "loss", point(10, 0.0, "loss"))
    said: list[str] = []
    with pytest.raises(BadInputError, match="no run of one undisturbed sender"):
        fit_runs([folder], tmp_path / "out", read_traces=no_traces, remark=said.append)
    assert "loss is not used" in said[0]


@pytest.mark.parametrize(
    "text", ["", "{}", '{"version": 1}', "[1, 2]", '{"version": 2, "model": null}']
)
def test_what_is_no_parameters_is_said_in_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "parameters.json").write_text(text, encoding="utf-8")
    with pytest.raises(BadInputError, match="quicksilver model fit"):
        load_parameters(tmp_path / "parameters.json")
    with pytest.raises(BadInputError, match="quicksilver model fit"):
        load_parameters(tmp_path / "not-there.json")


@pytest.mark.parametrize("text", ["", "ten", "0", "-5", "1,,x", "99999999999"])
def test_sizes_are_whole_and_positive(text: str) -> None:
    with pytest.raises(BadInputError, match="--nodes 1000,2000,5000"):
        parse_sizes(text)
    assert parse_sizes("1000,2_000") == [1000, 2000]
