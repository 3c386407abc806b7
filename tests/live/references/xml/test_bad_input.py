"""Bad files: always the one typed error, with the place, and never a long wait."""

from __future__ import annotations

import inspect
import sys
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from quicksilver.live.references.errors import MalformedReferenceError, UnfitReferenceError
from quicksilver.live.references.model import Component, Composite, Primitive, Reference
from quicksilver.live.references.xml import canonical, load, parse, write
from quicksilver.live.references.xml.elements import DEFAULT_LIMITS, Limits

EXAMPLES = sorted((Path(__file__).parents[4] / "examples" / "live").rglob("*.liveobject"))
SAMPLE = next(path for path in EXAMPLES if "2-2" in path.stem).read_bytes()
HEAD = '<liveobject xmlns="urn:quicksilver:liveobject:1">'

lenient = settings(max_examples=300)


def wrap(text: str) -> str:
    return f"{HEAD}{text}</liveobject>"


def refuse(data: bytes | str) -> MalformedReferenceError:
    with pytest.raises(MalformedReferenceError) as caught:
        parse(data, source="bad.liveobject")
    error = caught.value
    assert str(error).startswith(f"bad.liveobject:{error.place.line}:{error.place.column}: ")
    assert "\n" not in str(error)
    return error


def read_or_refuse(data: bytes | str) -> None:
    """Anything but the one kind of error, with a place, fails the test."""
    line, said = 1, ""
    try:
        parse(data)
    except MalformedReferenceError as error:
        line, said = error.place.line, str(error)
    assert line >= 1
    assert len(said.splitlines()) <= 1
    assert len(said) < 1000


class TestFuzz:
    @lenient
    @given(st.binary(max_size=300))
    @example(b"")
    @example(b"\xff\xfe<\x00a\x00/\x00>\x00")
    @example(b"\x00")
    def test_bytes_are_read_or_refused(self, data: bytes) -> None:
        """Whatever comes, there is one kind of error."""
        read_or_refuse(data)

    @lenient
    @given(st.integers(0, len(SAMPLE)), st.integers(0, 12), st.binary(max_size=12))
    def test_damaged_files_are_read_or_refused(self, at: int, cut: int, new: bytes) -> None:
        """A real file with some bytes replaced."""
        read_or_refuse(SAMPLE[:at] + new + SAMPLE[at + cut :])

    @lenient
    @given(
        st.lists(
            st.sampled_from(
                [
                    "<composite>",
                    "</composite>",
                    "<component name='a'>",
                    "</component>",
                    "<registry/>",
                    "<external name='x' as='T[', ",
                    "<external name='x' as='T'>",
                    "</external>",
                    "<from>",
                    "</from>",
                    "<use parameter='p'/>",
                    "<as>",
                    "</as>",
                    "<object>",
                    "</object>",
                    "<endpoint name='e'>",
                    "</endpoint>",
                    "text",
                    "<input name='i' type='list[list[int]]'/>",
                    "<union>",
                    "</union>",
                    "<recur index='3'/>",
                    "<recursive>",
                    "</recursive>",
                    "<argument name='a'>",
                    "</argument>",
                    "<integer>9</integer>",
                    "<connection between='a' and='b.c'/>",
                    "<export endpoint='a.b'/>",
                    "&amp;",
                    "<!-- -->",
                    "<![CDATA[x]]>",
                    "<parameter name='p' kind='type'/>",
                    "<template>",
                    "</template>",
                    "<body>",
                    "</body>",
                    "<binary>?</binary>",
                    "<real>1e999</real>",
                ]
            ),
            max_size=14,
        )
    )
    def test_wrong_structure_is_read_or_refused(self, parts: list[str]) -> None:
        """Our own elements where they do not belong."""
        read_or_refuse(wrap("".join(parts)))

    def test_every_truncation_of_every_example_is_refused(self) -> None:
        """A file that a crash cut short."""
        for path in EXAMPLES:
            data = path.read_bytes().rstrip()
            for end in range(0, len(data), 37):
                refuse(data[:end])


