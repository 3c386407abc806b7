"""``quicksilver sim``: seeds of mixed faults over varied clusters, judged by every check."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quicksilver.cli.options import Json, Trace
from quicksilver.cli.problems import CommandError, MisuseError

if TYPE_CHECKING:
    from quicksilver.trials.draw import Plan
    from quicksilver.trials.scopes.plan import Plan as ScopesPlan
    from quicksilver.trials.trial import SeedResult, Verdict

FAILURES_SHOWN = 20


@dataclass(frozen=True, slots=True)
class _Trials:
    """A kind of trials: of one network's engine, or of scopes."""

    flag: str
    """The option that asks for it."""
    plan: type[Any]
    draw_plan: Callable[[int], Any]
    run_trial: Callable[..., Verdict]
    run_seed: Callable[[int], SeedResult]
    describe: Callable[[Any, Verdict], str]


def _trials(*, of_scopes: bool, as_scopes: bool) -> _Trials:
    if as_scopes:
        from quicksilver.trials.as_scopes import trial as twins
        from quicksilver.trials.draw import Plan

        return _Trials(
            " --as-scopes", Plan, twins.draw, twins.run_trial, twins.run_seed, _tell_twins
        )
    if of_scopes:
        from quicksilver.trials.scopes import trial as scopes
        from quicksilver.trials.scopes.draw import draw_plan as draw_scopes
        from quicksilver.trials.scopes.plan import Plan as ScopesPlan

        return _Trials(
            " --scopes", ScopesPlan, draw_scopes, scopes.run_trial, scopes.run_seed, _tell_scopes
        )
    from quicksilver.trials import trial
    from quicksilver.trials.draw import Plan, draw_plan

    return _Trials("", Plan, draw_plan, trial.run_trial, trial.run_seed, _tell_cluster)


def _tell_cluster(plan: Plan, verdict: Verdict) -> str:
    return (
        f"{verdict.nodes} nodes, {verdict.groups} groups, planner {plan.planner}, "
        f"{plan.transport}, packets of {plan.packet_bytes} bytes"
    )


def _tell_twins(plan: Plan, verdict: Verdict) -> str:
    from quicksilver.trials.as_scopes.plan import as_scopes

    (scope,) = as_scopes(plan).scopes
    return (
        f"{verdict.nodes} nodes, {verdict.groups} topics, one scope ({scope.policy}, "
        f"{scope.recovery})"
    )


def _tell_scopes(plan: ScopesPlan, verdict: Verdict) -> str:
    scopes = (f"{scope.name} ({scope.policy}, {scope.recovery})" for scope in plan.scopes)
    return f"{verdict.nodes} nodes, {verdict.groups} topics, scopes {', '.join(scopes)}"


def sim(
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Run this seed alone, and show all of it.")
    ] = None,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How many seeds to run.")] = 100,
    first_seed: Annotated[
        int, typer.Option("--first-seed", min=0, help="First seed of --seeds.")
    ] = 1,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=0, help="Number of processes; 0 takes one per core.")
    ] = 0,
    plan_file: Annotated[
        Path | None,
        typer.Option("--plan", metavar="FILE", help="Run a plan that --write-plan has written."),
    ] = None,
    write_plan: Annotated[
        Path | None,
        typer.Option(
            "--write-plan",
            metavar="FILE",
            help="Write the plan of the run to this file; with --shrink, the shrunk one.",
        ),
    ] = None,
    shrink: Annotated[
        bool,
        typer.Option("--shrink", help="If the run fails, find the few faults that make it fail."),
    ] = False,
    scopes: Annotated[
        bool,
        typer.Option("--scopes", help="Trees of scopes instead of one network of nodes."),
    ] = False,
    as_scopes: Annotated[
        bool,
        typer.Option(
            "--as-scopes",
            help="The engine's own trials, on a scope that does what QSM does: --policy regions "
            "and --recovery ring:N.",
        ),
    ] = False,
    stop: Annotated[
        bool, typer.Option("--stop", help="Stop at the first seed that fails.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Keep the results of many seeds in this file, and go on from it.",
        ),
    ] = None,
    trace: Trace = None,
    as_json: Json = False,
) -> None:
    """Run the engine, or scopes (--scopes, --as-scopes), under a deterministic simulator.

    The same seed gives the same run, and the same digest, on any machine. The exit code is 1
    if any property was violated.
    """
    if scopes and as_scopes:
        raise MisuseError("--scopes and --as-scopes are two kinds of trials: give one of them")
    trials = _trials(of_scopes=scopes, as_scopes=as_scopes)
    if (scopes or as_scopes) and trace is not None:
        raise MisuseError("--trace has no records of scopes: leave it out")
    if plan_file is not None or seed is not None:
        if stop or out is not None:
            raise MisuseError("--stop and --out are for many seeds: give --seeds")
        _run_one(
            trials,
            _load_plan(trials, plan_file, seed),
            shrinks=shrink,
            write_plan=write_plan,
            trace=trace,
            as_json=as_json,
        )
        return
    if shrink or write_plan is not None or trace is not None:
        raise MisuseError("--shrink, --write-plan and --trace need --seed or --plan: which run?")
    many = range(first_seed, first_seed + seeds)
    _run_many(trials, many, jobs, out, stops=stop, as_json=as_json)


def _load_plan(trials: _Trials, path: Path | None, seed: int | None) -> Any:
    import msgspec

    if path is None:
        assert seed is not None
        return trials.draw_plan(seed)
    if seed is not None:
        raise MisuseError("--plan and --seed both say what to run: give one of them")
    try:
        return msgspec.json.decode(path.read_bytes(), type=trials.plan)
    except (msgspec.MsgspecError, ValueError) as error:
        raise CommandError(f"{path} is not a plan of a trial: {error}") from None


