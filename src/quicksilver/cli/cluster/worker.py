"""One node in a process of its own, told what to do by its parent.

Started with a ``WorkerSpec`` as its only argument; speaks JSON lines: events
on standard output, commands on standard input. Three roles:

* ``subscriber``: joins, counts and checks, reports when told to finish;
* ``publisher``: opens, sends at full speed when told to go, flushes, reports;
* ``member``: joins, says each second what arrived, sends at a slow rate if asked.

The end of its input ends a worker, and so does the end of its parent.
"""

from __future__ import annotations

import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Literal
from zlib import crc32

import msgspec

from quicksilver.cli.cluster.mortality import die_with_parent
from quicksilver.cli.cluster.tally import Tally
from quicksilver.cli.output import emit
from quicksilver.net.faults import parse_faults
from quicksilver.node import sync
from quicksilver.node.messages import Batch, NodeStats
from quicksilver.node.options import NodeOptions
from quicksilver.node.sampling import sampling
from quicksilver.trace.folders import split_target
from quicksilver.trace.records import Tracer

POLL_S = 0.01
REPORT_S = 1.0


class WorkerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What one worker is and does."""

    role: Literal["subscriber", "publisher", "member"]
    gms: str
    name: str
    groups: dict[str, int]
    """Groups to join or open, each with the members to wait for (0: none)."""
    interface: str | None = None
    faults: str | None = None
    rate: float = 0.0
    """Messages a second that a member sends to each of its groups."""
    size: int = 100
    """Bytes of each such message."""
    trace: str | None = None
    """Folder of the run to which its trace records belong."""


class Go(msgspec.Struct, frozen=True, tag="go", tag_field="command"):
    """A publisher sends ``messages`` of ``size`` bytes to each of its groups."""

    messages: int
    size: int
    flush_s: float = 30.0


class Finish(msgspec.Struct, frozen=True, tag="finish", tag_field="command"):
    """A subscriber waits for what was sent, then reports."""

    expected: list[tuple[int, str, int]]
    """Sender, group and number of messages of each stream."""
    timeout_s: float = 10.0


_decode_spec = msgspec.json.Decoder(WorkerSpec).decode
_decode_command = msgspec.json.Decoder(Go | Finish).decode


def main() -> None:
    """Run the worker described by the first argument."""
    die_with_parent()
    signal.signal(signal.SIGTERM, _end)
    spec = _decode_spec(sys.argv[1])
    try:
        with (
            _opening_trace(spec) as tracer,
            sync.Node(spec.gms, _options_of(spec, tracer)) as node,
            sampling(node.core),
        ):
            if spec.role == "publisher":
                _publish(node, spec)
            elif spec.role == "subscriber":
                _subscribe(node, spec)
            else:
                _take_part(node, spec)
    except Exception as error:  # noqa: BLE001  # the parent shows the line; the exit code tells
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(1)


def _options_of(spec: WorkerSpec, tracer: Tracer | None) -> NodeOptions:
    return NodeOptions(
        name=spec.name,
        interface=spec.interface,
        faults=parse_faults(spec.faults) if spec.faults else None,
        tracer=tracer,
    )


def _opening_trace(spec: WorkerSpec) -> AbstractContextManager[Tracer | None]:
    if spec.trace is None:
        return nullcontext()
    from quicksilver.trace.parquet import ParquetTrace

    return ParquetTrace(*split_target(Path(spec.trace), "run"), spec.name)


def _end(number: int, frame: FrameType | None) -> None:
    del number, frame
    sys.exit(0)


def _commands() -> Iterator[Go | Finish]:
    for line in sys.stdin:
        yield _decode_command(line)


# Subscriber


def _subscribe(node: sync.Node, spec: WorkerSpec) -> None:
    tally = Tally()
    span: list[float] = []

    def count(batch: Batch) -> None:
        span[1:] = [time.monotonic()]
        tally.handle_batch(batch)

    groups = node.join_all(list(spec.groups))
    for group in groups:
        group.on_batch(count)
    for group in groups:
        group.wait_members(spec.groups[group.name])
    span.append(time.monotonic())
    emit({"event": "ready", "node": node.id})
    for command in _commands():
        assert isinstance(command, Finish)
        deadline = time.monotonic() + command.timeout_s
        while not all(tally.has(*stream) for stream in command.expected):
            if time.monotonic() > deadline:
                break
            time.sleep(POLL_S)
        emit(
            {
                "event": "report",
                "node": node.id,
                "streams": list(tally.accounts.values()),
                "messages": tally.messages,
                "bytes": tally.bytes,
                "last_at": span[-1],
                "stats": _flat(node.stats()),
            }
        )


# Publisher


def _publish(node: sync.Node, spec: WorkerSpec) -> None:
    groups = node.open_all(list(spec.groups))
    emit({"event": "ready", "node": node.id})
    for command in _commands():
        assert isinstance(command, Go)
        tail = bytes(max(0, command.size - 8))
        started = time.monotonic()
        checksum = 0
        half = command.messages // 2
        for number in range(command.messages):
            payload = number.to_bytes(8, "little") + tail
            checksum = crc32(payload, checksum)
            for group in groups:
                group.send(payload)
            if number == half:
                emit({"event": "half", "node": node.id})
        accepted = time.monotonic()
        node.flush(command.flush_s)
        emit(
            {
                "event": "sent",
                "node": node.id,
                "groups": list(spec.groups),
                "messages": command.messages,
                "checksum": checksum,
                "started_at": started,
                "accepted_at": accepted,
                "flushed_at": time.monotonic(),
                "stats": _flat(node.stats()),
            }
        )


# Member


def _take_part(node: sync.Node, spec: WorkerSpec) -> None:
    groups = node.join_all(list(spec.groups))
    received: dict[str, tuple[int, int, bytes]] = {}
    """Messages, bytes and the last payload so far; written by the core thread alone."""

    def note(batch: Batch) -> None:
        messages, size, _ = received.get(batch.group, (0, 0, b""))
        received[batch.group] = (
            messages + len(batch),
            size + sum(map(len, batch.payloads)),
            batch.payloads[-1],
        )

    for group in groups:
        group.on_batch(note)
    emit({"event": "ready", "node": node.id, "groups": list(spec.groups)})
    payload = f"from {spec.name} ".encode().ljust(spec.size, b".")[: spec.size]
    news = _News()
    began = report_at = time.monotonic()
    sent = 0
    while not select.select([sys.stdin], [], [], POLL_S)[0]:
        now = time.monotonic()
        for _ in range(int((now - began) * spec.rate) - sent):
            sent += 1
            for group in groups:
                group.send(payload)
        if now >= report_at:
            report_at = now + REPORT_S
            for group in groups:
                news.tell_view(group)
                news.tell_received(group.name, received.get(group.name))


class _News:
    """Tells the parent what changed since the last time."""

    def __init__(self) -> None:
        self._views: dict[str, int] = {}
        self._messages: dict[str, int] = {}

    def tell_view(self, group: sync.Group) -> None:
        view = group.view
        if view is None or self._views.get(view.group) == view.number:
            return
        self._views[view.group] = view.number
        members = list(view.members)
        emit({"event": "view", "group": view.group, "number": view.number, "members": members})

    def tell_received(self, group: str, seen: tuple[int, int, bytes] | None) -> None:
        if seen is None or seen[0] == self._messages.get(group, 0):
            return
        messages, size, last = seen
        fresh = messages - self._messages.get(group, 0)
        self._messages[group] = messages
        sample = last[:60].decode(errors="backslashreplace").rstrip(".")
        emit(
            {
                "event": "received",
                "group": group,
                "messages": fresh,
                "total": messages,
                "total_bytes": size,
                "last": sample,
            }
        )


def _flat(stats: NodeStats) -> dict[str, int | float | str]:
    return {**stats.datagrams, **stats.counters}


if __name__ == "__main__":
    main()
