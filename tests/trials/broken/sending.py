"""Mistakes of a sender: what it keeps, how far it goes, where to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

from quicksilver.membership.events import ViewsChanged
from quicksilver.multicast.sending.flow import FlowController
from quicksilver.multicast.sending.flush import Flushes
from quicksilver.multicast.sending.outgoing import Outgoing
from quicksilver.multicast.sending.stream import SendStream
from quicksilver.multicast.sending.stream_table import StreamTable
from quicksilver.stdx.ranges import RangeSet
from quicksilver.trials.draw import Membership
from quicksilver.trials.faults import Join, Leave, Partition
from tests.trials.broken.breaking import (
    FROM_OUTSIDE,
    Broken,
    all_of,
    losses,
    patched,
    returning,
    scene,
)


def _no_resends() -> AbstractContextManager[None]:
    return all_of(
        patched(SendStream, "resend", returning(0)),
        patched(SendStream, "answer", returning((RangeSet(), RangeSet()))),
    )


def _open_window() -> AbstractContextManager[None]:
    original = FlowController.handle_report

    def handle_report(self: FlowController, **report: Any) -> None:
        original(self, **report)
        self.window.window_bytes = 1 << 30

    def is_open(self: SendStream, now: float) -> bool:
        return self.flow.is_open(now)

    return all_of(
        patched(FlowController, "handle_report", handle_report),
        patched(SendStream, "is_open", is_open),
        patched(SendStream, "span_left", returning(1 << 30)),
    )


def _wrong_view() -> AbstractContextManager[None]:
    commit, commit_chunks = SendStream.commit, SendStream._commit_chunks

    def one(self: SendStream, flags: int, parts: list[bytes], batch: int, now: float) -> bytes:
        return commit(self, flags, parts, batch - 1, now)

    def many(self: SendStream, *given: Any) -> list[bytes]:
        *others, batch, now = given
        return commit_chunks(self, *others, batch - 1, now)

    return all_of(patched(SendStream, "commit", one), patched(SendStream, "_commit_chunks", many))


def _begins_again() -> AbstractContextManager[None]:
    original = Outgoing.handle_views

    def handle_views(self: Outgoing, event: ViewsChanged) -> None:
        self.streams._left.clear()
        original(self, event)

    return patched(Outgoing, "handle_views", handle_views)


def _abandons() -> AbstractContextManager[None]:
    original = StreamTable._close

    def close(self: StreamTable, stream: SendStream) -> None:
        stream.abandon()
        original(self, stream)

    return patched(StreamTable, "_close", close)


def _forgets_exclusions() -> AbstractContextManager[None]:
    return patched(Outgoing, "_note_excluded", returning(None))


def _impatient() -> AbstractContextManager[None]:
    original = Flushes.__init__

    def init(self: Flushes, _: object, empty: Callable[[], Iterable[str]]) -> None:
        original(self, list, empty)

    return patched(Flushes, "__init__", init)


SENDING = (
    Broken(
        name="no-resends",
        what="A sender takes NAKs and requests, and resends nothing.",
        install=_no_resends,
        scene=scene(*losses(1, 2, rate=0.4), nodes=3, **FROM_OUTSIDE),
        caught_by=("complete", "cleanup"),
    ),
    Broken(
        name="open-window",
        what="A sender goes on although nothing is acknowledged.",
        install=_open_window,
        scene=scene(
            Partition(at=0.5, for_s=1.4, island=(1,)),
            interval_s=0.01,
            burst=12,
            sizes=(900,),
            window_bytes=32 << 10,
            failure_timeout_s=3.0,
        ),
        caught_by=("memory",),
    ),
    Broken(
        name="wrong-view",
        what="Packets name the batch before the one that their messages were committed in.",
        install=_wrong_view,
        scene=scene(Leave(at=0.8, for_s=0.3, node=2, group="g0"), interval_s=0.02),
        caught_by=("complete",),
    ),
    Broken(
        name="begins-again",
        what="A sender that comes back into a region view numbers its packets from 0 again.",
        install=_begins_again,
        scene=scene(
            Leave(at=0.8, for_s=0.3, node=0, group="g0"),
            memberships=(
                Membership(group="g0", members=(0, 1, 2, 3)),
                Membership(group="g1", members=(1, 2, 3)),
            ),
        ),
        caught_by=("gaps",),
    ),
    Broken(
        name="abandons",
        what="A sender forgets what is under way when the view changes.",
        install=_abandons,
        scene=scene(
            *losses(1, 2, 3, rate=0.4, at=0.5),
            Join(at=0.7, for_s=0.4, node=2, group="g1"),
            Join(at=1.2, for_s=0.4, node=3, group="g1"),
            interval_s=0.01,
        ),
        caught_by=("fifo", "gaps"),
    ),
    Broken(
        name="forgets-exclusions",
        what="A flush says nothing of what was not acknowledged when this node was excluded.",
        install=_forgets_exclusions,
        scene=scene(
            Partition(at=1.0, for_s=6.0, island=(0,)),
            nodes=3,
            seconds=8.0,
            **FROM_OUTSIDE,
        ),
        caught_by=("vouched",),
    ),
    Broken(
        name="impatient-flush",
        what="A flush ends when all is sent, and does not wait until it is acknowledged.",
        install=_impatient,
        scene=scene(
            Partition(at=1.0, for_s=6.0, island=(0,)),
            nodes=3,
            seconds=8.0,
            **FROM_OUTSIDE,
        ),
        caught_by=("vouched",),
    ),
)
