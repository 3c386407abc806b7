"""Networks whose nodes promise the same: one of a GMS, and a scope that does what QSM does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import quicksilver
from quicksilver.lab.processes import free_udp_port
from tests.node.managers import managing
from tests.node.service import running_gms

SCOPE = "lan"


class Network:
    """Where nodes connect to, and how groups are called there: alike in both kinds."""

    def __init__(self, address: str, *, has_views: bool) -> None:
        self.address = address
        self._has_views = has_views

    def name(self, group: str) -> str:
        """Return a group's name: in a scope it is a path, and with a GMS it may be one."""
        return f"{SCOPE}/{group.replace('-', '_')}"

    def is_from(self, message: quicksilver.Message, node: quicksilver.Node) -> bool:
        """Whether a message names this node as its sender: by number, or by its path."""
        if self._has_views:
            return message.sender == node.id
        return message.source == node.name

    async def wait_members(self, group: Any, count: int) -> None:
        """Wait for members: in a scope ``open`` has waited for all who had joined by then."""
        if self._has_views:
            await group.wait_members(count)

    def wait_members_sync(self, group: Any, count: int) -> None:
        if self._has_views:
            group.wait_members(count)


@contextmanager
def running(kind: str) -> Iterator[Network]:
    """Run a network of a GMS (``gms``), or a scope with regions and nested rings (``scope``)."""
    if kind == "gms":
        with running_gms() as address:
            yield Network(address, has_views=True)
    else:
        multicast = f"239.192.77.0/24:{free_udp_port()}"
        with managing(SCOPE, policy="regions", recovery="ring:5", multicast=multicast) as address:
            yield Network(address, has_views=False)
