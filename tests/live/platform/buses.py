"""A reliable channel within one process, whose messages can be looked at and tampered with."""

from __future__ import annotations

from collections.abc import Callable

from quicksilver.live.components.interfaces import RELIABLE, ChannelDeliveries, ChannelRequests
from quicksilver.live.runtime.components import component
from quicksilver.live.runtime.context import Context
from quicksilver.live.types.declare import endpoint, live_object


class Bus:
    """What all proxies of the channel share."""

    def __init__(self) -> None:
        self.users: list[Callable[[bytes], None]] = []
        self.passed: list[bytes] = []

    def send(self, message: bytes) -> None:
        """Give a message to everybody."""
        self.passed.append(message)
        for receive in list(self.users):
            receive(message)


@component("test.bus-channel")
@live_object(title="ReliableChannel")
class BusChannel:
    """a channel within one process"""

    context: Context
    channel = endpoint(
        ChannelRequests,
        ChannelDeliveries,
        provides=[("delivery", "exactly once and fifo")],
        name=RELIABLE,
    )

    def __init__(self) -> None:
        self._bus = self.context.service(Bus)
        self._bus.users.append(self._receive)

    def _receive(self, message: bytes) -> None:
        self.channel.receive(message)

    def channel_send(self, message: bytes) -> None:
        self._bus.send(message)

    def close(self) -> None:
        self._bus.users.remove(self._receive)
