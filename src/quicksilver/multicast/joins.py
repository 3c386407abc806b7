"""Which groups the application joined or opened, and which of them have routes.

The application asks and the GMS answers later, so there are two sides: what was asked for,
by name or by pattern, and the groups whose views have this node. A group has a route, from
its number to its receivers, while both sides have it. Views are told to the application
once: to take one returns what there is to tell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from quicksilver.membership.directory import GroupView
from quicksilver.membership.patterns import PatternIndex
from quicksilver.multicast.events import GroupUnmatched, GroupViewChanged
from quicksilver.multicast.routes import NOTHING_TOLD, Joined, MakeReceivers, Receivers, Told


class Joins:
    """What the application wants of groups, and where this node is a member."""

    def __init__(self) -> None:
        self.by_name: dict[str, Joined] = {}
        """Groups that were joined, by name or by pattern."""
        self.patterns: dict[str, MakeReceivers] = {}
        """Patterns that the application subscribed to, and …"""
        self._index: PatternIndex[str] = PatternIndex()
        """… the same, by their levels, and …"""
        self._matching: dict[int, tuple[str, ...]] = {}
        """… requests for some of them that were not answered."""
        self._opened: dict[str, Told] = {}
        """Groups that the application sends to, whether or not it is in them."""
        self.routes: dict[int, Joined] = {}
        """Joined groups by number, once this node is in their view."""
        self.routed: set[int] = set()
        """The same numbers, and …"""
        self.newest_batch = 0
        """… the batch in which the newest of them came: for packets of many groups."""
        self._member_since: dict[int, int] = {}
        """Groups whose view has this node, and the batch from which on it did. A sender
        whose views did not change since may name that batch for ever."""
        self._leaves: dict[int, tuple[str, ...]] = {}
        """Requests to leave that were not answered, and …"""
        self._leaving: Counter[str] = Counter()
        """… the groups and patterns in them: a view of these may still be of the old membership."""

    # What the application asks for

    def note_request(
        self,
        request: int,
        *,
        leave: tuple[str, ...],
        match: Mapping[str, MakeReceivers],
        unmatch: tuple[str, ...],
    ) -> None:
        """The GMS was asked for this; patterns change at once, ``leave`` does the rest."""
        for pattern in unmatch:
            self._unmatch(pattern)
        self.patterns.update(match)
        for pattern in match:
            self._index.add(pattern, pattern)
        if match:
            self._matching[request] = tuple(match)
        if leave or unmatch:
            self._leaves[request] = (*leave, *unmatch)
            self._leaving.update(self._leaves[request])

    def join(self, name: str, receivers: Receivers, *, echo: bool) -> None:
        """Join a group by name, or replace its receivers."""
        joined = self._find_or_add(name)
        joined.set_named(receivers)
        joined.echo = echo

    def leave(self, name: str) -> Joined | None:
        """Leave a group; return what it was, or None if it was not joined by name."""
        joined = self.by_name.get(name)
        if joined is None or not joined.is_named:
            return None
        joined.set_named(None)
        self._forget_unwanted(joined)
        return joined

    def open(self, name: str) -> None:
        """Open a group. Whoever opens it again has not heard of its view."""
        self._opened[name] = NOTHING_TOLD

    def close(self, name: str) -> None:
        self._opened.pop(name, None)

    def is_open(self, name: str) -> bool:
        return name in self._opened

    def is_used(self, name: str) -> bool:
        """Whether a group was joined by name, or opened."""
        joined = self.by_name.get(name)
        return (joined is not None and joined.is_named) or name in self._opened

    def groups_for(self, pattern: str) -> tuple[str, ...]:
        """Return the groups that this node is in and that a pattern stands for."""
        return tuple(each.name for each in list(self.by_name.values()) if each.has_matched(pattern))

    def _find_or_add(self, name: str) -> Joined:
        joined = self.by_name.get(name)
        if joined is None:
            joined = self.by_name[name] = Joined(name)
        return joined

    def _unmatch(self, pattern: str) -> None:
        self.patterns.pop(pattern, None)
        self._index.discard(pattern, pattern)
        for joined in [each for each in self.by_name.values() if each.has_matched(pattern)]:
            joined.set_matched(pattern, None)
            self._forget_unwanted(joined)

    def _forget_unwanted(self, joined: Joined) -> None:
        """Forget a group that was neither named nor matched any more."""
        if not joined.is_wanted:
            self._unroute(joined)
            del self.by_name[joined.name]

    # What the GMS answers

    def handle_answer(self, request: int) -> tuple[str, ...]:
        """A request was answered or given up; return the new patterns that it was for.

        From now on views are of the new membership. Groups that a new pattern stands for may
        have been known, with no new view since.
        """
        for name in self._leaves.pop(request, ()):
            self._leaving[name] -= 1
            if not self._leaving[name]:
                del self._leaving[name]
        return self._matching.pop(request, ())

    def handle_view(
        self, view: GroupView, batch: int, *, is_member: bool, lost_batch: int
    ) -> tuple[list[GroupViewChanged | GroupUnmatched], bool]:
        """A group has a new view, or its subscription is complete.

        Returns what there is to tell, and whether messages are missing: those of
        ``lost_batch`` and before it were lost, so a group with some of them gets no route.
        """
        if is_member:
            if self.patterns:
                self._match(view.name)
            self._member_since.setdefault(view.id, batch)
        else:
            self._member_since.pop(view.id, None)
        changes: list[GroupViewChanged | GroupUnmatched] = []
        is_missing = False
        joined = self.by_name.get(view.name)
        if joined is not None:
            if not is_member:
                self._unroute(joined)
                changes += self._end_matches(joined)
            elif view.name not in self._leaving:
                is_missing = not self._route(joined, view.id, lost_batch)
                joined.told = _tell(view, joined.told, changes, is_member=True)
        told = self._opened.get(view.name)
        if told is not None:
            self._opened[view.name] = _tell(view, told, changes, is_member=False)
        return changes, is_missing

    def handle_gone(self, groups: Iterable[int]) -> list[GroupUnmatched]:
        """Groups have ended, or this node hears of them no more; return what there is to tell."""
        told: list[GroupUnmatched] = []
        for group in groups:
            self._member_since.pop(group, None)
            joined = self.routes.get(group)
            if joined is not None:
                self._unroute(joined)
                told += self._end_matches(joined)
        return told

    def clear(self) -> list[GroupUnmatched]:
        """The incarnation is over; the next one is in the same groups, with other numbers.

        Returns what there is to tell.
        """
        told: list[GroupUnmatched] = []
        self.newest_batch = 0
        self._member_since.clear()
        for joined in list(self.by_name.values()):
            self._unroute(joined)
            joined.told = NOTHING_TOLD
            told += self._end_matches(joined)
        self._opened = dict.fromkeys(self._opened, NOTHING_TOLD)
        return told

    def _match(self, name: str) -> None:
        """Give a group that this node is in to the patterns that stand for it."""
        for pattern in sorted(self._index.match(name)):
            # A view may still be of a membership that a pattern which was left had brought.
            if pattern not in self._leaving:
                joined = self._find_or_add(name)
                if not joined.has_matched(pattern):
                    joined.set_matched(pattern, self.patterns[pattern](name))

    def _end_matches(self, joined: Joined) -> list[GroupUnmatched]:
        """This node is not in a group any more: patterns meet it again if it comes back."""
        patterns = joined.patterns
        for pattern in patterns:
            joined.set_matched(pattern, None)
        if not joined.is_named:
            self.by_name.pop(joined.name, None)
        return [GroupUnmatched(joined.name, patterns)] if patterns else []

    def _route(self, joined: Joined, group: int, lost_batch: int) -> bool:
        """From now on a group's messages go to its receiver; False if some of them are lost."""
        if joined.group == group:
            return True
        self._unroute(joined)
        joined.since = self._member_since[group]
        if joined.since <= lost_batch:
            # Nothing of it may reach the application.
            return False
        joined.group = group
        self.newest_batch = max(self.newest_batch, joined.since)
        self.routes[group] = joined
        self.routed.add(group)
        return True

    def _unroute(self, joined: Joined) -> None:
        if joined.group:
            del self.routes[joined.group]
            self.routed.discard(joined.group)
            joined.group = 0


def _tell(
    view: GroupView,
    told: Told,
    changes: list[GroupViewChanged | GroupUnmatched],
    *,
    is_member: bool,
) -> Told:
    """Add a view to the changes to tell, unless it was told; return what was told last."""
    group, number, before = told
    if group != view.id:
        # The group ended, and another one has its name.
        number, before = 0, ()
    if view.view <= number:
        return told
    new, old = frozenset(view.members), frozenset(before)
    came, went = tuple(sorted(new - old)), tuple(sorted(old - new))
    changes.append(GroupViewChanged(view, came, went, is_member))
    return (view.id, view.view, view.members)
