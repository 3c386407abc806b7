"""Types are read off Python code, and what cannot be an event is refused by name."""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import enum
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    Protocol,
    TypedDict,
    TypeVar,
    Union,
)

import msgspec
import pytest

from quicksilver.live.types.build import event, literal, optional, recursive, struct, union
from quicksilver.live.types.declare import endpoint, live_object, object_type_of
from quicksilver.live.types.errors import (
    NotAnEventTypeError,
    NotAnInterfaceError,
    NotAnObjectTypeError,
    ParameterError,
    ReflectionError,
    UnreadableAnnotationError,
)
from quicksilver.live.types.interfaces import signatures_of
from quicksilver.live.types.model import (
    ANY,
    BOOL,
    BYTES,
    FLOAT,
    INT,
    NEVER,
    NONE,
    STR,
    DictOf,
    EndpointType,
    Field,
    ListOf,
    ObjectType,
    Parameter,
    ReferenceOf,
    SetOf,
    StructOf,
    TupleOf,
    TypeParameter,
    ValueType,
)
from quicksilver.live.types.parameters import GivenValue, free_parameters, instantiate
from quicksilver.live.types.plain_forms import register_class
from quicksilver.live.types.reflect import Ref, value_type_of
from quicksilver.live.types.subtyping import is_subtype
from tests.live.types import channel_north, channel_south

T = TypeVar("T")
Seconds = NewType("Seconds", float)


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Odd(enum.Enum):
    FRACTION = 0.5


class Point(msgspec.Struct):
    x: int
    y: int = 0


@dataclasses.dataclass
class Pair(Generic[T]):
    left: T
    right: list[T] = dataclasses.field(default_factory=list)
    made: int = dataclasses.field(default=0, init=False)


class Box(msgspec.Struct, Generic[T]):
    content: T


class Named(NamedTuple):
    name: str
    size: int = 1


class Options(TypedDict):
    name: str
    size: NotRequired[int]


class Sealed(msgspec.Struct, forbid_unknown_fields=True):
    a: int


@typing.final
@dataclasses.dataclass
class Finished:
    a: int


class Node(msgspec.Struct):
    value: int
    children: list[Node] = []
    parent: Node | None = None


class Even(msgspec.Struct):
    next: Optional[Odd_]  # noqa: UP045  # both spellings are read


class Odd_(msgspec.Struct):  # noqa: N801
    next: Even | None


class WithFunction(msgspec.Struct):
    callback: Callable[[int], None]


class Plain:
    pass


