"""A text as a conflict-free replicated data type, by pycrdt (Yjs).

The package counts in bytes of UTF-8; everybody here counts in characters. Edits
made elsewhere are given back as single edits that an editor can follow.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import msgspec

from quicksilver.live.codec import BadMessageError
from quicksilver.live.components.packages import need

if TYPE_CHECKING:
    from pycrdt import Doc, Text

TEXT_CHARACTERS_MAX: Final = 1_000_000
_ROOT = "text"


class Edit(msgspec.Struct, frozen=True):
    """Characters removed at a position, and others put there instead."""

    position: int
    removed: int
    inserted: str


class TextDocument:
    """One participant's copy of a text."""

    def __init__(self, client: int) -> None:
        crdt = need("pycrdt", "the shared text")
        self._doc: Doc[Any] = crdt.Doc(client_id=client)
        self._doc[_ROOT] = self._root = self._make_root(crdt)
        self.text = ""
        self._deltas: list[list[dict[str, Any]]] = []
        self._subscription = self._root.observe(self._note)

    @staticmethod
    def _make_root(crdt: Any) -> Text:
        root: Text = crdt.Text()
        return root

    def _note(self, event: Any) -> None:
        self._deltas.append(event.delta)

    # Editing

    def edit(self, position: int, removed: int, inserted: str) -> bytes:
        """Edit here; return the update for the others. Raises BadMessageError."""
        text = self.text
        end = position + removed
        if position < 0 or removed < 0 or end > len(text):
            span = f"{removed} characters at {position}"
            raise BadMessageError("an edit", f"of {span} is outside the text of {len(text)}")
        if len(text) - removed + len(inserted) > TEXT_CHARACTERS_MAX:
            raise BadMessageError("the text", f"would pass {TEXT_CHARACTERS_MAX} characters")
        try:
            inserted.encode()
        except UnicodeEncodeError as error:
            raise BadMessageError("an edit", "inserts half a surrogate pair") from error
        before = self._doc.get_state()
        start = len(text[:position].encode())
        with self._doc.transaction():
            if removed:
                del self._root[start : start + len(text[position:end].encode())]
            if inserted:
                self._root.insert(start, inserted)
        self._deltas.clear()
        self.text = text[:position] + inserted + text[end:]
        return self._doc.get_update(before)

    def merge(self, update: bytes) -> list[Edit]:
        """Take an update made elsewhere; return what it did. Raises BadMessageError."""
        self._deltas.clear()
        try:
            self._doc.apply_update(update)
        except Exception as error:
            raise BadMessageError("an edit", f"is malformed: {error}") from error
        if not self._deltas:
            return []
        before, self.text = self.text, str(self._root)
        edits: list[Edit] | None = []
        text = before
        for delta in self._deltas:
            found = _edits_of(delta, text)
            edits = None if edits is None or found is None else edits + found
            text = before if edits is None else replay(before, edits)
        self._deltas.clear()
        if edits is None or text != self.text:
            return difference(before, self.text)
        return edits

    # Catching up

    def state(self) -> bytes:
        """Return everything, as an update."""
        return self._doc.get_update()

    def vector(self) -> bytes:
        """Return what is here, in short; it does not tell removals."""
        return self._doc.get_state()

    def missing(self, vector: bytes) -> bytes:
        """Return the update for somebody who has this much; raises BadMessageError."""
        try:
            return self._doc.get_update(vector)
        except Exception as error:
            raise BadMessageError("a state vector", f"is malformed: {error}") from error

    def digest(self) -> bytes:
        """Return a short mark of the text and of the edits it came from."""
        mark = hashlib.blake2b(self.text.encode(), digest_size=16)
        mark.update(_sorted_vector(self.vector()))
        return mark.digest()


def replay(text: str, edits: list[Edit]) -> str:
    """Return a text after edits, one after the other."""
    for one in edits:
        text = text[: one.position] + one.inserted + text[one.position + one.removed :]
    return text


def difference(before: str, after: str) -> list[Edit]:
    """Return the one edit that leads from a text to another."""
    if before == after:
        return []
    limit = min(len(before), len(after))
    start = 0
    while start < limit and before[start] == after[start]:
        start += 1
    end = 0
    while end < limit - start and before[-1 - end] == after[-1 - end]:
        end += 1
    return [Edit(start, len(before) - end - start, after[start : len(after) - end])]


def _edits_of(delta: list[dict[str, Any]], before: str) -> list[Edit] | None:
    """Return a delta, which counts bytes of the text before, as edits; None: it holds no text."""
    data = before.encode()
    edits: list[Edit] = []
    at_byte = 0
    position = 0
    for step in delta:
        match step:
            case {"retain": int(count)}:
                position += _characters(data, at_byte, count)
                at_byte += count
            case {"delete": int(count)}:
                edits.append(Edit(position, _characters(data, at_byte, count), ""))
                at_byte += count
            case {"insert": str(inserted)}:
                edits.append(Edit(position, 0, inserted))
                position += len(inserted)
            case _:
                return None
    return edits


def _characters(data: bytes, start: int, count: int) -> int:
    return len(data[start : start + count].decode(errors="replace"))


def _sorted_vector(vector: bytes) -> bytes:
    """Return a state vector in a form that equal vectors share: its order is chance."""
    numbers: list[int] = []
    value = shift = 0
    for byte in vector:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(value)
            value = shift = 0
    pairs = sorted(zip(numbers[1::2], numbers[2::2], strict=False))
    return msgspec.msgpack.encode(pairs)
