"""What all cores do alike: groups are joined, left and given up, and threads wait for answers.

There are three (``node.ports``). Each keeps the groups that were joined and opened, and says in
a few methods what it asks of whoever is behind it: ``_subscribe_on_core``, ``_withdraw_on_core``.
Methods named ``*_on_core`` run on the core thread; the others may be called from any thread.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, TypeVar

from quicksilver.multicast.sending.behind import Behind
from quicksilver.multicast.sending.empty import Empty
from quicksilver.multicast.sending.unconfirmed import Unconfirmed
from quicksilver.net.host import tune_collector
from quicksilver.node.errors import (
    AlreadyJoinedError,
    ClosedError,
    QuicksilverError,
    TimedOutError,
)
from quicksilver.node.inbox import KeptViews
from quicksilver.node.messages import NodeStats
from quicksilver.node.options import NodeOptions
from quicksilver.node.promises import Promises, fail, settle
from quicksilver.node.tuning import SWITCH_INTERVAL

UNFINISHED_S = 2.0
"""How long to wait for the core thread to say what a node that closes leaves behind."""


class CoreSink(Protocol):
    """What every core needs of a group; called on the core thread."""

    @property
    def name(self) -> str: ...

    def fail_on_core(self, error: Exception) -> None:
        """Nothing more will come."""
        ...


SinkT = TypeVar("SinkT", bound=CoreSink)


@dataclass(frozen=True, slots=True)
class Change(Generic[SinkT]):
    """A change of memberships, as somebody asked for it (``CoreBase.subscribe``)."""

    joining: tuple[SinkT, ...]
    opening: tuple[SinkT, ...]
    leaving: tuple[str, ...]
    closing: tuple[str, ...]
    behind: Behind | None
    empty: Empty | None
    queue: str | None


class CoreBase(ABC, Generic[SinkT]):
    """A node assembled, whatever it is a node of."""

    answerer: ClassVar[str] = "the core thread"
    """Who is asked for statistics."""

    def __init__(self, options: NodeOptions) -> None:
        self.options = options
        self.room = threading.Event()
        """Set when a full lane has room again; for threads that wait in ``send``."""
        self.failure: Exception | None = None
        self.is_closed = False
        self._is_started = False
        self.exclusions = 0
        self.views = KeptViews()
        """The views that applications have not taken."""
        self.promises = Promises()
        self._welcome: Future[int] = Future()
        self._sinks: dict[str, SinkT] = {}
        """Groups that were joined."""
        self._openers: dict[str, SinkT] = {}
        """Groups that were opened for sending."""

    # What cores differ in

    @abstractmethod
    def call(self, work: Callable[[], None]) -> None:
        """Run something on the core thread soon."""

    @abstractmethod
    def unreachable(self) -> QuicksilverError:
        """Return why nobody has let the node in."""

    def _check_change(self, change: Change[SinkT]) -> None:
        """Raise what is wrong with a change; all that such a core cannot do."""

    @abstractmethod
    def _subscribe_on_core(self, change: Change[SinkT], future: Future[dict[str, int]]) -> None:
        """Begin a change; nothing that it joins is joined."""

    @abstractmethod
    def _withdraw_on_core(self, leaving: list[str], closing: list[str]) -> None:
        """Leave and close groups; nobody waits for it."""

    @abstractmethod
    def _flush_on_core(self, future: Future[tuple[Unconfirmed, ...]]) -> None:
        """Give a future what a flush of everything sent so far brings."""

    @abstractmethod
    def _count_on_core(self, future: Future[NodeStats]) -> None:
        """Give a future what was counted so far."""

    # Life

    def _begin(self) -> None:
        """The core thread starts now: change the process as the options say."""
        if self.options.tune_gc:
            tune_collector()
        if self.options.switch_interval_s is not None:
            SWITCH_INTERVAL.enter(self.options.switch_interval_s)
        self._is_started = True

    def _end(self) -> None:
        """The core thread has stopped, if it was ever started."""
        if self.options.switch_interval_s is not None and self._is_started:
            SWITCH_INTERVAL.leave()

    @property
    def welcome(self) -> Future[int]:
        return self._welcome

    def wait_welcome(self) -> int:
        """Block until the node is in; raises what kept it out."""
        try:
            return self._welcome.result(timeout=self.options.connect_timeout_s)
        except TimeoutError:
            raise self.unreachable() from None

    def check_alive(self) -> None:
        if self.failure is not None:
            raise self.failure
        if self.is_closed:
            raise ClosedError("the node")

    def _fail_requests(self, error: Exception) -> None:
        """Nobody who waits for an answer will get one."""
        if not self._welcome.done():
            fail(self._welcome, error)
        self.promises.fail_all(error)

    def _end_all(self, error: Exception) -> None:
        self._fail_requests(error)
        for sink in [*self._sinks.values(), *self._openers.values()]:
            sink.fail_on_core(error)

    # Groups

    def subscribe(
        self,
        *,
        join: Iterable[SinkT] = (),
        open_: Iterable[SinkT] = (),
        leave: Iterable[str] = (),
        close: Iterable[str] = (),
        behind: Behind | None = None,
        empty: Empty | None = None,
        queue: str | None = None,
    ) -> Future[dict[str, int]]:
        """Change memberships; the future has the group identifiers.

        Groups to join whose names are patterns stand for all groups that match. ``queue`` is
        the queue in which the groups that are joined share their messages with other members.

        ``behind``: what to do about members that do not keep up, ``empty``: about messages
        while nobody is in a group, in the groups that are joined or opened; None: what the
        node's settings say. Whoever stops waiting calls ``withdraw``.
        """
        self.check_alive()
        change = Change(tuple(join), tuple(open_), tuple(leave), tuple(close), behind, empty, queue)
        self._check_change(change)
        future: Future[dict[str, int]] = self.promises.make()
        self.call(lambda: self._change_on_core(change, future))
        return future

    def _change_on_core(self, change: Change[SinkT], future: Future[dict[str, int]]) -> None:
        if future.done() and not (change.leaving or change.closing):
            return  # whoever asked has given up; what was left stays left
        for sink in change.joining:
            if sink.name in self._sinks:
                fail(future, AlreadyJoinedError(sink.name))
                return
        self._subscribe_on_core(change, future)

    def withdraw(self, sinks: Iterable[SinkT]) -> None:
        """Take a request to join or open back, whether or not it took effect already."""
        given_up = tuple(sinks)

        def undo() -> None:
            leaving = [s.name for s in given_up if self._sinks.get(s.name) is s]
            closing = [s.name for s in given_up if self._openers.get(s.name) is s]
            if leaving or closing:
                self._withdraw_on_core(leaving, closing)

        if not self.is_closed and self.failure is None:
            self.call(undo)

    def _note_sinks(self, change: Change[SinkT]) -> None:
        self._sinks.update((sink.name, sink) for sink in change.joining)
        self._openers.update((sink.name, sink) for sink in change.opening)

    def _drop_sinks(self, leaving: Iterable[str], closing: Iterable[str]) -> list[SinkT]:
        """Return the groups that were left or closed; nothing more comes from them."""
        gone = [self._sinks.pop(name, None) for name in leaving]
        gone += [self._openers.pop(name, None) for name in closing]
        return [sink for sink in gone if sink is not None]

    def _sinks_of(self, name: str) -> list[SinkT]:
        """Return what there is of a group: joined, opened or both."""
        found = (self._sinks.get(name), self._openers.get(name))
        return [sink for sink in found if sink is not None]

    def has_group(self, name: str) -> bool:
        """Return whether the node has joined or opened a group."""
        return name in self._sinks or name in self._openers

    def group_count(self) -> int:
        """Return how many groups the node has joined or opened."""
        return len(self._sinks.keys() | self._openers.keys())

    # Questions to the core thread

    def flush(self) -> Future[tuple[Unconfirmed, ...]]:
        """Wait until all that was sent is on every surviving member, or known to be lost.

        The future has an ``UnconfirmedError`` for what may be lost, or the messages that
        only members lack who are gone. Whoever stops waiting cancels it, so that the next
        flush tells of what this one would have told.
        """
        self.check_alive()
        future: Future[tuple[Unconfirmed, ...]] = self.promises.make()
        self.call(lambda: self._flush_on_core(future))
        return future

    def _ask_unfinished(
        self, look: Callable[[], tuple[Unconfirmed, ...]]
    ) -> tuple[Unconfirmed, ...]:
        """Return what a function that runs on the core finds unfinished; nothing if it is late."""
        future: Future[tuple[Unconfirmed, ...]] = self.promises.make()
        self.call(lambda: settle(future, look()))
        try:
            return future.result(timeout=UNFINISHED_S)
        except (TimeoutError, QuicksilverError):
            return ()

    def stats(self) -> NodeStats:
        """Return what was counted so far; waits for who is asked for it."""
        self.check_alive()
        future: Future[NodeStats] = self.promises.make()
        self.call(lambda: self._count_on_core(future))
        try:
            return future.result(timeout=self.options.connect_timeout_s)
        except TimeoutError:
            self.check_alive()
            waited_s = self.options.connect_timeout_s
            raise TimedOutError(f"{self.answerer}, which does not answer", waited_s) from None
