"""What lies on a shared desktop, as a state and updates to it."""

from __future__ import annotations

import math
from typing import Final, TypeAlias, assert_never

import msgspec

from quicksilver.live.components.applications.codec import BadMessageError

ITEMS_MAX: Final = 10_000
REFERENCE_BYTES_MAX: Final = 64 << 10
ITEMS_BYTES_MAX: Final = 8 << 20
TITLE_CHARACTERS_MAX: Final = 200
_ITEM_BYTES: Final = 64
"""What an item costs besides its title and reference, about."""


class _Message(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    pass


class Item(_Message, frozen=True):
    """Something on the desktop."""

    number: int
    title: str
    x: float
    y: float
    reference: str
    """As XML."""


class Dropped(_Message, frozen=True, tag="drop"):
    """Put a reference on the desktop."""

    title: str
    x: float
    y: float
    reference: str


class Moved(_Message, frozen=True, tag="move"):
    """Put an item elsewhere."""

    item: int
    x: float
    y: float


class Retitled(_Message, frozen=True, tag="retitle"):
    """Give an item another title."""

    item: int
    title: str


class Removed(_Message, frozen=True, tag="remove"):
    """Take an item away."""

    item: int


Update: TypeAlias = Dropped | Moved | Retitled | Removed


class Contents(_Message, frozen=True):
    """The state: items, and the number that the next one gets."""

    next_number: int
    items: list[Item]


class Items:
    """The items by number. Numbers are given in the channel's order, so all agree on them."""

    def __init__(self, contents: Contents | None = None) -> None:
        """Begin with what is there; raises BadMessageError if it cannot be."""
        self._next = 1
        self._bytes = 0
        self.by_number: dict[int, Item] = {}
        if contents is None:
            return
        for item in contents.items:
            check_item(item.title, item.x, item.y, item.reference)
            if not 0 < item.number < contents.next_number:
                raise BadMessageError("a desktop", f"has no number {item.number} yet")
            self._put(item)
        self._next = contents.next_number

    def contents(self) -> Contents:
        """Return everything, as a value."""
        return Contents(self._next, list(self.by_number.values()))

    def apply(self, update: Update) -> Item | None:
        """Change; return the item as it is, or was. None: it is gone. Raises BadMessageError."""
        match update:
            case Dropped(title, x, y, reference):
                check_item(title, x, y, reference)
                item = Item(self._next, title, x, y, reference)
                self._put(item)
                self._next += 1
                return item
            case Moved(number, x, y):
                return self._change(number, x=x, y=y)
            case Retitled(number, title):
                return self._change(number, title=title)
            case Removed(number):
                removed = self.by_number.pop(number, None)
                if removed is not None:
                    self._bytes -= _size(removed)
                return removed
            case _:
                assert_never(update)

    def _change(self, number: int, **fields: float | str) -> Item | None:
        before = self.by_number.get(number)
        if before is None:  # somebody removed it meanwhile
            return None
        item: Item = msgspec.structs.replace(before, **fields)
        check_item(item.title, item.x, item.y, item.reference)
        self._put(item)
        return item

    def _put(self, item: Item) -> None:
        before = self.by_number.get(item.number)
        grown = self._bytes + _size(item) - (0 if before is None else _size(before))
        if grown > ITEMS_BYTES_MAX or (before is None and len(self.by_number) >= ITEMS_MAX):
            raise BadMessageError("the desktop", "is full")
        self._bytes = grown
        self.by_number[item.number] = item


def check_item(title: str, x: float, y: float, reference: str) -> None:
    """Refuse what cannot be an item; raises BadMessageError."""
    if len(title) > TITLE_CHARACTERS_MAX or "\n" in title:
        raise BadMessageError("a title", f"is one line of at most {TITLE_CHARACTERS_MAX}")
    if not (math.isfinite(x) and math.isfinite(y)):
        raise BadMessageError("a position", f"({x}, {y}) is nowhere")
    if len(reference) > REFERENCE_BYTES_MAX or len(reference.encode()) > REFERENCE_BYTES_MAX:
        raise BadMessageError("a reference", f"has more than {REFERENCE_BYTES_MAX} bytes")


def _size(item: Item) -> int:
    return _ITEM_BYTES + len(item.title.encode()) + len(item.reference.encode())
