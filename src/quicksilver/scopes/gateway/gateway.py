"""A gateway, as a machine without sockets or clock.

A network with a GMS is put under an owner without a change to its nodes: gateways are nodes of
the network, and members of its scope (dissertation 3.2.3: the network is a mechanism that
reaches all of its nodes by itself). A topic of the scope, or of one above it, is the group of
that name. What local nodes send to the group goes out along the channels of the scope
(``outflow``), and what comes along channels is sent to the group (``inflow``). Any number of
gateways share the work and stand in for each other.

The scope of such a network has gateways as members, and no other nodes: local messages are not
carried from one gateway to another, because each hears them itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from quicksilver.scopes.dissemination.forwarder import Forwarder
from quicksilver.scopes.dissemination.packets import Gap, Packet, Sender
from quicksilver.scopes.gateway.forms import RUN_BYTES
from quicksilver.scopes.gateway.inflow import Bringing, Inflow, Ticket
from quicksilver.scopes.gateway.messages import encode, parse, parse_node
from quicksilver.scopes.gateway.outflow import Outflow
from quicksilver.scopes.gateway.topics import Topics, Wanted
from quicksilver.scopes.names import NAME_BYTES_MAX
from quicksilver.scopes.routing import Entry, Record
from quicksilver.wire.envelope import Envelope

LOCAL = ":local"
"""The member of the scope at which messages of the network's own nodes originate. No channel
inside the scope begins there, so they go out, and not from one gateway to another."""


@dataclass(frozen=True, slots=True)
class OtherScope:
    """A gateway of another scope was in this network before: this one has to go."""

    scope: str
    node: int


class Gateway:
    """One gateway of a network.

    The caller's duty: after every input take what is wanted until ``poll_wanted`` returns None,
    what is to be sent until ``poll_bringing`` and ``poll_said`` do, and ``conflict`` if there is
    one; keep flushing the node while ``begin_flush`` returns something. Views come before
    messages that were sent to them, and views of the gateways' group before others.
    """

    def __init__(
        self, *, scope: str, name: str, forwarder: Forwarder, run_bytes: int = RUN_BYTES
    ) -> None:
        """``name``: this gateway as a member of its scope. ``run_bytes``: messages that come in go
        into the network as messages of about this length."""
        self.counters: Counter[str] = Counter()
        self.conflict: OtherScope | None = None
        self._scope = scope
        self._record: Record = (Entry(scope, LOCAL, name),)
        self._forwarder = forwarder
        self._topics = Topics(name, self.counters)
        self._outflow = Outflow(self.counters)
        self._inflow = Inflow(scope, forwarder.holdings, self.counters, run_bytes)
        self._gateways: dict[int, str] = {}

    # Inputs from the network

    def handle_gateways(self, own: int, nodes: Mapping[int, str]) -> None:
        """The nodes in the gateways' group, by number, and their names; ``own``: this node."""
        gateways: dict[int, str] = {}
        for node, name in sorted(nodes.items()):
            known = parse_node(name)
            if known is None:
                continue
            scope, gateway = known
            if scope == self._scope:
                gateways[node] = gateway
            elif node < own and self.conflict is None:
                self.conflict = OtherScope(scope, node)
        if gateways.keys() - self._gateways.keys():
            self._inflow.handle_newcomer()
        self._gateways = gateways
        self._topics.handle_gateways(gateways)

    def handle_view(self, topic: str, members: Sequence[int]) -> None:
        """A topic's group has a view."""
        self._topics.handle_view(topic, members)

    def handle_gone(self, topic: str) -> None:
        """A topic's group has ended."""
        self._topics.handle_gone(topic)
        self._outflow.forget(topic)

    def handle_local(
        self,
        topic: str,
        node: int,
        name: str,
        numbers: Sequence[int],
        payloads: Sequence[bytes],
        envelopes: Sequence[Envelope] | None,
        now: float,
    ) -> None:
        """A node of the network has sent messages to a topic's group."""
        if self._topics.is_gateway(node) or not self._topics.has(topic):
            return
        forwarder = self._forwarder
        sender = self.sender_of(node, name)
        for run in self._outflow.take(topic, sender, numbers, payloads, envelopes):
            if run.is_new:
                # What was sent while this gateway was not there it cannot give.
                forwarder.pass_over(topic, sender, run.number)
            forwarder.handle_local(
                topic, sender, run.number, run.messages, now, run.attributes, self._record
            )

    def sender_of(self, node: int, name: str) -> Sender:
        """Return a node of the network as other networks know it."""
        return Sender(self._scope, name[:NAME_BYTES_MAX], node)

    def handle_said(self, node: int, data: bytes) -> None:
        """A node has sent a message to the gateways' group."""
        told = parse(data)
        if told is None or not self._topics.is_gateway(node):
            self.counters["said_in_vain"] += 1
            return
        self._inflow.handle_confirmed(told)

    def handle_flushed(self, ticket: Ticket, *, has_failed: bool) -> None:
        """A flush of the node has ended; ``has_failed``: members that live may lack messages."""
        self._inflow.handle_flushed(ticket, has_failed=has_failed)

    # Inputs from the scope

    def handle_delivery(self, told: Packet | Gap) -> None:
        """The forwarder has delivered messages to this node."""
        if isinstance(told, Packet):
            self._inflow.handle_arrived(told.topic, told)

    def handle_left(self, topic: str) -> None:
        """The scope has nothing to do with a topic any more."""
        self._inflow.handle_left(topic)

    # Outputs

    def gateways(self) -> frozenset[int]:
        """Return the nodes that are gateways of this network's scope."""
        return frozenset(self._gateways)

    def poll_wanted(self) -> Wanted | None:
        """Return what the scope is to be told of a topic, or None.

        While it subscribes, the topic's group is to be open for sending.
        """
        wanted = self._topics.poll_wanted()
        if wanted is not None:
            is_presented = self._topics.is_presented(wanted.topic)
            self._inflow.handle_presented(wanted.topic, is_presented=is_presented)
        return wanted

    @property
    def is_full(self) -> bool:
        """Whether so much waits to be brought in that channels should wait."""
        return self._inflow.is_full

    def poll_bringing(self, blocked: Container[str] = ()) -> Bringing | None:
        """Return which messages are to be sent to which group now, or None.

        ``blocked``: topics whose groups take nothing at the moment.
        """
        return self._inflow.poll_bringing(blocked)

    def poll_said(self) -> bytes | None:
        """Return what is to be sent to the gateways' group, or None."""
        told = self._inflow.poll_said()
        return None if told is None else encode(told)

    def begin_flush(self) -> Ticket | None:
        """Return what a flush of the node is to confirm, or None."""
        return self._inflow.begin_flush()

    def confirmed(self, topic: str, sender: Sender) -> int | None:
        """Return below which number the whole network is known to have a stream's messages.

        None: it is as far as this gateway is, because nobody else here wants it.
        """
        if sender.scope == self._scope or not self._topics.has_subscribers(topic):
            return None
        return self._inflow.confirmed(topic, sender)
