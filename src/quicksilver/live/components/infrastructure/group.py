"""A group of the multicast engine as objects: a reliable channel, and a membership (4.2.1)."""

from __future__ import annotations

from quicksilver.live.components.interfaces import (
    MEMBERSHIP,
    RELIABLE,
    ChannelDeliveries,
    ChannelRequests,
    MembershipRequests,
    MembershipViews,
)
from quicksilver.live.runtime.components import component
from quicksilver.live.runtime.context import Context
from quicksilver.live.services.groups import Groups, GroupView
from quicksilver.live.types.declare import Given, endpoint, live_object


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
    channel = endpoint(
        ChannelRequests,
        ChannelDeliveries,
        provides=[("delivery", "exactly once and fifo")],
        name=RELIABLE,
    )

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
