"""Who is there: nodes in the view, members that have gone, newcomers that said hello."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from quicksilver.live.components.infrastructure.ordering.log import Table
from quicksilver.live.components.infrastructure.ordering.messages import (
    JOIN,
    UPDATE,
    Entry,
    Epoch,
    Hello,
    Member,
)

HELLOS_MAX: Final = 10_000
"""Newcomers that may wait; more ask again."""


class Attendance:
    """Everybody whom this replica knows of, as the views and the messages tell."""

    def __init__(self) -> None:
        self.me: Member = (0, 0)
        self.nodes: frozenset[int] = frozenset()
        """The nodes of the view."""
        self.gone: set[Member] = set()
        """Members that said goodbye or were silent for too long."""
        self.hellos: dict[Member, Hello] = {}
        """Newcomers that were heard, until they have a place in the log."""

    def set_view(self, nodes: frozenset[int]) -> None:
        """Take a view, and forget who is not in it."""
        self.nodes = nodes
        self.hellos = {who: hello for who, hello in self.hellos.items() if who[0] in nodes}
        self.gone = {who for who in self.gone if who[0] in nodes}

    def is_there(self, member: Member) -> bool:
        """Whether a member is in the view and has not gone."""
        return member[0] in self.nodes and member not in self.gone

    def others(self, members: Iterable[Member]) -> list[Member]:
        """Return those of some members, except this one, that are there."""
        return [one for one in members if one != self.me and self.is_there(one)]

    def note_hello(self, hello: Hello) -> None:
        """Remember a newcomer. Its view may be newer than ours: it is greeted in ours."""
        if len(self.hellos) < HELLOS_MAX or hello.who in self.hellos:
            self.hellos[hello.who] = hello
            self.gone.discard(hello.who)

    def note_entry(self, entry: Entry) -> None:
        """Take note of who came or went, as the log says."""
        if entry.kind == JOIN:
            self.hellos.pop(entry.who, None)
        if entry.kind != UPDATE:
            self.gone.discard(entry.who)

    def successor(self, table: Table) -> Member | None:
        """Return who should lead if the leader is gone: who joined first, and has a user."""
        there = [
            one
            for one in table.roster
            if self.is_there(one) and (one == self.me or one not in self.hellos)
        ]
        with_user = (one for one in there if one not in table.passive)
        return next(with_user, there[0] if there else None)

    def has_best_claim(self, *, is_patient: bool) -> bool:
        """Whether this newcomer, of all that are heard, should found the log.

        It waits for a hello from every node of the view, unless it ``is_patient``:
        then it has waited long enough.
        """
        hellos = [hello for hello in self.hellos.values() if self.is_there(hello.who)]
        if not is_patient and not self.nodes <= {hello.who[0] for hello in hellos}:
            return False
        best = max(hellos, key=_claim, default=None)
        return best is not None and best.who == self.me


def _claim(hello: Hello) -> tuple[Epoch, int, bool, int, int]:
    node, number = hello.who
    return (hello.saved_epoch, hello.saved_index, not hello.is_passive, -node, -number)
