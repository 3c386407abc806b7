"""Values that arguments are set to, read from XML."""

from __future__ import annotations

from typing import Final

from quicksilver.live.references.elements import Element
from quicksilver.live.references.names import show_name
from quicksilver.live.references.reader import (
    Reader,
    parse_binary,
    parse_flag,
    parse_integer,
    parse_real,
)
from quicksilver.live.references.values import (
    Binary,
    Entry,
    Flag,
    Integer,
    Mapped,
    Nothing,
    Real,
    Sequence,
    Text,
    Value,
)

VALUE_TAGS: Final = (
    "text",
    "integer",
    "real",
    "flag",
    "binary",
    "nothing",
    "sequence",
    "mapping",
)


def read_value(reader: Reader, element: Element, path: str) -> Value:
    """Return the value that an element says; raises MalformedReferenceError."""
    reader.take(element, path, ())
    match element.tag:
        case "nothing":
            reader.children(element, path)
            return Nothing()
        case "sequence":
            items = reader.children(element, path, VALUE_TAGS)
            return Sequence(tuple(read_value(reader, item, path) for item in items))
        case "mapping":
            return _read_mapping(reader, element, path)
        case "text":
            return reader.make(element, path, Text, reader.text(element, path))
        case _:
            return reader.make(
                element, path, _parse_scalar, element.tag, reader.text(element, path)
            )


def _parse_scalar(tag: str, text: str) -> Value:
    match tag:
        case "integer":
            return Integer(parse_integer(text))
        case "real":
            return Real(parse_real(text))
        case "flag":
            return Flag(parse_flag(text))
        case _:
            assert tag == "binary", tag
            return Binary(parse_binary(text))


def _read_mapping(reader: Reader, element: Element, path: str) -> Mapped:
    entries: list[Entry] = []
    for child in reader.children(element, path, ("entry",)):
        key = reader.take(child, path, ("key",))["key"]
        inner = f"{path}[{show_name(key)}]"
        value = read_value(reader, reader.only(child, inner, VALUE_TAGS, "value"), inner)
        entries.append(reader.make(child, inner, Entry, key, value))
    return reader.make(element, path, Mapped, tuple(entries))
