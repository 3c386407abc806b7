"""The part of a trial's application that asks questions, and the part that answers them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from quicksilver.membership.events import SubscriptionCompleted
from quicksilver.multicast.events import (
    EnvelopeReceiver,
    GroupReady,
    GroupViewChanged,
    SessionEvent,
)
from quicksilver.multicast.reply_groups import ReplyGroup, ReplyGroups
from quicksilver.multicast.requests import (
    Attendance,
    Pending,
    find_requests,
    reply_group,
    serve_attendance,
)
from quicksilver.multicast.sending.group import GroupSender
from quicksilver.wire.envelope import Envelope, Kind, encode_enveloped
from quicksilver.wire.packets import Messages

if TYPE_CHECKING:
    from quicksilver.trials.node import SimNode

GROUP = "questions"
ATTENDANCE = serve_attendance(GROUP)
ANSWERED = b"!"
"""What an answer has behind its question."""


class AskingPart:
    """What one node does with requests: it asks, answers, both or neither."""

    def __init__(self, node: SimNode) -> None:
        features = node.cluster.features
        self._node = node
        self.is_server = node.index in features.servers
        self.is_asker = node.index in features.askers
        self.asked: list[tuple[Pending, int]] = []
        """Requests, and how often the node had been excluded when it asked."""
        self._attendance = Attendance()
        self._reply = reply_group(f"{node.index}.{node.life}")
        self._ready: set[str] = set()
        self._sender: GroupSender | None = None
        self.answers = ReplyGroups(
            self._open, self._close, node.session.put_enveloped, features.reply_groups_max
        )
        self._opening: dict[int, ReplyGroup] = {}
        """Reply groups that are not open yet, by the requests for them, and …"""
        self._opened: dict[str, ReplyGroup] = {}
        """… those that were opened and not closed since."""

    def start(self) -> None:
        """Ask for the groups that this node needs."""
        joins: dict[str, EnvelopeReceiver] = {}
        opens: list[str] = []
        if self.is_server:
            joins |= {GROUP: self._serve, ATTENDANCE: self._serve}
        if self.is_asker:
            joins[self._reply] = self._take
            opens += [GROUP, ATTENDANCE]

        def request() -> None:
            self._node.session.subscribe(
                join=dict.fromkeys(joins, _ignore),
                on_envelopes=joins,
                open_=opens,
                empty=dict.fromkeys(opens, "drop"),
            )

        if joins:
            self._node.host.submit(request)

    def ask(self, wanted: int | None) -> None:
        """Send a request, if anybody serves."""
        self._node.host.submit(lambda: self._ask(wanted))

    def _ask(self, wanted: int | None) -> None:
        node = self._node
        servers = self._attendance.servers - {node.id}
        if self._sender is None or self._reply not in self._ready or not servers:
            return
        pending = Pending(GROUP, wanted, servers)
        pending.number = len(self.asked)
        self.asked.append((pending, node.exclusions))
        envelope = Envelope(None, {}, Kind.REQUEST, pending.number, self._reply)
        node.session.send_enveloped(self._sender, envelope, self.question(pending.number))

    def question(self, number: int) -> bytes:
        """Return what this node asks with a number."""
        return b"%d/%d/%d" % (self._node.index, self._node.life, number)

    def handle_event(self, event: SessionEvent) -> None:
        """The session had an event."""
        if isinstance(event, GroupReady):
            self._ready.add(event.name)
            if event.name == GROUP:
                self._sender = event.sender
        elif isinstance(event, SubscriptionCompleted):
            group = self._opening.pop(event.request, None)
            sender = None if group is None else self._node.session.find_sender(group.name)
            if group is not None and sender is not None:
                self.answers.handle_ready(group, sender)
        elif isinstance(event, GroupViewChanged) and not event.is_member:
            if event.view.name == ATTENDANCE:
                gone = self._attendance.handle_view(event.view.members)
                for pending, _ in self.asked:
                    pending.handle_left(gone)
            elif event.view.name in self._opened:
                self.answers.handle_view(self._opened[event.view.name])

    def _serve(self, messages: Messages, envelopes: Sequence[Envelope]) -> None:
        node = self._node
        for at in find_requests(envelopes):
            body, number, reply = messages.payloads[at], envelopes[at].number, envelopes[at].reply
            node.cluster.watching.on_served(node, body)
            answer = encode_enveloped(Envelope(None, {}, Kind.ANSWER, number), body + ANSWERED)
            node.host.submit(partial(self.answers.answer, reply, answer))

    def _take(self, messages: Messages, envelopes: Sequence[Envelope]) -> None:
        for payload, envelope in zip(messages.payloads, envelopes, strict=True):
            if envelope.kind == Kind.ANSWER:
                number = envelope.number
                self._node.cluster.watching.on_answered(
                    self._node, number, messages.sender, payload
                )
                if number < len(self.asked):
                    self.asked[number][0].handle_answer(messages.sender, payload)

    # Both wait for their turn, as they do in a node.

    def _open(self, group: ReplyGroup) -> None:
        def request() -> None:
            name = group.name
            number = self._node.session.subscribe(open_=[name], empty={name: "drop"})
            self._opening[number] = self._opened[name] = group

        self._node.host.submit(request)

    def _close(self, names: tuple[str, ...]) -> None:
        def request() -> None:
            self._node.session.subscribe(close=names)
            self._node.cluster.watching.on_left(self._node, names)
            for name in names:
                closed = self._opened.pop(name, None)
                if closed is not None:
                    self.answers.handle_gone(closed)

        self._node.host.submit(request)


def _ignore(_: Messages) -> None:
    """Requests and answers have envelopes."""
