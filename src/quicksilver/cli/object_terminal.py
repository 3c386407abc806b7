"""Terminal faces of running objects: lines in, lines out.

The plain face shows every event of every endpoint and takes ``event value...``.
The face of a text shows the text and takes edits by line. A face knows nothing
of terminals: it is given lines and gives lines, so that a script uses it as a
person does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from quicksilver.cli.output import encode_payload
from quicksilver.live.types.model import (
    BYTES,
    NONE,
    STR,
    EndpointType,
    EventType,
    ReferenceOf,
    ValueType,
)

Say = Callable[[str, str, tuple[Any, ...]], None]
"""Takes an endpoint, an event and its values."""
Show = Callable[[dict[str, Any], str], None]
"""Takes what happened, for programs and in one line or more for people."""

FILE_CHARACTERS_MAX = 1 << 20
TEXT_HELP = "append TEXT | insert LINE TEXT | replace LINE TEXT | delete LINE | show | quit"


class LineError(Exception):
    """A line that the face does not understand; the text says what it would."""


class Face(Protocol):
    """What stands between a person or a script and a running object."""

    def take_event(self, endpoint: str, event: str, values: tuple[Any, ...]) -> None:
        """Show an event that the object said."""
        ...

    def take_line(self, line: str) -> None:
        """Do what a line says; raises LineError."""
        ...


class PlainFace:
    """Every event of every endpoint."""

    def __init__(self, endpoints: Mapping[str, EndpointType], say: Say, show: Show) -> None:
        self._endpoints = endpoints
        self._say = say
        self._show = show

    def take_event(self, endpoint: str, event: str, values: tuple[Any, ...]) -> None:
        """Show an event."""
        words = [f"{endpoint}.{event}", *(_in_line(to_text(value)) for value in values)]
        shown = [to_json(value) for value in values]
        self._show({"endpoint": endpoint, "event": event, "values": shown}, " ".join(words))

    def take_line(self, line: str) -> None:
        """Say ``[endpoint.]event value...``; values are JSON, or text without quotes."""
        word, _, rest = line.strip().partition(" ")
        endpoint, name, event = self._find(word)
        type_ = event.value
        names = event.arguments
        if len(names) > 1:
            by_name = getattr(type_, "by_name", {})
            types = [by_name[one].type for one in names]
        else:
            types = [] if type_ == NONE else [type_]
        self._say(endpoint, name, tuple(parse_values(rest, types, names)))

    def _find(self, word: str) -> tuple[str, str, EventType]:
        found = [
            (endpoint, name, event)
            for endpoint, type_ in self._endpoints.items()
            for name, event in type_.inputs_by_name.items()
            if word in {name, f"{endpoint}.{name}"}
        ]
        if len(found) == 1:
            return found[0]
        known = sorted(
            f"{endpoint}.{name}"
            for endpoint, type_ in self._endpoints.items()
            for name in type_.inputs_by_name
        )
        problem = "is said by several endpoints" if found else "is no event"
        raise LineError(f"{word[:40]!a} {problem}; there is: {', '.join(known) or 'none'}")


class TextFace:
    """A text, shown whole when it changes and edited by line."""

    def __init__(self, endpoint: str, say: Say, show: Show) -> None:
        self._endpoint = endpoint
        self._say = say
        self._show = show
        self._text = ""

    def take_event(self, endpoint: str, event: str, values: tuple[Any, ...]) -> None:
        """Show the text if that is what changed."""
        if event == "changed":
            self._text = str(values[0])
            self._show_text()
        elif event == "refused":
            self._show({"event": "refused", "text": str(values[0])}, f"? {values[0]}")

    def _show_text(self) -> None:
        lines = self._text.split("\n")
        if lines[-1] == "":
            lines.pop()
        width = len(str(len(lines)))
        shown = "\n".join(f"{number:>{width}} | {line}" for number, line in enumerate(lines, 1))
        self._show({"event": "changed", "text": self._text}, f"{shown or '(empty)'}\n")

    def take_line(self, line: str) -> None:
        """Edit by line, counted from 1."""
        command, _, rest = line.strip().partition(" ")
        if command == "show":
            self._show_text()
            return
        if command == "append":
            missing = "\n" if self._text and not self._text.endswith("\n") else ""
            self._edit(len(self._text), 0, f"{missing}{rest}\n")
            return
        number, _, text = rest.partition(" ")
        if command not in {"insert", "replace", "delete"} or not number.isdigit():
            raise LineError(f"{line[:40]!a} is no command; there is: {TEXT_HELP}")
        start, end = self._span(int(number), is_insert=command == "insert")
        if command == "insert":
            self._edit(start, 0, f"{text}\n")
        elif command == "replace":
            kept = end - 1 if self._text[start:end].endswith("\n") else end
            self._edit(start, kept - start, text)
        else:
            self._edit(start, end - start, "")

    def _span(self, number: int, *, is_insert: bool) -> tuple[int, int]:
        """Return where a line begins and ends, its end of line included."""
        lines = self._text.splitlines(keepends=True)
        last = len(lines) + (1 if is_insert else 0)
        if not 1 <= number <= last:
            raise LineError(f"there is no line {number}; the last one is {last}")
        start = sum(map(len, lines[: number - 1]))
        length = len(lines[number - 1]) if number <= len(lines) else 0
        return start, start + length

    def _edit(self, position: int, removed: int, inserted: str) -> None:
        self._say(self._endpoint, "edit", (position, removed, inserted))


def find_text(endpoints: Mapping[str, EndpointType]) -> str | None:
    """Return the endpoint that is a text to edit, if there is one."""
    for name, type_ in endpoints.items():
        edit = type_.inputs_by_name.get("edit")
        changed = type_.outputs_by_name.get("changed")
        if edit is None or changed is None or changed.value != STR:
            continue
        if set(edit.arguments) == {"position", "removed", "inserted"}:
            return name
    return None


def parse_values(text: str, types: list[ValueType], names: tuple[str, ...]) -> list[Any]:
    """Read the values of an event from the rest of a line; raises LineError."""
    values: list[Any] = []
    rest = text.strip()
    for place, type_ in enumerate(types):
        is_last = place == len(types) - 1
        if not rest:
            name = names[place] if place < len(names) else "value"
            raise LineError(f"the value {name!r} is missing")
        word, rest = (rest, "") if is_last else _split(rest)
        values.append(_parse_value(word, type_))
    if rest:
        raise LineError(f"this event takes no value; leave out {rest[:40]!a}")
    return values


def _split(text: str) -> tuple[str, str]:
    """Return the first value of a line and the rest; JSON ends where it ends, a word at a space."""
    if text[0] in '"[{':
        try:
            _, end = json.JSONDecoder().raw_decode(text)
        except ValueError:
            pass
        else:
            return text[:end], text[end:].strip()
    word, _, rest = text.partition(" ")
    return word, rest.strip()


def _read_text(word: str) -> str:
    """Return the text of a file: it is said as ``@FILE``."""
    try:
        with Path(word[1:]).open(encoding="utf-8") as file:
            text = file.read(FILE_CHARACTERS_MAX + 1)
    except (OSError, UnicodeError) as error:
        raise LineError(
            f'@FILE stands for what a file says, and "@..." for itself: {error}'
        ) from None
    if len(text) > FILE_CHARACTERS_MAX:
        raise LineError(f"{word[1:]} has more than {FILE_CHARACTERS_MAX} characters")
    return text


def _parse_value(word: str, type_: ValueType) -> Any:
    from quicksilver.live.types.values import find_misfit

    value: Any
    if type_ == BYTES:
        return word.encode()
    if isinstance(type_, ReferenceOf):
        return _read_reference(word)
    if type_ == STR and word.startswith("@"):
        return _read_text(word)
    try:
        value = msgspec.json.decode(word.encode())
    except (msgspec.DecodeError, UnicodeError):
        value = word
    if type_ == STR and not isinstance(value, str):
        value = word
    problem = find_misfit(value, type_)
    if problem is not None:
        raise LineError(problem.line)
    return value


def _read_reference(word: str) -> Any:
    """Return what a file holds: a reference is said by the name of its file."""
    from quicksilver.live.references.errors import LiveReferenceError
    from quicksilver.live.references.xml import load

    try:
        return load(Path(word)).reference
    except OSError as error:
        raise LineError(f"give a reference by the name of its file: {error}") from None
    except LiveReferenceError as error:
        raise LineError(str(error)) from None


def to_json(value: Any) -> Any:
    """Return a value as programs read it; bytes are marked as such, with their encoding."""
    return _convert(value, encode_payload)


def to_text(value: Any) -> Any:
    """Return a value as people read it; bytes that are text look like it, others are base64."""

    def show(data: bytes) -> Any:
        found = encode_payload(data)
        return found["payload"] if found["encoding"] == "utf-8" else {"base64": found["payload"]}

    return _convert(value, show)


def _convert(value: Any, show: Callable[[bytes], Any]) -> Any:
    match value:
        case bytes():
            return show(value)
        case dict():
            return {str(key): _convert(one, show) for key, one in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_convert(one, show) for one in value]
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)


def _in_line(value: Any) -> str:
    return msgspec.json.encode(value).decode()
