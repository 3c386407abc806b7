"""Where the messages of joined groups go: receivers by name and by pattern, and how packets are
split among them."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from quicksilver.multicast.carried import CarriedMessages
from quicksilver.multicast.events import EnvelopeReceiver, Receiver
from quicksilver.wire.envelope import Envelope, Kind, distinct, open_envelopes
from quicksilver.wire.ids import NodeId, plain_group
from quicksilver.wire.packets import Messages

Told = tuple[int, int, tuple[NodeId, ...]]
"""The view that was told last: its group, number and members, which the directory has as
well: a set of them would take a hundred bytes a member."""

NOTHING_TOLD: Told = (0, 0, ())


Receivers = tuple[Receiver, EnvelopeReceiver | None]
"""Who takes plain messages, and those with envelopes; None: the same, without envelopes."""

MakeReceivers = Callable[[str], Receivers]
"""Gives the receivers for a group that a pattern stands for, by its name."""


def _ignore(_: Messages) -> None:
    """Take nothing: nobody wants the group any more."""


class Joined:
    """A group that the application is in."""

    __slots__ = (
        "_matched",
        "_named",
        "carried",
        "echo",
        "group",
        "name",
        "on_envelopes",
        "receiver",
        "since",
        "told",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.receiver: Receiver = _ignore
        self.on_envelopes: EnvelopeReceiver | None = None
        """Takes messages with envelopes; without it the receiver gets them, stripped."""
        self._named: Receivers | None = None
        """Whom the application named for the group; None if it did not name the group."""
        self._matched: dict[str, Receivers] = {}
        """Those of the patterns that stand for the group."""
        self.echo = False
        """True when the application wants to hear its own messages."""
        self.group = 0
        """The group's number while messages are routed to the receiver, else 0."""
        self.since = 0
        """The batch in which this node came: older messages are not for it."""
        self.told = NOTHING_TOLD
        self.carried: CarriedMessages | None = None
        """What came of senders in other networks; None: nothing."""

    @property
    def is_wanted(self) -> bool:
        return self._named is not None or bool(self._matched)

    @property
    def is_named(self) -> bool:
        return self._named is not None

    def set_named(self, receivers: Receivers | None) -> None:
        self._named = receivers
        self._combine()

    def set_matched(self, pattern: str, receivers: Receivers | None) -> None:
        if receivers is None:
            self._matched.pop(pattern, None)
        else:
            self._matched[pattern] = receivers
        self._combine()

    @property
    def patterns(self) -> tuple[str, ...]:
        return tuple(self._matched)

    def has_matched(self, pattern: str) -> bool:
        return pattern in self._matched

    def _combine(self) -> None:
        named = [] if self._named is None else [self._named]
        everybody = [*named, *self._matched.values()]
        if len(everybody) == 1:
            self.receiver, self.on_envelopes = everybody[0]
            return

        def receive(messages: Messages) -> None:
            for plain, _ in everybody:
                plain(messages)

        def receive_enveloped(messages: Messages, envelopes: Sequence[Envelope]) -> None:
            for plain, with_envelopes in everybody:
                if with_envelopes is None:
                    plain(messages)
                else:
                    with_envelopes(messages, envelopes)

        self.receiver, self.on_envelopes = receive, receive_enveloped


def open_for(
    messages: Messages, joined: Joined, living: Container[int]
) -> tuple[Messages, Sequence[Envelope], int]:
    """Take envelopes off; return what is for this member, and how many did not parse.

    ``living`` are the nodes that are counted in.
    """
    opened, envelopes, bad = open_envelopes(messages, joined.group)
    kinds = [each.kind for each in distinct(envelopes)]  # no set: hashing them takes long
    if Kind.RETAINED in kinds:
        opened, envelopes = _for_newcomers(opened, envelopes, joined.since)
    if Kind.CARRIED in kinds:
        carried = joined.carried
        if carried is None:
            carried = joined.carried = CarriedMessages()
        kept = carried.pick(messages.sender, envelopes, living)
        if len(kept) < len(envelopes):
            opened, envelopes = opened.pick(kept), [envelopes[at] for at in kept]
    return opened, envelopes, bad


def _for_newcomers(
    messages: Messages, envelopes: Sequence[Envelope], since: int
) -> tuple[Messages, list[Envelope]]:
    """Leave out values that were sent again for members that came later than this one."""
    kept = [
        at
        for at, envelope in enumerate(envelopes)
        if envelope.kind != Kind.RETAINED or since > envelope.number
    ]
    return messages.pick(kept), [envelopes[at] for at in kept]


def in_runs(messages: Messages) -> list[tuple[int, tuple[list[bytes], list[int]]]]:
    """Split a packet by group, keeping plain messages and those with envelopes in order."""
    by_group: dict[int, list[tuple[int, tuple[list[bytes], list[int]]]]] = {}
    for number, sequence, payload in zip(
        messages.groups, messages.sequences, messages.payloads, strict=True
    ):
        runs = by_group.setdefault(plain_group(number), [])
        if not runs or runs[-1][0] != number:
            runs.append((number, ([], [])))
        payloads, sequences = runs[-1][1]
        payloads.append(payload)
        sequences.append(sequence)
    return [run for runs in by_group.values() for run in runs]
