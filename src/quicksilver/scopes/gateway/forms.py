"""How messages of a network with a GMS travel between networks, and how they come in.

A message without key and headers travels as it is. One that has them travels with its envelope
before it, and its packet says so in an attribute. Some numbers of a sender's messages are void
outside of its network: requests and answers, values that were sent again for newcomers, what
is too long. They travel as empty messages in packets that say so, because a stream of messages
has no gaps.

In the network that they come to, messages have envelopes that name their sender and number
there (``wire.envelope``, ``Kind.CARRIED``); keys and headers are those that they were sent with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from quicksilver.scopes.dissemination.packets import Packet, Sender
from quicksilver.wire.envelope import (
    CARRIED_AFTER,
    CARRIED_SENDER,
    EMPTY,
    RUN_OVERHEAD,
    Envelope,
    Kind,
    encode_run,
    encode_run_head,
    parse_enveloped,
)

FORM = "quicksilver"
"""The attribute of packets whose messages are not to be taken as they are."""

PLAIN: dict[str, str] = {}
ENVELOPED = {FORM: "envelope"}
VOID = {FORM: "void"}

SESSION = "scope.session"
"""Header of a carried message that belongs to a session: its number."""

RUN_BYTES = 56_000
"""About how long runs are. Where packets are shorter a run is a large message of several packets:
with runs of 1,472 bytes each message had an envelope, and cost a member 8.6 us instead of 5.1."""


def name_sender(sender: Sender) -> str:
    """Return a sender as headers have it; ``parse_sender`` reads it."""
    return f"{sender.scope}:{sender.life}:{sender.node}"


def parse_sender(text: str) -> Sender | None:
    """Return the sender that a header names, or None. A node's name may have colons."""
    parts = text.split(":", 2)
    if len(parts) < 3 or not (parts[1].isdecimal() and len(parts[1]) < 20):
        return None
    return Sender(parts[0], parts[2], int(parts[1]))


def open_messages(packet: Packet) -> list[tuple[int, Envelope, bytes] | None]:
    """Return number, envelope and body of each message of a packet; None for void ones."""
    form = packet.attributes.get(FORM)
    if form == VOID[FORM]:
        return [None] * packet.count
    numbered = enumerate(packet.split(), packet.number)
    if form != ENVELOPED[FORM]:
        return [(number, EMPTY, body) for number, body in numbered]
    opened = [(number, parse_enveloped(payload)) for number, payload in numbered]
    return [None if each is None else (number, *each) for number, each in opened]


def encode_incoming(
    packet: Packet, after: int | None, sequence: int = 0, bytes_max: int = RUN_BYTES
) -> tuple[list[bytes], int]:
    """Return the messages of a packet as a gateway gives them to its group, void ones left out,
    and how many these are.

    ``after``: messages from this number on up to the packet are lost. ``sequence``: what the
    first one is to be numbered. They go in runs of about ``bytes_max``, or of one message.
    """
    headers: dict[str, str] = {CARRIED_SENDER: name_sender(packet.sender)}
    if packet.session:
        headers[SESSION] = str(packet.session)
    if FORM not in packet.attributes and after is None:  # as almost always
        head = encode_run_head(Envelope(None, headers, Kind.CARRIED))
        room = bytes_max - len(head) - RUN_OVERHEAD
        payloads, number = [], packet.number
        for run in packet.bundle.cut(room):
            payloads.append(encode_run(head, number, sequence, run.count, run.sizes, run.body))
            number += run.count
            sequence += run.count
        return payloads, packet.count
    payloads = []
    for opened in open_messages(packet):
        if opened is None:
            continue
        number, envelope, body = opened
        extra = headers if after is None else {**headers, CARRIED_AFTER: str(after)}
        after = None
        head = _encode_head(envelope, extra)
        payloads.append(encode_run(head, number, sequence + len(payloads), 1, (), body))
    return payloads, len(payloads)


def _encode_head(envelope: Envelope, extra: Mapping[str, str]) -> bytes:
    """Return what a message begins with; without its own headers if there are too many."""
    try:
        return encode_run_head(Envelope(envelope.key, {**envelope.headers, **extra}, Kind.CARRIED))
    except ValueError:
        return encode_run_head(Envelope(None, dict(extra), Kind.CARRIED))


def void(count: int) -> Sequence[bytes]:
    """Return so many messages that stand for nothing."""
    return (b"",) * count
