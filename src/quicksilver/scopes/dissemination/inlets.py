"""Channels that end at a node, and what can be had along them.

A message that is missing may still come along another channel: channels may carry a share of
the messages each. So it is given up only when the source of every channel that brings its
sender's messages has said that it gave all it can up to there. Sources whose word is older
than the gap are asked again. Where messages also come along channels that lose some, or where
agents recover them, no source can say so: recovery does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from quicksilver.scopes.dissemination.carrying import Key, key_of
from quicksilver.scopes.dissemination.frames import (
    Begin,
    ChannelFrame,
    CloseChannel,
    Given,
    Have,
)
from quicksilver.scopes.dissemination.holdings import STREAMS_MAX, Holdings
from quicksilver.scopes.dissemination.packets import Gap, Packet, Sender
from quicksilver.scopes.routing import Channel


@dataclass(slots=True)
class _Inlet:
    """A channel that its source has opened."""

    channel: Channel
    link: int
    is_asked: bool = True
    """True while the source has not answered what this node has."""
    given: dict[Sender, int] = field(default_factory=dict)
    """Below these numbers the source has given all that it can; only senders with a stream."""


class Inlets:
    """The ends of channels at one node."""

    def __init__(
        self,
        own: Sender,
        holdings: Holdings,
        answers: deque[tuple[int, ChannelFrame]],
        is_recovered: Callable[[str], bool],
    ) -> None:
        """What is to be said goes into the forwarder's queue.

        ``own``: this node as a sender, of whose messages nobody can tell it anything.
        ``is_recovered``: whether agents recover the messages of a topic.
        """
        self._is_recovered = is_recovered
        self._own = own
        self._holdings = holdings
        self._answers = answers
        self._known: dict[Key, Channel] = {}
        """Channels that the node's manager has announced …"""
        self._inlets: dict[str, dict[Key, _Inlet]] = {}
        """… and those of them that are open, by topic."""

    def announce(self, channel: Channel) -> None:
        self._known[key_of(channel)] = channel

    def withdraw(self, channel: Channel) -> list[Packet | Gap]:
        """A channel does not end here any more; return what is delivered for that."""
        key = key_of(channel)
        self._known.pop(key, None)
        inlet = self._inlets.get(key.topic, {}).get(key)
        if inlet is None:
            return []
        self._answers.append((inlet.link, CloseChannel(inlet.channel)))
        self._shut(key)
        return self._pass_over(key.topic, inlet.given)

    def knows(self, channel: Channel) -> bool:
        """Whether a channel ends here, whoever works its source."""
        known = self._known.get(key_of(channel))
        return known is not None and known.target == channel.target

    def is_open(self, channel: Channel) -> bool:
        """Whether the source of a channel that ends here has opened it."""
        return key_of(channel) in self._inlets.get(channel.topic, {})

    def handle_open(self, link: int, channel: Channel) -> None:
        if not self.knows(channel):
            self._answers.append((link, CloseChannel(channel)))
            return
        inlet = _Inlet(channel, link)
        self._inlets.setdefault(channel.topic, {})[key_of(channel)] = inlet
        self._ask(inlet)

    def handle_close(self, link: int, channel: Channel) -> None:
        """The source has closed a channel; another one may take over, and have more."""
        if self._find(link, channel) is not None:
            self._shut(key_of(channel))

    def handle_link_closed(self, link: int) -> None:
        """A link has ended; another one may take over, and have more."""
        for inlets in list(self._inlets.values()):
            for key in [key for key, inlet in inlets.items() if inlet.link == link]:
                self._shut(key)

    def handle_begin(self, link: int, begin: Begin, *, is_new: bool) -> bool:
        """A stream begins; False: nobody of this link may say so.

        ``is_new``: this node takes part since a short time ago, and has missed nothing.
        """
        inlet = self._find(link, begin.channel)
        if inlet is None:
            return False
        if begin.sender == self._own:
            return True
        first = begin.first if is_new else min(begin.first, begin.missed)
        self._holdings.begin(begin.channel.topic, begin.sender, first)
        if len(inlet.given) >= STREAMS_MAX:
            inlet.given.clear()
        inlet.given.setdefault(begin.sender, 0)
        return True

    def handle_given(self, link: int, given: Given) -> list[Packet | Gap] | None:
        """A source has given what it can; return what is delivered for that.

        None: nobody of this link may say so.
        """
        inlet = self._find(link, given.channel)
        if inlet is None:
            return None
        topic = given.channel.topic
        streams = self._holdings.of_topic(topic)
        inlet.given = {
            sender: mark
            for sender, mark in given.marks
            if sender in streams and sender != self._own
        }
        if given.is_answer:
            inlet.is_asked = False
        for sender, mark in inlet.given.items():
            low = streams[sender].low
            if mark > low:
                self._ask_stale(topic, sender, low)
        return self._pass_over(topic, inlet.given)

    def handle_taken(self, topic: str, sender: Sender) -> None:
        """Messages came: if many wait for one that is missing, sources are asked for it."""
        stream = self._holdings.find(topic, sender)
        if stream is not None and stream.is_short():
            stream.handle_asked()
            self._ask_all(topic)

    def _find(self, link: int, channel: Channel) -> _Inlet | None:
        inlet = self._inlets.get(channel.topic, {}).get(key_of(channel))
        return inlet if inlet is not None and inlet.link == link else None

    def _shut(self, key: Key) -> None:
        inlets = self._inlets[key.topic]
        del inlets[key]
        if not inlets:
            del self._inlets[key.topic]

    def _ask(self, inlet: _Inlet) -> None:
        inlet.is_asked = True
        streams = self._holdings.of_topic(inlet.channel.topic)
        lows = tuple((sender, stream.low) for sender, stream in streams.items())
        self._answers.append((inlet.link, Have(inlet.channel, lows)))

    def _ask_stale(self, topic: str, sender: Sender, low: int) -> None:
        """Ask the sources whose word on a stream is older than what is missing of it."""
        for inlet in self._inlets.get(topic, {}).values():
            if not inlet.is_asked and inlet.given.get(sender, low + 1) <= low:
                self._ask(inlet)

    def _ask_all(self, topic: str) -> None:
        for inlet in self._inlets.get(topic, {}).values():
            if not inlet.is_asked:
                self._ask(inlet)

    def _pass_over(self, topic: str, senders: Iterable[Sender]) -> list[Packet | Gap]:
        """Give up what no source can give; nothing while one has yet to answer."""
        inlets = self._inlets.get(topic, {}).values()
        if self._is_recovered(topic) or any(inlet.is_asked for inlet in inlets):
            return []
        told: list[Packet | Gap] = []
        for sender in senders:
            stream = self._holdings.find(topic, sender)
            marks = [inlet.given[sender] for inlet in inlets if sender in inlet.given]
            if stream is None or stream.is_lossy or not marks:
                continue
            mark = min(marks)
            if stream.refused is not None:
                # It came when there was no room: it can be had.
                mark = min(mark, stream.refused)
            if mark > stream.low:
                told += self._holdings.pass_over(topic, sender, mark)
            self.handle_taken(topic, sender)
        return told
