"""Encryption around a plain channel, as a live object of its own (2.1.4 F, Example d)."""

from __future__ import annotations

from typing import Final

from quicksilver.live.components.interfaces import RELIABLE, ChannelDeliveries, ChannelRequests
from quicksilver.live.components.platform.keys import KeyRing
from quicksilver.live.components.platform.sealing import SESSION_BYTES, Refusal, Sealer
from quicksilver.live.runtime.components import component
from quicksilver.live.runtime.context import Context
from quicksilver.live.types.declare import Given, endpoint, live_object

INSIDE: Final = "Inside"
SECURITY: Final = ("security", "authenticated and confidential")


@component("quicksilver.encryption")
@live_object(title="Encryption")
class Encryption:
    """encrypts what passes through a reliable channel, with a key that this node keeps

    What does not authenticate, or comes a second time, is counted and dropped. The
    key is known by name: no reference holds one.
    """

    context: Context
    channel = endpoint(
        ChannelRequests,
        ChannelDeliveries,
        provides=[("delivery", "exactly once and fifo"), SECURITY],
        name=RELIABLE,
    )
    inside = endpoint(
        ChannelDeliveries,
        ChannelRequests,
        requires=[("delivery", "exactly once and fifo")],
        name=INSIDE,
    )

    def __init__(self, Key: Given[str] = "default") -> None:  # noqa: N803  # as references say it
        ring = self.context.service(KeyRing)
        self._sealer = Sealer(ring.find(Key), Key, ring.draw(SESSION_BYTES))
        self.dropped: dict[Refusal, int] = {"malformed": 0, "unauthentic": 0, "replayed": 0}
        """Messages that were not passed on, by what was wrong with them."""

    def channel_send(self, message: bytes) -> None:
        self.inside.send(self._sealer.seal(message))

    def inside_receive(self, message: bytes) -> None:
        opened = self._sealer.open(message)
        if isinstance(opened, str):
            self.dropped[opened] += 1
        else:
            self.channel.receive(opened)
