"""Finding out where the other end of a channel is worked, or where an agent is hosted.

The manager that is named first knows, or names the manager that does, down to a node ("X is
left with a tree with filters in the internal nodes and address and protocol pairs at the
leaves", dissertation 3.2.4). Whoever does not answer is asked again later, from the top.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import msgspec

from quicksilver.scopes.dissemination.channels import External, Link
from quicksilver.scopes.management import messages as say
from quicksilver.scopes.management.events import Dial, Purpose
from quicksilver.scopes.management.messages import Message, Referral
from quicksilver.scopes.names import PARTS_MAX
from quicksilver.scopes.posts import AgentKey
from quicksilver.scopes.routing import Channel
from quicksilver.stdx.timers import TimerTable


class ChannelKey(NamedTuple):
    """A channel as its scope knows it, whoever works its ends."""

    scope: str
    source: str
    target: str
    topic: str
    origin: str


def key_of(channel: Channel) -> ChannelKey:
    return ChannelKey(
        channel.scope, channel.source[0], channel.target[0], channel.topic, channel.origin
    )


class EndKey(NamedTuple):
    """One end of a channel."""

    channel: ChannelKey
    of_source: bool


Wanted: TypeAlias = EndKey | AgentKey
Question: TypeAlias = say.RequestChannel | say.RequestAgent
Answer: TypeAlias = say.OfferChannel | say.OfferAgent | say.ChannelRefused | say.AgentRefused
Place: TypeAlias = Link | External


class Found(NamedTuple):
    """What was asked for, with the names of all who it was handed to, and where it is."""

    wanted: Wanted
    question: Question
    where: Place


@dataclass(slots=True)
class _Search:
    first: Question
    first_address: str
    question: Question
    """As far as it is answered."""
    address: str
    """Of the manager that is asked now."""
    is_found: bool = False
    is_asked: bool = False
    """True while an answer is waited for; False: it is asked again later."""
    tries: int = 0
    problem: str = ""
    """Why the last try failed."""


@dataclass(slots=True)
class _Asking:
    """A manager that is asked."""

    conn: int | None = None
    """None while the connection is made."""
    wanted: dict[Wanted, None] = field(default_factory=dict)
    """What is asked for there, each once. With the last the connection ends."""


class Locator:
    """Asks managers where things are, for one node."""

    def __init__(
        self,
        pause_s: Callable[[int], float],
        answer_s: float,
        out: deque[tuple[int, Message]],
        closes: deque[int],
        dials: deque[Dial],
    ) -> None:
        """What is to be said and dialled goes into the manager's own queues.

        Whoever has not answered after ``answer_s`` is asked again, ``pause_s`` later.
        """
        self._pause_s = pause_s
        self._answer_s = answer_s
        self._out = out
        self._closes = closes
        self._dials = dials
        self._searches: dict[Wanted, _Search] = {}
        self._asking: dict[str, _Asking] = {}
        """Managers that are asked, by address …"""
        self._addresses: dict[int, str] = {}
        """… and their addresses, by connection."""
        self._found: deque[Found] = deque()
        self._timers: TimerTable[Wanted] = TimerTable()
        """When to ask again, or until when an answer is waited for."""

    def find(self, question: Question, address: str, now: float) -> None:
        """Begin to search, at the manager with this address."""
        wanted = wanted_by(question)
        assert wanted not in self._searches
        self._searches[wanted] = _Search(question, address, question, address)
        self._ask(wanted, now)

    def forget(self, wanted: Wanted) -> None:
        """It is not wanted any more; it need not be searched for."""
        if wanted in self._searches:
            self._stop_asking(wanted)
            del self._searches[wanted]

    def has(self, wanted: Wanted) -> bool:
        return wanted in self._searches

    def handle_lost(self, wanted: Wanted, now: float) -> bool:
        """It is not where it was found; False: it was not found before."""
        search = self._searches.get(wanted)
        if search is None or not search.is_found:
            return False
        self._retry(wanted, "it was found once, and lost again", now)
        return True

    def problem(self, wanted: Wanted) -> str:
        """Return why it is not found; empty: it is, or nobody has refused yet."""
        search = self._searches.get(wanted)
        return "" if search is None or search.is_found else search.problem

    def poll_found(self) -> Found | None:
        return self._found.popleft() if self._found else None

    # Inputs

    def handle_dialled(self, address: str, conn: int | None, now: float) -> None:
        asking = self._asking.get(address)
        if asking is None or asking.conn is not None:
            if conn is not None:
                self._closes.append(conn)
        elif conn is None:
            self._handle_unreachable(address, "nobody answers", now)
        else:
            asking.conn = conn
            self._addresses[conn] = address
            for wanted in asking.wanted:
                self._out.append((conn, self._searches[wanted].question))

    def handle_closed(self, conn: int, now: float) -> None:
        address = self._addresses.get(conn)
        if address is not None:
            self._handle_unreachable(address, "the connection ended", now)

    def handle_message(self, conn: int, message: Message, now: float) -> bool:
        """Take an answer; False: it is none that is waited for."""
        if not isinstance(message, Answer):
            return False
        address = self._addresses.get(conn)
        wanted = wanted_by(message)
        if address is None or wanted not in self._asking[address].wanted:
            return False
        if isinstance(message, say.ChannelRefused | say.AgentRefused):
            self._retry(wanted, message.reason, now)
            return True
        return self._handle_offer(wanted, message, now)

    def handle_timeout(self, now: float) -> None:
        for wanted in self._timers.pop_due(now):
            search = self._searches[wanted]
            if search.is_asked:
                self._retry(wanted, f"{search.address} does not answer", now)
            else:
                self._ask(wanted, now)

    def next_timeout(self) -> float | None:
        return self._timers.next()

    # Asking

    def _ask(self, wanted: Wanted, now: float) -> None:
        search = self._searches[wanted]
        search.is_asked = True
        self._timers.set(wanted, now + self._answer_s)
        asking = self._asking.get(search.address)
        if asking is None:
            asking = self._asking[search.address] = _Asking()
            self._dials.append(Dial(search.address, Purpose.CHANNEL))
        asking.wanted[wanted] = None
        if asking.conn is not None:
            self._out.append((asking.conn, search.question))

    def _stop_asking(self, wanted: Wanted) -> None:
        """No answer is waited for any more; whoever is not asked for anything is left alone."""
        search = self._searches[wanted]
        self._timers.cancel(wanted)
        if not search.is_asked:
            return
        search.is_asked = False
        asking = self._asking[search.address]
        del asking.wanted[wanted]
        if not asking.wanted:
            del self._asking[search.address]
            if asking.conn is not None:
                del self._addresses[asking.conn]
                self._closes.append(asking.conn)

    def _handle_offer(
        self, wanted: Wanted, offer: say.OfferChannel | say.OfferAgent, now: float
    ) -> bool:
        search = self._searches[wanted]
        asked, known = _path(search.question), _path(offer)
        if _with_path(offer, asked) != search.question or known[: len(asked)] != asked:
            return False
        where = offer.where
        if isinstance(where, Referral):
            # Each step names one more scope, and a path names few: no referral goes on for ever.
            if not len(asked) < len(known) <= min(len(asked) + 1, PARTS_MAX) or not where.address:
                return False
            self._stop_asking(wanted)
            search.question, search.address = _with_path(offer, known), where.address
            self._ask(wanted, now)
            return True
        self._stop_asking(wanted)
        search.is_found, search.tries, search.problem = True, 0, ""
        self._found.append(Found(wanted, search.question, where))
        return True

    def _retry(self, wanted: Wanted, problem: str, now: float) -> None:
        """Begin again at the first manager, a little later."""
        self._stop_asking(wanted)
        search = self._searches[wanted]
        search.question, search.address = search.first, search.first_address
        search.is_found, search.problem = False, problem
        self._timers.set(wanted, now + self._pause_s(search.tries))
        search.tries += 1

    def _handle_unreachable(self, address: str, problem: str, now: float) -> None:
        asking = self._asking.pop(address)
        if asking.conn is not None:
            del self._addresses[asking.conn]
        for wanted in asking.wanted:
            self._searches[wanted].is_asked = False
            self._retry(wanted, f"{address}: {problem}", now)


def wanted_by(message: Question | Answer) -> Wanted:
    """Return what is asked for, or answered."""
    if isinstance(message, say.RequestChannel | say.OfferChannel | say.ChannelRefused):
        return EndKey(key_of(message.channel), message.of_source)
    return AgentKey(message.domain, message.path[0])


def _path(message: Question | say.OfferChannel | say.OfferAgent) -> tuple[str, ...]:
    """Return as far as it is known who the end or the agent was handed to."""
    if isinstance(message, say.RequestChannel | say.OfferChannel):
        return message.channel.source if message.of_source else message.channel.target
    return message.path


def _with_path(offer: say.OfferChannel | say.OfferAgent, path: tuple[str, ...]) -> Question:
    """Return the question that an offer answers, with another path."""
    if isinstance(offer, say.OfferAgent):
        return say.RequestAgent(offer.domain, path)
    end = {"source": path} if offer.of_source else {"target": path}
    return say.RequestChannel(msgspec.structs.replace(offer.channel, **end), offer.of_source)
