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

MOMENT_S = 0.1
"""No rate is taken over less time."""


class TrafficMeter:
    """Messages sent to each group; one entry at most for each group that there is."""

    def __init__(self, report_interval_s: float = 0.0) -> None:
        """``report_interval_s``: how much time a node's report is about."""
        self._report_interval_s = report_interval_s
        self._counts: dict[GroupId, float] = {}
        self._span_s = 0.0
        """The time that counts from before the last look are about."""
        self._since: float | None = None
        """When the time began that reports after the last look are about."""
        self._looked_at = 0.0

    def handle_report(self, row: NodeRow, traffic: Iterable[tuple[int, int]], now: float) -> bool:
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
        if has_news and self._since is None:
            self._since = now - self._report_interval_s
        return has_news

    def take_rates(self, now: float) -> dict[GroupId, float]:
        """Return messages a second of the groups, and let them count half from now on."""
        since = self._looked_at if self._since is None else self._since
        span_s = max(MOMENT_S, self._span_s + now - since)
        rates = {group: count / span_s for group, count in sorted(self._counts.items())}
        self._counts = {
            group: count / 2 for group, count in self._counts.items() if count / 2 > FORGOTTEN_BELOW
        }
        self._span_s, self._since, self._looked_at = span_s / 2, None, now
        return rates

    def forget(self, group: GroupId) -> None:
        """The group is gone."""
        self._counts.pop(group, None)
