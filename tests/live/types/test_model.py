"""Types are data: compared by structure, the same bytes for the same meaning, bounded."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quicksilver.live.types.build import event, object_type, optional, recursive, struct, union
from quicksilver.live.types.encoding import (
    TYPE_BYTES_MAX,
    TYPE_DEPTH_MAX,
    encode_type,
    parse_type,
)
from quicksilver.live.types.errors import TypeParseError
from quicksilver.live.types.model import (
    ANY,
    FLOAT,
    INT,
    NONE,
    STR,
    EndpointType,
    EventType,
    ListOf,
    LiteralOf,
    Parameter,
    Recur,
    Recursive,
    StructOf,
    TupleOf,
    UnionOf,
    ValueType,
)
from quicksilver.live.types.notation import render_type
from quicksilver.live.types.walk import unfold
from tests.live.types.strategies import any_types, retitle, value_types


class TestStructure:
    def test_the_fingerprint_is_the_same_on_every_machine(self) -> None:
        """It is written down in references: it must not change by accident."""
        message = struct({"text": STR, "at?": FLOAT}, title="Message")
        assert message.fingerprint == (
            "b85132ab6822f306161453381c63825551c7fec72d54f964a642db0f916141a0"
        )

    def test_order_of_fields_and_members_does_not_matter(self) -> None:
        assert struct({"a": INT, "b": STR}) == struct({"b": STR, "a": INT})
        assert union(INT, STR, NONE) == union(NONE, union(STR, INT), STR)
        assert LiteralOf(("b", "a", "b")) == LiteralOf(("a", "b"))

    def test_equal_is_never_unequal(self) -> None:
        """Both signs compare digests, whichever value a type is read into."""
        one, other = EndpointType(title="one"), EndpointType(title="other")
        assert one == other
        assert (one != other) is False
        assert ListOf(INT) != ListOf(STR)

    def test_true_is_not_one(self) -> None:
        assert LiteralOf((True,)) != LiteralOf((1,))

    def test_titles_and_names_of_single_arguments_are_only_hints(self) -> None:
        assert struct({"a": INT}, title="A") == struct({"a": INT}, title="B")
        assert event("send", message=INT) == event("send", m=INT)
        assert hash(event("send", message=INT)) == hash(event("send", m=INT))

    def test_names_of_several_arguments_are_structure(self) -> None:
        assert event("send", a=INT, b=INT) != event("send", a=INT, c=INT)

    def test_a_union_of_one_is_that_one(self) -> None:
        assert union(INT) is INT
        assert union(INT, INT) is INT
        assert UnionOf((INT,)) == INT
        assert encode_type(ListOf(UnionOf((INT,)))) == encode_type(ListOf(INT))

    def test_nested_recursion_keeps_its_binders_apart(self) -> None:
        inner_uses_both = recursive(
            "A",
            lambda a: struct(
                {"b": recursive("B", lambda b: struct({"a": ListOf(a), "b": ListOf(b)}))}
            ),
        )
        assert isinstance(inner_uses_both, Recursive)
        once = unfold(inner_uses_both)
        assert isinstance(once, StructOf)
        inner = once.by_name["b"].type
        assert isinstance(inner, Recursive)
        twice = unfold(inner)
        assert isinstance(twice, StructOf)
        assert twice.by_name["a"].type == ListOf(inner_uses_both)
        assert twice.by_name["b"].type == ListOf(inner)

    def test_recursion_in_a_union_with_literals_is_found(self) -> None:
        tree = recursive("T", lambda t: struct({"next": union(t, LiteralOf(("end",)))}))
        assert isinstance(tree, Recursive)

    def test_a_body_that_does_not_recur_is_left_alone(self) -> None:
        assert recursive("A", lambda _: INT) is INT

    @pytest.mark.parametrize(
        "make",
        [
            lambda: Recursive(Recur(0)),
            lambda: Recursive(UnionOf((INT, Recur(0)))),
            lambda: Recursive(Recursive(Recur(1))),
            lambda: StructOf((*struct({"a": INT}).fields, *struct({"a": STR}).fields)),
            lambda: EndpointType(inputs=(event("e"), event("e", INT))),
            lambda: EventType("", INT),
            lambda: EventType("e\n", INT),
            lambda: Parameter("x" * 300),
        ],
    )
    def test_what_means_nothing_cannot_be_made(self, make: object) -> None:
        with pytest.raises(ValueError, match=r"\w"):
            make()  # type: ignore[operator]

    @given(value_types)
    def test_hints_never_take_part(self, type_: ValueType) -> None:
        assert retitle(type_) == type_
        assert hash(retitle(type_)) == hash(type_)

    @given(value_types, value_types)
    def test_equal_fingerprints_are_equal_json_without_hints(
        self, one: ValueType, other: ValueType
    ) -> None:
        same_json = encode_type(retitle(one)) == encode_type(retitle(other))
        assert same_json == (one == other)


class TestEncoding:
    @given(any_types)
    def test_what_is_parsed_is_what_was_encoded(self, type_: ValueType) -> None:
        data = encode_type(type_)
        again = parse_type(data)
        assert again == type_
        assert again.fingerprint == type_.fingerprint
        assert encode_type(again) == data

    @settings(max_examples=40)
    @given(any_types)
    def test_every_type_can_be_shown_in_a_bounded_line(self, type_: ValueType) -> None:
        shown = render_type(type_, chars_max=60)
        assert len(shown) <= 60
        assert "\n" not in shown

    @pytest.mark.parametrize(
        ("data", "says"),
        [
            (b"", "truncated"),
            (b"nonsense", "malformed"),
            (b"[]", "object"),
            (b"\xff\xfe", "malformed"),
            (b'{"kind":"scalar","name":"quark"}', "at $.name"),
            (b'{"kind":"teapot"}', "teapot"),
            (b'{"kind":"list"}', "item"),
            (b'{"kind":"list","item":{"kind":"scalar","name":"int"},"extra":1}', "extra"),
            (b'{"kind":"list","item":{"kind":"field","name":"a"}}', "at $.item"),
            (b'{"kind":"recur","index":0}', "binder"),
            (b'{"kind":"recur","index":-1}', "-1"),
            (b'{"kind":"recursive","body":{"kind":"recur","index":0}}', "only itself"),
            (
                b'{"kind":"endpoint","inputs":[{"kind":"event","name":"\\u0000","value":{"kind":"scalar","name":"int"}}]}',
                "printed",
            ),
            (b'{"kind":"parameter","name":""}', "empty"),
        ],
    )
    def test_what_is_not_a_type_is_one_clear_error(self, data: bytes, says: str) -> None:
        with pytest.raises(TypeParseError, match="not a type") as caught:
            parse_type(data)
        assert says in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_depth_is_bounded_before_anything_is_built(self) -> None:
        deep = b'{"kind":"list","item":' * 50_000
        with pytest.raises(TypeParseError, match=f"deeper than {TYPE_DEPTH_MAX}"):
            parse_type(deep[:TYPE_BYTES_MAX])

    def test_brackets_in_names_are_not_depth(self) -> None:
        type_ = struct({"[" * 150: INT, '"[': INT, "\\": INT})
        assert parse_type(encode_type(type_)) == type_

    def test_size_is_bounded(self) -> None:
        with pytest.raises(TypeParseError, match="limit"):
            parse_type(b" " * (TYPE_BYTES_MAX + 1))

    def test_many_small_nodes_are_bounded_too(self) -> None:
        many = encode_type(TupleOf((ANY,) * 25_000))
        with pytest.raises(TypeParseError, match="nodes"):
            parse_type(many)

    @settings(max_examples=60)
    @given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode), any_types, st.data())
    def test_noise_and_mutations_raise_nothing_else(
        self, noise: bytes, type_: ValueType, data: st.DataObject
    ) -> None:
        whole = encode_type(type_)
        place = data.draw(st.integers(0, len(whole)))
        for broken in (noise, whole[:place], whole[:place] + noise + whole[place + 1 :]):
            try:
                parsed = parse_type(broken)
            except TypeParseError:
                continue
            assert parse_type(encode_type(parsed)) == parsed

    def test_parsing_does_not_take_more_memory_than_its_bounds(self) -> None:
        data = encode_type(TupleOf((optional(struct({"a": INT})),) * 500))
        tracemalloc.start()
        parse_type(data)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 100 * len(data)


def test_templates_keep_the_order_of_their_parameters() -> None:
    """Arguments are given in order: sorting them would change what they mean."""
    from quicksilver.live.types.model import TypeParameter

    one, other = TypeParameter("B"), TypeParameter("A")
    template = object_type({"e": EndpointType()}, parameters=[one, other])
    assert [parameter.name for parameter in template.parameters] == ["B", "A"]
    assert template != object_type({"e": EndpointType()}, parameters=[other, one])