class TestBombs:
    def test_entities_are_refused_before_they_grow(self) -> None:
        """The billion laughs: the document type is already too much."""
        lines = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
        bomb = f'<!DOCTYPE liveobject [<!ENTITY e0 "ha">{lines}]>{HEAD}&e11;</liveobject>'
        began = time.perf_counter()
        assert "no document type and no entities" in refuse(bomb).problem
        assert time.perf_counter() - began < 0.5

    @pytest.mark.parametrize(
        "text",
        [
            f'<!DOCTYPE liveobject SYSTEM "file:///etc/passwd">{HEAD}<registry/></liveobject>',
            f'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>{HEAD}&a;</liveobject>',
            f'<!DOCTYPE x [<!ENTITY % a "b">%a;]>{HEAD}<registry/></liveobject>',
            wrap("<doc>&undefined;</doc>"),
        ],
    )
    def test_nothing_outside_is_read(self, text: str) -> None:
        """External and undefined entities alike."""
        refuse(text)

    def test_processing_instructions_are_refused(self) -> None:
        """No reader may be told what to do."""
        assert "processing instructions" in refuse(wrap("<?php x?><registry/>")).problem

    @pytest.mark.parametrize("depth", [101, 1000, 30_000])
    def test_deep_nesting_is_refused(self, depth: int) -> None:
        """Long before the interpreter's own limit."""
        inner = '<external name="x" as="T"><from>' * depth
        assert "more than 100 deep" in refuse(HEAD + inner).problem

    def test_a_deep_caller_gets_the_same_error(self) -> None:
        """A file within the limits, read where the interpreter has little stack left."""
        inner = '<external name="x" as="T"><from>' * 48 + "<registry/>"
        deep = wrap(inner + "</from></external>" * 48)
        assert parse(deep)
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(len(inspect.stack()) + 150)
        try:
            problem = refuse(deep).problem
        finally:
            sys.setrecursionlimit(before)
        assert "nested too deep" in problem

    def test_many_elements_are_refused(self) -> None:
        """Counted while they are read."""
        many = "<registry/>" * 30_000
        assert "more than 20000 elements" in refuse(wrap(many)).problem

    def test_many_attributes_are_refused(self) -> None:
        """An element of ours has at most a handful."""
        many = " ".join(f'a{n}="1"' for n in range(5000))
        assert "attributes" in refuse(wrap(f"<registry {many}/>")).problem

    def test_huge_attributes_are_refused(self) -> None:
        """A name of a hundred thousand characters is no name."""
        problem = refuse(wrap(f'<use parameter="{"a" * 100_000}"/>')).problem
        assert "more than 8192 characters" in problem

    def test_huge_files_are_refused_unread(self, tmp_path: Path) -> None:
        """No more than the limit comes into memory."""
        path = tmp_path / "huge.liveobject"
        with path.open("wb") as file:
            file.truncate(1 << 33)
        with pytest.raises(MalformedReferenceError, match="more than 1048576 bytes"):
            load(path)

    def test_limits_can_be_narrower(self) -> None:
        """A node may take less from strangers."""
        with pytest.raises(MalformedReferenceError, match="more than 50 bytes"):
            parse(SAMPLE, limits=Limits(bytes_max=50))

    def test_types_are_bounded_too(self) -> None:
        """A name of a type is parsed by hand: depth and length have limits."""
        deep = "list[" * 500 + "int" + "]" * 500
        assert (
            "nested more than 20 deep" in refuse(wrap(f'<primitive id="0x1" as="{deep}"/>')).problem
        )
        long = "union[" + ", ".join(["int"] * 1500) + "]"
        assert "longer than 4096" in refuse(wrap(f'<primitive id="0x1" as="{long}"/>')).problem

    def test_namesakes_take_no_longer(self) -> None:
        """Thousands of parts of one name are told apart without comparing each with each."""
        many = "<component name='a'><registry/></component>" * 9000
        connected = "<connection between='a.b' and='a.c'/>" * 1000
        began = time.perf_counter()
        parsed = parse(wrap(f"<composite>{many}{connected}</composite>"))
        assert time.perf_counter() - began < 3
        assert "composite/component[a]#9000/registry" in parsed.places

    @pytest.mark.parametrize(
        "text",
        [
            f"<{'a' * 100_000}/>",
            f"<registry {'a' * 100_000}='1'/>",
            f"<primitive id='{'a' * 8000}'/>",
            f"<composite><component name='{'a' * 8000}'><registry/></component></composite>",
            "<composite><component name='a&#10;b'><registry/></component></composite>",
            f"<external name='{'a' * 8000}'><from><registry/></from></external>",
            f"<registry as='{'a ' * 2000}'/>",
        ],
    )
    def test_errors_stay_one_short_line(self, text: str) -> None:
        """Whatever the file says is not repeated at length."""
        assert len(str(refuse(wrap(text)))) < 500

    def test_big_numbers_are_refused(self) -> None:
        """Decimal digits take quadratic time to read."""
        text = f'<primitive id="a.b"><argument name="x"><integer>{"9" * 200_000}</integer>'
        assert "no whole number" in refuse(wrap(text + "</argument></primitive>")).problem


