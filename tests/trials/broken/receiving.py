"""Mistakes of a receiver: order, copies, views that come and go."""

from __future__ import annotations

from contextlib import AbstractContextManager

from quicksilver.multicast.engine import Engine
from quicksilver.multicast.receiving.copies import Copies
from quicksilver.multicast.receiving.early_packets import EarlyPackets
from quicksilver.multicast.receiving.region import Region
from quicksilver.multicast.receiving.states import IN_ORDER
from quicksilver.multicast.receiving.stream import ReceiveStream
from quicksilver.multicast.sending.stream import SendStream
from quicksilver.stdx.ranges import RangeSet
from quicksilver.trials.faults import Crash, Cut, Join, Leave
from quicksilver.trials.gms import GMS_INDEX
from quicksilver.wire.packets import Fragment, parse_body
from tests.trials.broken.breaking import Broken, all_of, losses, patched, returning, scene


def _ahead_of_hole() -> AbstractContextManager[None]:
    original = ReceiveStream._handle_otherwise

    def handle(self: ReceiveStream, sequence: int, batch: int, data: bytes, now: float) -> None:
        if sequence <= self.low or self.is_held() or self.end >= 0:
            original(self, sequence, batch, data, now)
            return
        self.low = sequence
        self.high = max(self.high, sequence)
        self.missing = RangeSet()
        self.handle_packet(data, now)

    return patched(ReceiveStream, "_handle_otherwise", handle)


def _repeats() -> AbstractContextManager[None]:
    original = ReceiveStream._handle_otherwise

    def handle(self: ReceiveStream, sequence: int, batch: int, data: bytes, now: float) -> None:
        original(self, sequence, batch, data, now)
        if sequence < self.low and self.state is IN_ORDER:
            body = parse_body(data, data[2], self.sender, batch)
            if body is not None:
                self._deliver(body)

    return patched(ReceiveStream, "_handle_otherwise", handle)


def _no_barriers() -> AbstractContextManager[None]:
    return patched(Region, "handle_start", returning(None))


def _cut_fragments() -> AbstractContextManager[None]:
    original = ReceiveStream._assemble

    def assemble(self: ReceiveStream, piece: Fragment) -> None:
        if piece.offset and piece.offset + len(piece.chunk) >= piece.total:
            chunk = b"?" * len(piece.chunk)
            piece = Fragment(
                piece.sender,
                piece.batch,
                piece.group,
                piece.sequence,
                piece.total,
                piece.offset,
                chunk,
            )
        original(self, piece)

    return patched(ReceiveStream, "_assemble", assemble)


def _no_copies() -> AbstractContextManager[None]:
    return all_of(
        patched(Copies, "keep", returning(None)),
        patched(SendStream, "resend", returning(0)),
        patched(SendStream, "answer", returning((RangeSet(), RangeSet()))),
    )


def _leaks() -> AbstractContextManager[None]:
    def forget_below(self: Copies, stable: int) -> None:
        self.stable = max(self.stable, stable)

    return patched(Copies, "forget_below", forget_below)


def _never_retires() -> AbstractContextManager[None]:
    return patched(Engine, "_retire", returning(None))


def _drops_unknown() -> AbstractContextManager[None]:
    original = ReceiveStream.handle_packet

    def handle(self: ReceiveStream, data: bytes, now: float) -> None:
        sequence = int.from_bytes(data[20:28], "little")
        if not self.high and sequence > 0:
            self.low = self.high = sequence
        original(self, data, now)

    return all_of(
        patched(EarlyPackets, "keep", returning(True)),
        patched(ReceiveStream, "handle_packet", handle),
    )


def _gives_up_the_dead() -> AbstractContextManager[None]:
    original = Region.handle_failed

    def handle(self: Region, nodes: frozenset[int], now: float) -> None:
        original(self, nodes, now)
        for sender in sorted(nodes & self.streams.keys()):
            self.streams[sender].cut_at(self.streams[sender].low)

    return patched(Region, "handle_failed", handle)


RECEIVING = (
    Broken(
        name="ahead-of-hole",
        what="A packet beyond a hole is delivered at once, and the hole is forgotten.",
        install=_ahead_of_hole,
        scene=scene(*losses(1)),
        caught_by=("gaps", "complete"),
    ),
    Broken(
        name="repeats",
        what="A packet that was delivered already is delivered again when it is repeated.",
        install=_repeats,
        scene=scene(*losses(1, 2)),
        caught_by=("duplicates",),
    ),
    Broken(
        name="no-barriers",
        what="A new view's stream does not wait for what came before it in the old view.",
        install=_no_barriers,
        scene=scene(
            *losses(1, rate=0.6, at=0.5),
            Join(at=0.7, for_s=0.4, node=2, group="g1"),
            Join(at=1.2, for_s=0.4, node=3, group="g1"),
            interval_s=0.01,
        ),
        caught_by=("fifo", "gaps"),
    ),
    Broken(
        name="cut-fragments",
        what="The last piece of a large message is put together wrongly.",
        install=_cut_fragments,
        scene=scene(sizes=(100, 5000)),
        caught_by=("content",),
    ),
    Broken(
        name="no-copies",
        what="Nobody keeps copies for others, and the sender resends nothing.",
        install=_no_copies,
        scene=scene(*losses(1), nodes=3),
        caught_by=("complete", "cleanup"),
    ),
    Broken(
        name="leaks",
        what="Copies of packets that everybody has are never dropped.",
        install=_leaks,
        scene=scene(),
        caught_by=("cleanup",),
    ),
    Broken(
        name="never-retires",
        what="Region views that are over are kept for ever.",
        install=_never_retires,
        scene=scene(Leave(at=1.0, for_s=0.5, node=1, group="g0")),
        caught_by=("cleanup",),
    ),
    Broken(
        name="drops-unknown",
        what="Packets of a view not known yet are dropped and never asked for.",
        install=_drops_unknown,
        scene=scene(
            Cut(at=0.6, for_s=0.5, source=GMS_INDEX, targets=(1,)),
            Join(at=0.8, node=2, group="g1"),
            interval_s=0.02,
        ),
        caught_by=("complete",),
    ),
    Broken(
        name="gives-up-the-dead",
        what="A dead sender's stream ends where each receiver happens to be.",
        install=_gives_up_the_dead,
        # What is lost is repaired at once, so one member loses all until the sender is dead.
        scene=scene(
            *losses(1, rate=1.0, at=0.9), Crash(at=1.0, node=0, restarts=False), interval_s=0.01
        ),
        caught_by=("survivors",),
    ),
)
