"""A node's part in carrying messages: what arrives is delivered, and goes on where it should.

The node's manager says which channels begin and end here (``events``). Messages travel over
links, one for each node that this one sends to, whatever the channels: a link is a stream of
frames in order, such as a TCP connection (``frames``). The first thing that goes over a new
link, for each channel, is what the target has already, so that nothing is lost when a channel
was handed from one node to another, and little is sent twice. Other messages come and go as
datagrams (``casting``), or are repaired by agents.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence

from quicksilver.scopes.dissemination.batches import Batches, check_messages
from quicksilver.scopes.dissemination.bundles import cut_messages
from quicksilver.scopes.dissemination.carrying import key_of
from quicksilver.scopes.dissemination.casting import Datagrams, Mechanisms
from quicksilver.scopes.dissemination.channels import External, Link
from quicksilver.scopes.dissemination.frames import (
    Begin,
    Carry,
    Cast,
    ChannelFrame,
    CloseChannel,
    Datagram,
    Given,
    Have,
    LossyCarry,
    OpenChannel,
)
from quicksilver.scopes.dissemination.gaps import PATIENCE_S, Gaps
from quicksilver.scopes.dissemination.holdings import Holdings, Name, Taken
from quicksilver.scopes.dissemination.inlets import Inlets
from quicksilver.scopes.dissemination.outlets import Outlets
from quicksilver.scopes.dissemination.packets import (
    LINK_CUT_BYTES,
    Gap,
    Packet,
    Sender,
)
from quicksilver.scopes.dissemination.windows import Windows
from quicksilver.scopes.management.events import (
    AgentPosted,
    AgentWithdrawn,
    Event,
    MechanismClosed,
    MechanismOpened,
    SessionInstalled,
    SourceClosed,
    SourceOpened,
    TargetClosed,
    TargetOpened,
    TopicLeft,
)
from quicksilver.scopes.routing import (
    Channel,
    Record,
    begin,
    find_record_problem,
    forwarded,
    heard,
)
from quicksilver.stdx.ranges import VALUE_MAX

NEW_S = 3.0
"""Who has joined a topic so lately was not away."""

WINDOW_BYTES = 8 << 20
"""What a node may publish to a topic before others have it."""


class Forwarder:
    """Carries the messages of one node.

    The caller's duty: after every input take frames until ``poll_transmit`` and ``poll_answer``
    return None, datagrams until ``poll_datagram`` does and messages until ``poll_delivery``
    does; call ``handle_timeout`` at ``next_timeout``; say when a link takes no more and takes
    more again (``handle_blocked``, ``handle_writable``) and when it has ended. A frame that was
    taken counts as gone. Links that others make are numbered by the caller, and no number is
    used again.
    """

    def __init__(
        self,
        *,
        scope: str,
        node: str,
        life: int,
        copies_bytes_max: int,
        window_bytes: int = WINDOW_BYTES,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """``scope`` is the one that this node is a member of."""
        self.counters: Counter[str] = Counter()
        self.sender = Sender(scope, node, life)
        """This node as a sender, of whose messages nobody can tell it anything."""
        self.holdings = Holdings(copies_bytes_max, self.sender)
        self._scope = scope
        self._node = node
        self._record = begin(scope, node)
        self._batches = Batches(self.sender, self._record)
        self._subscribed_at: dict[str, float] = {}
        self._answers: deque[tuple[int, ChannelFrame]] = deque()
        self._deliveries: deque[Packet | Gap] = deque()
        datagrams = Datagrams(self.counters)
        self._datagrams = datagrams
        self._mechanisms = Mechanisms(datagrams)
        self._outlets = Outlets(self.sender, self.holdings, datagrams, self.counters)
        """The channels that begin here …"""
        self._windows = Windows(self.sender, self.holdings, self._outlets, window_bytes)
        self._inlets = Inlets(self.sender, self.holdings, self._answers, self._windows.is_recovered)
        """… and those that end here."""
        self._gaps = Gaps(self.holdings, self._windows, patience_s)

    # Application verbs

    def publish(
        self,
        topic: str,
        messages: Sequence[bytes],
        attributes: dict[str, str] | None,
        now: float,
    ) -> int:
        """Send messages to a topic; return the number of the first.

        What is published before frames are taken shares packets. Raises
        ``MessageTooLargeError``, and sends nothing then. Whoever goes on while ``may_publish``
        is False risks that others miss messages for lack of copies.
        """
        attributes = attributes or {}
        size = check_messages(messages, attributes)
        if not messages:
            return self._batches.next_number(topic)
        if not self._batches.has_room(topic, messages, attributes, size):
            self._send_batch(topic)
        return self._batches.add(topic, messages, attributes, size)

    def may_publish(self, topic: str) -> bool:
        """Whether a topic's window is open (``windows``); if not, ``poll_opened`` says when."""
        return self._windows.may_publish(topic, self._batches.waiting_bytes(topic))

    def may_take(self, topic: str) -> bool:
        """Whether a gateway may go on with ``handle_local``; False: targets are behind."""
        return not self._outlets.is_behind(topic)

    def flush_mark(self, topic: str) -> int:
        """Return the number after the last message that was published here."""
        return self._batches.next_number(topic)

    def is_stable(self, topic: str, number: int, sender: Sender | None = None) -> bool:
        """Whether all messages of a sender below a number are everywhere (``windows``).

        None: this node's own.
        """
        self._send_batches()
        return number <= self._windows.stable_mark(topic, sender)

    def check(self, messages: Sequence[bytes], attributes: dict[str, str] | None) -> None:
        """Raise ``MessageTooLargeError`` if ``publish`` would."""
        check_messages(messages, attributes or {})

    def is_recovered(self, topic: str) -> bool:
        """Whether agents here recover messages of a topic."""
        return self._windows.is_recovered(topic)

    def has_agents(self, topic: str) -> bool:
        """Whether agents here serve a topic, be it that its session wants nothing repaired."""
        return self._windows.has_agents(topic)

    def set_repaired(self, topic: str, *, is_repaired: bool) -> None:
        """Say whether messages of a topic that are missing are waited for, if agents are here.

        What is missing of sessions before, when that begins, is passed over.
        """
        if not self._windows.set_repaired(topic, is_repaired=is_repaired) or not is_repaired:
            return
        for sender, stream in list(self.holdings.of_topic(topic).items()):
            while (first := stream.first_early) is not None:
                early = stream.early.get(first)
                if early is None or early.session >= self._batches.session_of(topic):
                    break
                self.pass_over(topic, sender, first)

    def is_carried(self, topic: str, channels: Iterable[Channel]) -> bool:
        """Whether agents here recover messages of a topic, or else channels have been opened."""
        return self._windows.is_recovered(topic) or all(map(self._outlets.is_ready, channels))

    def is_open(self, sources: Iterable[Channel], targets: Iterable[Channel]) -> bool:
        """Whether channels that begin and end here have been opened."""
        outlets, inlets = self._outlets, self._inlets
        return all(map(outlets.is_ready, sources)) and all(map(inlets.is_open, targets))

    def note_subscribed(self, topic: str, now: float) -> None:
        """The applications of this node want the messages of a topic from now on."""
        self._subscribed_at[topic] = now

    def _is_new(self, topic: str, now: float) -> bool:
        """Whether this node cannot have missed anything of a topic yet."""
        return now < self._subscribed_at.get(topic, now) + NEW_S

    # Inputs from other protocols and from recovery

    def handle_local(
        self,
        topic: str,
        sender: Sender,
        number: int,
        messages: Sequence[bytes],
        now: float,
        attributes: dict[str, str] | None = None,
        record: Record | None = None,
    ) -> None:
        """Another node of this node's network has sent messages; this one is their gateway.

        They go on as if this node had made them, or with another ``record``, with their
        sender's numbers, which may begin above 0. Nothing of such a sender is delivered here
        for it.
        """
        self._take_run(
            topic, sender, number, messages, record or self._record, attributes or {},
            is_forwarded=True,
        )  # fmt: skip

    def handle_known(
        self,
        topic: str,
        sender: Sender,
        number: int,
        messages: Sequence[bytes],
        now: float,
        record: Record | None = None,
    ) -> None:
        """Another gateway has brought messages into this node's network, and they are here too.

        They are kept as copies, and neither forwarded nor delivered. ``record``: the one that
        they have at the other gateway. With it they can be given along channels later, if this
        node takes over from the other; without it they can only be given to repair.
        """
        moved: Record = ()
        if record:
            origin = record[-1].origin
            moved = forwarded(record, Channel(self._scope, (origin,), (self._node,), topic, origin))
        self._take_run(topic, sender, number, messages, moved, {}, is_forwarded=False)

    def handle_repair(self, channel: Channel, packet: Packet, now: float) -> bool:
        """An agent of another node has given messages; return whether any was missing here.

        Those from before their stream begins here were fetched for others (``fetched``).
        ``channel`` says between which members of which domain's scope that was, as if it were
        a channel; the packet's record is the giver's.
        """
        moved = packet.moved(forwarded(packet.record, channel))
        if self._is_forged(channel, moved):
            self.counters["forged"] += 1
            return False
        fresh = self.holdings.take_fetched(moved)
        for each in fresh:
            self._forward(each)
        if sum(each.count for each in fresh) < moved.count:
            fresh += self._take(moved, now)
        self.counters["repaired"] += sum(each.count for each in fresh)
        return bool(fresh)

    def pass_over(self, topic: str, sender: Sender, mark: int) -> None:
        """Recovery says that nobody has what is missing here below a number."""
        stream = self.holdings.find(topic, sender)
        if stream is not None and sender != self.sender and mark > stream.low:
            self.holdings.arrived[Name(topic, sender)] = None
            self._deliver(self.holdings.pass_over(topic, sender, mark))

    def skip(self, topic: str, sender: Sender, first: int) -> None:
        """Recovery says that a stream of which nothing was delivered begins here for this node."""
        if sender != self.sender:
            self._deliver(self.holdings.skip(topic, sender, first))

    # Inputs

    def handle_event(self, event: Event) -> None:
        """The node's manager says which channels begin and end here."""
        self._send_batches()
        match event:
            case SourceOpened():
                self._outlets.open(event)
            case SourceClosed(channel):
                self._outlets.close(key_of(channel))
            case TargetOpened(channel):
                self._inlets.announce(channel)
            case TargetClosed(channel):
                self._deliver(self._inlets.withdraw(channel))
            case MechanismOpened():
                self._mechanisms.open(event)
            case MechanismClosed(topic, scope):
                self._mechanisms.close(topic, scope)
            case AgentPosted(post):
                self._windows.handle_posted(post.domain, post.path[0], post.topics)
            case AgentWithdrawn(domain, member):
                self._windows.handle_posted(domain, member, ())
            case SessionInstalled(topic, number):
                self._batches.set_session(topic, number)
            case TopicLeft(topic):
                self.holdings.forget_topic(topic)
                self._subscribed_at.pop(topic, None)
                self._windows.handle_left(topic)
            case _:
                pass

    def handle_frame(self, link: int, frame: ChannelFrame, now: float) -> None:
        """The source of a channel has said something over a link."""
        match frame:
            case Carry(channel, packet):
                self._handle_packet(link, channel, packet, now)
            case OpenChannel(channel):
                self._inlets.handle_open(link, channel)
            case CloseChannel(channel):
                self._inlets.handle_close(link, channel)
            case Begin():
                is_new = self._is_new(frame.channel.topic, now)
                if not self._inlets.handle_begin(link, frame, is_new=is_new):
                    self.counters["unexpected"] += 1
            case Given():
                told = self._inlets.handle_given(link, frame)
                if told is None:
                    self.counters["unexpected"] += 1
                else:
                    self._deliver(told)
            case _:
                self.counters["unexpected"] += 1

    def handle_answer(self, where: Link, frame: ChannelFrame) -> None:
        """The target of a channel has said something over the link that it goes over."""
        match frame:
            case Have(channel, lows):
                self._send_batches()
                self._outlets.handle_have(where, channel, dict(lows))
            case CloseChannel(channel):
                self._outlets.handle_refused(where, channel)
            case _:
                self.counters["unexpected"] += 1

    def handle_datagram(self, datagram: LossyCarry | Cast, now: float) -> None:
        """A datagram has come, over a link that loses messages or by a mechanism."""
        packet = datagram.packet
        if isinstance(datagram, Cast):
            mechanism = self._mechanisms.find(packet.topic, datagram.scope)
            if mechanism is None:
                self.counters["unknown_mechanisms"] += 1
                return
            if packet.record and packet.record[-1].origin == mechanism.path[0]:
                self.counters["echoes"] += 1
                return
            record = heard(packet.record, datagram.scope, mechanism.path)
            is_bad = record is None or packet.stop > VALUE_MAX
            packet = packet.moved(record or ())
        else:
            if not self._inlets.knows(datagram.channel):
                self.counters["unknown_channels"] += 1
                return
            is_bad = self._is_forged(datagram.channel, packet)
        if is_bad:
            self.counters["forged"] += 1
        elif packet.sender != self.sender:
            first = min(datagram.first, packet.number)
            if not self._is_new(packet.topic, now):
                first = min(first, datagram.missed)
            stream = self.holdings.begin(packet.topic, packet.sender, first)
            stream.is_lossy = True
            self._take(packet, now)

    def handle_link_lost(self, where: Link) -> None:
        """The link to a node has ended: its channels are to be asked for again."""
        self._outlets.handle_link_lost(where)

    def handle_link_closed(self, link: int) -> None:
        """A link over which messages came has ended."""
        self._inlets.handle_link_closed(link)

    def handle_blocked(self, where: Link) -> None:
        """The link to a node takes no more for now."""
        self._outlets.handle_blocked(where)

    def handle_writable(self, where: Link) -> None:
        """The link to a node takes more again."""
        self._outlets.handle_writable(where)

    def handle_timeout(self, now: float) -> None:
        for told in self._gaps.pass_over_due(now):
            self._deliver(told)

    def send_datagram(self, where: Link | External, datagram: Datagram) -> None:
        """Send something that is no message of a topic."""
        self._datagrams.send(where, datagram)

    # Outputs

    def next_timeout(self) -> float | None:
        return self._gaps.next_timeout()

    def poll_transmit(self) -> tuple[Link, ChannelFrame] | None:
        """Return which frame goes to which node, or None."""
        if self._batches:
            self._send_batches()
        return self._outlets.poll_transmit()

    def poll_answer(self) -> tuple[int, ChannelFrame] | None:
        """Return which frame goes back over which link that messages come over, or None."""
        return self._answers.popleft() if self._answers else None

    def poll_datagram(self) -> tuple[Link | External, bytes] | None:
        """Return what goes as a datagram to a node, or to a mechanism; or None."""
        if self._batches:
            self._send_batches()
        return self._datagrams.poll()

    def poll_delivery(self) -> Packet | Gap | None:
        """Return the next messages for the applications of this node, or None.

        A ``Gap`` stands where messages are missing that nobody can give any more.
        """
        return self._deliveries.popleft() if self._deliveries else None

    def poll_arrived(self) -> list[Name]:
        """Return the streams that have got something since this was last asked."""
        if self._batches:
            self._send_batches()
        arrived = list(self.holdings.arrived)
        self.holdings.arrived.clear()
        return arrived

    def poll_opened(self) -> str | None:
        """Return a topic whose window was closed and is open again, or None."""
        if not self._windows.is_any_closed():
            return None
        self._send_batches()
        return self._windows.poll_opened()

    def pending_bytes(self, topics: Iterable[str]) -> int:
        """Return how much this node has published to topics and others may lack."""
        self._send_batches()
        return self._windows.pending_bytes(topics)

    def count_traffic(self) -> dict[str, int]:
        """Return how many messages this node has carried, and how many wait for others.

        ``unstable``: its own that others may lack, of topics with agents; ``early``: of others,
        that wait for one before them which is missing.
        """
        counts = dict.fromkeys(("published", "unstable", "early"), 0)
        for name, stream in self.holdings.streams.items():
            counts["early"] += stream.early_count
            if name.sender == self.sender:
                counts["published"] += stream.high
                if self._windows.has_agents(name.topic):
                    counts["unstable"] += max(0, stream.high - stream.stable)
        for kind in ("delivered", "forwarded", "repaired", "repairs_given", "gaps"):
            counts[kind] = self.counters[kind]
        return counts

    def poll_lost(self) -> Channel | None:
        """Return a channel that does not reach its target any more, or None.

        The manager is to be told (``ScopeManager.handle_link_lost``).
        """
        return self._outlets.poll_lost()

    def has_link(self, where: Link) -> bool:
        """Whether channels go over a link, or frames wait for it."""
        return self._outlets.has_link(where)

    def find_link(self, channel: Channel) -> Link | None:
        """Return the link that a channel which begins here goes over, or None."""
        return self._outlets.find_link(channel)

    # Messages

    def _send_batches(self) -> None:
        for topic in self._batches.topics():
            self._send_batch(topic)

    def _send_batch(self, topic: str) -> None:
        number, packets = self._batches.take(topic)
        self.holdings.begin(topic, self.sender, number)
        for packet in packets:
            self.holdings.take(packet)
            self._windows.handle_published(topic, packet.stop, packet.size())
            self._forward(packet)

    def _take_run(
        self,
        topic: str,
        sender: Sender,
        number: int,
        messages: Sequence[bytes],
        record: Record,
        attributes: dict[str, str],
        *,
        is_forwarded: bool,
    ) -> None:
        """Take messages that came here by another protocol."""
        assert sender != self.sender
        self._send_batches()
        self.holdings.begin(topic, sender, number)
        runs = cut_messages(messages, LINK_CUT_BYTES)
        for packet in self._batches.make_packets(topic, sender, number, runs, record, attributes):
            taken = self.holdings.take(packet)
            if is_forwarded:
                for each in taken.fresh:
                    self._forward(each)

    def _handle_packet(self, link: int, channel: Channel, packet: Packet, now: float) -> None:
        if not self._inlets.knows(channel):
            self.counters["unknown_channels"] += 1
            self._answers.append((link, CloseChannel(channel)))
        elif self._is_forged(channel, packet):
            self.counters["forged"] += 1
        else:
            self._take(packet, now)

    def _is_forged(self, channel: Channel, packet: Packet) -> bool:
        return (
            packet.topic != channel.topic
            or packet.stop > VALUE_MAX
            or find_record_problem(packet.record, channel) is not None
        )

    def _take(self, packet: Packet, now: float) -> list[Packet]:
        """Take what is new of a packet, deliver and forward it; return it."""
        if packet.sender == self.sender:
            self.counters["duplicates"] += packet.count
            return []
        taken: Taken = self.holdings.take(packet)
        stream = self.holdings.find(packet.topic, packet.sender)
        assert stream is not None
        if stream.early or stream.refused is not None:
            self._inlets.handle_taken(packet.topic, packet.sender)
            if stream.is_lossy:
                self._gaps.watch(Name(packet.topic, packet.sender), stream, now)
        if taken.ready:
            self._deliver(taken.ready)
        count = 0
        for each in taken.fresh:
            count += each.count
            self._forward(each)
        if count < packet.count:
            self.counters["duplicates"] += packet.count - count
        return taken.fresh

    def _deliver(self, told: Sequence[Packet | Gap]) -> None:
        """Give messages to the applications; others are told what this node passes over."""
        self._deliveries.extend(told)
        gaps: dict[str, None] = {}
        for each in told:
            if isinstance(each, Gap):
                self.counters["gaps"] += 1
                gaps[each.topic] = None
            else:
                self.counters["delivered"] += each.count
        if gaps:
            self._outlets.say_given(gaps)

    def _forward(self, packet: Packet) -> None:
        self._outlets.carry(packet)
        if self._mechanisms.knows_any(packet.topic):
            self._mechanisms.carry(packet, *self.holdings.beginning_of(packet))