class TestEncodings:
    @pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "latin-1", "cp1252"])
    def test_other_encodings_are_refused(self, encoding: str) -> None:
        """UTF-8 is the only one."""
        refuse(wrap("<doc>ä</doc>").encode(encoding))

    def test_a_lying_declaration_is_refused(self) -> None:
        """The bytes are UTF-8, the file says something else."""
        text = f'<?xml version="1.0" encoding="iso-8859-1"?>{wrap("<registry/>")}'
        assert "references are UTF-8" in refuse(text).problem

    def test_a_byte_order_mark_is_no_harm(self) -> None:
        """Editors on other systems write one."""
        assert parse(b"\xef\xbb\xbf" + wrap("<registry/>").encode())

    def test_bytes_that_are_no_utf8_name_their_place(self) -> None:
        """Line and column, as for everything else."""
        error = refuse(HEAD.encode() + b"\n  <registry title='\xff'/></liveobject>")
        assert (error.place.line, error.place.column) == (2, 20)


class TestPlaces:
    @pytest.mark.parametrize(
        ("text", "path", "problem"),
        [
            ("<frob/>", "liveobject", "<frob> does not belong into <liveobject>"),
            ("", "liveobject", "needs one reference, not 0"),
            ("<registry/><registry/>", "liveobject", "needs one reference, not 2"),
            ("<registry x='1'/>", "registry", "has no attribute 'x'"),
            ("<primitive/>", "primitive", "lacks the attribute 'id'"),
            ("<primitive id='7'/>", "primitive", "neither a 128-bit number"),
            ("<primitive id='0x1' as='A['/>", "primitive", "expected a name"),
            ("<primitive id='0x1' as='A'><as><object/></as></primitive>", "primitive", "twice"),
            ("<composite>hello</composite>", "composite", "holds the text 'hello'"),
            (
                "<composite><component name='up.link'><registry/></component></composite>",
                "composite/component[up.link]",
                "holds a dot",
            ),
            (
                "<composite><component name=''><registry/></component></composite>",
                "composite/component[]",
                "is empty",
            ),
            (
                "<composite><component name='a'/></composite>",
                "composite/component[a]",
                "needs one reference, not 0",
            ),
            (
                "<composite><connection between='a' and='b.c'/></composite>",
                "composite",
                "'a' is not component.endpoint",
            ),
            ("<external name='x' as='T'/>", "external", "needs one <from>, not 0"),
            ("<external name='' as='T'><from><registry/></from></external>", "external", "empty"),
            ("<parameterized/>", "parameterized", "needs one <using>, not 0"),
            (
                "<primitive id='0x1'><argument name='a'/></primitive>",
                "parameterized/argument[a]",
                "needs one type, value or reference",
            ),
            (
                "<primitive id='0x1'><argument name='a'><binary>*</binary></argument></primitive>",
                "parameterized/argument[a]",
                "no base64",
            ),
            (
                "<primitive id='0x1'><argument name='a'><real>inf</real></argument></primitive>",
                "parameterized/argument[a]",
                "no number",
            ),
            (
                (
                    "<primitive id='0x1'><argument name='a'><mapping>"
                    "<entry key='k'><nothing/></entry>"
                    "<entry key='k'><nothing/></entry></mapping></argument></primitive>"
                ),
                "parameterized/argument[a]",
                "'k' occurs twice",
            ),
            (
                "<template><parameter name='p' kind='magic'/><body><registry/></body></template>",
                "template/parameter[p]",
                "not 'magic'",
            ),
            (
                (
                    "<primitive id='0x1'><as><object><endpoint name='e'>"
                    "<input name='i'/></endpoint>"
                    "</object></as></primitive>"
                ),
                "primitive/as/object/endpoint[e]/input[i]",
                "needs one type",
            ),
            (
                (
                    "<primitive id='0x1'><as><object>"
                    "<endpoint name='e'/><endpoint name='e'/></object>"
                    "</as></primitive>"
                ),
                "primitive/as/object",
                "two endpoints are called 'e'",
            ),
            (
                (
                    "<primitive id='0x1'><as><object>"
                    "<endpoint name='e' parameter='E'><input name='i' type='int'/></endpoint>"
                    "</object></as></primitive>"
                ),
                "primitive/as/object/endpoint[e]",
                "is a parameter or has events",
            ),
            (
                "<primitive id='0x1'><as><object><doc/><doc/></object></as></primitive>",
                "primitive/as/object",
                "has a second <doc>",
            ),
            ("<registry><doc x='1'/></registry>", "registry", "<doc> has no attribute 'x'"),
            ("<registry id='0x7'/>", "registry", "<registry> has no attribute 'id'"),
            (
                "<primitive id='0x1'><as><objectref/></as></primitive>",
                "primitive/as/objectref",
                "needs one object type or one parameter",
            ),
            (
                "<primitive id='0x1'><as><recur index='0'/></as></primitive>",
                "primitive/as",
                "no binder",
            ),
        ],
    )
    def test_the_error_names_the_place(self, text: str, path: str, problem: str) -> None:
        """Line, column, the steps to the element, and what is wrong with it."""
        error = refuse(f"{HEAD}\n{text}</liveobject>")
        assert error.place.path == path
        assert problem in str(error)
        assert error.place.line == (1 if path == "liveobject" and "frob" not in text else 2)

    def test_every_part_of_an_example_has_a_place(self) -> None:
        """So that whatever is said about it later can say where."""
        places = parse(SAMPLE).places
        inner = "parameterized/argument[Channel]/composite"
        assert f"{inner}/component[DisseminationObject]/external/from/external" in places
        connection = (
            "connection[DisseminationObject.UnreliableChannel,ReliabilityObject.UnreliableChannel]"
        )
        place = places[f"{inner}/{connection}"]
        line = SAMPLE.decode().splitlines()[place.line - 1]
        assert line[place.column - 1 :].startswith("<connection ")

    def test_another_namespace_is_refused(self) -> None:
        """It may be a perfectly good file of another kind."""
        assert "namespace" in refuse("<liveobject><registry/></liveobject>").problem
        assert "svg" in refuse('<svg xmlns="http://www.w3.org/2000/svg"/>').problem


class TestWriting:
    def test_what_could_not_be_read_again_is_not_written(self) -> None:
        """Too deep, in Python, is an error when it is written, of any depth."""
        for depth in (60, 200, 5000):
            reference: Reference = Primitive(identifier="0x2")
            for _ in range(depth):
                reference = Composite(components=(Component("a", reference),))
            for put in (write, canonical):
                with pytest.raises(UnfitReferenceError, match="nested"):
                    put(reference)

    def test_too_many_parts_are_not_written(self) -> None:
        """As many as a reader takes, and no more."""
        leaf = Primitive(identifier="0x2")
        parts = tuple(Component(f"c{n}", leaf) for n in range(DEFAULT_LIMITS.elements_max))
        with pytest.raises(UnfitReferenceError, match="elements"):
            write(Composite(components=parts))
