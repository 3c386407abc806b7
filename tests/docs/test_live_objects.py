"""What docs/live-objects.md shows besides its programs: files, parts of files, an entry point."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from quicksilver.live import platform_in_thread
from quicksilver.live.references.builder import primitive
from quicksilver.live.references.catalogue import Catalogue, load_installed
from quicksilver.live.references.check import check
from quicksilver.live.references.standard import add_standard
from quicksilver.live.references.xml import fingerprint, load, parse
from tests.docs.parsing import ROOT, texts

if TYPE_CHECKING:
    from quicksilver.live.references.model import Reference

PAGE = "docs/live-objects.md"
CODE_2_2, TYPE, PARAMETER = texts(PAGE, "xml")
(ENTRY_POINT,) = texts(PAGE, "toml")
*_, ADD_TO = texts(PAGE, "python")
(ENCRYPT,) = (block for block in texts(PAGE, "python") if "create_key" in block)
EXAMPLE = ROOT / "examples" / "live" / "code-2-2-shared-text.liveobject"


def test_the_encryption_of_the_tutorial_is_between_text_and_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page's own block, and the components that its reference makes."""
    monkeypatch.chdir(tmp_path)
    exec(ENCRYPT, {"__name__": "example"})
    with platform_in_thread(keys="keys") as platform, platform.open("secret.liveobject"):
        assert any("encryption" in cell.name for cell in platform.runtime.cells)


def test_the_file_of_code_2_2_is_the_examples() -> None:
    """But for what was left out, and for what people are told."""
    text = EXAMPLE.read_text(encoding="utf-8")
    begin = text.index('<component name="ReliabilityObject">')
    end = text.index("</component>", begin) + len("</component>")
    left_out = '<component name="ReliabilityObject"> ... </component>'
    assert left_out in CODE_2_2
    whole = CODE_2_2.replace(left_out, text[begin:end])
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
