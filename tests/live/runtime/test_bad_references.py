"""References that cannot be followed: one clear error that names the place, nothing left behind."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from quicksilver.live.references.builder import (
    composite,
    external,
    given,
    library,
    parameter,
    primitive,
    registry,
    template,
    use,
)
from quicksilver.live.references.check import UnsoundReferenceError
from quicksilver.live.references.errors import MalformedReferenceError
from quicksilver.live.references.library import LibraryPolicy
from quicksilver.live.references.model import Reference
from quicksilver.live.references.xml import Parsed, parse, write
from quicksilver.live.runtime.components import component
from quicksilver.live.runtime.context import Context
from quicksilver.live.runtime.errors import OpenError
from quicksilver.live.runtime.folders import FolderAnswers, FolderRequests
from quicksilver.live.types.declare import endpoint, live_object
from tests.live.runtime.worlds import World, log, world

__all__ = ["log", "world"]


@component("test.liar")
@live_object
class Liar:
    """a folder that answers with whatever its name says"""

    context: Context
    folder = endpoint(FolderRequests, FolderAnswers)

    def folder_get(self, name: str) -> None:
        answers: dict[str, Any] = {
            "wrong type": primitive("test.queued"),
            "no reference": "just text",
            "unsound": primitive("acme.nothing"),
            "template": template([parameter("P", "reference")], use("P")),
        }
        if name == "raise":
            raise ValueError("no such luck")
        if name == "part":
            self.context.fail(ValueError("gone"))
        elif name in answers:
            self.folder.item(name, answers[name])
        elif name != "silence":
            self.folder.missing(name)


@pytest.fixture(autouse=True)
def _liar(world: World) -> None:
    world.runtime.add_components((Liar,))
    world.runtime.folder_timeout_s = 0.05


def fail(world: World, reference: Reference | Parsed) -> str:
    """Return the one line that opening a reference fails with."""
    with pytest.raises((OpenError, UnsoundReferenceError)) as caught:
        world.call(lambda: world.runtime.open(reference, "it"))
    assert world.names == []
    line = str(caught.value)
    assert "\n" not in line
    assert len(line) < 1000
    return line


def beside(reference: Reference) -> Reference:
    """Put a reference into a composite, after a part that starts well."""
    return composite().component("a", primitive("test.echo")).component("b", reference).build()


PLACE = "composite/component[b]/"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("wrong type", "'wrong type' is of another type: endpoint inside: is missing"),
        ("no reference", "the folder answered with a str, not a reference"),
        ("unsound", "is unsound: primitive: error: nothing built in"),
        ("template", "'template' is a template"),
        ("raise", "ended without an answer about 'raise': "),
        ("part", "ended without an answer about 'part': "),
        ("silence", "did not answer about 'silence' in 0.05 s"),
        ("nothing", "the folder has nothing called 'nothing'"),
    ],
)
def test_folders_that_answer_badly(world: World, name: str, problem: str) -> None:
    world.runtime.add_components(())
    wanted = world.runtime.catalogue.find("test.holder")
    assert wanted is not None
    line = fail(world, beside(external(name, wanted.type, primitive("test.liar"))))
    assert line.startswith(f"{PLACE}external: ")
    assert problem in line


def test_a_constructor_that_raises(world: World, log: list[str]) -> None:
    line = fail(world, beside(primitive("test.broken")))
    assert line == f"{PLACE}primitive: Broken did not start: ValueError: not today"
    assert log == ["echo closed"]


def test_a_constructor_deep_inside_is_named_once(world: World) -> None:
    """What a component opens in turn has a place, too."""
    inner = given(template([], primitive("test.broken")), {})
    wanted = world.runtime.catalogue.find_type("Echo")
    assert wanted is not None
    held = primitive("test.holder", Inner=external("broken", wanted, registry()))  # type: ignore[arg-type]
    world.runtime.registry["broken"] = inner
    line = fail(world, beside(held))
    assert line.count("did not start") == 1
    assert line.startswith(f"{PLACE}parameterized → external[broken]/")
    line = fail(world, parse(write(beside(held)), source="some.liveobject"))
    assert line.startswith(f"some.liveobject:8:7: {PLACE}parameterized → external[broken]/")


def test_a_file_is_named_with_line_and_column(world: World) -> None:
    text = write(beside(primitive("test.broken")))
    line = fail(world, parse(text, source="some.liveobject"))
    assert line.startswith(f"some.liveobject:8:7: {PLACE}primitive: Broken")


def test_circles_of_external_references(world: World) -> None:
    wanted = world.runtime.catalogue.find_type("Echo")
    assert wanted is not None
    world.runtime.registry["a"] = external("b", "Echo", registry())
    world.runtime.registry["b"] = external("a", "Echo", registry())
    line = fail(world, external("a", "Echo", registry()))
    assert "external references go in a circle: a → b → a" in line


def test_a_circle_through_what_components_open(world: World) -> None:
    """An argument that leads back to whoever was given it."""
    echo = world.runtime.catalogue.find_type("Echo")
    assert echo is not None
    world.runtime.registry["a"] = primitive("test.holder", Inner=external("a", "Echo", registry()))
    line = fail(world, external("a", "Echo", registry()))
    assert "go in a circle: a → a" in line


def test_a_folder_within_itself(world: World) -> None:
    """The folder that a folder is kept in is the one that is asked for."""
    source = external("f", "Folder[Identifier, Echo]", registry())
    world.runtime.registry["f"] = external("f", "Folder[Identifier, Echo]", source)
    line = fail(world, external("x", "Echo", source))
    assert "circle" in line


def test_an_unknown_formalism(world: World) -> None:
    text = """<liveobject xmlns="urn:quicksilver:liveobject:1"><external name="x"><as><object>
      <endpoint name="e"><input name="i" type="int"/>
      <provides formalism="astrology">mars</provides></endpoint></object></as>
      <from><registry/></from></external></liveobject>"""
    line = fail(world, parse(text, source="f"))
    assert "astrology" in line
    assert line.startswith("f:1:")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<liveobject",
        "<!DOCTYPE x [<!ENTITY a 'b'>]><liveobject/>",
        '<!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]><liveobject>&b;</liveobject>',
        "<liveobject>" * 10_000,
        "<liveobject xmlns='urn:quicksilver:liveobject:1'>" + "<composite/>" * 3 + "</liveobject>",
        "x" * (9 << 20),
    ],
    ids=["empty", "cut", "entity", "bomb", "deep", "many", "huge"],
)
def test_files_that_are_no_references(world: World, text: str, tmp_path: Path) -> None:
    from quicksilver.live.references.xml import load

    path = tmp_path / "bad.liveobject"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(MalformedReferenceError) as caught:
        load(path)
    assert str(caught.value).startswith(str(path))
    assert len(str(caught.value)) < 1000


def test_a_reference_of_ten_thousand_parts_that_fails_at_the_end(world: World) -> None:
    builder = composite()
    for number in range(300):
        builder.component(f"a{number:03}", primitive("test.echo"))
    line = fail(world, builder.component("z", primitive("test.broken")).build())
    assert "component[z]" in line


# --- templates ------------------------------------------------------------------------


def test_a_template_that_wants_other_parameters_than_were_declared(world: World) -> None:
    world.runtime.registry["t"] = template(
        [parameter("Other", "value", "int")], primitive("test.echo")
    )
    declared = external("t", "Echo", registry(), parameters=[parameter("P", "value", "int")])
    line = fail(world, given(declared, {"P": 3}))
    assert "'t' is unsound: " in line
    assert "'P'" in line


def test_a_template_that_makes_another_type_than_was_declared(world: World) -> None:
    world.runtime.registry["t"] = template([parameter("P", "value", "int")], primitive("test.liar"))
    declared = external("t", "Echo", registry(), parameters=[parameter("P", "value", "int")])
    line = fail(world, given(declared, {"P": 3}))
    assert line.startswith("parameterized/using: ")
    assert "is not of the type it is cast to" in line


def test_a_template_without_its_arguments(world: World) -> None:
    line = fail(world, template([parameter("P", "value", "int")], primitive("test.echo")))
    assert "a template is no object until it is given P" in line


# --- libraries ------------------------------------------------------------------------

CODE = b"""
from quicksilver.live.types.declare import endpoint, live_object
from tests.live.runtime.worlds import Numbers

