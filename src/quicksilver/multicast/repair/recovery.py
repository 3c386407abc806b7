"""Recovery in one region view: the agents of this node, and what comes of their rounds.

Tokens are taken from the wire and put on it here, the rounds at the top become
acknowledgements to senders, and what streams have to say becomes news for the agents.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from quicksilver.core.ports import Transmit
from quicksilver.multicast.environment import Environment
from quicksilver.multicast.receiving.placement import hierarchy_of
from quicksilver.multicast.receiving.region import Region
from quicksilver.multicast.repair.acknowledgements import Acknowledgements
from quicksilver.multicast.repair.loss_rounds import (
    RECORDS_SENT_MAX,
    Agreed,
    Gathered,
    LossRounds,
    PartitionRounds,
)
from quicksilver.multicast.repair.repairer import Repairer
from quicksilver.multicast.repair.reports import (
    NOT_WAITED_FOR,
    Kept,
    Report,
    shorten_record,
    trim_ranges,
)
from quicksilver.multicast.sending.stream import SendStream
from quicksilver.recovery import rounds
from quicksilver.recovery.agent import Message
from quicksilver.recovery.domains import Domain
from quicksilver.recovery.pacing import Timing
from quicksilver.recovery.ring import RingAgent
from quicksilver.recovery.stack import AgentStack
from quicksilver.wire.control import RANGES_MAX, Ack, Pull, Receipt, Token, Wake, encode_control
from quicksilver.wire.ids import Address

TOKEN_BYTES_MAX = 32_000
"""In longer tokens every sender's sets are told in fewer ranges, alike for all of them;
a datagram holds 65,507 bytes."""


class RegionRecovery:
    """This node's agents in one region view; a feed of tokens."""

    def __init__(
        self,
        environment: Environment,
        region: Region,
        own_stream: Callable[[], SendStream | None],
    ) -> None:
        self.region = region
        self.repairer = Repairer(environment, region, own_stream)
        self._env = environment
        self._failed: frozenset[int] = frozenset()
        self._acknowledgements = Acknowledgements(environment.config.token_interval_s)
        self._own_acks: deque[Ack] = deque()
        config = environment.config
        self._timing = Timing(
            interval_s=config.token_interval_s,
            trouble_interval_s=config.token_loss_interval_s,
            spacing_s=config.token_spacing_s,
            timeout_s_min=min(config.token_timeout_s_min, config.token_timeout_s),
            timeout_s_max=config.token_timeout_s,
            wake_s_min=config.token_wake_s,
            in_flight_max=config.tokens_in_flight,
        )
        self.stack: AgentStack[Gathered] = AgentStack()
        self._place()

    def _make_agent(self, domain: Domain) -> RingAgent[Gathered]:
        """Return an agent: partitions repair each other, above them reports are summed up."""
        kind = PartitionRounds if domain.name[0] == 0 else LossRounds
        on_agreed = self._handle_agreed if domain.parent is None else None
        return RingAgent(
            node=self._env.node,
            domain=domain,
            rounds=kind(self._env, domain, self.repairer, on_agreed),
            timing=self._timing,
            counters=self._env.counters,
        )

    def _place(self) -> None:
        size = self._env.settings.partition_size
        self.region.touch()
        hierarchy = hierarchy_of(self.region.view.members, size, self._failed)
        self.stack.become_placed(hierarchy.domains_of(self._env.node), self._make_agent)

    def close(self) -> None:
        """The view or the incarnation is over; nothing may be asked of it any more."""
        self.stack.close()

    # Inputs

    def handle_failed(self, nodes: frozenset[int], now: float) -> None:
        """Nodes are gone: rings close over them, their streams end."""
        gone = nodes & frozenset(self.region.view.members)
        if gone:
            self._failed |= gone
            self._place()
            for agent in self.stack.agents:
                agent.handle_news(now, urgent=True)
            if self.stack.has_news():
                self.stack.handle_news(now)
        self.region.handle_failed(nodes, now)

    def handle_token(self, token: Token, now: float) -> bool:
        """Take a token; False when no honest peer sends it here."""
        if len(token.records) > RECORDS_SENT_MAX:
            return False
        self.region.touch()
        content = None
        if not token.direct:
            content = Gathered(token.records, token.buffer_bytes, token.drops)
        taken = rounds.Token(
            (token.level, token.ring),
            token.round,
            token.leader,
            token.origin,
            token.skipped,
            content,
            token.confirmed and content is not None,
        )
        if not self.stack.handle_token(taken, now):
            return False
        for node in token.skipped:
            if node in self.region.view.members:
                self._env.on_passed_over(node, now)
        return True

    def handle_wake(self, wake: Wake, now: float) -> None:
        self.region.touch()
        self.stack.handle_wake(rounds.Wake((wake.level, wake.ring), wake.origin), now)

    def handle_receipt(self, receipt: Receipt, now: float) -> None:
        self.region.touch()
        domain = (receipt.level, receipt.ring)
        taken = rounds.Receipt(domain, receipt.origin, receipt.leader, receipt.round)
        self.stack.handle_receipt(taken, now)

    def handle_pull(self, pull: Pull, to: Address, now: float) -> None:
        """A member asks for packets: send what is held."""
        self.repairer.handle_pull(pull, to, now)

    def handle_timeout(self, now: float) -> None:
        self._take_news()
        self.region.touch()
        self.repairer.handle_timeout(now)
        self.stack.handle_timeout(now)

    # Outputs

    def next_timeout(self) -> float | None:
        """Return when there is something to do, as long as the view is not touched."""
        region = self.region
        if region.has_news():
            self._take_news()
        soonest = self.stack.next_timeout()
        if region.ask_at is not None and (soonest is None or region.ask_at < soonest):
            soonest = region.ask_at
        if region.retired_at is not None and (soonest is None or region.kept_until < soonest):
            soonest = region.kept_until
        return soonest

    def has_messages(self) -> bool:
        return self.stack.has_messages()

    def poll(self, now: float) -> Transmit | None:
        """Return what an agent says next as a datagram, made from the state of this moment."""
        self.region.touch()
        while (message := self.stack.poll_message(now)) is not None:
            to, content = message
            address = self._env.address_of(to)
            if address is not None:
                packet = self._env.peers.stamp(self._encode(content, to), now)
                return Transmit(address, [packet])
        return None

    def poll_own_ack(self) -> Ack | None:
        """Return an acknowledgement for this node itself, which leads a region it sends to."""
        return self._own_acks.popleft() if self._own_acks else None

    def _encode(self, message: Message[Gathered], to: int) -> bytes:
        env, region = self._env, self.region
        level, ring = message.domain
        if isinstance(message, rounds.Wake):
            wake = Wake(env.cluster, env.node, region.id, region.number, level, ring)
            return encode_control(wake, to)
        if isinstance(message, rounds.Receipt):
            receipt = Receipt(
                env.cluster,
                env.node,
                region.id,
                region.number,
                level,
                ring,
                message.leader,
                message.round,
            )
            return encode_control(receipt, to)
        assert isinstance(message, rounds.Token)
        content = message.content
        return encode_bounded(
            Token(
                cluster=env.cluster,
                origin=message.origin,
                region=region.id,
                view=region.number,
                level=level,
                ring=ring,
                round=message.round,
                leader=message.leader,
                skipped=message.skipped,
                direct=content is None,
                buffer_bytes=0 if content is None else content.buffer_bytes,
                drops=0 if content is None else content.drops,
                records=() if content is None else content.records,
                confirmed=message.is_confirmed,
            ),
            to,
        )

    def count_ranges(self) -> int:
        """Return how many ranges what members said consists of."""
        count = self.repairer.state.count_ranges()
        for agent in self.stack.agents:
            assert isinstance(agent.rounds, LossRounds)
            count += agent.rounds.count_ranges()
        return count

    # News

    def _take_news(self) -> None:
        self.region.touch()
        news = self.region.take_news()
        for sender in news.senders:
            self._acknowledgements.forget(sender)
        if news.at is not None:
            self.stack.handle_news(news.at)
        if news.due_at is not None and (self._leads() or not self.repairer.is_behind()):
            self.stack.handle_urgent_news(news.due_at)

    def _leads(self) -> bool:
        """Whether rounds of the lowest domain are this node's business, whoever is behind."""
        return self.stack.agents[0].domain.leader == self._env.node

    # Agreement

    def _handle_agreed(self, agreed: Agreed, now: float) -> None:
        """The whole region has spoken: remember it, and tell the senders."""
        region = self.region
        region.handle_buffers(agreed.gathered.buffer_bytes)
        for sender, report in agreed.reports.items():
            if report.low == NOT_WAITED_FOR:
                # All are absent or far behind, and nobody is held up by waiting for them.
                report.low, report.slowest = report.safe, report.laggard or report.slowest
                report.missing_limit = report.safe
            stable = max(report.safe, agreed.stable[sender])
            kept = Kept(report.unkept_limit, report.unkept)
            low = max(report.low, stable)
            if stable > self.repairer.state.of(sender).stable:
                # Somebody catches up: a view that was replaced is still needed.
                region.active_at = now
            state = self.repairer.state.conclude(sender, stable, low, kept)
            stream = region.streams.get(sender)
            if stream is not None:
                stream.copies.forget_below(min(state.stable, stream.low))
                stream.copies.keep_for_absent(state.agreed)
            if not self._env.is_failed(sender):
                # Who was counted out and has not heard of it would take the end of its
                # stream for an acknowledgement of all that it sent.
                self._acknowledge(sender, report, agreed, now)

    def _acknowledge(self, sender: int, report: Report, agreed: Agreed, now: float) -> None:
        env = self._env
        most = env.config.ranges_told_max
        missing, missing_limit = trim_ranges(report.missing, report.missing_limit, most)
        ack = Ack(
            cluster=env.cluster,
            origin=env.node,
            region=self.region.id,
            view=self.region.number,
            low=report.low,
            safe=min(report.safe, report.low),
            laggard=report.laggard,
            front=report.front,
            high=report.high,
            missing=missing,
            missing_limit=missing_limit,
            slowest=report.slowest,
            buffer_bytes=agreed.gathered.buffer_bytes,
            drops=agreed.gathered.drops,
            senders=agreed.senders,
            token_s=agreed.seconds,
            arrived_bytes=self.region.arrived_bytes,
        )
        if sender == env.node:
            env.counters.ack_sent += 1
            self._own_acks.append(ack)
        elif self._acknowledgements.is_news(ack, sender, now):
            env.counters.ack_sent += 1
            env.control.add(lambda _: self._to(sender, ack))

    def _to(self, sender: int, ack: Ack) -> Transmit | None:
        address = self._env.address_of(sender)
        return None if address is None else Transmit(address, [encode_control(ack, sender)])


def encode_bounded(token: Token, to: int) -> bytes:
    """Return the datagram; where it would be too long, all records are told in less detail.

    Every sender is in it, whatever the others have to say: to leave some out, always the
    same, would keep them from ever completing a round.
    """
    packet = encode_control(token, to)
    most = RANGES_MAX
    while len(packet) > TOKEN_BYTES_MAX and most > 1:
        most //= 2
        for record in token.records:
            shorten_record(record, most)
        packet = encode_control(token, to)
    return packet
