"""The groups that this node sends to, and the lanes that their messages wait in.

Keeps every group's sender pointed at the streams of the group's current view. Groups
that the application left are kept as long as messages wait for them, and their numbers
for longer.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import nlargest

from quicksilver.core.pull import Sink
from quicksilver.membership.directory import GroupView
from quicksilver.membership.events import ViewsChanged
from quicksilver.multicast.environment import STRANGERS_REMEMBERED, Environment
from quicksilver.multicast.sending.behind import Behind
from quicksilver.multicast.sending.commitments import Commitments
from quicksilver.multicast.sending.empty import Empty, WaitingMessages
from quicksilver.multicast.sending.group import GroupSender
from quicksilver.multicast.sending.lane import Lane, Source
from quicksilver.multicast.sending.precedence import Precedence
from quicksilver.multicast.sending.stream import SendStream
from quicksilver.multicast.sending.stream_table import StreamTable
from quicksilver.wire.ids import GroupId
from quicksilver.wire.packets import PRIORITY_DATA

LANES_MAX = 256
SENDERS_REMEMBERED_MAX = 100_000


class GroupTable:
    """Senders by group; points them at streams when views change."""

    def __init__(
        self,
        environment: Environment,
        data: Sink,
        lanes: dict[tuple[int, ...], Lane],
        streams: StreamTable,
        precedence: Precedence,
        commitments: Commitments,
        waiting: WaitingMessages,
        on_emptiness: Callable[[GroupSender], None],
    ) -> None:
        """``data`` is the sink that pulls from lanes; ``lanes`` are by regions, and are
        added and removed here. ``on_emptiness`` is told when a group has no members any
        more, and when it has some again."""
        self._env = environment
        self._data = data
        self._lanes = lanes
        self._streams = streams
        self._precedence = precedence
        self._commitments = commitments
        self._waiting = waiting
        self._on_emptiness = on_emptiness
        self._groups: dict[str, GroupSender] = {}
        self._groups_by_id: dict[int, GroupSender] = {}
        self._behind: dict[str, Behind] = {}
        """What was chosen for groups about members that do not keep up, and …"""
        self._empty: dict[str, Empty] = {}
        """… about messages while they have no members."""
        self._ids: dict[str, GroupId] = {}
        self._subscribed: set[str] = set()
        self._forgotten: dict[str, GroupSender] = {}
        """Groups that the application no longer sends to. Messages may still wait for
        them, and should they be opened again, their numbers go on."""
        self._parting: dict[str, GroupSender] = {}
        """Those of them for which messages may wait: these go to the views that follow
        until the group is left, then to the last one that was known."""
        self._batch = 0
        """The newest batch whose views senders point to."""

    # Membership

    def handle_subscribed(self, names: list[str]) -> None:
        """Subscriptions took effect: those groups have their views, or no members."""
        for name in names:
            self._subscribed.add(name)
            self._refresh(name)

    def handle_views(self, event: ViewsChanged) -> None:
        """Point senders at the streams of new views, which exist already."""
        for group in event.groups_gone:
            sender = self._groups_by_id.get(group)
            if sender is not None:
                sender.streams = ()
                self._set_empty(sender, is_empty=True)
        for sender in self._parting.values():
            if sender.id in event.groups_gone and sender.streams:
                sender.batch = self._batch
                # A tuple of its own, so that no packet has messages of other groups, too.
                sender.streams = (*sender.streams,)
            if event.nodes_failed and sender.batch is not None and sender.streams:
                # Half a large message may be on a stream that nobody is left to hear:
                # whatever came after it would be delivered past a gap.
                sender.streams = tuple(filter(self._streams.has_living_members, sender.streams))
        self._batch = self._env.batch
        groups = self._env.directory.groups
        if len(self._ids) > 2 * len(groups) + STRANGERS_REMEMBERED:
            self._ids = {name: group for name, group in self._ids.items() if group in groups}
        for group_view in event.groups:
            self._ids[group_view.name] = group_view.id
            self._refresh(group_view.name)
        changed = {view.id for view in event.regions}
        self._parting = {n: s for n, s in self._parting.items() if not s.lane.is_empty()}
        for name, sender in [*self._groups.items(), *self._parting.items()]:
            if sender.streams and any(s.region in changed for s in sender.streams):
                self._refresh(name)
        self.refresh_lanes()

    def handle_given_up(self, stream: SendStream) -> None:
        """What waits for a group that was left cannot come after packets that are lost."""
        for sender in self._parting.values():
            if sender.streams and stream in sender.streams:
                sender.streams = ()
                sender.is_stranded = True

    def become_nobody(self) -> None:
        """This incarnation is over: what is queued waits for the next one's views."""
        self._groups_by_id.clear()
        self._ids.clear()
        self._subscribed.clear()
        for sender in self._groups.values():
            sender.streams = None
            sender.streams_before = ()
            sender.next_sequence = sender.floor = 0
        for sender in self._forgotten.values():
            self._strand(sender)
            sender.batch = None
            sender.streams_before = ()
            sender.next_sequence = sender.floor = 0
        for lane in self._lanes.values():
            lane.forget_streams()
        # What waits for groups that were left has no one to wait for any more.
        self.unblock_lanes()

    def _strand(self, sender: GroupSender) -> None:
        """The group was left: there is no view to which what waits for it could go."""
        sender.is_stranded = sender.streams != () or sender.is_stranded
        sender.streams = ()

    # Senders

    def sender_for(self, name: str) -> GroupSender:
        """Return the group as a sender sees it; its view is known after ``subscribe``."""
        sender = self._groups.get(name)
        if sender is None:
            lane = self._lane_for(self._view_named(name))
            sender = self._forgotten.pop(name, None)
            self._parting.pop(name, None)
            if sender is None:
                sender = GroupSender(name, lane)
                lane.outbox.attach(sender)
            else:
                sender.streams = sender.batch = None
                sender.is_stranded = False
                if sender.lane not in self._lanes.values():
                    sender.lane = lane
                    lane.outbox.attach(sender)
            sender.behind = self._behind.get(name, self._env.config.behind)
            sender.empty = self._empty.get(name, self._env.config.empty)
            sender.is_empty = False
            self._groups[name] = sender
            self._refresh(name)
        return sender

    def set_behind(self, name: str, behind: Behind) -> None:
        """Choose what to do about members of a group that do not keep up.

        Streams under way take only what is stricter than what they do already.
        """
        self._behind[name] = behind
        sender = self._groups.get(name)
        if sender is not None:
            sender.behind = behind
            self._refresh(name)

    def set_empty(self, name: str, empty: Empty) -> None:
        """Choose what to do with messages while nobody is in a group."""
        self._empty[name] = empty
        sender = self._groups.get(name)
        if sender is not None and sender.empty != empty:
            sender.empty = empty
            sender.lane.is_blocked = False
            self._data.register(sender.lane, PRIORITY_DATA)
            if sender.is_empty:
                self._on_emptiness(sender)

    def find_sender(self, name: str) -> GroupSender | None:
        """Return a group's sender, even if it was forgotten; None if there never was one."""
        return self._groups.get(name) or self._forgotten.get(name)

    def forget_sender(self, name: str) -> None:
        """The application no longer sends to the group."""
        sender = self._groups.pop(name, None)
        self._behind.pop(name, None)
        self._empty.pop(name, None)
        self._subscribed.discard(name)
        if sender is not None:
            waited = len(self._waiting.take(name))
            if waited:
                self._commitments.handle_waiting_left(sender, waited)
                self.unblock_lanes()
            sender.is_empty = False
            self._forgotten[name] = sender
            if not self._env.node:
                # Counted out, and the next incarnation will not be in the group.
                self._strand(sender)
                self.unblock_lanes()
            if not sender.lane.is_empty():
                self._parting[name] = sender
            while len(self._forgotten) > SENDERS_REMEMBERED_MAX:
                del self._forgotten[next(iter(self._forgotten))]
            self._groups_by_id.pop(sender.id, None)

    def unblock_lanes(self) -> None:
        """There is room again for messages that wait for members."""
        for lane in self._lanes.values():
            lane.is_blocked = False
            self._data.register(lane, PRIORITY_DATA)

    def add_source(self, sender: GroupSender, source: Source) -> None:
        """Ask an application for messages whenever there is room, until it has none."""
        sender.lane.sources.append((sender, source))
        self._data.register(sender.lane, PRIORITY_DATA)

    def senders(self) -> list[GroupSender]:
        """Return the senders of all groups; those that the application left come last."""
        return [*self._groups.values(), *self._forgotten.values()]

    def names(self) -> dict[int, str]:
        """Return the names of groups by number."""
        senders = [*self._forgotten.values(), *self._groups.values()]
        return {sender.id: sender.name for sender in senders}

    def take_traffic(self, most: int) -> tuple[tuple[int, int], ...]:
        """Return the groups that got most messages since the last time, and how many."""
        sent = [(sender.take_sent(), group) for group, sender in self._groups_by_id.items()]
        busy = nlargest(most, (pair for pair in sent if pair[0]))
        return tuple((group, count) for count, group in busy)

    # Views and lanes

    def _view_named(self, name: str) -> GroupView | None:
        group = self._ids.get(name)
        return None if group is None else self._env.directory.groups.get(group)

    def _refresh(self, name: str) -> None:
        sender = self._groups.get(name) or self._parting.get(name)
        if sender is None:
            return
        view = self._view_named(name)
        if view is not None:
            self._resolve(sender, view)
        elif sender.streams is None and name in self._subscribed:
            # The group has no members, so it has no view: whom it reaches is nobody.
            sender.streams = ()
            self._set_empty(sender, is_empty=name in self._groups)
            sender.lane.is_blocked = False
            self._data.register(sender.lane, PRIORITY_DATA)

    def _resolve(self, sender: GroupSender, view: GroupView) -> None:
        """Point a sender at the streams of its group's current view."""
        if sender.id != view.id:
            sender.id = view.id
            self._groups_by_id[view.id] = sender
        streams = self._streams.into(view.regions)
        if streams and streams is not sender.streams_before:
            if not self._precedence.put_after(streams, sender.streams_before):
                sender.floor = sender.next_sequence
            sender.streams_before = streams
        sender.streams = streams
        # Of a group that was left and is joined again the view may come before the answer.
        sender.batch = None
        for stream in streams:
            stream.carry(sender.behind)
        port = self._env.settings.multicast_port
        is_hybrid = view.is_hybrid and self._env.has_multicast
        sender.hybrid = (view.hybrid, port) if is_hybrid else None
        sender.lane.is_blocked = False
        self._data.register(sender.lane, PRIORITY_DATA)
        self._set_empty(sender, is_empty=not view.members and sender.name in self._groups)

    def _set_empty(self, sender: GroupSender, *, is_empty: bool) -> None:
        if is_empty != sender.is_empty:
            sender.is_empty = is_empty
            if sender.empty != "drop":
                self._on_emptiness(sender)

    def _lane_for(self, view: GroupView | None) -> Lane:
        """Groups over the same regions share a lane: a slow region holds no other up."""
        key = tuple(int(region) for region, _ in view.regions) if view is not None else ()
        lane = self._lanes.get(key)
        if lane is None:
            if len(self._lanes) >= LANES_MAX:
                return next(iter(self._lanes.values()))
            lane = self._lanes[key] = Lane(self._env, self._commitments)
        return lane

    def refresh_lanes(self) -> None:
        """Senders were added or moved: see which lanes still have one set of regions."""
        sets: dict[Lane, set[int]] = {}
        for lane in self._lanes.values():
            lane.has_echo = False
        for sender in [*self._groups.values(), *self._parting.values()]:
            sets.setdefault(sender.lane, set()).add(id(sender.streams))
            if sender.echo:
                sender.lane.has_echo = True
        for lane, streams in sets.items():
            lane.is_mixed = len(streams) > 1
        for key, lane in list(self._lanes.items()):
            if lane not in sets and lane.is_empty():
                del self._lanes[key]
