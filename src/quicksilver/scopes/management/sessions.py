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

import msgspec

from quicksilver.scopes.dissemination.packets import Sender
from quicksilver.scopes.management.events import (
    Event,
    SequencerChosen,
    SessionFlushing,
    SessionInstalled,
    SessionRetired,
)
from quicksilver.scopes.management.messages import Flavour, Session

RELIABILITIES = ("none", "repair")
ORDERINGS = ("fifo", "total")

Progress = tuple[int, int]
"""The newest session or term that was installed, and the newest session that is done with."""


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
        installed, flushed = progress
        for place, session in enumerate(self.sessions):
            if session.sequencer is not None and not session.is_firm and installed >= session.term:
                self._replace(place, is_firm=True)
                return True
        if len(self.sessions) < 2:
            return False
        old, new = self.sessions
        if not old.is_flushing and installed >= new.number:
            self._replace(0, is_flushing=True)
            return True
        if old.is_flushing and flushed >= old.number:
            self.sessions = (new,)
            return True
        return False

    def knows_term(self, number: int, term: int) -> bool:
        """Whether a session has a total order, and who says it was last chosen so."""
        return any(
            s.number == number and s.term == term and s.flavour.ordering == "total"
            for s in self.sessions
        )

    def choose(self, number: int, sender: Sender, term: int) -> None:
        """At the root: choose who says the order of a session."""
        place = [session.number for session in self.sessions].index(number)
        self._replace(place, sequencer=sender, term=term, is_firm=False)

    def _replace(self, place: int, **changes: object) -> None:
        sessions = list(self.sessions)
        sessions[place] = msgspec.structs.replace(sessions[place], **changes)
        self.sessions = tuple(sessions)

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
    if flavour.ordering == "total" and flavour.reliability != "repair":
        return "a total order needs the reliability 'repair'"
    return None


def find_sessions_problem(sessions: tuple[Session, ...]) -> str | None:
    """Return why no root tells these sessions, or None."""
    numbers = [session.number for session in sessions]
    if numbers != sorted(set(numbers)) or (numbers and numbers[0] < 1):
        return "sessions are not numbered one after the other"
    if any(session.is_flushing for session in sessions[-1:]):
        return "the newest session is flushed"
    if any((session.sequencer is None) != (session.term == 0) for session in sessions):
        return "who says an order, and since when, do not fit together"
    return next(filter(None, (find_flavour_problem(s.flavour) for s in sessions)), None)


def follow(topic: str, sessions: TopicSessions, node: str) -> list[Event]:
    """At a node: return what its stack is to be told, and note how far it has come.

    Whoever joins during a change takes part in the old session as well, as publishers still
    send in it.
    """
    before, after = sessions.followed, sessions.sessions
    if before == after or not after:
        return []
    sessions.followed = after
    newest = after[-1]
    known = {session.number: session for session in before}
    events: list[Event] = []
    for session in after:
        old = known.pop(session.number, None)
        if old is None and (not before or session.number > before[-1].number):
            events.append(SessionInstalled(topic, session.number, session.flavour))
        elif old is None:
            continue
        if session.sequencer is not None and (
            old is None or (old.term, old.is_firm) != (session.term, session.is_firm)
        ):
            chosen = session.sequencer, session.term, session.is_firm
            events.append(SequencerChosen(topic, session.number, *chosen))
        if session.is_flushing and (old is None or not old.is_flushing):
            events.append(SessionFlushing(topic, session.number))
    events += [SessionRetired(topic, number) for number in sorted(known)]
    installed = max(newest.number, *(session.term for session in after))
    flushed = after[0].number - 1
    if node in sessions.progress:
        flushed = max(flushed, sessions.progress[node][1])
    sessions.progress[node] = installed, flushed
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
