"""The examples of docs/live-objects.md run, and print what the page says."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from quicksilver.live import platform_in_thread
from quicksilver.live.references.builder import STARTERS, composite, primitive
from quicksilver.live.references.catalogue import Catalogue, load_installed
from quicksilver.live.references.check import check
from quicksilver.live.references.standard import add_standard
from quicksilver.live.references.xml import fingerprint, load, parse, write
from tests.docs.pages import ROOT, blocks, put, script, shell, steps
from tests.node.service import running_gms

if TYPE_CHECKING:
    from quicksilver.live.references.model import Reference

PAGE = "docs/live-objects.md"
COMPOSE, PROGRAM, COMPONENT, ENCRYPT, BUILDER, ADD_TO = blocks(PAGE)
RUN, LOOK, CHECK, RUN_SECRET, START, FINDING = map(steps, blocks(PAGE, "console"))
CODE_2_2, TYPE, PARAMETER = blocks(PAGE, "xml")
(ENTRY_POINT,) = blocks(PAGE, "toml")
EXAMPLE = ROOT / "examples" / "live" / "code-2-2-shared-text.liveobject"


@pytest.fixture(scope="module")
def gms() -> Iterator[str]:
    with running_gms() as address:
        yield address


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the file that the tutorial begins with."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.liveobject").write_text(write(STARTERS["shared-text"]()), encoding="utf-8")
    return tmp_path


def run(block: str) -> dict[str, Any]:
    scope: dict[str, Any] = {"__name__": "example"}
    exec(block, scope)
    return scope


def is_printed(step: tuple[str, list[str]], folder: Path) -> bool:
    """Run a command to its end and compare; a line may be broken to fit the page."""
    command, promised = step
    with shell(command, folder) as program:
        return " ".join(program.rest()) == " ".join(promised)


@pytest.mark.integration
def test_the_first_step_runs_in_three_terminals(tmp_path: Path, gms: str) -> None:
    """What one of them types, the others see."""
    new, (command, (empty, typed, shown)) = RUN
    assert is_printed(new, tmp_path)
    with (
        shell(command, tmp_path, gms) as one,
        shell(command, tmp_path, gms) as two,
        shell(command, tmp_path, gms) as three,
    ):
        for terminal in (one, two, three):
            terminal.until(empty)
        two.say(typed)
        for terminal in (one, two, three):
            assert terminal.line() == shown


@pytest.mark.integration
@pytest.mark.parametrize("command", [command for command, _ in LOOK])
def test_one_can_look_at_what_there_is(command: str, here: Path) -> None:
    with shell(command, here) as program:
        assert program.rest()
        assert program.process.returncode == 0


@pytest.mark.integration
def test_what_fits_and_what_does_not_is_said(here: Path) -> None:
    run(COMPOSE)
    for step in CHECK:
        assert is_printed(step, here)


@pytest.mark.integration
def test_a_reference_is_started_checked_and_drawn(tmp_path: Path) -> None:
    new, checked, (show, _) = START
    assert is_printed(new, tmp_path)
    assert is_printed(checked, tmp_path)
    with shell(show, tmp_path) as program:
        program.rest()
    assert (tmp_path / "channel.svg").read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.integration
def test_a_finding_says_where_and_why(tmp_path: Path) -> None:
    """Code 2.2 with another constraint: a line and column of that file."""
    asked = '<requires formalism="delivery">'
    text = put(EXAMPLE.read_text(encoding="utf-8"), {f"{asked}best effort": f"{asked}total"})
    (tmp_path / "note.liveobject").write_text(text, encoding="utf-8")
    (step,) = FINDING
    assert is_printed(step, tmp_path)


@pytest.mark.integration
def test_a_program_edits_the_notes(here: Path, gms: str) -> None:
    with script(put(PROGRAM, {"127.0.0.1:7401": gms}), here) as program:
        assert "bread" in program.rest()
        assert program.process.returncode == 0


@pytest.mark.integration
def test_an_encrypted_text_runs_in_the_terminal(here: Path, gms: str) -> None:
    """Without the key it does not."""
    run(ENCRYPT)
    ((command, _),) = RUN_SECRET
    with shell(command, here, gms) as terminal:
        terminal.until("(empty)")
        terminal.say("append milk")
        assert terminal.line() == "1 | milk"
    with shell(command.replace("--keys keys", ""), here, gms) as terminal:
        assert "key" in terminal.rest()[-1]
        assert terminal.process.returncode == 1


def test_encryption_is_put_around_the_channel(here: Path) -> None:
    run(ENCRYPT)
    shown: list[str] = []
    with platform_in_thread(keys="keys") as platform, platform.open("secret.liveobject") as notes:
        notes.attach("Text", {"changed": shown.append}).say("edit", 0, 0, "secret")
        assert any("encryption" in cell.name for cell in platform.runtime.cells)
    assert shown[-1] == "secret"


def test_the_component_counts_the_words_of_the_shared_text() -> None:
    reference = (
        composite()
        .component("notes", STARTERS["shared-text"]())
        .component("counter", primitive("example.word-count"))
        .connect("notes.Text", "counter.text")
        .export("notes.Editor")
        .export("counter.counts")
        .build()
    )
    counted: list[int] = []
    with platform_in_thread() as platform:
        platform.add_components(run(COMPONENT)["WordCount"])
        with platform.open(reference) as both:
            both.attach("counts", {"words": counted.append})
            both.attach("Editor", None).say("edit", 0, 0, "one two three")
    assert counted[-1] == 3


def test_references_are_built_in_python(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(BUILDER)["checked"].is_sound
    assert len(capsys.readouterr().out.strip()) == 64


def test_the_file_of_code_2_2_is_the_examples() -> None:
    """But for what was left out, and for what people are told."""
    text = EXAMPLE.read_text(encoding="utf-8")
    begin = text.index('<component name="ReliabilityObject">')
    end = text.index("</component>", begin) + len("</component>")
    whole = put(
        CODE_2_2, {'<component name="ReliabilityObject"> ... </component>': text[begin:end]}
    )
    assert fingerprint(parse(whole).reference) == fingerprint(load(EXAMPLE).reference)


@pytest.mark.parametrize(
    ("fragment", "around"),
    [
        (TYPE, lambda it: f'<external name="x">{it}<from><registry/></from></external>'),
        (
            PARAMETER,
            lambda it: f'<template>{it}<body><primitive id="0x2"/></body></template>',
        ),
    ],
)
def test_parts_of_files_are_read(fragment: str, around: Callable[[str], str]) -> None:
    text = f'<liveobject xmlns="urn:quicksilver:liveobject:1">{around(fragment)}</liveobject>'
    assert check(parse(text)).is_sound


def test_a_package_adds_to_the_catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed as its pyproject.toml says."""
    (points,) = tomllib.loads(ENTRY_POINT)["project"]["entry-points"].items()
    group, names = points
    lines = [f"[{group}]", *(f"{name} = {target}" for name, target in names.items())]
    installed = tmp_path / "acme-1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1\n")
    (installed / "entry_points.txt").write_text("\n".join(lines))
    (tmp_path / "acme").mkdir()
    (tmp_path / "acme" / "live.py").write_text(ADD_TO, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    catalogue = Catalogue()
    add_standard(catalogue)
    reference: Reference = primitive("acme.channel", as_="acme.Channel")
    assert not check(reference, catalogue).is_sound
    load_installed(catalogue)
    assert check(reference, catalogue).is_sound
