"""References as values: what can be made, what is equal, what is different."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings

from quicksilver.live.references.builder import (
    STARTERS,
    composite,
    external,
    library,
    parameter,
    primitive,
    registry,
    template,
    type_named,
    use,
)
from quicksilver.live.references.display.differences import diff
from quicksilver.live.references.display.notation import render_reference
from quicksilver.live.references.errors import BadTypeTextError, UnfitReferenceError
from quicksilver.live.references.model import (
    Component,
    Endpoint,
    Primitive,
    Reference,
    find_library,
    is_registry,
)
from quicksilver.live.references.names import is_sha256, normalise_identifier
from quicksilver.live.references.typenames import parse_type_name
from quicksilver.live.references.values import Real, Text, from_value, to_value
from quicksilver.live.references.xml import parse, write
from quicksilver.live.types.model import STR
from tests.live.references.strategies import references


class TestModel:
    def test_identifiers_have_one_form(self) -> None:
        """128 bits at most; names have a dot, so that they never look like numbers."""
        assert normalise_identifier("0X00Ff") == "0xff"
        assert normalise_identifier("0x" + "f" * 32) == "0x" + "f" * 32
        assert normalise_identifier("acme.my-channel") == "acme.my-channel"
        for wrong in ("", "0x", "0x" + "0" * 33, "channel", "a..b", ".a", "a.b ", "1.2", "a.b\n"):
            with pytest.raises(UnfitReferenceError):
                normalise_identifier(wrong)

    @pytest.mark.parametrize("name", ["", " a", "a ", "a\nb", "a\x00", "a" * 201, "\ud800"])
    def test_names_can_be_seen(self, name: str) -> None:
        """Nothing hides in a name."""
        with pytest.raises(UnfitReferenceError):
            Component(name, Primitive(identifier="0x2"))
        with pytest.raises(UnfitReferenceError):
            Endpoint("a", name)

    @pytest.mark.parametrize("text", ["\x00", "\x1b", "\ud800", "\uffff"])
    def test_texts_fit_into_xml(self, text: str) -> None:
        """A value that no file can hold is refused where it is made."""
        with pytest.raises(UnfitReferenceError, match=r"U\+"):
            Text(text)

    def test_references_are_passive_values(self) -> None:
        """They can be keys, and nobody can change them."""
        one = composite().component("a", registry()).export("a.folder").build()
        other = composite().export("a.folder").component("a", registry()).build()
        assert {one: 1}[other] == 1
        with pytest.raises(AttributeError):
            one.title = "new"  # type: ignore[misc]

    def test_values_keep_their_kind(self) -> None:
        """1, 1.0 and true are three values, and there is one zero."""
        assert to_value(1) != to_value(1.0)
        assert to_value(True) != to_value(1)
        assert Real(-0.0) == Real(0.0)
        assert repr(Real(-0.0).value) == "0.0"
        given_value = {"b": [1, 2.5, None, True], "a": b"x"}
        assert from_value(to_value(given_value)) == given_value

    @pytest.mark.parametrize(
        "value", [float("inf"), float("nan"), {1: 2}, object(), 1 << 300, "\x00", {"a": {2}}]
    )
    def test_other_values_are_refused(self, value: object) -> None:
        """What a reference carries must be the same everywhere."""
        with pytest.raises(UnfitReferenceError):
            to_value(value)

    def test_the_library_and_the_registry_are_primitives(self) -> None:
        """2.1.5 D: known by identifier, like everything built in."""
        assert is_registry(Primitive(identifier="0x02"))
        found = find_library(library("file:///x.py", "ab" * 32))
        assert found is not None
        assert (found.url, found.sha256) == ("file:///x.py", "ab" * 32)
        assert find_library(primitive("0x1", URL="u", Other=1)) is None
        assert is_sha256("ab" * 32)
        assert not is_sha256("AB" * 32)

    def test_json_carries_references_too(self) -> None:
        """For wires that have no use for XML: msgspec reads back what it wrote."""
        reference = primitive("0x3", Channel=external("x", "Folder[A, B]", registry()), Size=3)
        data = msgspec.json.encode(reference)
        assert msgspec.json.decode(data, type=Reference) == reference


class TestTypeNames:
    def test_the_notation(self) -> None:
        """Names with arguments in square brackets."""
        parsed = parse_type_name(" Folder [ Identifier,acme.Channel[ list[int] ] ] ")
        assert str(parsed) == "Folder[Identifier, acme.Channel[list[int]]]"
        assert parse_type_name(str(parsed)) == parsed

    @pytest.mark.parametrize(
        "text", ["", " ", "[", "A[", "A[]", "A]", "A[B", "A[B,]", "A B", "A[B]C", "ä", "A<B>", "1A"]
    )
    def test_anything_else_is_refused(self, text: str) -> None:
        """With the character where it went wrong."""
        with pytest.raises(BadTypeTextError, match=r"at character \d+$"):
            parse_type_name(text)


class TestBuilder:
    def test_it_makes_the_same_value_as_a_file(self) -> None:
        """There is one model behind both."""
        built = (
            composite(title="t", doc="d", as_="ReliableChannel")
            .component("net", external("MyChannel", "Channel", registry()))
            .component("rec", primitive("acme.recovery", window=64, T=type_named("list[int]")))
            .connect("rec.Un", "net.Un")
            .export("rec.Re", "Outer")
            .build()
        )
        text = """<liveobject xmlns="urn:quicksilver:liveobject:1">
          <composite title="t" as="ReliableChannel"><doc>d</doc>
            <export endpoint="rec.Re" name="Outer"/>
            <connection between="net.Un" and="rec.Un"/>
            <component name="rec"><primitive id="acme.recovery">
              <argument name="window"><integer>64</integer></argument>
              <argument name="T" type="list[int]"/>
            </primitive></component>
            <component name="net">
              <external name="MyChannel" as="Channel"><from><registry/></from></external>
            </component>
          </composite></liveobject>"""
        assert parse(text).reference == built

    def test_templates_with_defaults(self) -> None:
        """A default may be nothing, which is not the same as none."""
        declared = parameter("p", "value", "int", default=None)
        assert declared.default is not None
        assert parameter("p", "value", "int").default is None
        made = template([declared], use("p"))
        assert parse(write(made)).reference == made
        with pytest.raises(TypeError, match="defualt"):
            parameter("p", "value", defualt=3)

    def test_arguments_are_told_apart(self) -> None:
        """References, types as data, and everything else as a value."""
        made = primitive("a.b", r=registry(), t=STR, v="str")
        kinds = [type(one.content).__name__ for one in made.arguments]  # type: ignore[union-attr]
        assert kinds == ["ReferenceArgument", "TypeArgument", "ValueArgument"]

    def test_endpoints_are_component_and_name(self) -> None:
        """The first dot divides."""
        with pytest.raises(UnfitReferenceError, match=r"component\.endpoint"):
            composite().connect("a", "b.c")
        built = composite().export("a.b.c").build()
        assert built.exports[0].endpoint == Endpoint("a", "b.c")


class TestDiff:
    def test_equal_references_have_no_difference(self) -> None:
        """Whatever order they were written in."""
        assert diff(STARTERS["composite"](), STARTERS["composite"]()) == []

    def test_each_difference_has_a_place(self) -> None:
        """Added, removed and changed; the inside of what came or went is not repeated."""
        before = composite().component("a", external("x", "Channel", registry())).build()
        after = (
            composite()
            .component("a", external("y", "Folder[A, B]", registry()))
            .component("b", external("z", "Channel", registry()))
            .connect("a.p", "b.q")
            .build()
        )
        assert [str(one) for one in diff(before, after)] == [
            "~ component[a]: external “x” → external “y”",
            "~ component[a]/as: Channel → Folder[A, B]",
            "+ component[b]: external “z”",
            "+ connection[a.p,b.q]: connected",
        ]
        assert {one.sign for one in diff(after, before)} == {"~", "-"}

    def test_types_said_in_full_are_compared_by_structure(self) -> None:
        """Two that are shown alike still differ."""
        one = parse(write(STARTERS["library"]()))
        other = parse(write(STARTERS["library"]()).replace('type="str"', 'type="int"', 1))
        found = diff(one.reference, other.reference)
        assert [difference.path for difference in found] == ["as"]
        assert found[0].before != found[0].after

    @pytest.mark.slow
    @settings(max_examples=100)
    @given(references, references)
    def test_no_difference_means_equal(self, one: Reference, other: Reference) -> None:
        """And the other way round."""
        found = diff(one, other)
        assert (found == []) == (one == other)
        assert diff(one, one) == []


class TestForPeople:
    def test_the_notation_of_the_dissertation(self) -> None:
        """Code 2.4, as printed there."""
        reference = external(
            "MyChannel",
            "Channel",
            external("MyPlatform", "Folder[Identifier, Channel]", registry()),
        )
        assert render_reference(reference).splitlines() == [
            "external object “MyChannel” as Channel",
            "  from external object “MyPlatform” as Folder[Identifier, Channel]",
            "    from primitive object 0x2",
        ]

    @pytest.mark.slow
    @settings(max_examples=60)
    @given(references)
    def test_anything_can_be_shown(self, reference: Reference) -> None:
        """Whatever its names contain."""
        assert render_reference(reference)
