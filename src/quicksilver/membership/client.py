"""The node's side of membership: a state machine between the stream to the GMS and the session.

The client keeps what the application wants (groups joined, groups opened for
sending) and makes the GMS agree, whatever happens to the connection:

* the connection breaks: the next one resumes; unanswered requests are sent
  again, and the directory stays in use until a complete update replaces it, so
  that traffic goes on while the GMS restarts;
* the node is excluded: the directory is void; the next connection asks for a
  new identifier and subscribes again to everything that was wanted;
* nothing comes any more: the GMS answers every heartbeat, so a connection on
  which nothing came for the failure timeout is dead, whatever TCP makes of it;
  the client asks the host to close it, and greets on the next one;
* the node's address changes: the Hello of the next connection says so, and the
  GMS, which knows the node by its address, ends the incarnation;
* an update does not fit: the client greets again on the same connection, and
  the GMS answers with a complete update.

No socket and no clock here: the host calls ``handle_*``, sends what
``poll_transmit`` returns, takes what happened with ``poll_event`` and wakes the
client at ``next_timeout``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import assert_never

from quicksilver.membership.directory import Directory, Misfit
from quicksilver.membership.events import (
    ClientEvent,
    ClientState,
    Connecting,
    Departed,
    Excluded,
    Member,
    Refused,
    Resyncing,
    SubscriptionCompleted,
    ViewsChanged,
    WasExcluded,
    WasRefused,
    Welcomed,
)
from quicksilver.membership.names import check_group_name, check_pattern
from quicksilver.stdx.text import printable
from quicksilver.wire import gms
from quicksilver.wire.ids import GroupId, NodeId

NAMES_PER_FRAME_MAX = 8192
"""Longer subscriptions are sent as several frames: 8192 names of 255 bytes stay
below ``REQUEST_BYTES_MAX``."""

_HEARTBEAT_INTERVAL_MIN_S = 0.01
_NEWS_SPACING_S = 0.1
"""Least time between two heartbeats that come early because there is news."""

ANSWER_S = 5.0
"""How long the GMS may be silent before it has said what the failure timeout is."""

PATIENCE_MAX = 8
"""Connections on which nothing came at all are each given twice the time of the one
before, up to so many times the failure timeout: a GMS that is busy for long must
not be asked the same again and again."""

LATE_S = 0.25
"""A timer served later than this: the node itself was held up, and what the GMS said
may wait in its socket."""

Stats = Callable[[], dict[str, int | float | str]]

Traffic = Callable[[int], tuple[tuple[int, int], ...]]
"""Returns the groups that were sent most to since the last time, at most so many, and how
many messages each got."""


class MembershipClient:
    """Speaks with the GMS for one node.

    The caller's duty: one connection at a time; ``handle_opened`` when it is
    up, and ``handle_closed`` exactly once when it is gone; after every call,
    ``poll_event`` and ``poll_transmit`` until they return None. Nothing here
    raises on what the GMS sends.
    """

    def __init__(
        self,
        *,
        name: str,
        ip: str,
        port: int,
        receive_buffer_bytes: int,
        has_multicast: bool = True,
    ) -> None:
        self.name = name
        self.ip = ip
        self.port = port
        self.receive_buffer_bytes = receive_buffer_bytes
        self.has_multicast = has_multicast

        self.state: ClientState = Connecting()
        self.node: NodeId | None = None
        """Kept while disconnected: the node resumes under the same identifier."""
        self.cluster: int | None = None
        self.settings: gms.ClusterSettings | None = None
        self.directory = Directory()
        self.misfits = 0
        """Updates that did not fit and replies that could not be read."""

        self._is_open = False
        self._events: deque[ClientEvent] = deque()
        self._outgoing: deque[gms.Request] = deque()
        """Frames for this connection only; a new one starts from nothing."""
        self._unanswered: deque[gms.Subscribe] = deque()
        """Requests in order, the GMS answers them in order; survives connections."""
        self._answered: dict[str, GroupId] = {}
        """Answers to the first frames of a request that was sent as several."""
        self._joined: set[str] = set()
        """What the GMS has confirmed; with ``_unanswered`` it is what is wanted."""
        self._opened: set[str] = set()
        self._patterns: set[str] = set()
        self._deferred: list[SubscriptionCompleted] = []
        """Completions that must wait for the complete update."""
        self._owed: list[SubscriptionCompleted] = []
        """Completions that an exclusion overtook: told once the new incarnation
        is in the same groups, with that incarnation's identifiers."""
        self._request = 0
        self._stats: Stats = dict
        self._traffic: Traffic = lambda _: ()
        self._traffic_at = 0.0
        """When a heartbeat tells again what was sent."""
        self._silent: Callable[[], tuple[int, ...]] = tuple
        self._told_silent: tuple[int, ...] = ()
        """Whom the last heartbeat called silent."""
        self._beaten_at = 0.0
        self.complete_batch = 0
        """All news of batches up to this one that concern the node have come."""
        self.answers = 0
        """How many heartbeats were answered …"""
        self.disputed: tuple[int, ...] = ()
        """… and whom the last answer asks this node to ask."""
        self._heartbeat_at: float | None = None
        self._heartbeat_due = False
        self._resync_at: float | None = None
        self._secret = b""
        self._dead_at: float | None = None
        """When the connection counts as dead unless something comes; None: there is none."""
        self._patience = 1
        """By how much longer than usual the connection may be silent at its beginning."""
        self._close_reason: str | None = None
        """Why the host is to close the connection."""

    # -- application verbs

    def subscribe(
        self,
        join: Iterable[str] = (),
        leave: Iterable[str] = (),
        open: Iterable[str] = (),  # noqa: A002  # the wire's word for it
        close: Iterable[str] = (),
        match: Iterable[str] = (),
        unmatch: Iterable[str] = (),
    ) -> int:
        """Change memberships; return the number that SubscriptionCompleted will carry.

        ``open`` and ``close`` are about sending without being a member. What is
        left or closed goes first: a name in both ``leave`` and ``join`` stays
        joined. ``match`` and ``unmatch`` are patterns. Allowed before the connection is up.

        Raises:
            BadGroupNameError: for a name that no GMS accepts.
        """
        lists = (tuple(join), tuple(leave), tuple(open), tuple(close))
        for names in lists:
            for name in names:
                check_group_name(name)
        patterns = (tuple(match), tuple(unmatch))
        for names in patterns:
            for pattern in names:
                check_pattern(pattern)
        self._request += 1
        for frame in _split(self._request, *lists, *patterns):
            self._unanswered.append(frame)
            if self._is_open:
                self._outgoing.append(frame)
        return self._request

    def goodbye(self) -> None:
        """Leave all groups and the cluster. ``poll_transmit`` has the last words."""
        self._outgoing.clear()
        if self._is_open:
            self._outgoing.append(gms.Goodbye())
        self._heartbeat_at = None
        self._heartbeat_due = False
        self._resync_at = None
        self._dead_at = None
        self._close_reason = None
        self.state = Departed()

    def begin_again(self, reason: str) -> None:
        """End this incarnation from within, and come back as a new node.

        The same as being excluded, only that the GMS has yet to hear of it: when the
        connection has closed on the goodbye, the next one asks for a new identifier.
        """
        self._become_excluded(reason)
        if self._is_open:
            self._outgoing.append(gms.Goodbye())

    def set_stats(self, stats: Stats) -> None:
        """Let heartbeats carry what ``stats()`` returns when they are sent."""
        self._stats = stats

    def set_traffic(self, traffic: Traffic) -> None:
        """Let heartbeats tell, every ``traffic_interval_s``, what was sent to which group."""
        self._traffic = traffic

    def set_silent(self, silent: Callable[[], tuple[int, ...]]) -> None:
        """Let heartbeats say whom this node does not hear; the next comes soon on a change."""
        self._silent = silent

    def hasten(self) -> None:
        """Have the next heartbeat soon: its answer tells how complete the news are."""
        if self._heartbeat_at is not None:
            self._heartbeat_at = min(self._heartbeat_at, self._beaten_at + _NEWS_SPACING_S)

    # -- inputs

    def handle_address(self, ip: str, port: int) -> None:
        """The node can be reached elsewhere; the next Hello tells the GMS."""
        self.ip = ip
        self.port = port

    def handle_opened(self, now: float) -> None:
        """The stream to the GMS is up."""
        assert not self._is_open
        self._is_open = True
        self._outgoing.clear()
        match self.state:
            case Departed():
                return
            case Connecting() | Member() | Resyncing() | Excluded() | Refused():
                self._dead_at = now + self._patience * self._answer_s()
                self._greet()
            case _:
                assert_never(self.state)

    def handle_closed(self, reason: str, now: float) -> None:
        """The stream is gone. Reconnect, unless the state is Refused or Departed."""
        self._is_open = False
        self._outgoing.clear()
        self._heartbeat_at = None
        self._heartbeat_due = False
        self._resync_at = None
        self._dead_at = None
        self._close_reason = None
        match self.state:
            case Member() | Resyncing() | Connecting():
                self.state = Connecting(reason)
            case Excluded() | Refused() | Departed():
                pass
            case _:
                assert_never(self.state)

    def handle_frame(self, frame: bytes, now: float) -> None:
        """Take one frame of the GMS."""
        if isinstance(self.state, Departed):
            return
        self._patience = 1
        self._dead_at = now + self._answer_s()
        reply = gms.parse_reply(frame)
        match reply:
            case gms.Heard():
                self.complete_batch = max(self.complete_batch, reply.batch)
                self.answers += 1
                self.disputed = reply.disputed
            case None | gms.Snapshot():
                self._become_resyncing("the GMS sent a frame that makes no sense", now)
            case gms.Welcome():
                self._handle_welcome(reply, now)
            case gms.Update():
                self._handle_update(reply, now)
            case gms.Subscribed():
                self._handle_subscribed(reply)
            case gms.Excluded():
                self._become_excluded(printable(reply.reason))
            case gms.Refused():
                self._become_refused(reply)
            case _:
                assert_never(reply)

    def handle_timeout(self, now: float) -> None:
        """Wake up; ``poll_transmit`` may have a heartbeat afterwards."""
        if self._heartbeat_at is not None and (now >= self._heartbeat_at or self._has_news(now)):
            self._heartbeat_due = True
            self._beaten_at = now
            self._heartbeat_at = now + self._heartbeat_interval_s()
        if self._resync_at is not None and now >= self._resync_at:
            self._resync_at = None
            self._outgoing.append(self._hello())
        if self._dead_at is not None and now >= self._dead_at:
            self._handle_silence(now, now - self._dead_at)

    def _handle_silence(self, now: float, late_s: float) -> None:
        if late_s > LATE_S:
            # This node stood still: let the host read first.
            self._dead_at = now + LATE_S
            return
        self._dead_at = None
        waited_s = self._answer_s()
        if isinstance(self.state, Connecting):
            waited_s *= self._patience
            self._patience = min(2 * self._patience, PATIENCE_MAX)
        self._close_reason = f"the GMS said nothing for {waited_s:g} s"

    # -- outputs

    def next_timeout(self) -> float | None:
        """Return when to call ``handle_timeout``, or None."""
        # Asked every turn: no tuple and no generator.
        soonest, when = self._heartbeat_at, self._dead_at
        if soonest is None or (when is not None and when < soonest):
            soonest = when
        when = self._resync_at
        return when if soonest is None or (when is not None and when < soonest) else soonest

    def poll_close(self) -> str | None:
        """Return why the host is to close the connection now; ``handle_closed`` follows."""
        reason, self._close_reason = self._close_reason, None
        return reason

    def poll_event(self) -> ClientEvent | None:
        """Return what happened and was not told yet, in order, or None."""
        return self._events.popleft() if self._events else None

    def has_transmits(self) -> bool:
        """True when ``poll_transmit`` has something."""
        waits = bool(self._outgoing) or self._heartbeat_due or self._close_reason is not None
        return self._is_open and waits

    def poll_transmit(self, now: float) -> bytes | None:
        """Return the next frame for the GMS, without its length prefix, or None."""
        if not self._is_open:
            return None
        if self._outgoing:
            return gms.encode(self._outgoing.popleft())
        if self._heartbeat_due:
            self._heartbeat_due = False
            self._told_silent = self._silent()
            traffic = self._take_traffic(now)
            return gms.encode(gms.Heartbeat(self._stats(), traffic, self._told_silent))
        return None

    def _take_traffic(self, now: float) -> tuple[tuple[int, int], ...]:
        interval_s = 0.0 if self.settings is None else self.settings.traffic_interval_s
        if interval_s <= 0 or now < self._traffic_at:
            return ()
        self._traffic_at = now + interval_s
        return self._traffic(gms.TRAFFIC_GROUPS_MAX)

    # -- replies

    def _handle_welcome(self, welcome: gms.Welcome, now: float) -> None:
        if not welcome.resumed:
            if not isinstance(self.state, Connecting | Excluded | Refused):
                self._become_resyncing("the GMS welcomed a new node again", now)
                return
            self.directory.clear()
            self.state = Member()
        elif welcome.node == self.node and welcome.cluster == self.cluster:
            self.state = Resyncing("the GMS resumed; its complete update is to come")
        else:
            self._become_resyncing("the GMS resumed somebody else", now)
            return
        self.node = NodeId(welcome.node)
        self.cluster = welcome.cluster
        self.settings = welcome.settings
        self._secret = welcome.secret
        self._resync_at = None
        self._dead_at = now + self._answer_s()
        self._heartbeat_at = now + self._heartbeat_interval_s()
        self._events.append(Welcomed(self.node, welcome.cluster, welcome.settings, welcome.resumed))

    def _handle_update(self, update: gms.Update, now: float) -> None:
        match self.state:
            case Member():
                pass
            case Resyncing():
                # An incremental update was on its way when this client asked
                # for everything: it does not fit and is not missed.
                if not update.alive:
                    return
            case Connecting() | Excluded() | Refused() | Departed():
                return
            case _:
                assert_never(self.state)
        change = self.directory.apply(update)
        if isinstance(change, Misfit):
            self._become_resyncing(change.reason, now)
            return
        self._events.append(
            ViewsChanged(
                change.regions,
                change.groups,
                change.regions_gone,
                change.groups_gone,
                change.nodes_failed,
                bool(update.alive),
            )
        )
        self._events += self._deferred
        self._deferred.clear()
        self.state = Member()
        if update.is_awaited:
            # It leaves after whoever called has taken the events: the views are in use by then.
            self._outgoing.append(gms.Applied(update.batch))

    def _handle_subscribed(self, answer: gms.Subscribed) -> None:
        frame = self._unanswered[0] if self._unanswered else None
        names = frame.join + frame.open if frame is not None else ()
        if (
            frame is None
            or answer.request != frame.request
            or len(answer.groups) != len(names)
            or not isinstance(self.state, Member | Resyncing)
        ):
            self.misfits += 1
            return
        self._unanswered.popleft()
        self._joined.difference_update(frame.leave)
        self._opened.difference_update(frame.close)
        self._joined.update(frame.join)
        self._opened.update(frame.open)
        self._patterns.difference_update(frame.unmatch)
        self._patterns.update(frame.match)
        self._answered.update(zip(names, map(GroupId, answer.groups), strict=True))
        if self._unanswered and self._unanswered[0].request == frame.request:
            return
        completed = [SubscriptionCompleted(frame.request, self._answered)]
        if frame.request == 0:
            completed += [
                SubscriptionCompleted(
                    owed.request, {n: self._answered[n] for n in owed.groups if n in self._answered}
                )
                for owed in self._owed
            ]
            self._owed.clear()
        self._answered = {}
        if isinstance(self.state, Member):
            self._events += completed
        else:
            self._deferred += completed

    # -- transitions

    def _become_resyncing(self, reason: str, now: float) -> None:
        self.misfits += 1
        match self.state:
            case Member() | Resyncing():
                # Greeting at once would loop as fast as the network allows if
                # it is the complete update that does not fit.
                again = isinstance(self.state, Resyncing)
                self.state = Resyncing(reason)
                if not again:
                    self._outgoing.append(self._hello())
                elif self._resync_at is None:
                    self._resync_at = now + 2 * self._heartbeat_interval_s()
            case Connecting() | Excluded() | Refused() | Departed():
                pass
            case _:
                assert_never(self.state)

    def _become_excluded(self, reason: str) -> None:
        self._owed += [completed for completed in self._deferred if completed.request]
        self._stop()
        self.node = None
        self.cluster = None
        self.complete_batch = 0
        self.directory.clear()
        self.state = Excluded(reason)
        self._events.append(WasExcluded(reason))

    def _become_refused(self, reply: gms.Refused) -> None:
        reason = printable(reply.reason)
        self._stop()
        given_up = dict.fromkeys(f.request for f in self._unanswered if f.request)
        self._unanswered.clear()
        self._answered = {}
        self.state = Refused(reason)
        self._events.append(WasRefused(reason, tuple(given_up), printable(reply.scope)))

    def _stop(self) -> None:
        self._outgoing.clear()
        self._deferred.clear()
        self._heartbeat_at = None
        self._heartbeat_due = False
        self._resync_at = None

    # -- requests

    def _greet(self) -> None:
        self._outgoing.append(self._hello())
        if self.node is None:
            self._answered = {}
            # A new node has no memberships: whatever was confirmed is asked
            # for again, before the requests that came after it.
            later = [f for f in self._unanswered if f.request]
            self._unanswered.clear()
            if self._joined or self._opened or self._patterns or self._owed:
                joined, opened = tuple(sorted(self._joined)), tuple(sorted(self._opened))
                patterns = tuple(sorted(self._patterns))
                self._unanswered.extend(_split(0, joined, (), opened, (), patterns))
            self._unanswered.extend(later)
        # Not waiting for the Welcome saves a round trip, and one batch does all.
        self._outgoing.extend(self._unanswered)

    def _hello(self) -> gms.Hello:
        resume = None
        if self.node is not None and self.cluster is not None:
            resume = gms.Resume(self.cluster, self.node, self._secret, self.directory.batch)
        return gms.Hello(
            gms.PROTOCOL_VERSION,
            self.name,
            self.ip,
            self.port,
            self.receive_buffer_bytes,
            resume,
            self.has_multicast,
        )

    def _answer_s(self) -> float:
        return ANSWER_S if self.settings is None else self.settings.failure_timeout_s

    def _has_news(self, now: float) -> bool:
        """Whether somebody has fallen silent, or spoken again, that the GMS should hear of."""
        is_told = self._heartbeat_due or self._silent() == self._told_silent
        return not is_told and now >= self._beaten_at + _NEWS_SPACING_S

    def _heartbeat_interval_s(self) -> float:
        assert self.settings is not None
        return max(self.settings.heartbeat_interval_s, _HEARTBEAT_INTERVAL_MIN_S)


