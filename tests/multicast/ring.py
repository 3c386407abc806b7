"""Members of one region view without engines or a GMS, driven by transcripts.

Real region members, agents, streams and feeds; datagrams wait in flight until
the transcript delivers or loses them, so that every step can be read.
"""

from __future__ import annotations

from quicksilver.core.pull import Sink
from quicksilver.membership.directory import Directory, RegionView
from quicksilver.multicast.config import EngineConfig
from quicksilver.multicast.counters import Counters
from quicksilver.multicast.environment import Environment
from quicksilver.multicast.feeds import ControlFeed, RepairFeed
from quicksilver.multicast.receiving.region import Region
from quicksilver.multicast.receiving.relaying import RelayFeed
from quicksilver.multicast.repair.recovery import RegionRecovery
from quicksilver.recovery.pacing import Due
from quicksilver.recovery.ring import RingAgent
from quicksilver.stdx.ranges import RangeSet
from quicksilver.wire.control import Ack, Nak, Pull, Receipt, Record, Token, Wake, parse_control
from quicksilver.wire.gms import NodeInfo
from quicksilver.wire.ids import NodeId
from quicksilver.wire.packets import (
    FLAG_SINGLE,
    KIND_DATA,
    KIND_REPAIR,
    POSITION,
    PRIORITY_TOKEN,
    Messages,
    encode_single,
    stream_key,
)
from tests.kit.packets import data_packet

REGION, VIEW = 1, 1


class Node:
    """One member and the part of an engine that it needs."""

    def __init__(self, transcript: Transcript, number: int) -> None:
        self.transcript = transcript
        self.node = number
        self.is_down = False
        self.delivered: list[int] = []
        self._said = 0
        self._root = Sink()
        counters = Counters()
        self.env = Environment(
            config=EngineConfig(receive_buffer_bytes=1 << 20),
            directory=Directory(),
            deliver=self.deliver,
            control=ControlFeed(self._root),
            repairs=RepairFeed(self._root, counters, EngineConfig()),
            relays=RelayFeed(self._root, counters),
            counters=counters,
            seed=number,
        )
        self.env.node, self.env.cluster = number, 1
        self.member: RegionRecovery | None = None

    def start(self, members: tuple[int, ...], senders: tuple[int, ...]) -> None:
        for node in (*members, *senders):
            self.env.directory.nodes[NodeId(node)] = NodeInfo(node, f"n{node}", "node", node)
        view = RegionView(REGION, VIEW, "239.0.0.1", members, frozenset(senders))  # type: ignore[arg-type]
        region = Region(self.env, view)
        self.env.regions.by_name[REGION, VIEW] = region
        self.member = RegionRecovery(self.env, region, lambda: None)

    def deliver(self, messages: Messages) -> None:
        self.delivered += [messages.first + i for i in range(len(messages))]

    # Driving

    def receive(self, packet: bytes, origin: int) -> None:
        """Handle one datagram."""
        assert self.member is not None
        now = self.transcript.now
        if packet[1] in {KIND_DATA, KIND_REPAIR}:
            sender = int.from_bytes(packet[8:12], "little")
            self.member.region.stream_of(sender).handle_packet(packet, now)
        else:
            control = parse_control(packet)
            match control:
                case Token():
                    self.member.handle_token(control, now)
                case Pull():
                    self.member.handle_pull(control, ("node", origin), now)
                case Wake():
                    self.member.handle_wake(control, now)
                case Receipt():
                    self.member.handle_receipt(control, now)
                case _:
                    raise AssertionError(f"{control} is not for members")
        self.env.drained_at = now

    def say_delivered(self) -> None:
        """Say what was delivered since this was said last."""
        fresh = self.delivered[self._said :]
        self._said = len(self.delivered)
        assert fresh == sorted(fresh)
        if fresh:
            self.transcript.say(f"{self.node} delivers {spans(fresh)}")

    def wake(self) -> None:
        """Let timers fire that are due."""
        assert self.member is not None
        self.env.drained_at = self.transcript.now
        due = self.member.next_timeout()
        if not self.is_down and due is not None and due <= self.transcript.now + 1e-9:
            self.member.handle_timeout(self.transcript.now)

    def poll(self) -> None:
        """Put on the wire what the node wants to send."""
        assert self.member is not None
        if self.member.has_messages():
            self._root.register(self.member, PRIORITY_TOKEN)
        while (transmit := self._root.poll(self.transcript.now)) is not None:
            for packet in transmit.packets:
                self.transcript.transmit(self.node, transmit.destination[1], packet)


