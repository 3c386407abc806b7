"""What follows when lanes commit messages to streams.

Packets that were committed are watched until they are acknowledged, counted in the own
region view if this node is in it, and waited for by whoever flushes. What a stream must
come after is known here as well.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from quicksilver.core.ports import Transmit
from quicksilver.multicast.environment import Environment
from quicksilver.multicast.sending.empty import WaitingMessages
from quicksilver.multicast.sending.flush import Flushes
from quicksilver.multicast.sending.group import GroupSender
from quicksilver.multicast.sending.precedence import Precedence
from quicksilver.multicast.sending.stream import SendStream
from quicksilver.multicast.sending.stream_table import StreamTable
from quicksilver.multicast.sending.unconfirmed import Reason, Unconfirmed
from quicksilver.stdx.timers import TimerTable
from quicksilver.trace import records as trace

if TYPE_CHECKING:
    from quicksilver.multicast.sending.lane import Lane


class Commitments:
    """The streams that lanes commit to, and who waits for them."""

    def __init__(
        self,
        environment: Environment,
        streams: StreamTable,
        precedence: Precedence,
        flushes: Flushes,
        waiting: WaitingMessages,
        note: Callable[[list[Unconfirmed]], None],
        on_waiting: Callable[[str], None],
    ) -> None:
        """``note`` takes messages that nobody can vouch for; ``on_waiting`` is told of a group
        for whose members the first message waits."""
        self._env = environment
        self._streams = streams
        self._precedence = precedence
        self._flushes = flushes
        self._waiting = waiting
        self._note = note
        self._on_waiting = on_waiting
        self.ready: deque[Transmit] = deque()
        """Packets that were committed and not sent yet, of all lanes: they leave before
        any lane commits more, or a stream's packets would overtake each other."""
        self.probes: TimerTable[tuple[int, int]] = TimerTable()
        """When to ask region views that are silent whether they have what was sent."""

    def predecessors(self, stream: SendStream) -> list[tuple[int, int, int]]:
        """Return what the next START of a stream names: region, view, packets of each."""
        return self._precedence.predecessors(stream, self._streams.closing.values())

    def find_fragmenting(self, stream: SendStream) -> Lane | None:
        """Return the lane that has begun a large message on a stream and not finished it."""
        return self._precedence.find_fragmenting(stream)

    def handle_committed(self, stream: SendStream, now: float) -> None:
        """A stream has packets to be acknowledged: watch it."""
        name = (stream.region, stream.view)
        stream.progress_at = now
        env = self._env
        if env.tracer is not None:
            self._trace_sample(stream, now)
        region = env.regions.find(*name)
        if region is not None:
            region.handle_own_packets(
                stream.next_sequence, env.config.packet_bytes, stream.flow.sent_bytes, now
            )
        self._streams.handle_committed(stream)
        if name not in self.probes:
            self.probes.set(name, now + stream.probe_s)
        if self._flushes.waiting:
            self._flushes.check()

    def handle_fragmented(self, group: GroupSender, streams: tuple[SendStream, ...]) -> None:
        """The last piece of a large message was committed.

        Should the group have moved meanwhile, STARTs on its new streams have named
        the pieces sent by then; what follows waits for the rest as well.
        """
        older = tuple(stream for stream in streams if stream not in group.streams_before)
        self._precedence.put_after(group.streams_before, older)

    def handle_stranded(self, counts: Mapping[str, int]) -> None:
        """So many messages were queued for groups that can no longer be sent to."""
        reason = Reason.LEFT
        self._note([Unconfirmed(reason, 0, name, count, (), ()) for name, count in counts.items()])

    def handle_waiting_left(self, group: GroupSender, count: int) -> None:
        """A group was left while so many messages waited for its members."""
        self._flushes.handle_waited(group, 0)
        self.handle_stranded({group.name: count})
        self.handle_unheard()

    def handle_unsent(self, counts: Mapping[str, int]) -> None:
        """So many messages were queued for groups when their last members left."""
        reason = Reason.EMPTY
        self._note([Unconfirmed(reason, 0, name, count, (), ()) for name, count in counts.items()])

    def set_aside(self, group: GroupSender, payload: bytes) -> bool:
        """Let a message wait for members of its group; False: there is no room for it."""
        if not self._waiting.has_room(len(payload)):
            return False
        if not self._waiting.holds(group.name):
            self._on_waiting(group.name)
        self._waiting.add(group, payload)
        self._flushes.handle_set_aside(group)
        return True

    def handle_unheard(self) -> None:
        """Messages to nobody count as delivered: whoever flushes may go on."""
        if self._flushes.waiting:
            self._flushes.check()

    def _trace_sample(self, stream: SendStream, now: float) -> None:
        """Note the newest packet of those that are sampled, once."""
        newest = stream.next_sequence - 1
        sequence = newest - newest % trace.SAMPLE_EVERY
        env = self._env
        if newest >= 0 and sequence > stream.sampled and env.tracer is not None:
            stream.sampled = sequence
            env.tracer(trace.PacketSent(now, env.node, stream.region, stream.view, sequence))
