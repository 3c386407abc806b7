"""Composites: wrong ones are told exactly why and where."""

from __future__ import annotations

from quicksilver.live.references.builder import (
    composite,
    external,
    primitive,
    registry,
)
from quicksilver.live.references.catalogue import (
    Catalogue,
)
from quicksilver.live.references.check import (
    check,
)
from quicksilver.live.references.standard import (
    RELIABLE_CHANNEL,
)
from quicksilver.live.references.xml import parse, write
from quicksilver.live.types import model as types
from quicksilver.live.types.build import event, object_type
from tests.live.references.check.checking import catalogue, only, pair

__all__ = ["catalogue"]


class TestComposites:
    def test_the_type_is_what_is_exported(self, catalogue: Catalogue) -> None:
        """Inner endpoints that are connected do not show."""
        checked = check(pair(), catalogue)
        assert checked.findings == ()
        assert checked.type == RELIABLE_CHANNEL

    def test_exports_are_renamed(self, catalogue: Catalogue) -> None:
        """The outer name is the composite's own."""
        reference = (
            composite()
            .component("n", primitive("test.channel"))
            .export("n.UnreliableChannel", "out")
            .build()
        )
        made = check(reference, catalogue).type
        assert made is not None
        assert list(made.by_name) == ["out"]

    def test_a_mismatch_says_which_event(self, catalogue: Catalogue) -> None:
        """Two channels face each other: what one sends out the other does not take in."""
        reference = (
            composite()
            .component("a", primitive("test.channel"))
            .component("b", primitive("test.channel"))
            .connect("a.UnreliableChannel", "b.UnreliableChannel")
            .build()
        )
        text = only(check(reference, catalogue), "mismatch")
        assert text.startswith("a.UnreliableChannel and b.UnreliableChannel do not match: ")
        assert "outgoing event receive" in text

    def test_a_mismatch_says_which_constraint(self, catalogue: Catalogue) -> None:
        """A client that asks for total order cannot use a best-effort channel."""
        asking = object_type(
            {
                "c": types.EndpointType(
                    (event("receive", types.BYTES),),
                    (event("send", types.BYTES),),
                    requires=(types.Constraint("delivery", "total"),),
                )
            }
        )
        reference = (
            composite()
            .component("a", primitive("test.channel"))
            .component("b", external("Client", asking, registry()))
            .connect("a.UnreliableChannel", "b.c")
            .build()
        )
        text = only(check(reference, catalogue), "mismatch")
        assert "required constraint" in text
        assert "total" in text

    def test_unknown_components_and_endpoints(self, catalogue: Catalogue) -> None:
        """The message lists what there is."""
        base = composite().component("a", primitive("test.channel"))
        checked = check(base.export("b.x").build(), catalogue)
        texts = [one.text for one in checked.findings]
        assert texts[0] == "no component is called 'b'; there is: a"
        reference = (
            composite().component("a", primitive("test.channel")).export("a.nothing").build()
        )
        text = [one for one in check(reference, catalogue).findings if one.severity == "error"]
        assert text[0].text == (
            "the component 'a' has no endpoint 'nothing'; it has: UnreliableChannel"
        )

    def test_an_endpoint_is_connected_once(self, catalogue: Catalogue) -> None:
        """Section 2.1.4 C: "to a single other, matching endpoint"."""
        reference = (
            composite()
            .component("network", primitive("test.channel"))
            .component("one", primitive("test.recovery"))
            .component("two", primitive("test.recovery"))
            .connect("network.UnreliableChannel", "one.UnreliableChannel")
            .connect("network.UnreliableChannel", "two.UnreliableChannel")
            .export("one.ReliableChannel", "a")
            .export("two.ReliableChannel", "b")
            .build()
        )
        assert "already connected to one.UnreliableChannel" in only(
            check(reference, catalogue), "endpoint-taken"
        )
        itself = (
            composite()
            .component("a", primitive("test.channel"))
            .connect("a.UnreliableChannel", "a.UnreliableChannel")
        )
        assert check(itself.build(), catalogue).findings[0].code == "self-connection"

    def test_duplicate_names(self, catalogue: Catalogue) -> None:
        """Components and exports; the second one is pointed at."""
        text = write(
            composite()
            .component("a", primitive("test.channel"))
            .component("a", primitive("test.channel"))
            .export("a.UnreliableChannel", "x")
            .build()
        )
        parsed = parse(text, source="f")
        checked = check(parsed, catalogue)
        assert only(checked, "duplicate-name") == "two components are called 'a'"
        lines = text.splitlines()
        found = [n for n, line in enumerate(lines, 1) if "<component" in line]
        assert checked.findings[0].place.line == found[1]

    def test_loose_ends_are_only_warned_about(self, catalogue: Catalogue) -> None:
        """An endpoint that nothing can reach is likely forgotten, but works."""
        checked = check(composite().component("a", primitive("test.channel")).build(), catalogue)
        assert checked.is_sound
        assert [one.code for one in checked.findings] == ["loose-endpoint"]

    def test_one_mistake_is_one_finding(self, catalogue: Catalogue) -> None:
        """What depends on the unknown is not complained about again."""
        reference = (
            composite()
            .component("a", primitive("test.chanel"))
            .component("b", primitive("test.recovery"))
            .connect("a.UnreliableChannel", "b.UnreliableChannel")
            .export("b.ReliableChannel")
            .export("a.Other")
            .build()
        )
        text = only(check(reference, catalogue), "unknown-primitive")
        assert "did you mean 'test.channel'?" in text
