"""When the region views of a node next have something to do.

A host asks twice a turn, and a turn concerns one view or none. So a view says when something
happened to it (``Region.touch``), and only such views are asked again. To ask all of them, replaced
ones included, was a fifth of a simulation in which nodes are in 25 views.
"""

from __future__ import annotations

from quicksilver.multicast.receiving.regions import Name, Regions
from quicksilver.multicast.repair.recovery import RegionRecovery


class RegionAlarms:
    """The next alarm of each region view, and the first of all."""

    def __init__(self, regions: Regions) -> None:
        self._touched = regions.touched
        self._recoveries: dict[Name, RegionRecovery] = {}
        self._times: dict[Name, float] = {}
        """Of views that wait for a time; right for all that were not touched since."""
        self._soonest: float | None = None

    def add(self, name: Name, recovery: RegionRecovery) -> None:
        self._recoveries[name] = recovery
        self._touched[name] = None

    def forget(self, name: Name) -> None:
        del self._recoveries[name]
        self._times.pop(name, None)
        self._touched[name] = None

    def clear(self) -> None:
        self._recoveries.clear()
        self._times.clear()
        self._touched.clear()
        self._soonest = None

    def next(self) -> float | None:
        """Return when the first view has something to do; None: it waits for no time."""
        if self._touched:
            for name in tuple(self._touched):
                self._ask(name)
            self._soonest = min(self._times.values(), default=None)
        return self._soonest

    def is_due(self, name: Name, now: float) -> bool:
        """Return whether a view has something to do now."""
        if name in self._touched:
            self._ask(name)
            # The first of all may have changed with it.
            self._touched[name] = None
        when = self._times.get(name)
        return when is not None and when <= now

    def _ask(self, name: Name) -> None:
        recovery = self._recoveries.get(name)
        when = None if recovery is None else recovery.next_timeout()
        if when is None:
            self._times.pop(name, None)
        else:
            self._times[name] = when
        # To ask takes news, which touches the view once more.
        self._touched.pop(name, None)
