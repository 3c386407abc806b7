"""``quicksilver pl sim``: a program on very many simulated nodes, which crash."""

from __future__ import annotations

from typing import Annotated

import typer

from quicksilver.cli import options
from quicksilver.cli.output import emit, plural, say
from quicksilver.cli.pl_programs import Program, read_program


def sim(
    program: Program,
    nodes: Annotated[int, typer.Option("--nodes", min=1, max=1_000_000, help="How many.")] = 64,
    size: Annotated[
        int, typer.Option("--size", min=2, max=64, help="Members of a domain at most.")
    ] = 8,
    crash_s: Annotated[
        float | None,
        typer.Option(
            "--crash-every",
            min=0.1,
            metavar="SECONDS",
            help="Mean time after which each node crashes and loses all it knew. Left out: never.",
        ),
    ] = None,
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="Simulated time.")] = 10.0,
    interval_s: Annotated[
        float,
        typer.Option(
            "--interval", min=0.001, help="Seconds from one round of a domain to the next."
        ),
    ] = 0.02,
    seed: Annotated[int, typer.Option("--seed", help="Which nodes crash when.")] = 1,
    as_json: options.Json = False,
) -> int:
    """Run a program on simulated nodes; the exit code is 1 if a claim of it is broken."""
    name, text = read_program(program)
    from quicksilver.properties.compile.program import compile_text
    from quicksilver.properties.simulate.churn import Churn, Options
    from quicksilver.properties.verify.timeline import show

    plan = compile_text(text, name=name)
    chosen = Options(nodes=nodes, size=size, crash_s=crash_s, interval_s=interval_s, seed=seed)
    outcome = Churn(plan, chosen).run(seconds)
    requests = [
        {
            "request": event.name,
            "count": outcome.requests[at],
            "different": sum(each == at for each, _ in outcome.firsts),
            "seconds_between": outcome.pace_s(at, seconds / 3),
        }
        for at, event in enumerate(plan.requests)
    ]
    top = {
        each.name: show(value) for each, value in zip(plan.properties, outcome.top, strict=False)
    }
    if as_json:
        emit(
            "simulated",
            {
                "program": name,
                "nodes": nodes,
                "crash_s": crash_s,
                "seconds": seconds,
                "crashes": outcome.crashes,
                "visits": outcome.visits,
                "requests": requests,
                "top": top,
                "begun_again": outcome.begun_again,
                "broken": None if outcome.broken is None else str(outcome.broken),
            },
        )
        return 0 if outcome.broken is None else 1
    say(f"{plural(nodes, 'node')}, {seconds:g} s, crashes: {outcome.crashes:,}")
    for each in requests:
        line = f"{each['request']}: {each['count']} times, {each['different']} different"
        pace = each["seconds_between"]
        say(line + (f", a new one every {pace:.3f} s" if isinstance(pace, float) else ""))
    say("at the top: " + ", ".join(f"{key} = {value}" for key, value in top.items()))
    if outcome.begun_again:
        say(f"all who counted were gone {outcome.begun_again} times, and it began again")
    if outcome.broken is not None:
        say(f"after {outcome.broken_at:.2f} s: {outcome.broken}")
        return 1
    say(f"{plural(len(plan.invariants), 'invariant')} held all the time")
    return 0
