"""The static check: right references pass, wrong ones are told exactly why and where."""

from __future__ import annotations

import subprocess
import sys
import time
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from quicksilver.live.references.builder import (
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
from quicksilver.live.references.builder import given as give
from quicksilver.live.references.catalogue import (
    ENTRY_POINTS,
    Catalogue,
    CatalogueLoadError,
    Known,
    load_installed,
)
from quicksilver.live.references.check import (
    Checked,
    UnsoundReferenceError,
    check,
    require_sound,
)
from quicksilver.live.references.errors import DuplicateEntryError
from quicksilver.live.references.model import Composite, Reference
from quicksilver.live.references.model import Parameter as Wanted
from quicksilver.live.references.standard import (
    CHANNEL,
    FOLDER,
    RELIABLE_CHANNEL,
    TEXT,
    add_standard,
)
from quicksilver.live.references.typenames import TypeName
from quicksilver.live.references.xml import load, parse, write
from quicksilver.live.types import model as types
from quicksilver.live.types.build import event, flip, object_type
from quicksilver.live.types.subtyping import is_subtype
from tests.live.reference_strategies import references

EXAMPLES = Path(__file__).parents[2] / "examples" / "live"
HASH = "ab" * 32


@pytest.fixture
def catalogue() -> Catalogue:
    made = Catalogue()
    add_standard(made)
    made.add(Known(identifier="test.channel", title="channel", type=CHANNEL))
    made.add(
        Known(
            identifier="test.recovery",
            title="recovery",
            type=object_type(
                {
                    "UnreliableChannel": flip(CHANNEL.by_name["UnreliableChannel"]),  # type: ignore[arg-type]
                    "ReliableChannel": RELIABLE_CHANNEL.by_name["ReliableChannel"],
                }
            ),
        )
    )
    message = types.Parameter("Message")
    made.add(
        Known(
            identifier="test.typed",
            title="channel of messages",
            type=object_type(
                {
                    "Channel": types.EndpointType(
                        (event("send", message),), (event("receive", message),)
                    )
                }
            ),
            parameters=(
                Wanted("Message", "type"),
                Wanted("Window", "value", TypeName("int")),
            ),
        )
    )
    return made


def only(checked: Checked, code: str) -> str:
    """The text of the one finding."""
    assert [finding.code for finding in checked.findings] == [code], checked.findings
    assert checked.findings[0].severity == "error"
    assert not checked.is_sound
    assert "\n" not in str(checked.findings[0])
    return checked.findings[0].text


def pair() -> Composite:
    return (
        composite()
        .component("network", primitive("test.channel"))
        .component("recovery", primitive("test.recovery"))
        .connect("network.UnreliableChannel", "recovery.UnreliableChannel")
        .export("recovery.ReliableChannel")
        .build()
    )


class TestPaper:
    """Section 2.1.5: the references of the dissertation, as files."""

    def test_code_2_2(self) -> None:
        """A shared text over a channel made of two objects, one from a folder in a folder."""
        checked = check(load(EXAMPLES / "code-2-2-shared-text.liveobject"))
        assert checked.findings == ()
        assert checked.type == TEXT

    def test_code_2_3(self) -> None:
        """A protocol from a library: its type is declared, the library is a folder."""
        checked = check(load(EXAMPLES / "code-2-3-library.liveobject"))
        assert checked.findings == ()
        assert checked.type is not None
        assert list(checked.type.by_name) == ["Counter"]

    @pytest.mark.parametrize("lan", ["x", "y"])
    def test_code_2_4(self, lan: str) -> None:
        """The hybrid object, through the registry of a node on either LAN."""
        entry = load(EXAMPLES / f"registry-lan-{lan}" / "MyPlatform.liveobject").reference
        parsed = load(EXAMPLES / "code-2-4-hybrid.liveobject")
        for entries in (None, {"MyPlatform": entry}):
            checked = check(parsed, registry=entries)
            assert checked.findings == ()
            assert checked.type == CHANNEL

    def test_code_2_5(self) -> None:
        """A template from a library, configured with an address; the result is a folder."""
        checked = check(load(EXAMPLES / "code-2-5-platform.liveobject"))
        assert checked.findings == ()
        assert checked.type is not None
        assert is_subtype(checked.type, FOLDER)

    def test_figure_2_4(self) -> None:
        """Two local channels joined by a tunnel are a channel, and can stand for one."""
        checked = check(load(EXAMPLES / "figure-2-4-gateway.liveobject"))
        assert checked.findings == ()
        assert checked.type == CHANNEL

    def test_a_template(self) -> None:
        """It is sound by the bounds of its parameters, and says what it must be given."""
        checked = check(load(EXAMPLES / "template-reliable-channel.liveobject"))
        assert checked.findings == ()
        assert checked.type is None
        assert [one.name for one in checked.parameters] == ["Network", "Recovery"]

    def test_every_example_is_checked_here(self) -> None:
        """Each file has its own test above."""
        assert {path.stem for path in EXAMPLES.glob("*.liveobject")} == {
            "code-2-2-shared-text",
            "code-2-3-library",
            "code-2-4-hybrid",
            "code-2-5-platform",
            "figure-2-4-gateway",
            "template-reliable-channel",
        }


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
        path.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
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
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
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


def test_the_warm_check_of_code_2_2_is_quick() -> None:
    """The issue asks for less than a millisecond; the best of many, on a busy machine."""
    parsed = load(EXAMPLES / "code-2-2-shared-text.liveobject")
    check(parsed)
    best = min(_time_check(parsed.reference) for _ in range(200))
    assert best < 1e-3


def _time_check(reference: Reference) -> float:
    began = time.perf_counter()
    check(reference)
    return time.perf_counter() - began
