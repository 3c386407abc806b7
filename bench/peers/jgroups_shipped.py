"""JGroups 2.12 with the UDP stack it ships (``udp.xml``), only bound to loopback.

What a user gets without tuning; ``jgroups`` is what we could make of it.
"""

from __future__ import annotations

from bench.peers import jgroups
from bench.peers.result import PeerResult

NAME = "JGroups, as shipped"
INSTALL = jgroups.INSTALL


def run(receivers: int, size: int, seconds: float) -> PeerResult:
    return jgroups.run_stack(
        "udp.xml", receivers, size, seconds, name=NAME, note=f"{jgroups.NOTE}, its own udp.xml"
    )
