"""Backup proxies: the state survives the last user (dissertation 6.2.1).

"One way to avoid this would be to ensure that there always exist some m ≥ 1
dedicated 'backup' proxies connected to the channel, solely for the purpose of
mirroring the replicated state." A backup has no user, so it cannot make a
checkpoint: it keeps the state that it was given and the updates after it, and
gives both to newcomers. When the updates become many it asks a member that has a
user for a newer state; and it lets such a member lead.
"""

from __future__ import annotations

from typing import Protocol

from quicksilver.live.components.infrastructure.journal import journal_opener
from quicksilver.live.components.infrastructure.ordering.driver import Driver, take_number
from quicksilver.live.components.infrastructure.ordering.replica import Replica
from quicksilver.live.components.interfaces import (
    PARTICIPANTS,
    ParticipantLists,
    ParticipantRequests,
)
from quicksilver.live.runtime.components import component
from quicksilver.live.runtime.context import Context
from quicksilver.live.runtime.executors import Timer
from quicksilver.live.services.groups import Groups, GroupView, JoinedGroup
from quicksilver.live.types.declare import Given, endpoint, live_object


class BackupRequests(Protocol):
    """Events that users send to a backup: nothing."""


class BackupNews(Protocol):
    """Events that a backup sends to its users."""

    def active(self, is_active: bool, hosts: int) -> None:
        """Say whether it keeps a copy now, and how many hosts there are for it."""


@component("quicksilver.backup", type_name="Backup")
@live_object(title="Backup")
class Backup:
    """keeps copies of the state of a checkpointed group on nodes that offer to

    Every node that opens it is a host. The first ``copies`` hosts, in the order of
    their numbers, keep a copy; the others take over when one of those is gone. With
    ``store`` the copy is also on the host's disk. A host that is not among the
    first any more goes on for ``patience_s``, so that its successor can get the state.

    Who opens a channel of which only disks have the state should say ``founders``:
    whoever is alone in the group starts from what it has, a user from nothing.
    """

    context: Context
    news = endpoint(BackupRequests, BackupNews, name="Backup")
    watcher = endpoint(ParticipantRequests, ParticipantLists, name=PARTICIPANTS)

    def __init__(
        self,
        group: Given[str],
        copies: Given[int] = 1,
        store: Given[str] = "",
        snapshot_updates: Given[int] = 1000,
        snapshot_bytes: Given[int] = 8 << 20,
        sync_s: Given[float] = 0.1,
        patience_s: Given[float] = 10.0,
    ) -> None:
        if copies < 1:
            raise ValueError(f"copies must be at least 1, not {copies}")
        self._name = group
        self._copies = copies
        self._snapshot_updates = snapshot_updates
        self._snapshot_bytes = snapshot_bytes
        self._open_journal = journal_opener(
            self.context,
            store,
            snapshot_updates=snapshot_updates,
            snapshot_bytes=snapshot_bytes,
            sync_s=sync_s,
        )
        self._patience_s = patience_s
        self._group: JoinedGroup | None = None
        self._driver: Driver | None = None
        self._retiring: Timer | None = None
        self._told: tuple[bool, int] | None = None
        self._hosts = self.context.service(Groups).join(
            f"{group}/backups",
            on_view=self.context.guard(self._take_hosts),
            on_end=self.context.fail,
        )

    # Hosts

    def _take_hosts(self, view: GroupView) -> None:
        is_chosen = view.members.index(view.me) < self._copies
        if is_chosen:
            if self._retiring is not None:
                self._retiring.cancel()
                self._retiring = None
            self._begin()
        elif self._driver is not None and self._retiring is None:
            self._retiring = self.context.call_later(self._patience_s, self._retire)
        self._tell(len(view.members))

    def _tell(self, hosts: int) -> None:
        news = (self._driver is not None, hosts)
        if news != self._told:
            self._told = news
            self.news.active(*news)

    def news_connected(self) -> None:
        if self._told is not None:
            self.news.active(*self._told)

    def watcher_connected(self) -> None:
        if self._driver is not None:
            self._driver.tell_participants()

    # The copy

    def _begin(self) -> None:
        if self._driver is not None:
            return
        journal = self._open_journal()
        group = self._group = self.context.service(Groups).join(
            self._name,
            on_message=self.context.guard(self._take_message),
            on_view=self.context.guard(self._take_view),
            on_end=self.context.fail,
        )
        replica = Replica(
            take_number(self.context.runtime),
            patience_s=self._patience_s,
            saved=None if journal is None else journal.saved,
            passive=True,
            refresh_updates=self._snapshot_updates,
            refresh_bytes=self._snapshot_bytes,
        )
        self._driver = Driver(
            self.context,
            replica,
            send=group.send,
            user=None,
            watcher=self.watcher,
            keeper=journal,
        )

    def _take_message(self, _: int, message: bytes) -> None:
        if self._driver is not None:
            self._driver.handle_message(message)

    def _take_view(self, view: GroupView) -> None:
        if self._driver is not None:
            self._driver.handle_view(view.members, view.me)

    def _retire(self) -> None:
        self._retiring = None
        self._end()
        if self._hosts.view is not None:
            self._tell(len(self._hosts.view.members))

    def _end(self) -> None:
        if self._driver is not None:
            self._driver.close()
            self._driver = None
        if self._group is not None:
            self._group.close()
            self._group = None

    def close(self) -> None:
        """Give the copy up."""
        self._end()
        self._hosts.close()
