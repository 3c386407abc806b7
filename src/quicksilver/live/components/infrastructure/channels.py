"""Channels that need no other object: a group of the multicast engine, and datagrams.

A group is a reliable channel and a membership (4.2.1). Datagrams are an unreliable
channel: multicast on a network, or unicast to a few peers.
"""

from __future__ import annotations

from quicksilver.live.components.interfaces import (
    MEMBERSHIP,
    RELIABLE,
    UNRELIABLE,
    MembershipRequests,
    MembershipViews,
    channel_for_users,
)
from quicksilver.live.runtime.components import component
from quicksilver.live.runtime.context import Context
from quicksilver.live.services.datagrams import DATAGRAM_BYTES_MAX, Datagrams, parse_address
from quicksilver.live.services.groups import Groups, GroupView
from quicksilver.live.types.declare import Given, endpoint, live_object
from quicksilver.stdx.errors import QuicksilverError


@component("quicksilver.group-channel")
@live_object(title="ReliableChannel")
class GroupChannel:
    """a group as a reliable channel: everything arrives once, in each sender's order

    What is sent before the group is joined is kept, up to a limit, and goes out
    then. Whoever sends hears it too. A message reaches all who were in the group
    when it left and stay. If its sender crashes at that moment, what one survivor
    keeps is given to all members of its region, that is to those who are in the same
    groups; members of other regions may go without. Who must agree beyond that uses
    a checkpointed channel.
    """

    context: Context
    channel = channel_for_users(RELIABLE)

    def __init__(self, group: Given[str]) -> None:
        groups = self.context.service(Groups)
        self._group = groups.join(
            group,
            on_message=self.context.guard(lambda _, message: self.channel.receive(message)),
            on_end=self.context.fail,
        )

    def channel_send(self, message: bytes) -> None:
        self._group.send(message)

    @property
    def is_settled(self) -> bool:
        """Whether nothing waits for the group to be joined."""
        return self._group.is_settled

    def close(self) -> None:
        """Leave the group."""
        group = getattr(self, "_group", None)
        if group is not None:
            group.close()


@component("quicksilver.membership")
@live_object(title="Membership")
class GroupMembership:
    """who is in a group: numbered views, the same to everybody

    It joins the group. Whoever connects is told the present view first.
    """

    context: Context
    membership = endpoint(MembershipRequests, MembershipViews, name=MEMBERSHIP)

    def __init__(self, group: Given[str]) -> None:
        self._group = self.context.service(Groups).join(
            group, on_view=self.context.guard(self._tell), on_end=self.context.fail
        )

    def membership_connected(self) -> None:
        view = self._group.view
        if view is not None:
            self._tell(view)

    def _tell(self, view: GroupView) -> None:
        self.membership.view(view.number, list(view.members), view.me)

    def close(self) -> None:
        """Leave the group, unless somebody else here uses it."""
        group = getattr(self, "_group", None)
        if group is not None:
            group.close()


PEERS_MAX = 1000


class DatagramSizeError(QuicksilverError, ValueError):
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
    channel = channel_for_users(UNRELIABLE)

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