def _split(
    request: int,
    join: tuple[str, ...],
    leave: tuple[str, ...],
    open_: tuple[str, ...],
    close: tuple[str, ...],
    match: tuple[str, ...] = (),
    unmatch: tuple[str, ...] = (),
) -> list[gms.Subscribe]:
    """Cut a request into frames; leaving goes first, as in a single frame."""
    lists = (join, leave, open_, close, match, unmatch)
    if sum(map(len, lists)) <= NAMES_PER_FRAME_MAX:
        return [gms.Subscribe(request, *lists)]
    step = NAMES_PER_FRAME_MAX
    frames = [
        gms.Subscribe(request, unmatch=unmatch[i : i + step]) for i in range(0, len(unmatch), step)
    ]
    frames += [
        gms.Subscribe(request, match=match[i : i + step]) for i in range(0, len(match), step)
    ]
    frames += [
        gms.Subscribe(request, leave=leave[i : i + step]) for i in range(0, len(leave), step)
    ]
    frames += [
        gms.Subscribe(request, close=close[i : i + step]) for i in range(0, len(close), step)
    ]
    frames += [gms.Subscribe(request, join=join[i : i + step]) for i in range(0, len(join), step)]
    frames += [gms.Subscribe(request, open=open_[i : i + step]) for i in range(0, len(open_), step)]
    return frames
