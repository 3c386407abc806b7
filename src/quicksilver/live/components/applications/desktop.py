"""A desktop that many people share: what is dropped on it comes to life (Figure 2.6).

The state is a set of references with titles and positions. Everybody's desktop
opens a proxy for each, so whoever looks at the same desktop takes part in the
same objects. An object that cannot be opened, or fails, is shown so; the desktop
and all other objects go on.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

from quicksilver.live.components.applications.codec import (
    STATE_BYTES_MAX,
    BadMessageError,
    Codec,
)
from quicksilver.live.components.applications.desktop_items import (
    REFERENCE_BYTES_MAX,
    Contents,
    Dropped,
    Item,
    Items,
    Moved,
    Removed,
    Retitled,
    Update,
    check_item,
)
from quicksilver.live.components.applications.desktop_opening import Opening
from quicksilver.live.components.applications.replica import Replica
from quicksilver.live.components.interfaces import CheckpointedChannel
from quicksilver.live.references.errors import LiveReferenceError
from quicksilver.live.references.xml import fingerprint, parse
from quicksilver.live.runtime.components import component
from quicksilver.live.types.declare import Given, endpoint, live_object
from quicksilver.live.types.reflect import Ref


class DesktopRequests(Protocol):
    """What a desktop takes."""

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
    """What a desktop gives."""

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
class Desktop(Replica[Update, Contents]):
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
        """Return all items."""
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
        """Say everything."""
        self.desktop.emptied()
        for item in list(self.items.by_number.values()):
            self._say(item)
            problem = self.opening.failures.get(item.number)
            if problem is not None:
                self.desktop.failed(item.number, problem)
            elif item.number in self.opening.proxies:
                self.desktop.opened(item.number)

    def refuse(self, reason: str) -> None:
        """Say why not."""
        self.desktop.refused(reason)

    def _say(self, item: Item) -> None:
        self.desktop.appeared(item.number, item.title, item.x, item.y, item.reference)

    def _say_opened(self, item: int) -> None:
        self.desktop.opened(item)

    def _say_failed(self, item: int, problem: str) -> None:
        self.desktop.failed(item, problem)
