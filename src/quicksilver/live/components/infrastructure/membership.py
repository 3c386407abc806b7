"""Who is in a group, as the membership service sees it."""

from __future__ import annotations

from quicksilver.live.components.infrastructure.guarding import guarded
from quicksilver.live.components.interfaces import (
    MEMBERSHIP,
    MembershipRequests,
    MembershipViews,
)
from quicksilver.live.runtime.components import component
from quicksilver.live.runtime.context import Context
from quicksilver.live.services.groups import Groups, GroupView
from quicksilver.live.types.declare import Given, endpoint, live_object


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
            group, on_view=guarded(self.context, self._tell), on_end=self.context.fail
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
