"""A desktop that many people share: what is dropped on it comes to life (Figure 2.6).

The state is a set of references with titles and positions. Everybody's desktop
opens a proxy for each, so whoever looks at the same desktop takes part in the
same objects. An object that cannot be opened, or fails, is shown so; the desktop
and all other objects go on.
"""

from __future__ import annotations

import math
from typing import ClassVar, Final, Protocol, TypeAlias, assert_never

import msgspec

from quicksilver.live.codec import (
    STATE_BYTES_MAX,
    BadMessageError,
    Codec,
    Packed,
)
from quicksilver.live.components.applications.desktop_objects import Opening
from quicksilver.live.components.interfaces import CheckpointedChannel
from quicksilver.live.components.shared_object import SharedObject
from quicksilver.live.references.errors import LiveReferenceError
from quicksilver.live.references.xml import fingerprint, parse
from quicksilver.live.runtime.components import component
from quicksilver.live.types.declare import Given, endpoint, live_object
from quicksilver.live.types.reflect import Ref

ITEMS_MAX: Final = 10_000
REFERENCE_BYTES_MAX: Final = 64 << 10
ITEMS_BYTES_MAX: Final = 8 << 20
TITLE_CHARACTERS_MAX: Final = 200
_ITEM_BYTES: Final = 64
"""What an item costs besides its title and reference, about."""


class Item(Packed, frozen=True):
    """Something on the desktop."""

    number: int
    title: str
    x: float
    y: float
    reference: str
    """As XML."""


class Dropped(Packed, frozen=True, tag="drop"):
    """Put a reference on the desktop."""

    title: str
    x: float
    y: float
    reference: str


class Moved(Packed, frozen=True, tag="move"):
    """Put an item elsewhere."""

    item: int
    x: float
    y: float


class Retitled(Packed, frozen=True, tag="retitle"):
    """Give an item another title."""

    item: int
    title: str


class Removed(Packed, frozen=True, tag="remove"):
    """Take an item away."""

    item: int


Update: TypeAlias = Dropped | Moved | Retitled | Removed


class Contents(Packed, frozen=True):
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


class DesktopRequests(Protocol):
    """Events that users send to a desktop."""

    def drop(self, title: str, x: float, y: float, reference: str) -> None:
        """Put an object on the desktop: its reference, as XML."""

    def move(self, item: int, x: float, y: float) -> None:
        """Put an item elsewhere."""

    def retitle(self, item: int, title: str) -> None:
        """Give an item another title."""

    def remove(self, item: int) -> None:
        """Take an item away and close its object, everywhere."""

    def reopen(self, item: int) -> None:
        """Try again to open an item here that failed."""


class DesktopChanges(Protocol):
    """Events that a desktop sends to its users."""

    def emptied(self) -> None:
        """Forget all items: those that are there follow."""

    def appeared(self, item: int, title: str, x: float, y: float, reference: str) -> None:
        """Hear of an item that is there, or was dropped."""

    def moved(self, item: int, x: float, y: float) -> None:
        """Hear that an item was moved."""

    def retitled(self, item: int, title: str) -> None:
        """Hear that an item was given another title."""

    def disappeared(self, item: int) -> None:
        """Hear that an item was taken away."""

    def opened(self, item: int) -> None:
        """Hear that an item's object runs here."""

    def failed(self, item: int, problem: str) -> None:
        """Hear that an item's object does not run here, and why."""

    def refused(self, reason: str) -> None:
        """Hear that a request was not carried out."""


@component("quicksilver.desktop", type_name="Desktop")
@live_object(title="Desktop")
class Desktop(SharedObject[Update, Contents]):
    """a desktop that many people share, where what is dropped comes to life

    At most 10,000 items; ``opened_max`` of them are opened at each participant.
    """

    updates: ClassVar = Codec[Update](Update, "a change", REFERENCE_BYTES_MAX + 2048)
    states: ClassVar = Codec[Contents](Contents, "a desktop", STATE_BYTES_MAX)

    desktop = endpoint(
        DesktopRequests,
        DesktopChanges,
        provides=[
            ("delivery", "total"),
            ("temporal", "opened(i) -> once appeared(item=i)"),
            ("temporal", "failed(item=i) -> once appeared(item=i)"),
        ],
        name="Desktop",
    )

    def __init__(
        self, channel: Given[Ref[CheckpointedChannel]], opened_max: Given[int] = 2000
    ) -> None:
        super().__init__(channel)
        self.items = Items()
        self.opening = Opening(
            self.context,
            fingerprint(self._reference),
            opened_max,
            on_opened=self._say_opened,
            on_failed=self._say_failed,
        )

    # The user

    def desktop_drop(self, title: str, x: float, y: float, reference: str) -> None:
        """Put an object on everybody's desktop."""
        try:
            check_item(title, x, y, reference)
            parse(reference, source="the reference")
        except (BadMessageError, LiveReferenceError) as error:
            self.refuse(str(error))
            return
        self.submit(Dropped(title, x, y, reference))

    def desktop_move(self, item: int, x: float, y: float) -> None:
        """Put an item elsewhere for everybody."""
        self.submit(Moved(item, x, y))

    def desktop_retitle(self, item: int, title: str) -> None:
        """Give an item another title for everybody."""
        self.submit(Retitled(item, title))

    def desktop_remove(self, item: int) -> None:
        """Take an item off everybody's desktop."""
        self.submit(Removed(item))

    def desktop_reopen(self, item: int) -> None:
        """Open an item again, here."""
        known = self.items.by_number.get(item)
        if known is None or item in self.opening.proxies:
            self.refuse(f"item {item} is not there" if known is None else f"item {item} is open")
            return
        self.opening.open(item, known.reference)

    def desktop_connected(self) -> None:
        """Begin with all that is there."""
        if self.is_ready:
            self.announce()

    def close(self) -> None:
        """Close all objects."""
        self.opening.close_all()

    # The state

    def load(self, state: Contents | None) -> None:
        """Begin with these items; those that were open and still are there stay so."""
        before, self.items = self.items, Items(state)
        for number, item in before.by_number.items():
            now = self.items.by_number.get(number)
            if now is None or now.reference != item.reference:
                self.opening.close(number)
        for item in self.items.by_number.values():
            self.opening.open(item.number, item.reference)

    def save(self) -> Contents:
        return self.items.contents()

    def apply(self, update: Update) -> None:
        """Change the items, and open or close what they refer to."""
        item = self.items.apply(update)
        if item is None:
            return
        match update:
            case Dropped():
                self._say(item)
                self.opening.open(item.number, item.reference)
            case Moved():
                self.desktop.moved(item.number, item.x, item.y)
            case Retitled():
                self.desktop.retitled(item.number, item.title)
            case Removed():
                self.opening.close(item.number)
                self.desktop.disappeared(item.number)

    def announce(self) -> None:
        self.desktop.emptied()
        for item in list(self.items.by_number.values()):
            self._say(item)
            problem = self.opening.failures.get(item.number)
            if problem is not None:
                self.desktop.failed(item.number, problem)
            elif item.number in self.opening.proxies:
                self.desktop.opened(item.number)

    def refuse(self, reason: str) -> None:
        self.desktop.refused(reason)

    def _say(self, item: Item) -> None:
        self.desktop.appeared(item.number, item.title, item.x, item.y, item.reference)

    def _say_opened(self, item: int) -> None:
        self.desktop.opened(item)

    def _say_failed(self, item: int, problem: str) -> None:
        self.desktop.failed(item, problem)
