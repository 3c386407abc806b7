"""``quicksilver pl``: programs of the Properties Language, checked, laid out and explained."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quicksilver.cli import options
from quicksilver.cli.output import emit, plural, say
from quicksilver.cli.pl_programs import Program, read_program
from quicksilver.cli.pl_run import run
from quicksilver.cli.pl_sim import sim
from quicksilver.cli.pl_verify import verify
from quicksilver.cli.problems import MisuseError

if TYPE_CHECKING:
    from quicksilver.properties.diagnostics import Diagnostic
    from quicksilver.properties.syntax.source import Source

app = typer.Typer(
    help="The Properties Language: check, lay out and explain programs (*.pl).",
    no_args_is_help=True,
)
app.command()(run)
app.command()(verify)
app.command()(sim)


@app.command()
def check(
    programs: Annotated[
        list[str],
        typer.Argument(metavar="PROGRAM...", help="Files (*.pl), or names of the library."),
    ],
    as_json: options.Json = False,
) -> int:
    """Check programs without running anything; the exit code is 1 if there is any error."""
    is_sound = True
    for named in programs:
        name, text = read_program(named)
        from quicksilver.properties.check.program import check as check_text

        checked = check_text(text, name)
        is_sound = is_sound and checked.is_sound
        source = checked.parsed.source
        if as_json:
            found = [describe_diagnostic(one, source) for one in checked.diagnostics]
            emit("checked", {"program": name, "sound": checked.is_sound, "findings": found})
            continue
        for one in checked.diagnostics:
            say(one.render(source))
        if checked.is_sound:
            say(f"{name}: sound")
        else:
            errors = sum(one.severity == "error" for one in checked.diagnostics)
            say(f"{name}: {plural(errors, 'error')}")
    return 0 if is_sound else 1


@app.command("fmt")
def format_files(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="Files to lay out; - reads standard input."),
    ],
    only_check: Annotated[
        bool,
        typer.Option("--check", help="Write nothing; the exit code is 1 if a file would change."),
    ] = False,
    ascii_only: Annotated[
        bool, typer.Option("--ascii", help="Write operators in ASCII, such as union for ∪.")
    ] = False,
    as_json: options.Json = False,
) -> int:
    """Lay out programs in the one way that all are written in; comments stay."""
    outcome = 0
    for named in files:
        is_stdin = named == "-"
        if is_stdin:
            name, text = "standard input", sys.stdin.read()
        elif Path(named).is_file() or named.endswith(".pl"):
            name, text = read_program(named)
        else:
            raise MisuseError(f"{named} is not a file; programs of the library are laid out")
        from quicksilver.properties.diagnostics import has_errors
        from quicksilver.properties.syntax.format import format_program
        from quicksilver.properties.syntax.parse import parse

        parsed = parse(text, name)
        if parsed.program is None or has_errors(parsed.diagnostics):
            outcome = 1
            found = [describe_diagnostic(one, parsed.source) for one in parsed.diagnostics]
            if as_json:
                emit("refused", {"program": name, "findings": found})
            else:
                for one in parsed.diagnostics:
                    sys.stderr.write(one.render(parsed.source) + "\n")
            continue
        formatted = format_program(parsed, ascii_only=ascii_only)
        is_changed = formatted != text
        if only_check:
            outcome = max(outcome, int(is_changed))
        elif is_stdin:
            sys.stdout.write(formatted)
        elif is_changed:
            Path(named).write_text(formatted, encoding="utf-8")
        if as_json and not (is_stdin and not only_check):
            emit("formatted", {"program": name, "changed": is_changed, "written": not only_check})
        elif is_changed and not is_stdin:
            say(f"{name}: would change" if only_check else f"{name}: changed")
    return outcome


@app.command()
def explain(
    program: Program,
    svg: Annotated[
        Path | None,
        typer.Option(
            "--svg",
            metavar="OUT",
            help="Draw the data flow into this file; - writes to standard output.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> int:
    """Say what each rule of a program does, and draw who computes what from what."""
    name, text = read_program(program)
    from quicksilver.properties.compile.digest import digest
    from quicksilver.properties.compile.program import compile_text
    from quicksilver.properties.explain.drawing import draw
    from quicksilver.properties.explain.flow import describe, find_flow

    compiled = compile_text(text, name=name)
    if svg is not None:
        drawing = draw(compiled)
        if str(svg) == "-":
            sys.stdout.write(drawing)
            return 0
        svg.write_text(drawing, encoding="utf-8")
        if not as_json:
            say(f"{svg}: {plural(len(drawing.encode()), 'byte')}")
            return 0
    sentences = describe(compiled)
    if as_json:
        flow = find_flow(compiled)
        arrows = [
            {
                "from": {"level": arrow.origin.level.name.lower(), "name": arrow.origin.name},
                "to": {"level": arrow.target.level.name.lower(), "name": arrow.target.name},
                "label": arrow.label,
                "how": arrow.how,
            }
            for arrow in flow.arrows
        ]
        rows = [{"label": label, "text": said} for label, said in sentences]
        fields = {"program": compiled.name, "digest": digest(compiled)}
        emit("explained", {**fields, "sentences": rows, "arrows": arrows})
        return 0
    say(f"{compiled.name}, digest {digest(compiled)}")
    width = max((len(label) for label, _ in sentences), default=0)
    for label, said in sentences:
        say(f"  {label:{width}}  {said}")
    return 0


@app.command("list")
def list_programs(as_json: options.Json = False) -> int:
    """List the programs of the library."""
    from quicksilver.cli.problems import needing

    with needing("the Properties Language", "properties"):
        from quicksilver.properties import library
        from quicksilver.properties.syntax.parse import parse
    names = library.names()
    for name in names:
        parsed = parse(library.text_of(name), name)
        doc = parsed.program.doc if parsed.program is not None else ""
        summary = doc.partition("\n\n")[0].replace("\n", " ")
        if as_json:
            emit("program", {"name": name, "summary": summary})
        else:
            say(f"{name:{max(map(len, names))}}  {summary}")
    return 0


@app.command("serve")
def serve_editor(as_json: options.Json = False) -> int:
    """Run the language server on standard input and output, for editors to start."""
    from quicksilver import __version__
    from quicksilver.cli.problems import needing

    with needing("the language server", "editor"):
        from quicksilver.properties.editor.server import make_server
    del as_json  # standard output belongs to the editor
    make_server(__version__).start_io()
    return 0


@app.command("grammar")
def print_grammar(as_json: options.Json = False) -> int:
    """Print the TextMate grammar by which editors colour programs."""
    from quicksilver.properties.editor.textmate import make_grammar, render_grammar

    if as_json:
        emit("grammar", {"grammar": make_grammar()})
    else:
        sys.stdout.write(render_grammar())
    return 0


def describe_diagnostic(found: Diagnostic, source: Source) -> dict[str, Any]:
    """Return a finding as JSON can carry it; lines and columns count from 1."""
    start, end = source.locate(found.span.start), source.locate(found.span.end)
    return {
        "line": start.line,
        "column": start.column,
        "end_line": end.line,
        "end_column": end.column,
        "severity": found.severity,
        "code": found.code,
        "text": found.text,
        "why": found.why,
        "suggestion": found.suggestion,
    }
