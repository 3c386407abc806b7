"""Datagrams as an unreliable channel: multicast on a network, or unicast to a few peers."""

from __future__ import annotations

from quicksilver.live.components.interfaces import UNRELIABLE, ChannelDeliveries, ChannelRequests
from quicksilver.live.runtime.components import component
from quicksilver.live.runtime.context import Context
from quicksilver.live.services.datagrams import DATAGRAM_BYTES_MAX, Datagrams, parse_address
from quicksilver.live.types.declare import Given, endpoint, live_object

PEERS_MAX = 1000


class DatagramSizeError(ValueError):
    """A message that does not fit into a datagram."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(size, limit)
        self.size, self.limit = size, limit

    def __str__(self) -> str:
        return f"a message of this channel has at most {self.limit} bytes, not {self.size}"


@component("quicksilver.udp-channel")
@live_object(title="Channel")
class UdpChannel:
    """datagrams to a multicast address, or to each of some peers: best effort

    ``address`` is where to listen. If it is a multicast address, messages go there;
    else they go to each of the ``peers``. Messages are at most ``datagram_bytes``
    long; one that is longer is refused and ends the channel's proxy.
    """

    context: Context
    channel = endpoint(
        ChannelRequests,
        ChannelDeliveries,
        provides=[("delivery", "best effort")],
        name=UNRELIABLE,
    )

    def __init__(
        self,
        address: Given[str],
        peers: Given[list[str]] = [],  # noqa: B006  # the default of a template, never changed
        datagram_bytes: Given[int] = 1400,
    ) -> None:
        if not 0 < datagram_bytes <= DATAGRAM_BYTES_MAX:
            raise ValueError(f"datagram_bytes must be from 1 to {DATAGRAM_BYTES_MAX}")
        if len(peers) > PEERS_MAX:
            raise ValueError(f"at most {PEERS_MAX} peers, not {len(peers)}: use a group")
        self._bytes_max = datagram_bytes
        self._port = self.context.service(Datagrams).open(
            parse_address(address),
            [parse_address(peer) for peer in peers],
            self.context.guard(self._take),
        )

    def _take(self, message: bytes) -> None:
        if len(message) <= self._bytes_max:
            self.channel.receive(message)

    def channel_send(self, message: bytes) -> None:
        if len(message) > self._bytes_max:
            raise DatagramSizeError(len(message), self._bytes_max)
        self._port.send(message)

    def close(self) -> None:
        """Close the socket."""
        self._port.close()