class TestValues:
    @pytest.mark.parametrize(
        ("annotation", "type_"),
        [
            (int, INT), (bool, BOOL), (float, FLOAT), (str, STR), (bytes, BYTES), (None, NONE),
            (Any, ANY), (typing.Never, NEVER), (Seconds, FLOAT), (T, Parameter("T")),
            (Annotated[int, "any note"], INT),
            (list[int], ListOf(INT)), (list, ListOf(ANY)), (Iterable[str], ListOf(STR)),
            (tuple[int, ...], ListOf(INT)), (tuple[int, str], TupleOf((INT, STR))),
            (tuple[()], TupleOf(())), (frozenset[int], SetOf(INT)), (set, SetOf(ANY)),
            (dict[str, int], DictOf(STR, INT)), (Mapping[str, list[int]], DictOf(STR, ListOf(INT))),
            (int | None, optional(INT)), (Union[int, str, None], union(INT, STR, NONE)),  # noqa: UP007
            (Literal["a", 1, True], literal("a", 1, True)),
            (Literal["a", None], optional(literal("a"))),  # noqa: PYI061
            (Level, literal(1, 2)),
            (Point, struct({"x": INT, "y?": INT})),
            (Pair[int], struct({"left": INT, "right?": ListOf(INT)})),
            (Pair, struct({"left": Parameter("T"), "right?": ListOf(Parameter("T"))})),
            (Box[str], struct({"content": STR})),
            (Box[Box[int]], struct({"content": struct({"content": INT})})),
            (Named, struct({"name": STR, "size?": INT})),
            (Options, struct({"name": STR, "size?": INT})),
            (Sealed, struct({"a": INT}, closed=True)), (Finished, struct({"a": INT}, closed=True)),
        ],
    )  # fmt: skip
    def test_annotations(self, annotation: object, type_: ValueType) -> None:
        assert value_type_of(annotation) == type_

    def test_a_class_that_uses_itself(self) -> None:
        expected = recursive(
            "Node",
            lambda node: struct(
                {"value": INT, "children?": ListOf(node), "parent?": optional(node)}
            ),
        )
        assert value_type_of(Node) == expected

    def test_classes_that_use_each_other(self) -> None:
        even, odd = value_type_of(Even), value_type_of(Odd_)
        assert is_subtype(even, odd)
        assert is_subtype(odd, even)

    def test_titles_and_docs_are_kept_for_readers(self) -> None:
        type_ = value_type_of(channel_north.Author)
        assert isinstance(type_, StructOf)
        assert (type_.title, type_.doc) == ("Author", "Who wrote a note.")

    @pytest.mark.parametrize(
        ("annotation", "says"),
        [
            (Callable[[int], int], "a function cannot be sent"),
            (collections.abc.Callable, "a function cannot be sent"),
            (types.FunctionType, "a function cannot be sent"),
            (print, "a function cannot be sent"),
            (object, "its structure cannot be read"),
            (Plain, "make it a msgspec.Struct or a dataclass"),
            (list[Plain], "its structure cannot be read"),
            (datetime.date, "register_class"),
            (Odd, "its value is not a number, a text or a truth"),
            (type[int], "its structure cannot be read"),
            (3, "it is not a type"),
        ],
    )
    def test_what_cannot_be_an_event_is_refused(self, annotation: object, says: str) -> None:
        with pytest.raises(NotAnEventTypeError) as caught:
            value_type_of(annotation)
        assert says in str(caught.value)
        assert isinstance(caught.value, TypeError)

    def test_the_error_names_the_field(self) -> None:
        with pytest.raises(NotAnEventTypeError, match=r"^WithFunction\.callback: ") as caught:
            value_type_of(WithFunction)
        assert caught.value.place == "WithFunction.callback"

    def test_an_unresolved_name_is_an_error_of_its_own(self) -> None:
        with pytest.raises(UnreadableAnnotationError, match="'Nowhere' cannot be read"):
            value_type_of("Nowhere")

    def test_a_registered_class_is_what_it_is_made_plain_as(self) -> None:
        class Colour:
            pass

        register_class(
            Colour,
            tuple[int, int, int],
            to_plain=lambda _: (0, 0, 0),
            from_plain=lambda _: Colour(),
        )
        assert value_type_of(list[Colour]) == ListOf(TupleOf((INT, INT, INT)))


class Interface(Protocol[T]):
    def nothing(self) -> None: ...
    def one(self, item: T) -> None: ...
    def several(self, b: T, a: int = 0) -> None: ...


class Extended(Interface[str], Protocol):
    async def later(self, when: float) -> None: ...


class TestInterfaces:
    def test_a_method_is_an_event(self) -> None:
        assert tuple(one.event for one in signatures_of(Interface[int]).values()) == (
            event("nothing"),
            event("one", INT),
            event("several", StructOf((Field("b", INT), Field("a", INT, False)))),
        )

    def test_argument_names_are_kept_in_the_order_of_calls(self) -> None:
        arguments = {name: one.event.arguments for name, one in signatures_of(Interface).items()}
        assert arguments == {"nothing": (), "one": ("item",), "several": ("b", "a")}

    def test_inherited_events_have_the_given_types(self) -> None:
        found = {name: one.event.value for name, one in signatures_of(Extended).items()}
        assert found["one"] == STR
        assert found["later"] == FLOAT

    def test_what_is_not_an_interface_is_refused(self) -> None:
        class Answers(Protocol):
            def ask(self) -> int: ...

        class Attribute(Protocol):
            size: int

        class Computed(Protocol):
            @property
            def size(self) -> int: ...

        class Many(Protocol):
            def send(self, *items: int) -> None: ...

        class Bare(Protocol):
            def send(self, item) -> None: ...  # type: ignore[no-untyped-def]

        class Unsendable(Protocol):
            def send(self, item: Callable[[], None]) -> None: ...

        cases: list[tuple[Any, type[ReflectionError], str]] = [
            (
                Answers,
                NotAnInterfaceError,
                "Answers.ask is not an event interface: an event returns",
            ),
            (Attribute, NotAnInterfaceError, "an attribute is not an event"),
            (Computed, NotAnInterfaceError, "only plain methods are events"),
            (Many, NotAnInterfaceError, "any number of arguments"),
            (Bare, UnreadableAnnotationError, "Bare.send: annotation 'item' cannot be read"),
            (Unsendable, NotAnEventTypeError, r"Unsendable.send\(item\): "),
            (3, NotAnInterfaceError, "it is not a class"),
        ]
        for interface, error, says in cases:
            with pytest.raises(error, match=says):
                signatures_of(interface)


