"""The multiplexer of a node (Figures 3.21 and 3.22): which session a message belongs to.

What applications publish goes into the newest session that is installed here; what arrives goes
to the stack of its session, and waits for that if it is not installed yet. A publisher says in
its control stream where its messages of a session end. A session is flushed here once all known
senders' messages of it were delivered and all members have this node's own; of a sender that
crashed without a word, once nobody has more of it than this node.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from quicksilver.scopes.dissemination.bundles import bundle
from quicksilver.scopes.dissemination.forwarder import Forwarder
from quicksilver.scopes.dissemination.packets import Gap, Packet, Sender
from quicksilver.scopes.management.events import (
    Event,
    SequencerChosen,
    SessionFlushing,
    SessionInstalled,
    SessionRetired,
    TopicLeft,
)
from quicksilver.scopes.sessions.control import Control, End, control_of, encode, is_control, parse
from quicksilver.scopes.sessions.keys import KeyRing
from quicksilver.scopes.sessions.ordering import TotalOrder
from quicksilver.scopes.sessions.stacks import (
    HELD_BYTES_MAX,
    OUTBOX_BYTES_MAX,
    Stack,
    TopicStacks,
)

TICK_S = 0.1
"""How often what goes on is looked at."""

QUIET_S = 3.0
"""A stream whose sender has not said where it ends is over if it has not moved for so long."""

SENDERS_MAX = 10_000
"""Senders of one topic that are remembered."""


@dataclass(frozen=True, slots=True)
class KeyMissing:
    """Messages of a session cannot be read or sent here: the node does not have its key."""

    topic: str
    session: int
    key: str


class Multiplexer:
    """The sessions of one node.

    The caller's duty: tell it the manager's events after the forwarder, call ``advance`` after
    every input, then take everything from ``deliveries``, ``events``, ``flushed``, ``offers``
    and ``opened``.
    """

    def __init__(
        self,
        forwarder: Forwarder,
        subscribes: Callable[[str], bool],
        is_stable: Callable[[str, int], bool],
        keys: KeyRing,
        counters: Counter[str],
    ) -> None:
        """``is_stable``: whether the node's own messages below a number are everywhere."""
        self.deliveries: deque[Packet | Gap] = deque()
        self.events: deque[KeyMissing] = deque()
        self.flushed: deque[tuple[str, int]] = deque()
        """Sessions that are flushed here (``ScopeManager.handle_flushed``)."""
        self.offers: deque[tuple[str, int, int, Sender]] = deque()
        """What to tell the root (``ScopeManager.nominate``)."""
        self.opened: deque[str] = deque()
        """Topics that there is room again to publish to."""
        self._forwarder = forwarder
        self._subscribes = subscribes
        self._is_stable = is_stable
        self._keys = keys
        self._counters = counters
        self._topics: dict[str, TopicStacks] = {}
        self._busy: dict[str, None] = {}
        """Topics in which something is to be looked at now and then."""
        self._numbers: Counter[str] = Counter()
        """Of the control stream of each topic; they go on after the topic was left."""
        self._look_at: float | None = None

    # What applications publish

    def publish(
        self, topic: str, messages: Sequence[bytes], attributes: dict[str, str] | None, now: float
    ) -> int:
        """Send messages in the newest session; return the number of the first."""
        known = self._find(topic)
        if known.outbox or not self._can_send(topic, known):
            self._forwarder.check(messages, attributes)
            number = self.flush_mark(topic)
            known.outbox.append((list(messages), attributes))
            known.outbox_count += len(messages)
            known.outbox_bytes += sum(map(len, messages))
            return number
        return self._send(topic, known, messages, attributes, now)

    def _can_send(self, topic: str, known: TopicStacks) -> bool:
        stack = known.stacks.get(known.newest)
        return stack is not None and self._has_key(topic, stack)

    def _send(
        self,
        topic: str,
        known: TopicStacks,
        messages: Sequence[bytes],
        attributes: dict[str, str] | None,
        now: float,
    ) -> int:
        stack = known.stacks[known.newest]
        if stack.order is not None:
            self._note_busy(topic, now)
        key = stack.flavour.key
        if key:
            number, own = self._forwarder.flush_mark(topic), self._forwarder.sender
            messages = [
                self._keys.seal(key, topic, stack.number, own, number + place, message)
                for place, message in enumerate(messages)
            ]
        return self._forwarder.publish(topic, messages, attributes, now)

    def may_publish(self, topic: str) -> bool:
        """Whether there is room; if not, the topic comes in ``opened`` when there is again."""
        known = self._topics.get(topic)
        if known is not None and known.outbox_bytes >= OUTBOX_BYTES_MAX:
            known.is_closed = True
            return False
        return self._forwarder.may_publish(topic)

    def flush_mark(self, topic: str) -> int:
        """Return the number after the last message that was published here."""
        known = self._topics.get(topic)
        waiting = 0 if known is None else known.outbox_count
        return self._forwarder.flush_mark(topic) + waiting

    def repairs(self, topic: str) -> bool:
        """Whether what is missing here of a topic is to be recovered."""
        known = self._topics.get(topic)
        return known is None or known.repairs()

    # Inputs

    def handle_event(self, event: Event, now: float) -> None:
        """The node's manager says how sessions go on."""
        match event:
            case SessionInstalled(topic):
                self._install(event, now)
            case SequencerChosen(topic, number, sender, term, is_firm):
                stack = self._find_stack(topic, number)
                if stack is not None and stack.order is not None:
                    stack.order.handle_chosen(sender, term, is_firm=is_firm, now=now)
            case SessionFlushing(topic, number):
                stack = self._find_stack(topic, number)
                if stack is not None:
                    stack.is_flushing = True
            case SessionRetired(topic, number):
                stack = self._find_stack(topic, number)
                if stack is not None:
                    if stack.order is not None:
                        stack.order.end()  # Everybody else is done with it.
                    self._topics[topic].retire(number)
                    self._forwarder.set_repaired(topic, is_repaired=self.repairs(topic))
            case TopicLeft(topic):
                self._topics.pop(topic, None)
                self._busy.pop(topic, None)
                self._forwarder.set_repaired(topic, is_repaired=True)
                return
            case _:
                return
        self._note_busy(topic, now)

    def _install(self, installed: SessionInstalled, now: float) -> None:
        topic, number, flavour = installed.topic, installed.number, installed.flavour
        known = self._find(topic)
        mark = self._forwarder.flush_mark(topic)
        before = known.stacks.get(known.newest)
        if before is not None:
            before.own_stop = mark
            if mark > before.own_first:
                self._say(topic, End(before.number, mark), now)
        stack = Stack(number, flavour, own_first=mark)
        if flavour.ordering == "total":
            is_late = known.is_joining
            stack.order = TotalOrder(topic, number, self._forwarder, is_late=is_late, now=now)
        known.stacks[number] = stack
        known.newest = number
        self._forwarder.set_repaired(topic, is_repaired=known.repairs())

    def _send_outbox(self, topic: str, known: TopicStacks, now: float) -> None:
        """Send what waited, once it is known which session is the newest."""
        if not self._can_send(topic, known):
            return
        while known.outbox:
            messages, attributes = known.outbox.popleft()
            known.outbox_count -= len(messages)
            self._send(topic, known, messages, attributes, now)
        known.outbox_bytes = 0
        if known.is_closed:
            known.is_closed = False
            self.opened.append(topic)

    def _has_key(self, topic: str, stack: Stack) -> bool:
        key = stack.flavour.key
        if not key or key in self._keys:
            return True
        if not stack.is_unreadable:
            stack.is_unreadable = True
            self.events.append(KeyMissing(topic, stack.number, key))
        return False

    def _find(self, topic: str) -> TopicStacks:
        return self._topics.setdefault(topic, TopicStacks())

    def _find_stack(self, topic: str, number: int) -> Stack | None:
        known = self._topics.get(topic)
        return None if known is None else known.stacks.get(number)

    def _note_busy(self, topic: str, now: float) -> None:
        self._busy[topic] = None
        self._look_at = now

    # What arrives

    def advance(self, now: float) -> None:
        """Take what has arrived, and see what follows from it."""
        while (item := self._forwarder.poll_delivery()) is not None:
            if is_control(item.sender):
                if isinstance(item, Packet):
                    self._take_control(item, now)
            elif self._subscribes(item.topic):
                self._take(item, now)
        if not self._busy:
            self._look_at = None
            return
        for topic in list(self._busy):
            self._advance_topic(topic, self._topics[topic], now)
        self._look_at = now + TICK_S if self._busy else None

    def next_timeout(self) -> float | None:
        return self._look_at

    def _take_control(self, packet: Packet, now: float) -> None:
        known = self._topics.get(packet.topic)
        if known is None:
            return
        sender = control_of(packet.sender)
        for number, data in enumerate(packet.split(), packet.number):
            said = parse(data)
            if said is None:
                self._counters["malformed"] += 1
            else:
                self._handle_control(packet.topic, known, sender, number, said)
        self._note_busy(packet.topic, now)

    def _handle_control(
        self, topic: str, known: TopicStacks, sender: Sender, number: int, said: Control
    ) -> None:
        if isinstance(said, End):
            if len(known.ends) < SENDERS_MAX or sender in known.ends:
                known.ends[sender] = max(known.ends.get(sender, (0, 0)), (said.session, said.mark))
            return
        stack = self._find_stack(topic, said.session)
        if stack is not None and stack.order is not None:
            if self._subscribes(topic):
                stack.order.handle_control(sender, number, said)
            else:
                stack.order.handle_missed()
        else:
            self._counters["unordered"] += 1

    def _take(self, item: Packet | Gap, now: float) -> None:
        """Bring messages to their session."""
        known = self._find(item.topic)
        before = known.last.get(item.sender)
        session = known.newest if before is None else before
        if isinstance(item, Packet):
            session = item.session
            known.last[item.sender] = session
            if before is not None and before < session:
                known.following.setdefault(session, set()).add(item.sender)
            if len(known.last) > SENDERS_MAX:
                del known.last[next(iter(known.last))]
        stack = known.stacks.get(session)
        if stack is not None:
            self._give(known, stack, item, now)
        elif session > known.newest:
            self._hold(known, item)
        elif session == 0 and not any(s.flavour.key for s in known.stacks.values()):
            self.deliveries.append(item)  # It was sent by a protocol without sessions.
        else:
            self._counters["late_sessions"] += 1

    def _hold(self, known: TopicStacks, item: Packet | Gap) -> None:
        size = item.size() if isinstance(item, Packet) else 0
        if isinstance(item, Packet) and known.held_bytes + size > HELD_BYTES_MAX:
            self._counters["held_too_many"] += item.count
            item, size = Gap(item.topic, item.sender, item.number, item.stop - 1), 0
        known.held.append(item)
        known.held_bytes += size

    def _give(self, known: TopicStacks, stack: Stack, item: Packet | Gap, now: float) -> None:
        opened: list[Packet | Gap] = [item]
        if stack.flavour.key and isinstance(item, Packet):
            opened = self._open(stack, item)
        for each in opened:
            if stack.order is not None:
                if stack.order.is_over:
                    # Its sender was given up and came back: late is better than lost.
                    self._counters["late_in_order"] += 1
                    stack.queue.append(each)
                    self._busy[item.topic] = None
                else:
                    follows = each.sender in known.following.get(stack.number, ())
                    stack.order.handle_item(each, now, follows=follows)
                    self._busy[item.topic] = None
            elif stack.queue or not all(s.is_settled() for s in _before(known, stack)):
                stack.queue.append(each)
            else:
                self.deliveries.append(each)

    def _open(self, stack: Stack, packet: Packet) -> list[Packet | Gap]:
        """Return what was sealed; messages that were not sealed by a sender who has the key are
        told as lost."""
        if not self._has_key(packet.topic, stack):
            self._counters["unreadable"] += packet.count
            return []
        key, topic, sender = stack.flavour.key, packet.topic, packet.sender
        found: list[Packet | Gap] = []
        run: list[bytes] = []
        for number, sealed in enumerate(packet.split(), packet.number):
            message = self._keys.open(key, topic, stack.number, sender, number, sealed)
            if message is not None:
                run.append(message)
                continue
            self._counters["forged"] += 1
            _close_run(found, packet, number, run)
            found.append(Gap(topic, sender, number, number))
        _close_run(found, packet, packet.stop, run)
        return found

    # What goes on in a topic

    def _advance_topic(self, topic: str, known: TopicStacks, now: float) -> None:
        known.is_joining = not known.stacks
        if known.outbox:
            self._send_outbox(topic, known, now)
        if known.held:
            held, known.held, known.held_bytes = known.held, deque(), 0
            for item in held:
                number = item.session if isinstance(item, Packet) else 0
                stack = known.stacks.get(number or known.last.get(item.sender, known.newest))
                if stack is None:
                    self._hold(known, item)
                else:
                    self._give(known, stack, item, now)
        is_busy = False
        for stack in list(known.stacks.values()):
            is_last = stack.number == known.newest
            is_complete = (
                stack.is_flushing
                and not stack.is_flushed
                and self._is_complete(topic, known, stack, now)
            )
            if stack.order is not None and not stack.order.is_over:
                self._advance_order(topic, stack, is_complete=is_complete, now=now)
                if is_complete:
                    stack.order.give_up(now)
                is_busy = is_busy or (self._subscribes(topic) and stack.order.is_busy())
            self._release(known, stack)
            is_busy = is_busy or (not is_last and not stack.is_retired)
            if is_complete and (stack.is_settled() or not self._subscribes(topic)):
                stack.is_flushed = True
                self.flushed.append((topic, stack.number))
        if not is_busy and not known.held:
            self._busy.pop(topic, None)
            known.quiet.clear()

    def _release(self, known: TopicStacks, stack: Stack) -> None:
        """Deliver what waited: a session's messages come after those of earlier ones."""
        order = stack.order
        if not all(s.is_settled() for s in _before(known, stack)):
            return
        if order is not None:
            self.deliveries.extend(order.out)
            order.out.clear()
        if stack.is_settled():
            self.deliveries.extend(stack.queue)
            stack.queue.clear()

    def _advance_order(self, topic: str, stack: Stack, *, is_complete: bool, now: float) -> None:
        order = stack.order
        assert order is not None
        stop = self._forwarder.flush_mark(topic) if stack.own_stop is None else stack.own_stop
        order.advance(now)
        while (
            said := order.say((stack.own_first, stop), now, is_complete=is_complete)
        ) is not None:
            number = self._say(topic, said, now)
            order.handle_control(self._forwarder.sender, number, said)
            order.advance(now)
        if self._subscribes(topic):
            asked = order.ask()
            if asked is not None:
                order.handle_control(self._forwarder.sender, self._say(topic, asked, now), asked)
            term = order.find_offer(now, is_complete=is_complete)
            if term is not None:
                self.offers.append((topic, stack.number, term, self._forwarder.sender))

    def _is_complete(self, topic: str, known: TopicStacks, stack: Stack, now: float) -> bool:
        """Whether all of a session that nobody sends in any more is here, and ours everywhere."""
        is_repaired = stack.flavour.reliability == "repair"
        own_stop = stack.own_stop or 0
        if is_repaired and own_stop > stack.own_first and not self._is_stable(topic, own_stop):
            return False
        if not self._subscribes(topic):
            return True
        is_complete = True
        for sender, stream in sorted(
            self._forwarder.holdings.of_topic(topic).items(), key=lambda each: str(each[0])
        ):
            if sender == self._forwarder.sender or is_control(sender):
                continue
            if known.last.get(sender, 0) > stack.number:
                continue
            session, mark = known.ends.get(sender, (0, 0))
            if session >= max(known.last.get(sender, 0), 1) and stream.low >= mark:
                continue
            is_here = stream.low >= stream.high and (
                not is_repaired
                or not self._forwarder.is_recovered(topic)
                or stream.stable >= stream.high
            )
            low, since = known.quiet.get(sender, (-1, now))
            if low != stream.low or not is_here:
                known.quiet[sender] = stream.low if is_here else -1, now
                is_complete = False
            elif now < since + QUIET_S:
                is_complete = False
        return is_complete

    def _say(self, topic: str, said: Control, now: float) -> int:
        """Say something in this node's control stream; return its number there."""
        number = self._numbers[topic]
        self._numbers[topic] += 1
        sender = control_of(self._forwarder.sender)
        self._forwarder.handle_local(topic, sender, number, [encode(said)], now)
        return number


def _before(known: TopicStacks, stack: Stack) -> list[Stack]:
    return [each for each in known.stacks.values() if each.number < stack.number]


def _close_run(found: list[Packet | Gap], packet: Packet, stop: int, run: list[bytes]) -> None:
    """Note opened messages up to a number."""
    if run:
        opened = msgspec.structs.replace(packet, number=stop - len(run), bundle=bundle(run))
        found.append(opened)
        run.clear()