@live_object
class Echo:
    numbers = endpoint(Numbers, Numbers)
    def numbers_value(self, number):
        self.numbers.value(number)

NotAClass = 3
class NotAnObject: pass
"""


def make_library(tmp_path: Path, code: bytes = CODE) -> tuple[str, str]:
    path = tmp_path / "library.py"
    path.write_bytes(code)
    return path.as_uri(), hashlib.sha256(code).hexdigest()


def allow(world: World, url: str) -> None:
    world.runtime.policy = LibraryPolicy(sources=(url,))


def test_a_library_runs_if_it_is_allowed_and_its_hash_is_right(
    world: World, tmp_path: Path
) -> None:
    url, mark = make_library(tmp_path)
    allow(world, url)
    for _ in range(2):
        proxy = world.open(external("Echo", "Echo", library(url, mark)))
        assert [cell.name for cell in proxy.cells] == ["it"]
        world.call(proxy.close)


def test_a_library_is_refused(world: World, tmp_path: Path) -> None:
    url, mark = make_library(tmp_path)
    echo = beside(external("Echo", "Echo", library(url, mark)))
    assert "is not on this node's list of allowed ones" in fail(world, echo)
    allow(world, url)
    other = beside(external("Echo", "Echo", library(url, "ab" * 32)))
    line = fail(world, other)
    assert line.startswith(f"{PLACE}external/from/library: Library did not start: LibraryHashError")
    assert mark in line


@pytest.mark.parametrize("name", ["NotAClass", "NotAnObject", "Missing", "__builtins__"])
def test_what_a_library_does_not_have(world: World, tmp_path: Path, name: str) -> None:
    url, mark = make_library(tmp_path)
    allow(world, url)
    line = fail(world, beside(external(name, "Echo", library(url, mark))))
    assert name in line
    assert line.startswith(f"{PLACE}external: ")


def test_a_library_that_raises(world: World, tmp_path: Path) -> None:
    url, mark = make_library(tmp_path, b"1 / 0")
    allow(world, url)
    line = fail(world, beside(external("Echo", "Echo", library(url, mark))))
    assert "does not work: ZeroDivisionError" in line


class _Server(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/library.py" else 404)
        self.end_headers()
        self.wfile.write(CODE)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def server() -> Iterator[str]:
    made = HTTPServer(("127.0.0.1", 0), _Server)
    thread = Thread(target=made.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{made.server_port}/"
    made.shutdown()
    thread.join()
    made.server_close()


def test_a_library_from_a_network_does_not_hold_up_the_executor(world: World, server: str) -> None:
    allow(world, server)
    mark = hashlib.sha256(CODE).hexdigest()
    proxy = world.open(external("Echo", "Echo", library(f"{server}library.py", mark)))
    assert len(proxy.cells) == 1
    world.call(proxy.close)
    line = fail(world, external("Echo", "Echo", library(f"{server}missing.py", mark)))
    assert "cannot be read: HTTP Error 404" in line
