"""Sessions of one topic: installed down the tree, flushed, and retired (dissertation 3.2.7).

The root numbers them. A new one is told downwards with orders; every manager says upwards
how far all below it have come, one level at a time. Once everybody has installed the new
session nobody sends in the old one, and it is flushed; once everybody has delivered all of
it, the root retires it. What is told is always the whole state, so anybody in between may
start again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from quicksilver.scopes.management.events import (
    Event,
    SessionFlushing,
    SessionInstalled,
    SessionRetired,
)
from quicksilver.scopes.management.messages import Flavour, Session

RELIABILITIES = ("none", "repair")
ORDERINGS = ("fifo", "total")

Progress = tuple[int, int]
"""The newest session that was installed, and the newest of those that are done with."""


@dataclass(slots=True)
class TopicSessions:
    sessions: tuple[Session, ...] = ()
    """The oldest first; none: not known yet."""
    pending: Flavour | None = None
    """At the root: what the next session is to be, once the change that goes on is over."""
    progress: dict[str, Progress] = field(default_factory=dict)
    """How far members have come."""
    said: Progress | None = None
    """What the owner was told."""
    followed: tuple[Session, ...] = ()
    """At a node: what its stack was told."""

    def change(self, number: int, flavour: Flavour) -> None:
        """At the root: begin a session; ``number`` is larger than any before."""
        self.sessions = (*self.sessions, Session(number, flavour))

    def is_changing(self) -> bool:
        return len(self.sessions) > 1

    def advance(self, progress: Progress) -> bool:
        """At the root: take in how far everybody has come; return whether sessions changed."""
        if len(self.sessions) < 2:
            return False
        old, new = self.sessions
        installed, flushed = progress
        if not old.is_flushing and installed >= new.number:
            self.sessions = Session(old.number, old.flavour, is_flushing=True), new
            return True
        if old.is_flushing and flushed >= old.number:
            self.sessions = (new,)
            return True
        return False

    def handle_told(self, sessions: tuple[Session, ...]) -> None:
        """At a scope: an owner says which there are."""
        if sessions:
            self.sessions = sessions

    def gather(self, members: Iterable[str]) -> Progress | None:
        """Return how far all members have come; None: there are none, or one has not said."""
        all_progress = [self.progress.get(member) for member in members]
        known = [each for each in all_progress if each is not None]
        if not known or len(known) < len(all_progress):
            return None
        return min(installed for installed, _ in known), min(flushed for _, flushed in known)


def find_flavour_problem(flavour: Flavour) -> str | None:
    """Return what is wrong with a flavour, or None."""
    if flavour.reliability not in RELIABILITIES:
        return (
            f"there is no reliability {flavour.reliability!r}, only {' and '.join(RELIABILITIES)}"
        )
    if flavour.ordering not in ORDERINGS:
        return f"there is no ordering {flavour.ordering!r}, only {' and '.join(ORDERINGS)}"
    return None


def find_sessions_problem(sessions: tuple[Session, ...]) -> str | None:
    """Return why no root tells these sessions, or None."""
    numbers = [session.number for session in sessions]
    if numbers != sorted(set(numbers)) or (numbers and numbers[0] < 1):
        return "sessions are not numbered one after the other"
    if any(session.is_flushing for session in sessions[-1:]):
        return "the newest session is flushed"
    return next(filter(None, (find_flavour_problem(s.flavour) for s in sessions)), None)


def follow(topic: str, sessions: TopicSessions, node: str) -> list[Event]:
    """At a node: return what its stack is to be told, and note how far it has come.

    Whoever joins during a change begins with the newest session, and has nothing to flush of
    the others.
    """
    before, after = sessions.followed, sessions.sessions
    if before == after or not after:
        return []
    sessions.followed = after
    newest = after[-1]
    if not before:
        sessions.progress[node] = newest.number, newest.number - 1
        return [SessionInstalled(topic, newest.number, newest.flavour)]
    known = {session.number: session for session in before}
    events: list[Event] = []
    for session in after:
        old = known.pop(session.number, None)
        if old is None and session.number > before[-1].number:
            events.append(SessionInstalled(topic, session.number, session.flavour))
        is_old = old is not None or session.number < newest.number
        if session.is_flushing and is_old and (old is None or not old.is_flushing):
            events.append(SessionFlushing(topic, session.number))
    events += [SessionRetired(topic, number) for number in sorted(known)]
    sessions.progress[node] = newest.number, sessions.progress[node][1]
    return events


def handle_flushed(sessions: TopicSessions, node: str, number: int) -> bool:
    """At a node: all of a session is delivered; return whether that is news."""
    if node not in sessions.progress:
        return False
    installed, flushed = sessions.progress[node]
    if number <= flushed or not any(
        s.number == number and s.is_flushing for s in sessions.followed
    ):
        return False
    sessions.progress[node] = installed, number
    return True
