"""``quicksilver pl verify``: try all that can happen to a few nodes."""

from __future__ import annotations

from typing import Annotated

import typer

from quicksilver.cli import options
from quicksilver.cli.output import emit, plural, say
from quicksilver.cli.pl_programs import Program, read_program


def verify(
    program: Program,
    nodes: Annotated[
        int, typer.Option("--nodes", min=2, max=5, help="How many nodes, in domains of two.")
    ] = 3,
    numbers: Annotated[
        int,
        typer.Option(
            "--numbers",
            min=1,
            max=4,
            help="How many different numbers the events of applications carry.",
        ),
    ] = 1,
    worlds: Annotated[
        int, typer.Option("--worlds", min=1, help="Worlds that one search looks at, at most.")
    ] = 50_000,
    as_json: options.Json = False,
) -> int:
    """Try all crashes, joins, losses and late messages on a few nodes.

    Says how a claim of the program comes to be broken, by as few steps as any; the exit code is 1
    then. Each search allows for other faults.
    """
    name, text = read_program(program)
    from quicksilver.properties.compile.program import compile_text
    from quicksilver.properties.verify.searches import searches
    from quicksilver.properties.verify.searches import verify as search
    from quicksilver.properties.verify.timeline import tell

    plan = compile_text(text, name=name)
    claims = len(plan.invariants) + len(plan.eventualities)
    if not claims and not as_json:
        say(f"{name} claims nothing (invariant, eventually); its worlds are counted")
    for one, result in search(plan, searches(slots=nodes, numbers=numbers, worlds_max=worlds)):
        found = result.counterexample
        lines = [] if found is None else list(tell(found))
        if as_json:
            emit(
                "searched",
                {
                    "program": name,
                    "search": one.title,
                    "worlds": result.worlds,
                    "complete": result.is_complete,
                    "broken": None if found is None else str(found.broken),
                    "timeline": lines,
                },
            )
        else:
            seen = plural(result.worlds, "world")
            if found is not None:
                say(f"{one.title}: broken, after {seen}")
            else:
                say(f"{one.title}: {seen}" + ("" if result.is_complete else ", and there are more"))
            for line in lines:
                say(line)
        if found is not None:
            return 1
    if not as_json:
        say(f"{name}: {plural(claims, 'claim')} hold in all of them")
    return 0
