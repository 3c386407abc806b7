"""External references, registries and libraries: wrong ones are told why and where."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from quicksilver.live.references.builder import (
    composite,
    external,
    library,
    primitive,
    registry,
)
from quicksilver.live.references.catalogue import (
    Catalogue,
)
from quicksilver.live.references.check import (
    check,
)
from quicksilver.live.references.model import Reference
from quicksilver.live.references.standard import (
    RELIABLE_CHANNEL,
)
from quicksilver.live.references.xml import parse, write
from quicksilver.live.types import model as types
from quicksilver.live.types.build import object_type
from tests.live.references.check.checking import HASH, catalogue, only

__all__ = ["catalogue"]


class TestExternals:
    def test_they_need_a_type(self, catalogue: Catalogue) -> None:
        """Otherwise nothing could be said about them without asking the folder."""
        reference = external("x", "Channel", registry())
        text = write(reference).replace(' as="Channel"', "")
        assert "needs a type" in only(check(parse(text), catalogue), "no-type")

    def test_they_are_kept_in_folders(self, catalogue: Catalogue) -> None:
        """2.1.5 B: the repository is "any object of type folder"."""
        reference = external("x", "Channel", primitive("test.channel"))
        text = only(check(reference, catalogue), "no-folder")
        assert "endpoint folder: is missing" in text

    def test_unknown_types_are_named(self, catalogue: Catalogue) -> None:
        """With the nearest that is known."""
        text = only(check(external("x", "Chanel", registry()), catalogue), "unknown-type")
        assert text == "no type is called 'Chanel'; did you mean 'Channel'?"
        wrong = external("x", "Folder[Channel]", registry())
        assert "takes 2 (Key, Object), not 1" in only(check(wrong, catalogue), "bad-type")
        wrong = external("x", "Identifier", registry())
        assert "object type" in only(check(wrong, catalogue), "bad-type")

    def test_a_folder_of_other_things_is_suspicious(self, catalogue: Catalogue) -> None:
        """A folder of channels hardly holds a text; it is checked again when it answers."""
        channels = external("f", "Folder[Identifier, Channel]", registry())
        checked = check(external("x", "Text", channels), catalogue)
        assert checked.is_sound
        assert [one.code for one in checked.findings] == ["unlikely-type"]

    def test_unknown_formalisms(self, catalogue: Catalogue) -> None:
        """A constraint nobody can read is an error at the type that has it."""
        odd = object_type({"e": types.EndpointType(provides=(types.Constraint("nonsense", "x"),))})
        text = only(check(external("x", odd, registry()), catalogue), "bad-constraint")
        assert "nonsense" in text

    def test_casts_hide_endpoints_and_must_hold(self, catalogue: Catalogue) -> None:
        """2.1.5 B: the clause "can still be used ... as a form of an explicit type cast"."""
        assert check(primitive("test.recovery", as_="ReliableChannel"), catalogue).type == (
            RELIABLE_CHANNEL
        )
        text = only(check(primitive("test.channel", as_="Text"), catalogue), "bad-cast")
        assert "endpoint Text: is missing" in text


class TestRegistry:
    def test_a_wrong_entry_is_found(self, catalogue: Catalogue) -> None:
        """The node's registry leads to something of another type."""
        reference = external("x", "Text", registry())
        checked = check(reference, catalogue, registry={"x": primitive("test.channel")})
        assert "the registry's 'x' is of another type" in only(checked, "bad-entry")

    def test_a_missing_entry_is_found(self, catalogue: Catalogue) -> None:
        """It says what there is."""
        checked = check(external("x", "Channel", registry()), catalogue, registry={"y": registry()})
        assert only(checked, "unknown-entry") == "the registry has no 'x'; it has y"

    def test_circles_are_found(self, catalogue: Catalogue) -> None:
        """Dereferencing would never end."""
        entries = {
            "a": external("b", "Channel", registry()),
            "b": external("c", "Channel", registry()),
            "c": external("a", "Channel", registry()),
        }
        checked = check(external("a", "Channel", registry()), catalogue, registry=entries)
        text = only(checked, "circle")
        assert text == "external references go in a circle: a → b → c → a"

    def test_recursion_through_a_composite_is_a_circle(self, catalogue: Catalogue) -> None:
        """An object that contains itself would have proxies without end."""
        itself = (
            composite()
            .component("inner", external("me", "Channel", registry()))
            .export("inner.UnreliableChannel")
            .build()
        )
        checked = check(itself, catalogue, registry={"me": itself})
        assert only(checked, "circle").endswith("me → me")

    def test_many_uses_of_entries_take_little(self, catalogue: Catalogue) -> None:
        """Entries that use each other twice, twenty levels deep, are gone through once each."""
        entries: dict[str, Reference] = {"e0": primitive("test.channel")}
        for level in range(1, 21):
            inner = external(f"e{level - 1}", "Channel", registry())
            entries[f"e{level}"] = (
                composite()
                .component("a", inner)
                .component("b", inner)
                .export("a.UnreliableChannel")
                .export("b.UnreliableChannel", "other")
                .build()
            )
        began = time.perf_counter()
        checked = check(external("e20", "Channel", registry()), catalogue, registry=entries)
        assert checked.is_sound, checked.findings
        assert time.perf_counter() - began < 2


class TestLibraries:
    def test_they_need_a_hash(self, catalogue: Catalogue) -> None:
        """Without one nothing would ever be loaded."""
        reference = external("C", "Channel", library("file:///x.py"))
        assert "'SHA256' (value) is not set" in only(check(reference, catalogue), "unset-parameter")

    @pytest.mark.parametrize("wrong", ["", "ab", "AB" * 32, "zz" * 32, "ab" * 33])
    def test_the_hash_has_its_form(self, catalogue: Catalogue, wrong: str) -> None:
        """Only its form can be checked without the bytes."""
        reference = external("C", "Channel", library("file:///x.py", wrong))
        only(check(reference, catalogue), "bad-hash")

    def test_nothing_is_loaded(self, catalogue: Catalogue, tmp_path: Path) -> None:
        """A library that exists, with its right hash, is not opened by a check."""
        path = tmp_path / "evil.py"
        path.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')", encoding="utf-8")
        path.chmod(0)
        reference = external("C", "Channel", library(path.as_uri(), HASH))
        assert check(reference, catalogue).is_sound
        assert not (tmp_path / "ran").exists()

    def test_checking_imports_nothing_that_loads(self) -> None:
        """The policy for libraries is not even imported."""
        code = (
            "import sys, quicksilver.live.references.check; "
            "sys.exit('quicksilver.live.references.library' in sys.modules)"
        )
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
