"""Journals of components, one user at a time."""

from __future__ import annotations

import weakref

from quicksilver.live.components.infrastructure.persistence.journal import Journal
from quicksilver.live.runtime.context import Context
from quicksilver.live.runtime.runtime import Runtime
from quicksilver.live.services.storage import Storage

_TAKEN: weakref.WeakKeyDictionary[Runtime, set[str]] = weakref.WeakKeyDictionary()


class StoreTakenError(Exception):
    """Two components want to keep their state in the same place."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"the store {self.name!r} is in use on this node: give each user another name"


def open_journal(
    context: Context,
    name: str,
    *,
    snapshot_updates: int,
    snapshot_bytes: int,
    sync_s: float,
) -> Journal:
    """Return the journal of a component; raises StoreTakenError, NoServiceError."""
    storage = context.service(Storage)
    taken = _TAKEN.setdefault(context.runtime, set())
    if name in taken:
        raise StoreTakenError(name)
    journal = Journal(
        storage,
        name,
        plan_sync=context.call_later,
        snapshot_updates=snapshot_updates,
        snapshot_bytes=snapshot_bytes,
        sync_s=sync_s,
        on_close=lambda: taken.discard(name),
    )
    taken.add(name)
    return journal
