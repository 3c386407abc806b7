"""``quicksilver soak``: real processes among random mishaps, every message checked."""

from __future__ import annotations

import importlib.util
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quicksilver.cli.options import Json
from quicksilver.cli.output import emit, make_console, remark, say
from quicksilver.cli.problems import MisuseError

if TYPE_CHECKING:
    from quicksilver.lab.soak.acts import ActName
    from quicksilver.lab.soak.report import SoakReport

SHOWN_MAX = 10
"""Violations shown; the report has all."""


def soak(
    seconds: Annotated[float, typer.Option(min=5, help="How long mishaps happen.")] = 60.0,
    nodes: Annotated[
        int, typer.Option("--nodes", "-n", min=3, max=64, help="How many workers.")
    ] = 7,
    groups: Annotated[int, typer.Option(min=8, max=20_000, help="How many groups.")] = 1000,
    every: Annotated[
        float, typer.Option(min=0.2, help="Mean seconds from one mishap to the next.")
    ] = 3.0,
    acts: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME…",
            help="Which mishaps: kill, restart, freeze, cut, mute, leave, gms.",
            show_default="all",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Draws mishaps and traffic.", show_default="a random one")
    ] = None,
    growth_mb: Annotated[
        int, typer.Option(min=1, help="Memory a process may gain in the second half.")
    ] = 32,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where the report and its figure go.")
    ] = Path("out/soak"),
    as_json: Json = False,
) -> int:
    """Soak a local cluster: kills, freezes, cut links, mute members, joins, leaves, GMS restarts.

    Each worker sends to its groups, flushes, and checks tag, number and checksum of all
    that it is given. What a flush confirmed must be with every member that stayed. Exits
    with 1 if anything did not hold.
    """
    from quicksilver.lab.soak.run import Soak, SoakPlan

    chosen = seed if seed is not None else secrets.randbelow(1_000_000)
    plan = SoakPlan(
        seconds=seconds,
        seed=chosen,
        workers=nodes,
        groups=groups,
        every_s=every,
        acts=_parse_acts(acts),
        folder=out,
        growth_bytes_max=growth_mb << 20,
    )
    remark(f"soak of {seconds:g} s with seed {chosen}")
    report = Soak(plan).run()
    _write(report, out)
    if as_json:
        emit(report)
    else:
        _show(report)
        say(f"report: {out / 'report.json'}")
    if report.violations:
        given = f" --acts {acts}" if acts else ""
        remark(
            f"repeat with: quicksilver soak --seed {chosen} --seconds {seconds:g} --nodes {nodes} "
            f"--groups {groups} --every {every:g}{given}"
        )
    return 1 if report.violations else 0


def _parse_acts(text: str | None) -> tuple[ActName, ...]:
    from quicksilver.lab.soak.acts import ACTS

    if text is None:
        return ACTS
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in ACTS]
    if unknown or not names:
        raise MisuseError(f"--acts {text[:40]!r}: there are {', '.join(ACTS)}")
    return tuple(name for name in ACTS if name in names)


def _write(report: SoakReport, out: Path) -> None:
    import msgspec

    text = msgspec.json.format(msgspec.json.encode(report), indent=1)
    (out / "report.json").write_bytes(text + b"\n")
    if importlib.util.find_spec("matplotlib") is None:
        remark("no figure is drawn: it needs pip install 'quicksilver[analysis]'")
        return
    from quicksilver.analysis.report.timelines import draw_memory

    draw_memory(out, report)


def _show(report: SoakReport) -> None:
    from rich.table import Table

    console = make_console()
    table: Any = Table(title=f"soak of {report.seconds:g} s, seed {report.seed}", show_header=False)
    acts = ", ".join(f"{name} {count}" for name, count in report.acts.items())
    debts = ", ".join(f"{name} {count:,}" for name, count in report.debts.items())
    problems = ", ".join(f"{name} {count:,}" for name, count in report.flush_problems.items())
    for name, value in (
        ("mishaps", acts or "none"),
        ("processes there were", f"{report.lives:,}"),
        ("messages confirmed by flush", f"{report.confirmed_messages:,}"),
        ("messages flush did not vouch for", f"{report.unconfirmed_messages:,} ({problems})"),
        ("messages delivered and checked", f"{report.delivered_messages:,}"),
        ("runs owed to members", debts or "none"),
        ("longest flush", f"{report.flush_s_max:.2f} s"),
        ("exclusions", f"{report.exclusions}, without cause {report.unprovoked_exclusions}"),
    ):
        table.add_row(name, value)
    console.print(table)
    memory: Any = Table("process", "first MB", "last MB", "most MB", "growth MB", "fds", "threads")
    for one in report.processes:
        memory.add_row(
            one.name,
            f"{one.rss_mb_first:.0f}",
            f"{one.rss_mb_last:.0f}",
            f"{one.rss_mb_max:.0f}",
            f"{one.growth_mb:+.1f}",
            f"{one.descriptors_max} → {one.descriptors_last}",
            f"{one.threads_max} → {one.threads_last}",
        )
    console.print(memory)
    for violation in report.violations[:SHOWN_MAX]:
        console.print(f"  NO  {violation}", highlight=False, soft_wrap=True)
    more = len(report.violations) - SHOWN_MAX
    if more > 0:
        console.print(f"      and {more} more")
    if not report.violations:
        console.print(" yes  everything that was promised held")
