"""Which members do not answer this node, though it asked them itself.

Whoever learns that a member is passed over, from a token or from an acknowledgement, asks
it directly, as in SWIM: the one who passed it over may be the one who is cut off. A member
that does not answer is silent, and is told to the GMS with the heartbeats until it answers.
What several nodes say of it there leads to its exclusion; heartbeats of its own do not
help it, for what reaches nobody on the data path holds nobody together. The GMS may want
members of other rings to be asked as well, to compare them (``membership/suspicion.py``).

A node that nobody answers is the silent one itself. If it has sent to a view that was
replaced meanwhile, it begins again, before others hear of messages that they cannot get.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from quicksilver.core.ports import Transmit
from quicksilver.membership.directory import RegionView
from quicksilver.multicast.environment import Environment
from quicksilver.wire.control import Hail, encode_control
from quicksilver.wire.gms import SILENT_NAMED_MAX

HAIL_S = 0.1
"""How long a member has to answer before it is asked again, at first …"""

HAIL_S_MAX = 5.0
"""… and in the end, each time having twice as long. Only one link may be broken, for good.
Where more depends on the answer, the GMS has the member asked again at once."""

PRESSING_S_MAX = 0.2
"""How long a member has that the GMS wants to be asked."""

SILENT_S = 0.3
"""A member that was asked and has not answered for so long is silent."""

CALM_S = 0.5
"""Who has just answered is not asked again for so long, whatever others say of it."""

ALONE_S = 1.0
"""A node is alone if it asked others so long ago, and nobody has answered …"""

ANSWERED_S = 2.0
"""… anything within this time: who has just answered is asked again later …"""

ALONE_MIN = 2
"""… and if it asked so many: of two that do not hear each other, either may be the mute one."""

ASKED_IN_DOUBT = 8
"""How many a node asks that doubts whether anybody hears it …"""

DOUBT_S = 0.25
"""… and how often it looks for them at most: they are sought among all that it knows."""

WATCHED_MAX = SILENT_NAMED_MAX
"""Members that are asked at once; a region that loses more of them has other troubles. A
heartbeat names all of them that are silent: were some left out, always the same, those would
look healthier to the GMS than the rest."""


class Question(msgspec.Struct):
    """A member that was asked whether it is there."""

    since: float
    ask_at: float
    pause_s: float


class Silence:
    """Members that are said to be absent, and what they say to that."""

    def __init__(self, environment: Environment) -> None:
        self._env = environment
        self._asked: dict[int, Question] = {}
        self._answered: dict[int, float] = {}
        """When members answered lately; at most ``WATCHED_MAX``."""
        self._silent: tuple[int, ...] = ()
        self._doubted_at = -ANSWERED_S
        """When this node last asked others because it doubted that it is heard …"""
        self._doubts_since = 0.0
        """… and when it began to, that time."""

    def silent(self) -> tuple[int, ...]:
        """Return the members that do not answer, as of the last ``handle_timeout``."""
        return self._silent

    # Inputs

    def handle_passed_over(self, node: int, now: float) -> None:
        """Others do not wait for a member: ask it, unless that is being done."""
        if node == self._env.node or node in self._asked or len(self._asked) >= WATCHED_MAX:
            return
        if now - self._answered.get(node, -CALM_S) >= CALM_S:
            self._asked[node] = Question(now, now, HAIL_S)

    def handle_disputed(self, nodes: Iterable[int], now: float) -> None:
        """More depends on these, here or at the GMS: what is known of them must be fresh."""
        for node in nodes:
            question = self._asked.get(node)
            if question is None:
                if self._env.address_of(node) is not None:
                    self.handle_passed_over(node, now)
            elif question.pause_s > PRESSING_S_MAX:
                question.pause_s = PRESSING_S_MAX
                question.ask_at = min(question.ask_at, now + PRESSING_S_MAX)

    def handle_unacknowledged(self, since: float, now: float) -> None:
        """A view that ended a while ago does not acknowledge what this node sent to it.

        Either its members are cut off, or this node is, though the GMS hears it. In that
        case others would forget the view, and lack packets that they never heard of; once
        they did, all of them would have to begin again. So this node does.
        """
        env = self._env
        if now >= self._doubted_at + ANSWERED_S:
            self._doubts_since = now
        elif now >= since + env.config.alone_s() and self._is_alone(now):
            env.end_incarnation("nobody has answered its datagrams since views changed")
            return
        if now >= self._doubted_at + DOUBT_S:
            self._doubted_at = now
            self.handle_disputed(self._last_heard(ASKED_IN_DOUBT), now)

    def _is_alone(self, now: float) -> bool:
        # Answers may wait in the kernel if this node stood still.
        heard_until = min(now, self._env.drained_at)
        if any(at > heard_until - ANSWERED_S for at in self._answered.values()):
            return False
        asked_by = heard_until - ALONE_S
        if self._doubts_since > asked_by:
            # Those it asked before may be the only ones who do not answer.
            return False
        return sum(question.since <= asked_by for question in self._asked.values()) >= ALONE_MIN

    def _last_heard(self, count: int) -> Sequence[int]:
        """Return members of views that this node knows, those first whom it heard last."""
        env = self._env
        members = {m for view in self._views() for m in view.members if not env.is_failed(m)}
        heard_at = env.heard_at
        return sorted(members - {env.node}, key=lambda m: (-heard_at.get(m, -1.0), m))[:count]

    def handle_hail(self, hail: Hail, now: float) -> None:
        """A node asks whether this one is there, or says that it is."""
        if not hail.is_answer:
            self._say(hail.origin, is_answer=True)
        elif self._asked.pop(hail.origin, None) is not None:
            self._answered[hail.origin] = now
            while len(self._answered) > WATCHED_MAX:
                del self._answered[next(iter(self._answered))]
            self._silent = tuple(node for node in self._silent if node != hail.origin)

    def handle_timeout(self, now: float) -> None:
        """Ask those whose time it is; note who has been silent for too long."""
        env = self._env
        for node, question in list(self._asked.items()):
            is_due = now >= question.ask_at
            if (
                env.is_failed(node)
                or env.address_of(node) is None
                or (is_due and not self._is_related(node))
            ):
                del self._asked[node]
            elif is_due:
                question.ask_at = now + question.pause_s
                question.pause_s = min(2 * question.pause_s, HAIL_S_MAX)
                self._say(node, is_answer=False)
        found = sorted(n for n, asked in self._asked.items() if now >= asked.since + SILENT_S)
        self._silent = tuple(found)

    def _is_related(self, node: int) -> bool:
        """Whether a node is in a region that this one is in or sends to, now or until lately.

        Addresses of others are remembered for longer. Such a node may not know this one any
        more, and then it cannot answer.
        """
        return any(node in view.members or node in view.senders for view in self._views())

    def _views(self) -> list[RegionView]:
        env = self._env
        views = [region.view for region in env.regions.by_name.values()]
        views += env.directory.regions.values()
        return views

    def become_nobody(self) -> None:
        """The incarnation is over; what it asked is no longer its business."""
        self._asked.clear()
        self._answered.clear()
        self._silent = ()
        self._doubted_at = -ANSWERED_S

    # Outputs

    def next_timeout(self) -> float | None:
        soonest: float | None = None
        for question in self._asked.values():
            if soonest is None or question.ask_at < soonest:
                soonest = question.ask_at
        return soonest

    def _say(self, to: int, *, is_answer: bool) -> None:
        env = self._env

        def intent(_: float) -> Transmit | None:
            address = env.address_of(to)
            if address is None:
                return None
            return Transmit(address, [encode_control(Hail(env.cluster, env.node, is_answer), to)])

        env.control.add(intent)