class Transcript:
    """Runs commands of a transcript; collects what happened as lines."""

    def __init__(self) -> None:
        self.now = 0.0
        self.nodes: dict[int, Node] = {}
        self.lines: list[str] = []
        self.flight: list[tuple[int, int, bytes]] = []
        self.losing: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)

    def transmit(self, origin: int, to: int, packet: bytes) -> None:
        text = f"{origin} -> {to} {describe(packet)}"
        for pattern in self.losing:
            if all(word in text.split() or word == f"{origin}->{to}" for word in pattern.split()):
                self.losing.remove(pattern)
                self.say(f"{text} (lost)")
                return
        self.say(text)
        self.flight.append((origin, to, packet))

    def run(self, command: str) -> list[str]:
        """Run one command and return what it caused."""
        self.lines = []
        name, *words = command.split()
        getattr(self, f"do_{name}")(*words)
        return self.lines

    # Commands

    def do_ring(self, *numbers: str) -> None:
        """ring 1 2 3 sender 9: members, then outsiders that send."""
        at = numbers.index("sender")
        members = tuple(map(int, numbers[:at]))
        senders = tuple(map(int, numbers[at + 1 :]))
        for number in members:
            self.nodes[number] = Node(self, number)
            self.nodes[number].start(members, senders)

    def do_packets(self, which: str, word: str, *numbers: str) -> None:
        """packets 0-4 to 1 2: packets of sender 9 reach these members, and no other."""
        assert word == "to"
        kind = KIND_REPAIR if "repair" in numbers else KIND_DATA
        first, _, last = which.partition("-")
        for number in map(int, [n for n in numbers if n != "repair"]):
            for sequence in range(int(first), int(last or first) + 1):
                parts = encode_single(1, sequence, [4], [b"data"])
                packet = data_packet(
                    FLAG_SINGLE,
                    parts,
                    key=stream_key(1, 9, REGION, VIEW),
                    sequence=sequence,
                    kind=kind,
                )
                self.nodes[number].receive(packet, 9)
            self.nodes[number].say_delivered()
        for node in self.nodes.values():
            node.poll()

    def do_advance(self, seconds: str | float) -> None:
        """advance 0.05: time passes at once; timers fire, nothing arrives."""
        self.now += float(seconds)
        for node in self.nodes.values():
            if not node.is_down:
                node.wake()
                node.poll()

    def do_arrive(self) -> None:
        """arrive: what is in flight reaches its destinations, in order."""
        flight, self.flight = self.flight, []
        for origin, to, packet in flight:
            node = self.nodes.get(to)
            if node is not None and not node.is_down:
                node.receive(packet, origin)
                node.say_delivered()
                node.poll()

    def do_settle(self) -> None:
        """settle: arrive until nothing is in flight."""
        while self.flight:
            self.do_arrive()

    def do_round(self) -> None:
        """round: time passes until the next token; what it causes runs its course."""
        while not any("token round" in line for line in self.lines):
            due = self._next_due()
            if due is None:
                self.say("nothing is due")
                return
            self.do_advance(max(0.0, due - self.now))
            self.do_settle()

    def do_ask(self) -> None:
        """ask: time passes until the next timer; what it causes runs its course."""
        due = self._next_due()
        assert due is not None
        self.do_advance(max(0.0, due - self.now))
        self.do_settle()

    def _next_due(self) -> float | None:
        due = [
            when
            for node in self.nodes.values()
            if not node.is_down
            and node.member is not None
            and (when := node.member.next_timeout()) is not None
        ]
        return min(due, default=None)

    def do_lose(self, *words: str) -> None:
        """lose 2->3 token: the next datagram that matches all words does not arrive."""
        self.losing.append(" ".join(words))

    def do_down(self, number: str) -> None:
        self.nodes[int(number)].is_down = True

    def do_up(self, number: str) -> None:
        self.nodes[int(number)].is_down = False

    def do_fail(self, number: str) -> None:
        """fail 9: the GMS says that a node is gone."""
        for node in self.nodes.values():
            node.env.handle_failed(int(number))
            assert node.member is not None
            node.member.handle_failed(frozenset((int(number),)), self.now)
            node.poll()

    def do_state(self, number: str) -> None:
        """state 1: what a member knows of sender 9's stream."""
        member = self.nodes[int(number)].member
        assert member is not None
        stream = member.region.streams.get(9)
        if stream is None:
            self.say(f"{number} knows nothing")
            return
        missing = f" missing {flat(tuple(stream.missing.to_flat()))}" if stream.missing else ""
        cut = f" cut {stream.end}" if stream.end >= 0 else ""
        copies = spans(sorted(stream.copies.packets)) or "nothing"
        self.say(
            f"{number} low {stream.low} high {stream.high} stable {stream.copies.stable}"
            f"{missing}{cut} keeps {copies}"
        )

    def do_ringstate(self, number: str) -> None:
        """ringstate 1: how the member's ring is doing."""
        member = self.nodes[int(number)].member
        assert member is not None
        agent = member.stack.agents[0]
        assert isinstance(agent, RingAgent)
        suspects = " ".join(map(str, sorted(agent.suspects))) or "nobody"
        has = "has" if isinstance(agent.state, Due) else "no"
        self.say(f"{number} suspects {suspects}; {has} token due")


