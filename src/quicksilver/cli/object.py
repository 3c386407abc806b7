"""``quicksilver object``: references to live objects, checked, shown and compared."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quicksilver.cli import options
from quicksilver.cli.object_run import run
from quicksilver.cli.output import emit, plural, say
from quicksilver.cli.problems import CommandError, MisuseError

if TYPE_CHECKING:
    from quicksilver.live.references.check import Checked, Finding
    from quicksilver.live.references.xml import Parsed, RegistryEntries

app = typer.Typer(
    help="Live objects: check, show, compare and run references (.liveobject files).",
    no_args_is_help=True,
)
app.command("run")(run)

File = Annotated[Path, typer.Argument(metavar="FILE", help="A .liveobject file.")]
Registry = Annotated[
    Path | None,
    typer.Option(
        "--registry",
        metavar="DIR",
        help="Follow external references into this registry: a directory of .liveobject files.",
    ),
]


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="The .liveobject files.")],
    registry: Registry = None,
    as_json: options.Json = False,
) -> int:
    """Check references without running anything; the exit code is 1 if there is any error."""
    from quicksilver.live.references.check import Checked, Finding
    from quicksilver.live.references.check import check as check_reference
    from quicksilver.live.references.errors import MalformedReferenceError
    from quicksilver.live.references.xml import fingerprint

    entries = _load_registry(registry)
    is_sound = True
    for file in files:
        mark = ""
        try:
            parsed = _load(file)
            known = None if entries is None else entries.references
            located = parsed if entries is None else entries.around(parsed)
            checked = check_reference(located, registry=known)
            mark = fingerprint(parsed.reference) if checked.is_sound else ""
        except MalformedReferenceError as error:
            finding = Finding(error.place, "error", "malformed", error.problem)
            checked = Checked(None, (finding,))
        is_sound = is_sound and checked.is_sound
        if as_json:
            emit("checked", _describe_check(file, checked, mark))
        else:
            _say_check(file, checked)
    return 0 if is_sound else 1


@app.command()
def show(
    file: File,
    svg: Annotated[
        Path | None,
        typer.Option(
            "--svg",
            metavar="OUT",
            help="Write a drawing to this file; - writes to standard output.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> int:
    """Show what a reference says, as text, as JSON or as a drawing."""
    import msgspec

    from quicksilver.live.references.display.drawing import draw
    from quicksilver.live.references.display.notation import render_reference
    from quicksilver.live.references.standard import standard_catalogue
    from quicksilver.live.references.xml import fingerprint

    parsed = _load(file)
    if svg is not None:
        drawing = draw(parsed.reference, standard_catalogue())
        if str(svg) == "-":
            sys.stdout.write(drawing)
            return 0
        svg.write_text(drawing, encoding="utf-8")
        if not as_json:
            say(f"{svg}: {plural(len(drawing.encode()), 'byte')}")
            return 0
    if as_json:
        emit(
            "reference",
            {
                "file": str(file),
                "fingerprint": fingerprint(parsed.reference),
                "reference": msgspec.to_builtins(parsed.reference),
            },
        )
        return 0
    for line in (parsed.reference.title, parsed.reference.doc):
        if line:
            say(line)
    say(render_reference(parsed.reference))
    say(f"fingerprint {fingerprint(parsed.reference)}")
    return 0


@app.command("types")
def list_types(as_json: options.Json = False) -> int:
    """List the types that references can name."""
    from quicksilver.live.references.standard import standard_catalogue
    from quicksilver.live.types.model import ObjectType
    from quicksilver.live.types.notation import render_type

    rows: list[dict[str, Any]] = []
    for name, type_ in standard_catalogue().named_types():
        is_object = isinstance(type_, ObjectType)
        rows.append(
            {
                "name": name,
                "kind": "object" if is_object else "value",
                "parameters": [one.name for one in type_.parameters]
                if isinstance(type_, ObjectType)
                else [],
                "type": render_type(type_, chars_max=2000),
            }
        )
    if as_json:
        for row in rows:
            emit("type", row)
        return 0
    _say_table(
        ("name", "type"),
        [
            (
                row["name"] + (f"[{', '.join(row['parameters'])}]" * bool(row["parameters"])),
                row["type"],
            )
            for row in rows
        ],
    )
    return 0


@app.command()
def components(as_json: options.Json = False) -> int:
    """List the components that are built in, with their parameters and types."""
    from quicksilver.live.references.display.notation import show_type
    from quicksilver.live.references.standard import standard_catalogue
    from quicksilver.live.types.notation import render_type

    rows: list[dict[str, Any]] = [
        {
            "identifier": known.identifier,
            "title": known.title,
            "summary": known.summary,
            "parameters": [
                {"name": one.name, "kind": one.kind, "bound": show_type(one.bound)}
                for one in known.parameters
            ],
            "type": render_type(known.type, chars_max=2000),
        }
        for known in standard_catalogue().primitives()
    ]
    if as_json:
        for row in rows:
            emit("component", row)
        return 0
    _say_table(
        ("identifier", "what", "parameters", "type"),
        [
            (
                row["identifier"],
                f"{row['title']}: {row['summary']}",
                ", ".join(f"{one['name']}: {one['bound']}" for one in row["parameters"]),
                row["type"],
            )
            for row in rows
        ],
    )
    return 0


@app.command()
def new(
    template: Annotated[
        str,
        typer.Argument(
            metavar="TEMPLATE",
            help="What to start from: composite, external, library, shared-text or template.",
        ),
    ],
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="Where to write it; default: TEMPLATE.liveobject."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
    as_json: options.Json = False,
) -> int:
    """Write a .liveobject file to start from."""
    from quicksilver.live.references.builder import STARTERS
    from quicksilver.live.references.xml import SUFFIX, fingerprint, write

    if template not in STARTERS:
        raise MisuseError(f"no template is called {template!r}; there are {', '.join(STARTERS)}")
    target = file if file is not None else Path(f"{template}{SUFFIX}")
    reference = STARTERS[template]()
    try:
        with target.open("w" if force else "x", encoding="utf-8") as opened:
            opened.write(write(reference))
    except FileExistsError:
        raise CommandError(f"{target} exists; --force replaces it") from None
    if as_json:
        emit("written", {"file": str(target), "fingerprint": fingerprint(reference)})
    else:
        say(f"{target}: written; next: quicksilver object check {target}")
    return 0


@app.command()
def schema(as_json: options.Json = False) -> int:
    """Print the XML Schema of .liveobject files, for editors."""
    from quicksilver.live.references.xml.schema import render_schema

    if as_json:
        emit("schema", {"schema": render_schema()})
    else:
        sys.stdout.write(render_schema())
    return 0


@app.command("diff")
def compare(
    one: Annotated[Path, typer.Argument(metavar="A", help="A .liveobject file.")],
    other: Annotated[
        Path, typer.Argument(metavar="B", help="The .liveobject file to compare it with.")
    ],
    as_json: options.Json = False,
) -> int:
    """Show the differences between two references; the exit code is 1 if there are any."""
    import msgspec

    from quicksilver.live.references.display.differences import diff

    differences = diff(_load(one).reference, _load(other).reference)
    for difference in differences:
        if as_json:
            emit("difference", msgspec.to_builtins(difference))
        else:
            say(str(difference))
    if not differences and not as_json:
        say("no difference")
    return 1 if differences else 0


def _load(file: Path) -> Parsed:
    from quicksilver.live.references.xml import load

    return load(file)


def _load_registry(directory: Path | None) -> RegistryEntries | None:
    from quicksilver.live.references.xml import load_registry

    return None if directory is None else load_registry(directory)


def _say_check(file: Path, checked: Checked) -> None:
    from quicksilver.live.types.notation import render_type

    for finding in checked.findings:
        place = finding.place
        at = f"{place.source or file}:{place.line}:{place.column}"
        say(f"{at}: {finding.severity}: {finding.text} (at {place.path})")
    if not checked.is_sound:
        return
    if checked.parameters and checked.type is None:
        names = ", ".join(parameter.name for parameter in checked.parameters)
        say(f"{file}: sound, a template of {names}")
    elif checked.type is not None:
        say(f"{file}: sound, of type {render_type(checked.type, chars_max=200)}")


def _describe_check(file: Path, checked: Checked, mark: str) -> dict[str, Any]:
    from quicksilver.live.types.notation import render_type

    type_ = checked.type
    return {
        "file": str(file),
        "sound": checked.is_sound,
        "fingerprint": mark,
        "type": None if type_ is None else render_type(type_, chars_max=2000),
        "endpoints": [] if type_ is None else [one.name for one in type_.endpoints],
        "parameters": [one.name for one in checked.parameters],
        "findings": [_describe_finding(file, finding) for finding in checked.findings],
    }


def _describe_finding(file: Path, finding: Finding) -> dict[str, Any]:
    place = finding.place
    return {
        "file": place.source or str(file),
        "line": place.line,
        "column": place.column,
        "path": place.path,
        "severity": finding.severity,
        "code": finding.code,
        "text": finding.text,
    }


def _say_table(titles: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    from quicksilver.cli.screen import SafeTable, make_console

    table = SafeTable(*titles, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    make_console().print(table)
