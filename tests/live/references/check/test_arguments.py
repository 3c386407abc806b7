"""Templates and their arguments: what does not fit is told."""

from __future__ import annotations

from quicksilver.live.references.builder import (
    composite,
    parameter,
    primitive,
    template,
    type_named,
    use,
)
from quicksilver.live.references.builder import given as give
from quicksilver.live.references.catalogue import (
    Catalogue,
)
from quicksilver.live.references.check import (
    check,
)
from quicksilver.live.references.standard import (
    TEXT,
)
from quicksilver.live.types import model as types
from tests.live.references.check.checking import catalogue, only, pair

__all__ = ["catalogue"]


class TestParameters:
    def test_all_must_be_set(self, catalogue: Catalogue) -> None:
        """A template is no object until it is given all of them."""
        text = only(check(primitive("test.typed", Window=3), catalogue), "unset-parameter")
        assert text == "the parameter 'Message' (type) is not set"

    def test_none_may_be_unknown(self, catalogue: Catalogue) -> None:
        """A slip in a name would otherwise go unnoticed."""
        reference = primitive("test.typed", Window=3, Message=types.STR, Windw=4)
        assert "it has: Message, Window" in only(check(reference, catalogue), "unknown-parameter")

    def test_values_are_within_their_bounds(self, catalogue: Catalogue) -> None:
        """Of the declared type."""
        reference = primitive("test.typed", Window="many", Message=types.STR)
        text = only(check(reference, catalogue), "out-of-bounds")
        assert text.startswith("the parameter 'Window' does not take it: ")
        assert "int" in text

    def test_kinds_are_told_apart(self, catalogue: Catalogue) -> None:
        """A value where a type belongs."""
        reference = primitive("test.typed", Window=3, Message="str")
        assert "wants a type, not a value" in only(check(reference, catalogue), "bad-argument")

    def test_types_go_into_the_result(self, catalogue: Catalogue) -> None:
        """Example (c): a channel of video frames is a channel template given a type."""
        reference = primitive("test.typed", Window=3, Message=type_named("list[int]"))
        made = check(reference, catalogue).type
        assert made is not None
        port = made.by_name["Channel"]
        assert isinstance(port, types.EndpointType)
        assert port.inputs_by_name["send"].value == types.ListOf(types.INT)

    def test_references_are_within_their_bounds(self, catalogue: Catalogue) -> None:
        """2.1.2, the first check of the platform: a subtype of the parameter's type."""
        assert check(primitive("0x3", Channel=pair()), catalogue).type == TEXT
        text = only(
            check(primitive("0x3", Channel=primitive("test.channel")), catalogue), "out-of-bounds"
        )
        assert "endpoint ReliableChannel: is missing" in text

    def test_only_templates_take_arguments(self, catalogue: Catalogue) -> None:
        """And a template alone is no object."""
        assert "no template" in only(
            check(primitive("test.channel", x=1), catalogue), "no-template"
        )
        reference = composite().component("a", primitive("test.typed")).build()
        assert "until it is given Message, Window" in only(
            check(reference, catalogue), "template-unapplied"
        )

    def test_templates_of_ones_own(self, catalogue: Catalogue) -> None:
        """With a type, a value with a default, and a reference, all used in the body."""
        made = template(
            [
                parameter("T", "type"),
                parameter("Size", "value", "int", default=5),
                parameter("Net", "reference", "Channel"),
            ],
            composite()
            .component(
                "typed", primitive("test.typed", Message=type_named("T"), Window=use("Size"))
            )
            .component("net", use("Net"))
            .export("typed.Channel")
            .export("net.UnreliableChannel", "raw")
            .build(),
        )
        alone = check(made, catalogue)
        assert alone.findings == ()
        applied = check(give(made, {"T": types.STR, "Net": primitive("test.channel")}), catalogue)
        assert applied.findings == ()
        assert applied.type is not None
        port = applied.type.by_name["Channel"]
        assert isinstance(port, types.EndpointType)
        assert port.inputs_by_name["send"].value == types.STR
        wrong = check(
            give(made, {"T": types.STR, "Net": primitive("test.channel"), "Size": "x"}), catalogue
        )
        assert "Size" in only(wrong, "out-of-bounds")

    def test_uses_have_a_parameter(self, catalogue: Catalogue) -> None:
        """Outside of a template there is none."""
        assert "no parameter 'x' is in scope" in only(
            check(use("x"), catalogue), "unknown-parameter"
        )
