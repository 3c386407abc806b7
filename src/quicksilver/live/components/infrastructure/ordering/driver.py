"""A replica at work in a component: its events handed on, its messages sent, its timer kept."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, assert_never

from quicksilver.live.components.infrastructure.ordering.events import (
    Applied,
    Capture,
    Captured,
    Event,
    Initialize,
    Participants,
    Rebased,
    Receive,
    Transmit,
)
from quicksilver.live.components.infrastructure.ordering.messages import Member, Snapshot
from quicksilver.live.components.infrastructure.ordering.replica import Replica

if TYPE_CHECKING:
    from quicksilver.live.runtime.context import Context
    from quicksilver.live.runtime.executors import Timer
    from quicksilver.live.runtime.runtime import Runtime

SLACK_S = 0.005
"""A timer that comes this much later than wanted is good enough."""

_NUMBERS: weakref.WeakKeyDictionary[Runtime, itertools.count[int]] = weakref.WeakKeyDictionary()


def take_number(runtime: Runtime) -> int:
    """Return a number that no other replica of this runtime has."""
    return next(_NUMBERS.setdefault(runtime, itertools.count(1)))


def name_of(member: Member) -> str:
    """Return a member as users know it."""
    return f"{member[0]}.{member[1]}"


class Keeper(Protocol):
    """Keeps the log on disk."""

    def handle_initialized(self, snapshot: Snapshot) -> None:
        """The user starts from a state."""
        ...

    def handle_applied(self, applied: Applied) -> bool:
        """An entry was applied; True if it is time for a snapshot."""
        ...

    def handle_captured(self, snapshot: Snapshot) -> None:
        """A newer snapshot is here; entries after it stay."""
        ...

    def close(self) -> None:
        """Have all on the disk; the replica is no more."""
        ...


class Driver:
    """Drives one replica on a component's executor."""

    def __init__(
        self,
        context: Context,
        replica: Replica,
        *,
        send: Callable[[bytes], Any],
        user: Any,
        watcher: Any,
        keeper: Keeper | None = None,
    ) -> None:
        """``user`` and ``watcher`` are the ports that updates and participants go to.

        A passive replica has no user: None.
        """
        self._context = context
        self._replica = replica
        self._send = send
        self._user = user
        self._watcher = watcher
        self._keeper = keeper
        self._is_running = False
        self._is_closed = False
        self._is_flush_planned = False
        self._timer: Timer | None = None
        self._due = 0.0
        self._last_list: tuple[list[str], str] | None = None

    @property
    def is_settled(self) -> bool:
        """Whether all members have what was sent here."""
        return self._is_closed or self._replica.is_settled

    # Inputs

    def handle_view(self, members: tuple[int, ...], me: int) -> None:
        if not self._is_closed:
            self._replica.handle_view(frozenset(members), me, self._context.now())
            self._run()

    def handle_message(self, message: bytes) -> None:
        """Take a message of the channel below."""
        if not self._is_closed:
            self._replica.handle_message(message, self._context.now())
            self._run()

    def send(self, message: bytes) -> None:
        """Send an update."""
        self._replica.send(message, self._context.now())
        self._run()

    def checkpoint(self, ticket: int, state: bytes) -> None:
        """Take a state from the user."""
        self._replica.handle_checkpoint(ticket, state, self._context.now())
        self._run()

    def tell_participants(self) -> None:
        """Tell a watcher that has just come who is there."""
        if self._last_list is not None:
            self._watcher.participants(*self._last_list)

    def close(self) -> None:
        """Say goodbye and do nothing more."""
        if self._is_closed:
            return
        self._replica.leave()
        self._is_closed = True
        while (transmit := self._replica.poll_transmit()) is not None:
            self._send(transmit.message)
        if self._timer is not None:
            self._timer.cancel()
        if self._keeper is not None:
            self._keeper.close()

    # Outputs

    def _run(self) -> None:
        """Carry out what the replica gives; what that leads to at once is carried out after it."""
        if self._is_running:
            return
        self._is_running = True
        replica = self._replica
        try:
            while not self._is_closed:
                if (event := replica.poll_event()) is not None:
                    self._hand_on(event)
                elif (transmit := replica.poll_transmit()) is not None:
                    self._transmit(transmit)
                else:
                    break
        finally:
            self._is_running = False
        if self._is_closed:
            return
        if self._replica.has_unsent and not self._is_flush_planned:
            # After the inputs at hand: what they bring is ordered in one message.
            self._is_flush_planned = True
            self._context.post(self._flush)
        delay = self._replica.next_delay()
        if delay is None:
            return
        due = self._context.now() + delay
        if self._timer is None or due < self._due - SLACK_S:
            if self._timer is not None:
                self._timer.cancel()
            self._due = due
            self._timer = self._context.call_later(delay, self._tick)

    def _transmit(self, transmit: Transmit) -> None:
        message = transmit.message
        if transmit.is_later:
            self._context.post(lambda: None if self._is_closed else self._send(message))
        else:
            self._send(message)

    def _hand_on(self, event: Event) -> None:
        match event:
            case Initialize(snapshot):
                if self._keeper is not None:
                    self._keeper.handle_initialized(snapshot)
                if self._user is not None:
                    self._user.initialize(snapshot.state)
                    for message in snapshot.tail:
                        self._user.receive(message)
            case Receive(message):
                if self._user is not None:
                    self._user.receive(message)
            case Capture(ticket):
                self._user.capture(ticket)
            case Captured(snapshot) | Rebased(snapshot):
                if self._keeper is not None:
                    self._keeper.handle_captured(snapshot)
            case Participants(members, me):
                self._last_list = ([name_of(one) for one in members], name_of(me))
                self._watcher.participants(*self._last_list)
            case Applied():
                is_due = self._keeper is not None and self._keeper.handle_applied(event)
                if is_due and self._user is not None:
                    self._replica.capture()
            case _:
                assert_never(event)

    def _flush(self) -> None:
        self._is_flush_planned = False
        if not self._is_closed:
            self._replica.flush(self._context.now())
            self._run()

    def _tick(self) -> None:
        self._timer = None
        if not self._is_closed:
            self._replica.handle_timeout(self._context.now())
            self._run()
