"""``quicksilver pl``: programs in processes of their own, simulated, and tried out."""

from __future__ import annotations

import json
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli.processes import read_event, run, running, running_gms


@pytest.mark.integration
@pytest.mark.slow
def test_processes_go_on_when_one_is_killed() -> None:
    """Nobody says goodbye: the membership finds out, and the others reach the next phases."""
    with ExitStack() as stack:
        gms = stack.enter_context(running_gms())
        command = ("pl", "run", "coordinated_phases", "--gms", gms, "--json")
        processes = [stack.enter_context(running(*command)) for _ in range(3)]
        for process in processes:
            assert read_event(process)["event"] == "ready"
        assert read_event(processes[2])["request"] == "Phase"
        processes[0].send_signal(signal.SIGKILL)
        phases = [read_event(processes[2])["arguments"][0] for _ in range(300)]
        assert phases == list(range(phases[0], phases[0] + 300))


@pytest.mark.slow
def test_simulated_nodes_say_how_far_they_came() -> None:
    options = ("--nodes", "27", "--size", "3", "--crash-every", "5", "--seconds", "2", "--json")
    outcome = run("pl", "sim", "coordinated_phases", *options)
    assert outcome.returncode == 0, outcome.stderr
    said = json.loads(outcome.stdout)
    assert said["broken"] is None
    assert said["requests"][0]["different"] > 5


@pytest.mark.slow
def test_a_mistake_is_shown_step_by_step(tmp_path: Path) -> None:
    """The exit code says it as well: for those who verify before they commit."""
    right = run("pl", "explain", "cleanup")
    assert right.returncode == 0, right.stderr
    program = tmp_path / "wrong.pl"
    program.write_text(
        "protocol Wrong { interface { callback Receive(int m); DoCleanup(int m); }\n"
        "properties { intset Stable; intset Cleanup; }\n"
        "bindings { on Receive(m) : Stable += m;\n"
        "on update Cleanup(added A) : foreach (m in A) DoCleanup(m); }\n"
        "rules { Stable := [mono, strict] children(∩).Stable; global.Cleanup := Stable;\n"
        "Cleanup ∪= parent.Cleanup; }\n"
        "conditions { parent.Stable ⊆ Stable; }\n"
        "invariants { invariant ∀ a, b : a.Cleanup ⊆ b.Stable; } }\n",
        encoding="utf-8",
    )
    outcome = run("pl", "verify", str(program), timeout_s=60)
    assert outcome.returncode == 1, outcome.stderr
    assert "a loss: broken" in outcome.stdout
    assert "does not reach c" in outcome.stdout
    assert "does not hold for a = a, b = c" in outcome.stdout