class Listener(Protocol):
    def added(self, name: str, item: Ref[Folder]) -> None: ...


@live_object(title="Shared folder")
class Folder:
    folder = endpoint(None, Listener)


class TestObjects:
    def test_code_2_6(self) -> None:
        """An alias with a required constraint, a parameter and two constrained endpoints."""
        channel = object_type_of(channel_north.Channel)
        assert [one.name for one in channel.parameters] == ["M", "registry"]
        assert [one.of for one in channel.parameters] == ["value_type", "value"]
        type_ = channel.by_name["channel"]
        assert isinstance(type_, EndpointType)
        assert type_.inputs == (event("send", Parameter("M")),)
        assert [one.text for one in type_.requires] == ["send -> once connect"]
        assert channel.doc == "A reliable channel of messages of one type."

    def test_code_2_7(self) -> None:
        """A class that inherits from an alias has its type."""
        notes = object_type_of(channel_north.NoteChannel)
        assert free_parameters(notes) == []
        assert notes == object_type_of(channel_north.Channel[channel_north.Note])

    def test_two_libraries_that_never_met_describe_one_channel(self) -> None:
        from quicksilver.live.types.subtyping import is_match

        theirs = object_type_of(channel_north.NoteChannel).by_name["channel"]
        ours = object_type_of(channel_south.Brett).by_name["channel"]
        assert isinstance(theirs, EndpointType)
        assert isinstance(ours, EndpointType)
        assert is_match(theirs, ours)
        assert is_match(ours, theirs)

    def test_objects_that_hold_references_to_their_like(self) -> None:
        folder = object_type_of(Folder)
        assert folder.title == "Shared folder"
        type_ = folder.by_name["folder"]
        assert isinstance(type_, EndpointType)
        value = type_.outputs[0].value
        assert isinstance(value, StructOf)
        assert is_subtype(ReferenceOf(folder), value.by_name["item"].type)
        assert is_subtype(value.by_name["item"].type, ReferenceOf(folder))

    def test_what_does_not_describe_objects_is_refused(self) -> None:
        @live_object
        class Empty:
            pass

        for target, says in (
            (Empty, "no endpoints"),
            (Plain, "decorate it with @live_object"),
            (3, "not a class"),
        ):
            with pytest.raises(NotAnObjectTypeError, match=says):
                object_type_of(target)


class TestTemplates:
    CHANNEL = object_type_of(channel_north.Channel)

    def test_given_its_parameters_a_template_is_a_type(self) -> None:
        made = instantiate(self.CHANNEL, {"M": INT, "registry": GivenValue("<object/>")})
        assert made.parameters == ()
        assert free_parameters(made) == []
        type_ = made.by_name["channel"]
        assert isinstance(type_, EndpointType)
        assert type_.inputs_by_name["send"].value == INT

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            ({"M": INT}, "parameter registry: is not given; it takes a value"),
            (
                {"M": EndpointType(), "registry": GivenValue("")},
                "parameter M: takes a type of kind 'value_type', was given one of kind 'endpoint",
            ),
            ({"M": INT, "registry": GivenValue(3)}, "parameter registry: 3 is not ref<"),
            ({"M": INT, "registry": INT}, "parameter registry: takes a value"),
            (
                {"M": INT, "registry": GivenValue(""), "N": INT},
                "parameter N: is unknown; there is M, registry",
            ),
        ],
    )
    def test_wrong_arguments_are_named(self, arguments: dict[str, Any], says: str) -> None:
        with pytest.raises(ParameterError) as caught:
            instantiate(self.CHANNEL, arguments)
        assert says in str(caught.value)
        assert str(caught.value).startswith("the template Channel cannot be instantiated: ")

    def test_bounds_are_subtypes_and_may_use_other_parameters(self) -> None:
        template = ObjectType(
            parameters=(
                TypeParameter("M", "value_type", struct({"text": STR})),
                TypeParameter("L", "value_type", ListOf(Parameter("M"))),
            )
        )
        text, rich = struct({"text": STR}), struct({"text": STR, "at": INT})
        instantiate(template, {"M": rich, "L": ListOf(rich)})
        with pytest.raises(ParameterError, match="parameter L > item > field at: is missing"):
            instantiate(template, {"M": rich, "L": ListOf(text)})
        with pytest.raises(ParameterError, match="parameter M > field text: is missing"):
            instantiate(template, {"M": struct({}), "L": ListOf(struct({}))})
