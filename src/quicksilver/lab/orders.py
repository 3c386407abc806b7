"""Orders for a child that has other things to do meanwhile."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator
from typing import Any

import msgspec

from quicksilver.net.faults import parse_faults
from quicksilver.node import sync


class Harm(msgspec.Struct, frozen=True, tag="harm", tag_field="order"):
    """Harm this node's datagrams from now on; empty: no more."""

    faults: str

    def perform(self, node: sync.Node) -> None:
        """Do it."""
        plan = parse_faults(self.faults) if self.faults else None
        core = node.core
        core.call(lambda: core.sockets.set_faults(plan))


DEAF = Harm("loss=100%,direction=both")
"""Every datagram is lost, both ways."""
WHOLE = Harm("")


def poll_orders(kind: Any, every_s: float) -> Iterator[Any]:
    """Yield orders as they come, and None when none came for a while, until the input ends."""
    decode = msgspec.json.Decoder(kind).decode
    stdin, pending = sys.stdin.fileno(), b""
    while True:
        if not select.select([stdin], [], [], every_s)[0]:
            yield None
            continue
        data = os.read(stdin, 1 << 16)
        if not data:
            return
        *lines, pending = (pending + data).split(b"\n")
        for line in lines:
            yield decode(line)
