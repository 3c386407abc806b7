"""The static check: places, the catalogue, and references of any kind and size."""

from __future__ import annotations

import time
from importlib.metadata import EntryPoint

import msgspec
import pytest
from hypothesis import given, settings

from quicksilver.live.references.builder import (
    composite,
    primitive,
)
from quicksilver.live.references.catalogue import (
    ENTRY_POINTS,
    Catalogue,
    CatalogueLoadError,
    Known,
    load_installed,
)
from quicksilver.live.references.check import (
    UnsoundReferenceError,
    check,
    require_sound,
)
from quicksilver.live.references.errors import DuplicateEntryError
from quicksilver.live.references.model import Reference
from quicksilver.live.references.standard import (
    CHANNEL,
    RELIABLE_CHANNEL,
    TEXT,
    add_standard,
)
from quicksilver.live.references.xml import parse, write
from tests.live.references.check.checking import catalogue, only, pair
from tests.live.references.strategies import references

__all__ = ["catalogue"]


class TestPlaces:
    def test_findings_of_a_file_have_line_and_column(self, catalogue: Catalogue) -> None:
        """The element that is wrong, not the file."""
        text = write(primitive("0x3", Channel=pair())).replace("test.recovery", "test.rcvery")
        checked = check(parse(text, source="my.liveobject"), catalogue)
        only(checked, "unknown-primitive")
        place = checked.findings[0].place
        assert place.source == "my.liveobject"
        assert text.splitlines()[place.line - 1][place.column - 1 :].startswith(
            '<primitive id="test.r'
        )
        assert (
            place.path == "parameterized/argument[Channel]/composite/component[recovery]/primitive"
        )

    def test_findings_of_python_have_a_path(self, catalogue: Catalogue) -> None:
        """There is no line to name."""
        checked = check(primitive("0x3", Channel=primitive("no.such")), catalogue)
        assert str(checked.findings[0].place) == "parameterized/argument[Channel]/primitive"

    def test_an_unsound_reference_can_be_required_not_to_be(self, catalogue: Catalogue) -> None:
        """What the runtime calls before it makes anything."""
        assert require_sound(pair(), catalogue).type == RELIABLE_CHANNEL
        with pytest.raises(UnsoundReferenceError, match=r"primitive: nothing built in"):
            require_sound(primitive("no.such"), catalogue)


class TestCatalogue:
    def test_two_meanings_of_one_name_are_refused(self, catalogue: Catalogue) -> None:
        """Adding the same again is no harm."""
        catalogue.add_type("Channel", CHANNEL)
        catalogue.add_type("Channel", msgspec.structs.replace(CHANNEL, title="the same"))
        with pytest.raises(DuplicateEntryError, match="another type 'Channel'"):
            catalogue.add_type("Channel", TEXT)
        with pytest.raises(DuplicateEntryError, match=r"another primitive 'test\.channel'"):
            catalogue.add(Known(identifier="test.channel", title="other", type=TEXT))
        with pytest.raises(DuplicateEntryError):
            catalogue.add_type("list", CHANNEL)

    def test_what_is_added_later_counts(self, catalogue: Catalogue) -> None:
        """Results that were kept are forgotten."""
        reference = primitive("third.party")
        assert not check(reference, catalogue).is_sound
        catalogue.add(Known(identifier="third.party", title="new", type=CHANNEL))
        assert check(reference, catalogue).type == CHANNEL

    def test_a_result_is_kept(self, catalogue: Catalogue) -> None:
        """The same reference, read again, is not gone through again; its places are its own."""
        first = check(parse(write(pair()), source="one"), catalogue)
        again = check(parse(write(pair()), source="two"), catalogue)
        assert again.type is first.type
        assert len(catalogue.kept) == 1

    def test_a_package_that_fails_is_named(
        self, catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Installed code that breaks is a message, not a traceback through ours."""

        def announce(group: str) -> list[EntryPoint]:
            assert group == ENTRY_POINTS
            return [EntryPoint("acme", "no_such_package:add", group)]

        monkeypatch.setattr("quicksilver.live.references.catalogue.entry_points", announce)
        with pytest.raises(CatalogueLoadError, match=r"'acme'.*no_such_package"):
            load_installed(catalogue)


@pytest.mark.slow
@settings(max_examples=80)
@given(references)
def test_any_reference_can_be_checked(reference: Reference) -> None:
    """However nonsensical, there are findings and no exception; and the same ones twice."""
    made = Catalogue()
    add_standard(made)
    first = check(reference, made)
    assert all(len(str(one).splitlines()) == 1 for one in first.findings)
    assert check(parse(write(reference)), made).type == first.type
    again = check(parse(write(reference)).reference, made)
    assert [one.text for one in again.findings] == [one.text for one in first.findings]


def test_large_nonsense_is_checked_in_bounded_time(catalogue: Catalogue) -> None:
    """Thousands of mistakes are thousands of short lines."""
    made = composite()
    for n in range(3000):
        made.component(f"c{n}", primitive("test.channel")).connect(f"x{n}.a", f"c{n}.b")
    began = time.perf_counter()
    checked = check(made.build(), catalogue)
    assert time.perf_counter() - began < 5
    assert len(checked.findings) > 3000
    assert max(len(one.text) for one in checked.findings) < 300


def test_deep_references_are_findings(catalogue: Catalogue) -> None:
    """Deeper than a file can be: said, not crashed."""
    reference: Reference = primitive("test.channel")
    for _ in range(3000):
        reference = composite().component("a", reference).export("a.UnreliableChannel").build()
    assert "nested" in only(check(reference, catalogue), "unfit")