def _run_one(
    trials: _Trials,
    plan: Any,
    *,
    shrinks: bool,
    write_plan: Path | None,
    trace: Path | None,
    as_json: bool,
) -> None:
    import time

    import msgspec

    from quicksilver.cli.output import emit
    from quicksilver.cli.running import opening_trace
    from quicksilver.trials.shrink import shrink

    run_trial = trials.run_trial
    started = time.perf_counter()
    if trace is None:
        verdict = run_trial(plan)
    else:
        with opening_trace(trace, f"seed-{plan.seed}", "sim", waits=True) as tracer:
            verdict = run_trial(plan, tracer=tracer)
    elapsed = time.perf_counter() - started
    if shrinks and verdict.violations:
        plan = shrink(plan, run_trial, on_progress=_tell_shrinking)
        verdict = run_trial(plan)
    if write_plan is not None:
        write_plan.write_bytes(msgspec.json.format(msgspec.json.encode(plan)) + b"\n")
    if as_json:
        found: dict[str, Any] = msgspec.to_builtins(verdict)
        found["node_seconds_per_second"] = round(verdict.node_seconds / max(1e-9, elapsed), 1)
        emit("verdict", found)
    else:
        _show_verdict(trials, plan, verdict, elapsed)
    if verdict.violations:
        raise typer.Exit(1)


def _tell_shrinking(runs: int, left: int) -> None:
    from quicksilver.cli.output import remark

    remark(f"shrinking: run {runs}, {left} faults left")


def _show_verdict(trials: _Trials, plan: Any, verdict: Verdict, elapsed: float) -> None:
    from quicksilver.cli.output import say
    from quicksilver.trials.faults import describe

    speed = verdict.node_seconds / max(1e-9, elapsed)
    say(f"seed {plan.seed}: {trials.describe(plan, verdict)}")
    say(
        f"{verdict.messages:,} messages, {verdict.deliveries:,} deliveries, "
        f"{verdict.datagrams:,} datagrams, {verdict.views} batches of views, "
        f"{verdict.exclusions} exclusions, {verdict.seconds:.1f} s virtual"
    )
    say(f"{verdict.faults} faults:")
    for fault in plan.faults:
        say(f"  {describe(fault)}")
    say(f"digest {verdict.digest}, {speed:,.0f} node-seconds per second")
    for violation in verdict.violations:
        say(f"VIOLATED {violation.check} at {violation.at:.3f} s: {violation.what}")
    if not verdict.violations:
        say("no violation")


# Many seeds


def _run_many(
    trials: _Trials, seeds: range, jobs: int, out: Path | None, *, stops: bool, as_json: bool
) -> None:
    import time
    from collections import Counter

    from quicksilver.cli.output import emit, remark, say
    from quicksilver.cli.screen import RunProgress

    started = time.perf_counter()
    failures: list[tuple[int, str]] = []
    totals: Counter[str] = Counter()
    done = 0
    with RunProgress("seeds", len(seeds), is_quiet=as_json, lines_every=100) as progress:
        for result in run_seeds(trials.run_seed, seeds, jobs, out):
            done += 1
            if (verdict := result.verdict) is not None:
                totals["messages"] += verdict.messages
                totals["deliveries"] += verdict.deliveries
                totals["datagrams"] += verdict.datagrams
                totals["faults"] += verdict.faults
                totals["node_seconds"] += round(verdict.node_seconds)
            if result.problem:
                failures.append((result.seed, result.problem))
                if not as_json:
                    progress.say(f"seed {result.seed}: {result.problem}")
            progress.advance(f"{len(failures)} with violations")
            if result.problem and stops:
                break
    elapsed = time.perf_counter() - started
    failures.sort()
    speed = totals["node_seconds"] / max(1e-9, elapsed)
    summary = {
        "seeds": done,
        "first_seed": seeds.start,
        "failed": [seed for seed, _ in failures],
        "violations": len(failures),
        **totals,
        "seconds": round(elapsed, 1),
        "node_seconds_per_second": round(speed, 1),
    }
    if as_json:
        emit("summary", summary)
    else:
        for seed, what in failures[:FAILURES_SHOWN]:
            remark(f"seed {seed}: {what}")
            remark(f"  replay: quicksilver sim{trials.flag} --seed {seed}")
        say(
            f"{done} seeds, {len(failures)} with violations: "
            f"{totals['messages']:,} messages, {totals['deliveries']:,} deliveries, "
            f"{totals['faults']:,} faults, "
            f"{elapsed:.0f} s, {speed:,.0f} node-seconds per second"
        )
    if failures:
        raise typer.Exit(1)


def run_seeds(
    run_seed: Callable[[int], SeedResult], seeds: range, jobs: int, out: Path | None = None
) -> Iterator[SeedResult]:
    """Run seeds over all cores, or over so many jobs; yields results as they are finished.

    ``out`` keeps them: seeds that are in that file are not run again.
    """
    from quicksilver.lab.batch import ResultFile, count_cores, run_batch
    from quicksilver.trials.trial import SeedResult

    kept: dict[int, SeedResult] = {}
    file = None
    if out is not None:
        file = ResultFile(out, SeedResult, lambda result: result.seed)
        file.open(fresh=False)
        kept = {result.seed: result for result in file.read() if result.seed in seeds}
        yield from kept.values()
    missing = (seed for seed in seeds if seed not in kept)
    for _, result in run_batch(run_seed, missing, jobs=jobs or count_cores()):
        if file is not None:
            file.add(result)
        yield result
