"""A group as a sender sees it: its next sequence number, its lane, its streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quicksilver.multicast.sending.behind import KEEP, Behind
from quicksilver.multicast.sending.stream import SendStream
from quicksilver.wire.ids import Address, enveloped_group

if TYPE_CHECKING:
    from quicksilver.multicast.sending.empty import Empty
    from quicksilver.multicast.sending.lane import Lane


class GroupSender:
    """A group as this node sends to it."""

    __slots__ = (
        "batch",
        "behind",
        "echo",
        "empty",
        "enveloped",
        "floor",
        "hybrid",
        "id",
        "is_empty",
        "is_stranded",
        "lane",
        "name",
        "next_sequence",
        "streams",
        "streams_before",
        "told_sequence",
    )

    def __init__(self, name: str, lane: Lane, behind: Behind = KEEP) -> None:
        self.name = name
        self.behind = behind
        """What to do about members that do not keep up."""
        self.empty: Empty = "wait"
        """What to do with messages while nobody is in the group; see ``empty.Empty``."""
        self.is_empty = False
        """True while nobody is in the group, not even this node."""
        self.id = 0
        self.next_sequence = 0
        self.told_sequence = 0
        """How many of its messages the GMS was told of; see ``take_sent``."""
        self.floor = 0
        """All messages below are known to be delivered. Moves when the group moves to other
        streams with nothing under way: what members hold back for an older stream is
        acknowledged, and not delivered yet."""
        self.lane = lane
        self.streams: tuple[SendStream, ...] | None = None
        """One per region of the current view; None until the view is known.
        Groups with the same regions share one tuple."""
        self.streams_before: tuple[SendStream, ...] = ()
        """The last streams that it had: new ones come after them."""
        self.hybrid: Address | None = None
        self.batch: int | None = None
        """The batch of the last view, for a group that this node has left with messages
        queued; None: whichever is the newest. Nobody who joined since is to get them."""
        self.echo = False
        """True when this node asked to hear its own messages."""
        self.enveloped: EnvelopedSender | None = None
        """The same group for messages with an envelope; None before the first one."""
        self.is_stranded = False
        """True for a group that was left and whose last view cannot be sent to any more,
        though members of it live: what is still queued for it is lost."""

    def twin(self) -> EnvelopedSender:
        """Return the same group for messages with an envelope."""
        if self.enveloped is None:
            self.enveloped = EnvelopedSender(self)
        return self.enveloped

    def take_sent(self) -> int:
        """Return how many messages were committed since the last time."""
        sent = self.next_sequence - self.told_sequence
        self.told_sequence = self.next_sequence
        # A new incarnation numbers its messages anew.
        return sent if sent >= 0 else self.next_sequence


class EnvelopedSender(GroupSender):
    """The same group, for messages with an envelope: its second number, all else shared.

    Waits in the same lane and takes its numbers from the same sequence, so messages of
    both kinds leave in the order in which they were sent.
    """

    __slots__ = ("_plain",)

    def __init__(self, plain: GroupSender) -> None:
        self._plain = plain

    @property
    def id(self) -> int:  # type: ignore[override]  # what the base stores is computed here
        return enveloped_group(self._plain.id)

    @property
    def next_sequence(self) -> int:
        return self._plain.next_sequence

    @next_sequence.setter
    def next_sequence(self, number: int) -> None:
        self._plain.next_sequence = number


def _shared(name: str) -> property:
    def get(twin: EnvelopedSender) -> object:
        return getattr(twin._plain, name)

    return property(get)


for _name in (
    "batch",
    "behind",
    "echo",
    "empty",
    "floor",
    "hybrid",
    "is_empty",
    "is_stranded",
    "lane",
    "name",
    "streams",
    "streams_before",
):
    setattr(EnvelopedSender, _name, _shared(_name))