def describe(packet: bytes) -> str:
    """Say what a datagram is, in the words of the protocol."""
    if packet[1] in {KIND_DATA, KIND_REPAIR}:
        kind = "repair" if packet[1] == KIND_REPAIR else "data"
        return f"{kind} {POSITION.unpack_from(packet, 20)[0]}"
    control = parse_control(packet)
    match control:
        case Token():
            if control.direct:
                return f"roll-call round {control.round} of {control.leader}"
            skipped = f" skipping {' '.join(map(str, control.skipped))}" if control.skipped else ""
            records = "; ".join(map(describe_record, control.records)) or "no records"
            confirmed = " to confirm" if control.confirmed else ""
            return f"token round {control.round} of {control.leader}{skipped}{confirmed}: {records}"
        case Ack():
            missing = f" missing {flat(control.missing)}" if control.missing else ""
            behind = f" safe {control.safe} for {control.laggard}" if control.laggard else ""
            return (
                f"ack low {control.low}{behind} high {control.high}{missing} "
                f"slowest {control.slowest}"
            )
        case Nak():
            return f"nak {flat(control.ranges)}"
        case Pull():
            return f"pull {flat(control.ranges)}"
        case Wake():
            return "wake"
        case Receipt():
            return f"receipt round {control.round} of {control.leader}"
        case _:
            return repr(control)


def describe_record(record: Record) -> str:
    text = f"{record.sender} high {record.high} low {record.low}"
    for name in ("missing", "wanted", "unasked"):
        if ranges := getattr(record, name):
            text += f" {name} {flat(ranges)}"
    if record.stable:
        text += f" stable {record.stable}"
    if record.cut >= 0:
        text += f" cut {record.cut}"
    return text


def flat(ranges: tuple[int, ...]) -> str:
    pairs = zip(ranges[::2], ranges[1::2], strict=True)
    return ",".join(f"{s}" if n == 1 else f"{s}-{s + n - 1}" for s, n in pairs)


def spans(numbers: list[int]) -> str:
    found = RangeSet((n, n + 1) for n in numbers)
    return flat(tuple(found.to_flat()))
