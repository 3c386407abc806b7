"""What must survive a manager's restart, as small records by name.

The host writes each record before it sends what comes after it (``ScopeManager.poll_saved``),
and gives all of them to the next manager. Numbers of views, domains and sessions are reserved
in blocks: a record for each block, and no number is ever used twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import msgspec

from quicksilver.scopes.management.messages import Flavour, Session
from quicksilver.stdx.errors import QuicksilverError

NUMBERS_BLOCK = 1_000

Record = TypeVar("Record", bound=msgspec.Struct)


class BadRecordError(QuicksilverError, ValueError):
    """A record that no manager has written, or not this version of it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"the record {self.name!r} of a scope manager cannot be read"


class Saved(NamedTuple):
    """A record to write, in place of the one with the same name; None: to delete."""

    name: str
    value: bytes | None


class SavedNumbers(msgspec.Struct, frozen=True, array_like=True):
    below: int
    """Numbers below this one may have been used."""


class SavedMember(msgspec.Struct, frozen=True, array_like=True):
    address: str
    is_member: bool
    grace_s: float


class SavedDomain(msgspec.Struct, frozen=True, array_like=True):
    number: int


class SavedTopic(msgspec.Struct, frozen=True, array_like=True):
    """A topic that is rooted here, or whose mechanism has an address."""

    sessions: tuple[Session, ...] = ()
    pending: Flavour | None = None
    """What the next session is to be, once the change that goes on is over."""
    address: str = ""


class Savings:
    """Records of one manager, and those that are to be written."""

    def __init__(self, records: Mapping[str, bytes]) -> None:
        self._records = dict(records)
        self._changes: deque[str] = deque()
        self._waiting: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._records)

    def names(self, prefix: str) -> list[str]:
        """Return the names of all records that begin so, without the beginning."""
        return sorted(n[len(prefix) :] for n in self._records if n.startswith(prefix))

    def get(self, name: str, kind: type[Record]) -> Record | None:
        """Return what a record says. Raises ``BadRecordError``."""
        value = self._records.get(name)
        if value is None:
            return None
        try:
            return msgspec.msgpack.decode(value, type=kind)
        except (msgspec.MsgspecError, ValueError):
            raise BadRecordError(name) from None

    def put(self, name: str, record: msgspec.Struct | None) -> None:
        """Let a record say something else; None: it is not needed any more."""
        value = None if record is None else msgspec.msgpack.encode(record)
        if self._records.get(name) == value:
            return
        if value is None:
            del self._records[name]
        else:
            self._records[name] = value
        if name not in self._waiting:
            self._waiting.add(name)
            self._changes.append(name)

    def poll(self) -> Saved | None:
        if not self._changes:
            return None
        name = self._changes.popleft()
        self._waiting.discard(name)
        return Saved(name, self._records.get(name))


class Numbers:
    """Numbers that are never used again, each larger than all before."""

    def __init__(self, savings: Savings) -> None:
        self._savings = savings
        known = savings.get("numbers", SavedNumbers)
        self._last = self._below = 0 if known is None else known.below

    def next(self) -> int:
        self._last += 1
        if self._last >= self._below:
            self._below = self._last + NUMBERS_BLOCK
            self._savings.put("numbers", SavedNumbers(self._below))
        return self._last
