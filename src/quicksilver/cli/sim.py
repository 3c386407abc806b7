"""``quicksilver sim``: seeds of mixed faults over varied clusters, judged by every check."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quicksilver.cli.options import Json, Trace
from quicksilver.cli.problems import CommandError, MisuseError

if TYPE_CHECKING:
    from quicksilver.trials.draw import Plan
    from quicksilver.trials.trial import Report

VIOLATIONS_SHOWN = 5
FAILURES_SHOWN = 20


def sim(
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Run this seed alone, and tell all.")
    ] = None,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How many seeds to run.")] = 100,
    first_seed: Annotated[int, typer.Option("--first-seed", min=0, help="The first of them.")] = 1,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=0, help="Processes; 0: one a core.")] = 0,
    plan_file: Annotated[
        Path | None,
        typer.Option("--plan", metavar="FILE", help="Run a plan that --write-plan wrote."),
    ] = None,
    write_plan: Annotated[
        Path | None,
        typer.Option(
            "--write-plan", metavar="FILE", help="Write the plan of --seed, shrunk or not."
        ),
    ] = None,
    shrink: Annotated[
        bool, typer.Option("--shrink", help="Of a failing run, find the faults that matter.")
    ] = False,
    trace: Trace = None,
    as_json: Json = False,
) -> None:
    """Run the engine under a deterministic simulator, with faults, and check it.

    The same seed gives the same run, and the same digest, on any machine.
    Exits with 1 when any property was violated.
    """
    if plan_file is not None or seed is not None:
        _run_one(
            _load_plan(plan_file, seed),
            shrinks=shrink,
            write_plan=write_plan,
            trace=trace,
            as_json=as_json,
        )
        return
    if shrink or write_plan is not None or trace is not None:
        raise MisuseError("--shrink, --write-plan and --trace need --seed or --plan: which run?")
    _run_many(range(first_seed, first_seed + seeds), jobs, as_json=as_json)


def _load_plan(path: Path | None, seed: int | None) -> Plan:
    import msgspec

    from quicksilver.trials.draw import Plan, draw_plan

    if path is None:
        assert seed is not None
        return draw_plan(seed)
    if seed is not None:
        raise MisuseError("--plan and --seed both say what to run: give one of them")
    try:
        return msgspec.json.decode(path.read_bytes(), type=Plan)
    except (msgspec.MsgspecError, ValueError) as error:
        raise CommandError(f"{path} is not a plan of a trial: {error}") from None


def _run_one(
    plan: Plan,
    *,
    shrinks: bool,
    write_plan: Path | None,
    trace: Path | None,
    as_json: bool,
) -> None:
    import time

    import msgspec

    from quicksilver.cli.tracing import opening_trace
    from quicksilver.trials.shrink import shrink
    from quicksilver.trials.trial import run_trial

    started = time.perf_counter()
    with opening_trace(trace, f"seed-{plan.seed}", "sim", waits=True) as tracer:
        report = run_trial(plan, tracer=tracer)
    elapsed = time.perf_counter() - started
    if shrinks and report.violations:
        plan = shrink(plan, run_trial, on_progress=_tell_shrinking)
        report = run_trial(plan)
    if write_plan is not None:
        write_plan.write_bytes(msgspec.json.format(msgspec.json.encode(plan)) + b"\n")
    if as_json:
        found: dict[str, Any] = msgspec.to_builtins(report)
        found["node_seconds_per_second"] = round(report.node_seconds / max(1e-9, elapsed), 1)
        print(msgspec.json.encode(found).decode())
    else:
        _show_report(plan, report, elapsed)
    if report.violations:
        raise typer.Exit(1)


def _tell_shrinking(runs: int, left: int) -> None:
    import sys

    print(f"shrinking: run {runs}, {left} faults left", file=sys.stderr)


def _show_report(plan: Plan, report: Report, elapsed: float) -> None:
    from quicksilver.trials.faults import describe

    speed = report.node_seconds / max(1e-9, elapsed)
    print(
        f"seed {plan.seed}: {report.nodes} nodes, {report.groups} groups, planner {plan.planner}, "
        f"{plan.transport}, packets of {plan.packet_bytes} bytes"
    )
    print(
        f"{report.messages:,} messages, {report.deliveries:,} deliveries, "
        f"{report.datagrams:,} datagrams, {report.views} batches of views, "
        f"{report.exclusions} exclusions, {report.seconds:.1f} s virtual"
    )
    print(f"{report.faults} faults:")
    for fault in plan.faults:
        print(f"  {describe(fault)}")
    print(f"digest {report.digest}, {speed:,.0f} node-seconds per second")
    for violation in report.violations:
        print(f"VIOLATED {violation.check} at {violation.at:.3f} s: {violation.what}")
    if not report.violations:
        print("no violation")


# Many seeds


def _run_many(seeds: range, jobs: int, *, as_json: bool) -> None:
    import json
    import sys
    import time
    from collections import Counter

    started = time.perf_counter()
    failures: list[tuple[int, str]] = []
    totals: Counter[str] = Counter()
    with _Progress(len(seeds), shown=not as_json) as progress:
        for row in run_seeds(seeds, jobs):
            for name in ("messages", "deliveries", "datagrams", "faults"):
                totals[name] += row[name]
            totals["node_seconds"] += round(row["node_seconds"])
            if row["violations"]:
                failures.append((row["seed"], row["violations"][0]))
                progress.say(
                    f"seed {row['seed']}: {'; '.join(row['violations'][:VIOLATIONS_SHOWN])}"
                )
            progress.advance(len(failures))
    elapsed = time.perf_counter() - started
    failures.sort()
    speed = totals["node_seconds"] / max(1e-9, elapsed)
    summary = {
        "seeds": len(seeds),
        "first_seed": seeds.start,
        "failed": [seed for seed, _ in failures],
        "violations": len(failures),
        **totals,
        "seconds": round(elapsed, 1),
        "node_seconds_per_second": round(speed, 1),
    }
    if as_json:
        print(json.dumps(summary))
    else:
        for seed, what in failures[:FAILURES_SHOWN]:
            print(f"seed {seed}: {what}", file=sys.stderr)
            print(f"  replay: quicksilver sim --seed {seed}", file=sys.stderr)
        print(
            f"{len(seeds)} seeds, {len(failures)} with violations: "
            f"{totals['messages']:,} messages, {totals['deliveries']:,} deliveries, "
            f"{totals['faults']:,} faults, "
            f"{elapsed:.0f} s, {speed:,.0f} node-seconds per second"
        )
    if failures:
        raise typer.Exit(1)


def run_seeds(seeds: range, jobs: int) -> Iterator[dict[str, Any]]:
    """Run seeds over all cores; yields a row for each, in the order they finish."""
    import os
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import get_context

    jobs = jobs or len(os.sched_getaffinity(0))
    if jobs == 1:
        yield from (_run_seed(seed) for seed in seeds)
        return
    # A fresh process for every worker: nothing of this one's state can leak in.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(_run_seed, seed) for seed in seeds]
        for future in as_completed(waiting):
            yield future.result()


def _run_seed(seed: int) -> dict[str, Any]:
    """Run one seed in a worker; a crash of ours is a violation like any other."""
    from quicksilver.trials.draw import draw_plan
    from quicksilver.trials.trial import run_trial

    try:
        report = run_trial(draw_plan(seed))
    except Exception as error:  # noqa: BLE001  # an engine that raises has failed its trial
        where = f"{type(error).__name__}: {error}"
        empty = dict.fromkeys(("messages", "deliveries", "datagrams", "faults", "node_seconds"), 0)
        return {"seed": seed, "violations": [f"raised {where}"], **empty}
    return {
        "seed": seed,
        "messages": report.messages,
        "deliveries": report.deliveries,
        "datagrams": report.datagrams,
        "faults": report.faults,
        "node_seconds": report.node_seconds,
        "violations": [f"{v.check} at {v.at:.2f} s: {v.what}" for v in report.violations],
    }


class _Progress:
    """A bar on a terminal, now and then a line elsewhere, nothing with --json."""

    def __init__(self, total: int, *, shown: bool) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        self._total = total
        self._shown = shown
        self._done = 0
        self._console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("seeds"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[failed]} with violations"),
            console=self._console,
            disable=not shown or not self._console.is_terminal,
        )
        self._task = self._bar.add_task("seeds", total=total, failed=0)

    def __enter__(self) -> _Progress:
        self._bar.start()
        return self

    def __exit__(self, *args: object) -> None:
        self._bar.stop()

    def say(self, line: str) -> None:
        if self._shown:
            self._console.print(line, markup=False, highlight=False)

    def advance(self, failed: int) -> None:
        self._done += 1
        self._bar.update(self._task, advance=1, failed=failed)
        if self._shown and not self._console.is_terminal and self._done % 100 == 0:
            self.say(f"{self._done}/{self._total} seeds, {failed} with violations")
