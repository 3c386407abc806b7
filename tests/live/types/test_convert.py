"""Values pass between classes of equal structure, and where classes are equal, untouched."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypedDict

import msgspec
import pytest

from quicksilver.live.types.bridges import bridge_event
from quicksilver.live.types.convert import Converters
from quicksilver.live.types.declare import endpoints_of
from quicksilver.live.types.errors import MismatchError
from quicksilver.live.types.interfaces import signatures_of
from quicksilver.live.types.plain_forms import register_class
from tests.live.types import channel_north, channel_south
from tests.live.types.channel_north import Author, Note, Priority
from tests.live.types.channel_south import Notiz, Verfasser

NOTE = Note(
    "hello",
    Author("ann", ("a", "b")),
    Priority.HIGH,
    (Note("yes", Author("bob")), Note("no", Author("cy"))),
)
NOTIZ = Notiz(
    text="hello",
    author=Verfasser("ann", ["a", "b"]),
    priority="high",
    replies=[
        Notiz(text="yes", author=Verfasser("bob", []), replies=[]),
        Notiz(text="no", author=Verfasser("cy", []), replies=[]),
    ],
)


class Wide(msgspec.Struct):
    a: int
    b: str
    c: float = 1.5


class Narrow(msgspec.Struct, kw_only=True):
    b: str
    a: float


class Late(TypedDict):
    a: int
    b: str


class Circle(msgspec.Struct):
    radius: float


class Square(msgspec.Struct):
    side: float


@dataclass
class Kreis:
    radius: float


@dataclass
class Quadrat:
    side: float


class Drawing(msgspec.Struct):
    shapes: list[Circle | Square | None]
    names: dict[str, Circle] = {}


@dataclass
class Bild:
    shapes: Sequence[Kreis | Quadrat | None]
    names: dict[str, Kreis] = field(default_factory=dict)


class Unset(msgspec.Struct):
    a: int
    b: int | msgspec.UnsetType = msgspec.UNSET


class Shade(enum.Enum):
    DARK = 0
    LIGHT = 1


class Spot(NamedTuple):
    at: tuple[int, int]
    shade: Shade


@dataclass
class Fleck:
    at: tuple[float, float]
    shade: Literal[0, 1, 2]


class TestConversion:
    @pytest.mark.parametrize(
        ("source", "target", "value", "expected"),
        [
            (Wide, Narrow, Wide(1, "x"), Narrow(b="x", a=1)),
            (Wide, Late, Wide(1, "x"), {"a": 1, "b": "x"}),
            (Late, Narrow, {"a": 1, "b": "x"}, Narrow(a=1, b="x")),
            (Drawing, Bild, Drawing([Circle(1), Square(2), None], {"c": Circle(3)}),
             Bild([Kreis(1), Quadrat(2), None], {"c": Kreis(3)})),
            (Bild, Drawing, Bild((Quadrat(2), Kreis(1))), Drawing([Square(2), Circle(1)])),
            (Spot, Fleck, Spot((1, 2), Shade.LIGHT), Fleck((1, 2), 1)),
            (Unset, Unset | None, Unset(1), Unset(1)),
            (list[Wide], tuple[Narrow, ...], [Wide(1, "x")], (Narrow(a=1, b="x"),)),
            (list[int], tuple[float, ...], [1], (1,)),
            (frozenset[str], set[str], frozenset({"x"}), {"x"}),
            (dict[str, Wide], dict[str, Narrow], {"k": Wide(1, "x")}, {"k": Narrow(a=1, b="x")}),
            (tuple[Wide, int], tuple[Narrow, float], (Wide(1, "x"), 2), (Narrow(a=1, b="x"), 2)),
            (Wide | None, Narrow | None, None, None),
        ],
    )  # fmt: skip
    def test_same_structure_other_class(
        self, source: object, target: object, value: object, expected: object
    ) -> None:
        convert = Converters().find(source, target)
        assert convert is not None
        made = convert(value)
        assert made == expected
        assert type(made) is type(expected)

    def test_two_libraries_there_and_back(self) -> None:
        converters = Converters()
        there, back = converters.find(Note, Notiz), converters.find(Notiz, Note)
        assert there is not None
        assert back is not None
        assert there(NOTE) == NOTIZ
        assert back(NOTIZ) == NOTE
        assert isinstance(back(NOTIZ).replies[0], Note)

    def test_the_same_class_is_passed_on(self) -> None:
        converters = Converters()
        assert converters.find(Note, Note) is None
        assert converters.find(int, float) is None
        assert converters.find(dict[str, int], dict[str, int]) is None

    def test_absent_fields_get_the_defaults_of_the_class(self) -> None:
        class Old(msgspec.Struct, forbid_unknown_fields=True):
            a: int

        class New(msgspec.Struct):
            a: int
            b: str = "default"

        convert = Converters().find(Old, New)
        assert convert is not None
        assert convert(Old(1)) == New(1, "default")

    def test_unset_fields_are_absent(self) -> None:
        plain = Converters().adapter(Unset).to_plain
        assert plain is not None
        assert plain(Unset(1)) == {"a": 1}
        assert plain(Unset(1, 2)) == {"a": 1, "b": 2}

    def test_other_structure_is_refused_with_the_place(self) -> None:
        with pytest.raises(MismatchError, match="values do not fit: field c: is missing"):
            Converters().find(Late, Needs)

    def test_a_registered_function_is_taken_first(self) -> None:
        converters = Converters()
        converters.register(Circle, Square, lambda circle: Square(circle.radius * 2))
        convert = converters.find(Circle, Square)
        assert convert is not None
        assert convert(Circle(2.0)) == Square(4.0)
        with pytest.raises(MismatchError):
            converters.find(Square, Circle)

    def test_n_classes_need_n_adapters(self) -> None:
        """Front ends and back ends are made for each class, not for each pair (2.2.2)."""
        classes = [
            msgspec.defstruct(f"C{n}", [("a", int), ("b", str)], namespace={}) for n in range(12)
        ]
        converters = Converters()
        for source in classes:
            for target in classes:
                convert = converters.find(source, target)
                value = source(1, "x") if convert is None else convert(source(1, "x"))
                assert type(value) is target
        # Twelve classes, and the annotations of their two fields.
        assert converters.adapters_made == 12 + 2

    def test_a_registered_class_meets_its_plain_form_and_its_like(self) -> None:
        class Date:
            def __init__(self, text: str) -> None:
                self.text = text

        class Day(msgspec.Struct):
            on: str

        appointment = msgspec.defstruct("Termin", [("on", Date)])
        register_class(Date, str, to_plain=lambda date: date.text, from_plain=Date)
        converters = Converters()
        there, back = converters.find(appointment, Day), converters.find(Day, appointment)
        assert there is not None
        assert back is not None
        assert there(appointment(Date("2026-01-02"))) == Day("2026-01-02")
        made = back(Day("2026-01-02"))
        assert isinstance(made.on, Date)
        assert made.on.text == "2026-01-02"


class Needs(msgspec.Struct):
    c: int


class Recorder:
    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def receive(self, message: Notiz, sender: str) -> None:
        self.calls.append((message, sender))

    def closed(self) -> None:
        self.calls.append(())


class TestBridges:
    def test_events_of_one_library_call_handlers_of_another(self) -> None:
        declared = endpoints_of(channel_north.NoteChannel)["channel"]
        theirs = declared.signatures({channel_north.M: Note}).outputs
        ours = endpoints_of(channel_south.Brett)["channel"].signatures().inputs
        recorder = Recorder()
        converters = Converters()
        out = {
            name: bridge_event(source, ours[name], getattr(recorder, name), converters=converters)
            for name, source in theirs.items()
        }
        out["receive"]("ann", NOTE)
        out["closed"]()
        assert recorder.calls == [(NOTIZ, "ann"), ()]

    def test_where_both_agree_the_handler_is_called_directly(self) -> None:
        signatures = signatures_of(channel_north.Receiver[int])
        for name, signature in signatures.items():
            handler = getattr(Recorder(), name)
            made = bridge_event(signature, signature, handler, converters=Converters())
            assert made is handler

    def test_several_arguments_meet_a_struct(self) -> None:
        class Call:
            def move(self, x: int, y: int) -> None: ...

        class Message(msgspec.Struct):
            x: float
            y: float

        class Take:
            def move(self, where: Message) -> None: ...

        source, target = _signature(Call, "move"), _signature(Take, "move", Message=Message)
        got: list[object] = []
        bridge_event(source, target, got.append, converters=Converters())(1, 2)
        assert got == [Message(1, 2)]

        back: list[object] = []

        def take(x: float, y: float) -> None:
            back.append((x, y))

        other = _signature(CallFloat, "move")
        bridge_event(target, other, take, converters=Converters())(Message(1.0, 2.0))
        assert back == [(1.0, 2.0)]

    def test_what_does_not_fit_is_refused(self) -> None:
        with pytest.raises(MismatchError, match="event move does not fit: field y: "):
            bridge_event(
                _signature(CallFloat, "move"),
                _signature(Three, "move"),
                print,
                converters=Converters(),
            )


class CallFloat:
    def move(self, x: float, y: float) -> None: ...


class Three:
    def move(self, x: float, y: str) -> None: ...


def _signature(interface: type, name: str, **names: object) -> Any:
    for method in vars(interface).values():
        if callable(method) and hasattr(method, "__annotations__"):
            method.__annotations__ = {
                key: names.get(one, one) if isinstance(one, str) else one
                for key, one in method.__annotations__.items()
            }
    return signatures_of(interface)[name]
