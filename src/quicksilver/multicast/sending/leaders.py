"""Who may acknowledge: whoever leads the rounds of a whole region, and nobody else.

An acknowledgement frees packets that somebody may still lack, so one that any member could
send would let any member make others lose messages. The leader of the domain at the top of a
region follows from the view and from who has failed (``recovery/domains.py``). A member of
that domain stands in for a leader that is silent (``recovery/ring.py``), and a node that
heard of a leader's failure earlier than this one leads already: these count once the leader
has not acknowledged anything for ``stand_in_s``. A leader that lives repeats itself sooner
(``repair/acknowledgements.py``).
"""

from __future__ import annotations

from quicksilver.multicast.environment import Environment
from quicksilver.multicast.receiving.placement import hierarchy_of
from quicksilver.multicast.sending.stream import SendStream


class Leaders:
    """Who may acknowledge what this node sends."""

    def __init__(self, environment: Environment) -> None:
        self._env = environment
        self._known: dict[SendStream, tuple[int | None, frozenset[int]]] = {}
        """The leader of a region view, and who may stand in for it; until a node fails."""

    def may_acknowledge(self, stream: SendStream, node: int, now: float) -> bool:
        """Whether an acknowledgement from a node counts; the leader's is noted."""
        leader, others = self._known.get(stream) or self._look_up(stream)
        if node == leader:
            stream.leader_heard_at = now
            return True
        return node in others and now - stream.leader_heard_at >= self._env.config.stand_in_s

    def handle_failed(self) -> None:
        """Nodes are gone, and others lead where they did."""
        self._known.clear()

    def forget(self, live: list[SendStream]) -> None:
        """Forget all streams but these."""
        if len(self._known) > len(live):
            self._known = {stream: self._known[stream] for stream in live if stream in self._known}

    def _look_up(self, stream: SendStream) -> tuple[int | None, frozenset[int]]:
        env = self._env
        size = env.settings.partition_size
        failed = frozenset(member for member in stream.members if env.is_failed(member))
        hierarchy = hierarchy_of(stream.members, size, failed)
        leader = hierarchy.leader
        others = _top_of(stream.members, size, failed)
        if leader is not None:
            others |= _top_of(stream.members, size, failed | {leader})
        self._known[stream] = (leader, others)
        return leader, others


def _top_of(members: tuple[int, ...], size: int, failed: frozenset[int]) -> frozenset[int]:
    """Return the members of the domain at the top."""
    top = hierarchy_of(members, size, failed).levels[-1]
    return frozenset(member for domain in top for member in domain.members)
