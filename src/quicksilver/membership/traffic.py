"""Which groups carry the traffic, as far as nodes tell.

"A large portion of the bandwidth would be concentrated in a relatively small number of
groups" (dissertation 4.1.2): a plan that knows them wastes far less. Heartbeats name the
groups that a node sends most to; what is old counts less and less.
"""

from __future__ import annotations

from collections.abc import Iterable

from quicksilver.membership.tables import NodeRow
from quicksilver.wire import gms
from quicksilver.wire.ids import GroupId

MESSAGES_TOLD_MAX = 1 << 32
"""One report of a group counts no more, whatever it says."""

FORGOTTEN_BELOW = 0.5
"""A group whose count has faded to this is forgotten."""


class TrafficMeter:
    """Messages sent to each group; one entry at most for each group that there is."""

    def __init__(self) -> None:
        self._counts: dict[GroupId, float] = {}

    def handle_report(self, row: NodeRow, traffic: Iterable[tuple[int, int]]) -> bool:
        """Add what a node says it sent; True if it counts for anything.

        Only what the node may send to counts: nobody speaks for others' groups.
        """
        has_news = False
        for number, count in tuple(traffic)[: gms.TRAFFIC_GROUPS_MAX]:
            group = GroupId(number)
            if count > 0 and (group in row.joined or group in row.opened):
                known = self._counts.get(group, 0.0)
                self._counts[group] = known + min(count, MESSAGES_TOLD_MAX)
                has_news = True
        return has_news

    def take_rates(self) -> dict[GroupId, float]:
        """Return the traffic of the groups, and let it count half from now on."""
        rates = dict(sorted(self._counts.items()))
        self._counts = {
            group: count / 2 for group, count in rates.items() if count / 2 > FORGOTTEN_BELOW
        }
        return rates

    def forget(self, group: GroupId) -> None:
        """The group is gone."""
        self._counts.pop(group, None)
