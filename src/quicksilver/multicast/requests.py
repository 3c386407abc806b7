"""Requests and their answers, as far as they need no thread and no clock.

A request is a message of its group with an envelope that has a number and the name of the
requester's reply group. The reply group is private: it has a region of its own with the
requester as its only member, so an answer is a reliable message to one node, the plan of all
other regions stays as it is, and nobody else hears it. A node makes its reply group with its
first request; whoever answers opens it once (``reply_groups``).

Members that serve a group are in an attendance group, whose view requesters know: a request
that nobody would answer fails at once, and one whose servers have all gone does not wait.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from quicksilver.membership.names import ATTENDANCE, PRIVATE, find_name_problem
from quicksilver.wire.envelope import Envelope, Kind


def serve_attendance(group: str) -> str:
    """Return the attendance group of those who serve a group.

    Names of groups may be as long as those of attendance groups: the longest are hashed.
    """
    name = f"{ATTENDANCE}serve.{group}"
    if find_name_problem(name) is None:
        return name
    return f"{ATTENDANCE}serve-long.{hashlib.sha256(group.encode()).hexdigest()}"


def reply_group(secret: str) -> str:
    """Return the reply group of a node, by a text that no other node has."""
    return f"{PRIVATE}reply.{secret}"


def find_requests(envelopes: Sequence[Envelope]) -> list[int]:
    """Return which messages are requests that can be answered, by their places."""
    return [
        at
        for at, envelope in enumerate(envelopes)
        if envelope.kind == Kind.REQUEST
        and envelope.reply.startswith(PRIVATE)
        and find_name_problem(envelope.reply) is None
    ]


class Attendance:
    """Who serves a group, as a requester knows it."""

    def __init__(self) -> None:
        self.servers: frozenset[int] = frozenset()

    def handle_view(self, members: Iterable[int]) -> frozenset[int]:
        """The attendance group has a new view; return those who serve no more."""
        before, self.servers = self.servers, frozenset(members)
        return before - self.servers


class Pending:
    """A request that waits for answers."""

    def __init__(
        self,
        group: str,
        wanted: int | None,
        servers: Iterable[int],
        on_end: Callable[[], None] | None = None,
    ) -> None:
        """``wanted``: how many answers; None: one of each server. ``on_end`` is called once,
        when nothing more is to be waited for."""
        self.group = group
        self.wanted = wanted
        self.number = 0
        self.answers: list[Any] = []
        self.failures: list[tuple[int, str]] = []
        """Who failed to answer, and what it said."""
        self.is_ended = False
        self._on_end = on_end
        self.servers = set(servers)
        """Who may still answer, as far as it is known."""
        self._heard: set[int] = set()
        """Who has answered: of two answers of one server the first counts."""

    def handle_answer(self, sender: int, answer: Any) -> None:
        """A server has answered."""
        if self._hear(sender):
            self.answers.append(answer)
            self.handle_left({sender})

    def handle_failure(self, sender: int, text: str) -> None:
        """A server has said why there is no answer."""
        if self._hear(sender):
            self.failures.append((sender, text))
            self.handle_left({sender})

    def _hear(self, sender: int) -> bool:
        """Return whether what a server says counts."""
        if self.is_ended or sender in self._heard:
            return False
        self._heard.add(sender)
        return True

    def handle_left(self, gone: Iterable[int]) -> None:
        """Servers have answered or are gone: nothing more comes from them."""
        if self.is_ended:
            return
        self.servers.difference_update(gone)
        # A failure counts: whoever asks for one answer gets the first, whatever it is.
        count = len(self.answers) + len(self.failures)
        if not self.servers or (self.wanted is not None and count >= self.wanted):
            self.is_ended = True
            if self._on_end is not None:
                self._on_end()
