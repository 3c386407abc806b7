"""What nodes of scopes make of packets that come from networks with a GMS."""

from __future__ import annotations

from quicksilver.node.scoped_session import Sources
from quicksilver.scopes.dissemination.packets import Packet, Sender
from quicksilver.scopes.gateway.forms import ENVELOPED, VOID
from quicksilver.wire.envelope import Envelope, encode_enveloped

OWN = Sender("campus/lan3", "carol", 1)
ALICE = Sender("campus/lan1", "alice", 17)


def test_void_messages_are_left_out_and_headers_are_as_they_were_sent() -> None:
    """Requests to a group mean something in its own network only; headers mean it everywhere."""
    sources = Sources(OWN)
    void = Packet.of("campus/news", ALICE, 3, 0, 0, (), VOID, (b"", b""))
    assert sources.batch_of(void) is None
    payload = encode_enveloped(Envelope(b"key", {"tone": "low"}), b"body")
    batch = sources.batch_of(Packet.of("campus/news", ALICE, 5, 1, 0, (), ENVELOPED, (payload,)))
    assert batch is not None
    (message,) = batch
    assert (message.payload, message.key, message.headers) == (b"body", b"key", {"tone": "low"})
    assert message.sequence == 5
