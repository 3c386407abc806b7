"""Packets of one stream that arrived together, put into one piece where that is possible."""

from __future__ import annotations

from collections.abc import Callable

from quicksilver.wire.ids import GroupId, NodeId
from quicksilver.wire.packets import POSITION, Body, Messages


def parse_run(
    packets: list[bytes],
    first: int,
    sender: NodeId,
    parse_body: Callable[[bytes, int, NodeId, int], Body | None],
) -> Messages | None:
    """Return the messages of packets that are numbered from ``first``.

    None unless all of them are messages of one group, in order and of one batch.
    """
    unpack = POSITION.unpack_from
    positions = [unpack(packet, 20) for packet in packets]
    if [sequence for sequence, _ in positions] != list(range(first, first + len(packets))):
        return None
    flags = packets[0][2]
    batch = positions[0][1]
    payloads: list[bytes] = []
    group: int | None = None
    number = 0
    for packet in packets:
        body = parse_body(packet, flags, sender, batch)
        if type(body) is not Messages or body.group is None:
            return None
        if group is None:
            group, number = body.group, body.first
        elif body.group != group or body.first != number + len(payloads):
            return None
        payloads += body.payloads
    if positions[-1][1] != batch:
        return None
    assert group is not None
    return Messages(sender, batch, payloads, GroupId(group), number)
