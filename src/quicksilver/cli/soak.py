"""``quicksilver soak``: real processes among random mishaps, every message checked."""

from __future__ import annotations

import importlib.util
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quicksilver.cli.options import Json
from quicksilver.cli.output import emit, remark, say
from quicksilver.cli.problems import MisuseError
from quicksilver.stdx.install import install_line

if TYPE_CHECKING:
    from quicksilver.lab.soak.acts import ActName
    from quicksilver.lab.soak.report import SoakReport

SHOWN_MAX = 10
"""Violations shown; the report has all."""


def soak(
    seconds: Annotated[
        float, typer.Option(min=5, metavar="NUMBER", help="How many seconds to cause mishaps.")
    ] = 60.0,
    nodes: Annotated[
        int, typer.Option("--nodes", "-n", min=3, max=64, help="Number of worker processes.")
    ] = 7,
    groups: Annotated[int, typer.Option(min=8, max=20_000, help="Number of groups.")] = 1000,
    every: Annotated[
        float,
        typer.Option(min=0.2, metavar="SECONDS", help="Mean time from one mishap to the next."),
    ] = 3.0,
    acts: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME…",
            help="Mishaps to draw from: kill, restart, freeze, cut, mute, leave, gms.",
            show_default="all",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Seed of the random mishaps and traffic.", show_default="a random one"),
    ] = None,
    growth_mb: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Megabytes that a process may grow by in the second half.",
            show_default="4; 32 if it takes less than ten minutes",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for the report and its figure.")
    ] = Path("out/soak"),
    as_json: Json = False,
) -> int:
    """Run a local cluster among random mishaps, and check every message.

    Mishaps are kills, freezes, cut links, mute members, joins, leaves and restarts of the GMS.
    Each worker sends to its groups, flushes, and checks the tag, number and checksum of every
    message that it receives. What a flush has confirmed must have reached every member that
    stayed. The exit code is 1 if any of this did not hold.
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
        growth_bytes_max=None if growth_mb is None else growth_mb << 20,
    )
    remark(f"soak of {seconds:g} s with seed {chosen}")
    report = Soak(plan).run()
    _write(report, out)
    if as_json:
        emit("report", report)
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
        remark(f"no figure is drawn; to draw it: {install_line('analysis')}")
        return
    from quicksilver.analysis.report.timelines import draw_memory

    draw_memory(out, report)


def _show(report: SoakReport) -> None:
    from quicksilver.cli.screen import SafeTable, make_console, styled

    console = make_console()
    table = SafeTable(title=f"soak of {report.seconds:g} s, seed {report.seed}", show_header=False)
    acts = ", ".join(f"{name} {count}" for name, count in report.acts.items())
    debts = ", ".join(f"{name} {count:,}" for name, count in report.debts.items())
    problems = ", ".join(f"{name} {count:,}" for name, count in report.flush_problems.items())
    problems = f" ({problems})" if problems else ""
    for name, value in (
        ("mishaps", acts or "none"),
        ("processes started", f"{report.lives:,}"),
        ("messages confirmed by flush", f"{report.confirmed_messages:,}"),
        ("messages not confirmed by flush", f"{report.unconfirmed_messages:,}{problems}"),
        ("messages delivered and checked", f"{report.delivered_messages:,}"),
        ("runs of messages due to members", debts or "none"),
        ("longest flush", f"{report.flush_s_max:.2f} s"),
        ("exclusions", f"{report.exclusions}, without cause {report.unprovoked_exclusions}"),
    ):
        table.add_row(name, value)
    console.print(table)
    memory = SafeTable("process", "first MB", "last MB", "most MB", "growth MB", "fds", "threads")
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
        console.print(styled(f"  NO  {violation}"), soft_wrap=True)
    more = len(report.violations) - SHOWN_MAX
    if more > 0:
        console.print(f"      and {more} more")
    if not report.violations:
        console.print(" yes  all checks passed")
