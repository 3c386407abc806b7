"""The part of a trial's application that sends values, keeps the last ones and gets them late."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from quicksilver.multicast.events import GroupReady, GroupViewChanged, SessionEvent
from quicksilver.multicast.retained import Values
from quicksilver.multicast.sending.group import GroupSender
from quicksilver.trials.payloads import make_payload
from quicksilver.wire.envelope import Envelope, Kind, encode_enveloped
from quicksilver.wire.packets import Messages

if TYPE_CHECKING:
    from quicksilver.trials.node import SimNode

GROUP = "values"
KEYS = 3
"""Values have one of so many keys, in turn."""

SIZE = 60
KEPT_BYTES_MAX = 1 << 20


class ValuesPart:
    """What one node does with values: it sends them, gets them, both or neither."""

    def __init__(self, node: SimNode) -> None:
        features = node.cluster.features
        self._node = node
        self.is_sender = node.index in features.value_senders
        self.is_member = node.index in features.value_members
        self.kept = Values(features.retain, KEPT_BYTES_MAX)
        self.sent = 0
        self._sender: GroupSender | None = None

    def start(self) -> None:
        """Ask for what this node uses."""
        if self.is_sender:
            self._subscribe(joins=False)
        if self.is_member:
            self.join()

    def join(self) -> None:
        """Be one who gets values from now on, however many were sent before."""
        self.is_member = True
        self._subscribe(joins=True)

    def _subscribe(self, *, joins: bool) -> None:
        def request() -> None:
            self._node.session.subscribe(
                join={GROUP: _ignore} if joins else None,
                on_envelopes={GROUP: self._receive} if joins else None,
                open_=() if joins else (GROUP,),
                empty={} if joins else {GROUP: "drop"},
            )

        self._node.host.submit(request)

    def send(self) -> None:
        """Send the next value, as ``Group.send`` does: it is kept first, and queued then."""
        node = self._node
        if self._sender is None or node.is_dead:
            return
        number, self.sent = self.sent, self.sent + 1
        body = make_payload(GROUP, node.index, node.life, number, SIZE)
        payload = encode_enveloped(Envelope(b"%d" % (number % KEYS)), body)

        def put() -> None:
            assert self._sender is not None
            self.kept.add(payload, is_enveloped=True)
            node.session.put_enveloped(self._sender, payload)

        node.host.submit(put)

    def handle_event(self, event: SessionEvent) -> None:
        """The session had an event; what is kept goes to newcomers, as in ``GroupBase``."""
        if isinstance(event, GroupReady) and event.name == GROUP:
            self._sender = event.sender
        elif isinstance(event, GroupViewChanged) and event.view.name == GROUP:
            batch = self._node.session.directory.batch
            if not event.is_member:
                self.kept.handle_view(self._sender, batch, has_newcomers=bool(event.joined))

    def _receive(self, messages: Messages, envelopes: Sequence[Envelope]) -> None:
        tell = self._node.cluster.watching.on_value
        for envelope, payload in zip(envelopes, messages.payloads, strict=True):
            tell(self._node, messages.sender, payload, is_retained=envelope.kind == Kind.RETAINED)


def _ignore(_: Messages) -> None:
    """All values have keys, and so envelopes."""
