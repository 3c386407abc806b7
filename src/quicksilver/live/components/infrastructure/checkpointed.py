"""Checkpointed channels (dissertation 6.2.1): over a group, or over any channel with views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quicksilver.live.components.infrastructure.journal import Journal, journal_opener
from quicksilver.live.components.infrastructure.ordering.driver import Driver, take_number
from quicksilver.live.components.infrastructure.ordering.replica import Replica
from quicksilver.live.components.interfaces import (
    CHECKPOINTED,
    MEMBERSHIP,
    PARTICIPANTS,
    RELIABLE,
    MembershipRequests,
    MembershipViews,
    ParticipantLists,
    ParticipantRequests,
    channel_below,
    channel_for_users,
)
from quicksilver.live.runtime.components import component
from quicksilver.live.runtime.context import Context
from quicksilver.live.services.groups import Groups, GroupView
from quicksilver.live.types.declare import Given, endpoint, live_object


class _Ordered:
    """What both forms share: the user's side, and the replica that serves it."""

    context: Context
    channel = channel_for_users(CHECKPOINTED)
    watcher = endpoint(ParticipantRequests, ParticipantLists, name=PARTICIPANTS)

    def __init__(self, safe: bool, founders: int, patience_s: float) -> None:
        self._safe = safe
        self._founders = founders
        self._patience_s = patience_s
        self._driver: Driver | None = None

    def _drive(
        self,
        send: Callable[[bytes], Any],
        view: tuple[tuple[int, ...], int] | None,
        journal: Journal | None = None,
    ) -> None:
        """Take part from now on, in the view that there is."""
        replica = Replica(
            take_number(self.context.runtime),
            safe=self._safe,
            founders=self._founders,
            patience_s=self._patience_s,
            saved=None if journal is None else journal.saved,
        )
        driver = self._driver = Driver(
            self.context,
            replica,
            send=send,
            user=self.channel,
            watcher=self.watcher,
            keeper=journal,
        )
        if view is not None:
            # Not now: whoever connects is to be told that it is connected first.
            self.context.post(lambda: driver.handle_view(*view))

    def channel_disconnected(self) -> None:
        if self._driver is not None:
            self._driver.close()
            self._driver = None

    def channel_send(self, message: bytes) -> None:
        if self._driver is not None:
            self._driver.send(message)

    def channel_checkpoint(self, ticket: int, state: bytes) -> None:
        if self._driver is not None:
            self._driver.checkpoint(ticket, state)

    @property
    def is_settled(self) -> bool:
        """Whether all members have what was sent here."""
        return self._driver is None or self._driver.is_settled

    def watcher_connected(self) -> None:
        if self._driver is not None:
            self._driver.tell_participants()


@component("quicksilver.checkpointed-channel")
@live_object(title="CheckpointedChannel")
class CheckpointedGroup(_Ordered):
    """a group as a totally ordered channel that brings newcomers up to date

    A proxy takes part from when its user connects until it parts. ``safe``: users
    are given only what all members have. ``founders``: how many nodes must be in
    the group before one may start from nothing, or from its disk. Who is silent
    for ``patience_s`` although its node is in the view counts as gone.

    With ``store`` the state is kept on this node's disk under that name: a log,
    synced at most ``sync_s`` after something was written, and a snapshot after
    ``snapshot_updates`` or ``snapshot_bytes``. It is read when nobody in the group
    has a state; of several disks, the newest counts. One user of a store at a time.
    """

    def __init__(
        self,
        group: Given[str],
        safe: Given[bool] = False,
        founders: Given[int] = 1,
        patience_s: Given[float] = 10.0,
        store: Given[str] = "",
        snapshot_updates: Given[int] = 1000,
        snapshot_bytes: Given[int] = 8 << 20,
        sync_s: Given[float] = 0.1,
    ) -> None:
        super().__init__(safe, founders, patience_s)
        self._open_journal = journal_opener(
            self.context,
            store,
            snapshot_updates=snapshot_updates,
            snapshot_bytes=snapshot_bytes,
            sync_s=sync_s,
        )
        self._group = self.context.service(Groups).join(
            group,
            on_message=self.context.guard(self._take_message),
            on_view=self.context.guard(self._take_view),
            on_end=self.context.fail,
        )

    # The group

    def _take_message(self, _: int, message: bytes) -> None:
        if self._driver is not None:
            self._driver.handle_message(message)

    def _take_view(self, view: GroupView) -> None:
        if self._driver is not None:
            self._driver.handle_view(view.members, view.me)

    # The user

    def channel_connected(self) -> None:
        view = self._group.view
        present = None if view is None else (view.members, view.me)
        self._drive(self._group.send, present, self._open_journal())

    def close(self) -> None:
        """Say goodbye to the others and leave the group."""
        group = getattr(self, "_group", None)
        if group is not None:
            if self._driver is not None:
                self._driver.close()
            group.close()


@component("quicksilver.total-order", type_name="TotalOrder")
@live_object(title="TotalOrder")
class TotalOrder(_Ordered):
    """a checkpointed channel made of any reliable channel and the views of its users

    The same as a checkpointed group, for channels and membership objects that are
    composed with it. What is closed together with the channel below cannot say
    goodbye: the others notice by the view, or after ``patience_s``.
    """

    below = channel_below(RELIABLE)
    views = endpoint(MembershipViews, MembershipRequests, name=MEMBERSHIP)

    def __init__(
        self,
        safe: Given[bool] = False,
        founders: Given[int] = 1,
        patience_s: Given[float] = 10.0,
    ) -> None:
        super().__init__(safe, founders, patience_s)
        self._view: tuple[tuple[int, ...], int] | None = None

    # Below

    def _send_below(self, message: bytes) -> None:
        self.below.send(message)

    def below_receive(self, message: bytes) -> None:
        if self._driver is not None:
            self._driver.handle_message(message)

    def views_view(self, number: int, members: list[int], me: int) -> None:
        self._view = (tuple(members), me)
        if self._driver is not None:
            self._driver.handle_view(*self._view)

    # The user

    def channel_connected(self) -> None:
        self._drive(self._send_below, self._view)
