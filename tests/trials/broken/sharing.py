"""Mistakes about envelopes, queues, retained values and answers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from typing import Any

from quicksilver.multicast import routes
from quicksilver.multicast import session as session_module
from quicksilver.multicast.queues import Queue
from quicksilver.multicast.reply_groups import ReplyGroup, ReplyGroups
from quicksilver.multicast.retained import Values
from quicksilver.multicast.sending.group import GroupSender
from quicksilver.trials.faults import Join, Leave
from quicksilver.trials.features import Features
from quicksilver.wire.envelope import EMPTY, Envelope, open_envelopes
from quicksilver.wire.packets import Messages
from tests.trials.broken.breaking import Broken, losses, patched, scene

_HEADERS = scene(features=Features(enveloped_every=3), interval_s=0.01)

_QUEUE = scene(
    *losses(0, 2, rate=0.4, at=0.5),
    Leave(at=0.6, for_s=0.4, node=1, group="g0"),
    Join(at=0.9, for_s=0.4, node=2, group="g0"),
    Leave(at=1.2, for_s=0.3, node=3, group="g0"),
    features=Features(queued=frozenset({"g0"})),
    interval_s=0.005,
    latency_s=2e-3,
)


def _forgets_headers() -> AbstractContextManager[None]:
    def opened(messages: Messages, group: int) -> tuple[Messages, list[Envelope], int]:
        found, envelopes, bad = open_envelopes(messages, group)
        return found, [EMPTY] * len(envelopes), bad

    return patched(routes, "open_envelopes", opened)


def _mixes_kinds() -> AbstractContextManager[None]:
    """As if plain messages and those with envelopes were of two groups."""

    def by_number(messages: Messages) -> list[tuple[int, tuple[list[bytes], list[int]]]]:
        found: dict[int, tuple[list[bytes], list[int]]] = {}
        for number, sequence, payload in zip(
            messages.groups, messages.sequences, messages.payloads, strict=True
        ):
            payloads, sequences = found.setdefault(number, ([], []))
            payloads.append(payload)
            sequences.append(sequence)
        return list(found.items())

    return patched(session_module, "in_runs", by_number)


def _newest_view() -> AbstractContextManager[None]:
    original = Queue._deliver

    def deliver(self: Queue, messages: Messages, envelopes: Sequence[Envelope] | None) -> None:
        kept: tuple[Any, Any] = (self._batches, self._members)
        self._batches, self._members = [0], self._members[-1:]
        original(self, messages, envelopes)
        self._batches, self._members = kept

    return patched(Queue, "_deliver", deliver)


_VALUES = scene(
    Leave(at=0.6, for_s=0.4, node=1, group="g0"),
    features=Features(retain=1, value_senders=frozenset({0, 1}), value_members=frozenset({2, 3})),
)

_QUESTIONS = scene(
    *losses(0, 2, rate=0.4, at=0.5),
    features=Features(servers=frozenset({0, 1}), askers=frozenset({2, 3})),
)


_CROWD = scene(
    *losses(0, 2, rate=0.4, at=0.5),
    nodes=5,
    features=Features(servers=frozenset({0}), askers=frozenset({1, 2, 3, 4}), reply_groups_max=3),
)


def _keeps_for_nobody() -> AbstractContextManager[None]:
    def replay(self: Values, after_batch: int, waiting: Collection[int]) -> list[bytes]:
        return []

    return patched(Values, "replay", replay)


def _keeps_the_oldest() -> AbstractContextManager[None]:
    """As if the newest value of a key gave way, and not the oldest."""

    def forget(self: Values, values: Any) -> None:
        newest = values.pop()
        del self._order[newest.number]
        self.used_bytes -= newest.size

    return patched(Values, "_forget", forget)


def _answers_only_the_open() -> AbstractContextManager[None]:
    """As if answers did not wait for their reply group to be opened."""
    original = ReplyGroups.handle_ready

    def handle_ready(self: ReplyGroups, group: ReplyGroup, sender: GroupSender) -> None:
        if group.sender is None:
            group.waiting.clear()
        original(self, group, sender)

    return patched(ReplyGroups, "handle_ready", handle_ready)


def _closes_by_name() -> AbstractContextManager[None]:
    """As if the news that a group is closed were of whichever has its name by now."""
    original = ReplyGroups.handle_gone

    def handle_gone(self: ReplyGroups, group: ReplyGroup) -> None:
        original(self, self._groups.get(group.name, group))

    return patched(ReplyGroups, "handle_gone", handle_gone)


SHARING = (
    Broken(
        name="forgets-headers",
        what="Messages come with empty envelopes.",
        install=_forgets_headers,
        scene=_HEADERS,
        caught_by=("envelopes",),
    ),
    Broken(
        name="mixes-kinds",
        what="Of one packet, plain messages come before those with envelopes.",
        install=_mixes_kinds,
        scene=_HEADERS,
        caught_by=("fifo",),
    ),
    Broken(
        name="newest-view",
        what="Members of a queue choose by its newest view, not by that of the message.",
        install=_newest_view,
        scene=_QUEUE,
        caught_by=("queues",),
        seeds=5,
    ),
    Broken(
        name="keeps-for-nobody",
        what="Newcomers get no values.",
        install=_keeps_for_nobody,
        scene=_VALUES,
        caught_by=("retained",),
    ),
    Broken(
        name="keeps-the-oldest",
        what="Of the values of a key the first one is kept, not the last.",
        install=_keeps_the_oldest,
        scene=_VALUES,
        caught_by=("retained",),
    ),
    Broken(
        name="answers-only-the-open",
        what="What waits for a reply group to be opened is lost.",
        install=_answers_only_the_open,
        scene=_QUESTIONS,
        caught_by=("answers",),
    ),
    Broken(
        name="closes-by-name",
        what="A reply group that is opened again is lost with the one before it.",
        install=_closes_by_name,
        scene=_CROWD,
        caught_by=("answers",),
        seeds=3,
    ),
)
