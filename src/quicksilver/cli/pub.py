"""``quicksilver pub``: send lines or generated messages to groups."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from quicksilver.cli import options
from quicksilver.cli.problems import CommandError, MisuseError

if TYPE_CHECKING:
    from quicksilver.node import sync
    from quicksilver.node.messages import NodeStats, Unconfirmed
    from quicksilver.node.options import NodeOptions


def pub(
    groups: options.Groups,
    count: Annotated[
        int | None,
        typer.Option("--count", "-n", min=1, help="Send so many generated messages, not stdin."),
    ] = None,
    size: Annotated[
        str, typer.Option("--size", metavar="SIZE", help="Of a generated message, such as 4k.")
    ] = "100",
    rate: Annotated[
        float | None,
        typer.Option("--rate", min=0.001, help="Messages a second; default: as fast as it goes."),
    ] = None,
    flush: Annotated[
        float,
        typer.Option("--flush", metavar="SECONDS", min=0, help="Wait for acknowledgements."),
    ] = 30.0,
    behind: Annotated[
        str | None,
        typer.Option(
            "--behind",
            metavar="CHOICE",
            help="About members that do not keep up: wait, keep, keep:64MB, keep+slow or drop.",
        ),
    ] = None,
    gms: options.Gms = options.GMS_DEFAULT,
    name: options.Name = "",
    interface: options.InterfaceName = None,
    faults: options.Faults = None,
    metrics_port: options.MetricsPort = None,
    trace: options.Trace = None,
    as_json: options.Json = False,
) -> int:
    """Send to groups: every line of standard input, or --count generated messages.

    Each message goes to every group named. At the end, waits until all of them are on every
    member that stays, and says so; or says how many may not have arrived, and fails.
    """
    from quicksilver.cli.output import plural
    from quicksilver.cli.running import name_run, node_options, opening_trace, serving_metrics
    from quicksilver.node import sync
    from quicksilver.node.errors import MessageTooLargeError, UnconfirmedError
    from quicksilver.node.samples import sampling
    from quicksilver.stdx.units import format_rate
    from quicksilver.wire.packets import MESSAGE_BYTES_MAX

    names = options.check_groups(groups)
    length = options.parse_size(size)
    if length > MESSAGE_BYTES_MAX:
        raise MessageTooLargeError(length, MESSAGE_BYTES_MAX)
    if count is None and sys.stdin.isatty() and not as_json:
        print("type lines; Ctrl-D ends", file=sys.stderr)
    messages = _lines() if count is None else _generated(count, length)
    if rate is not None:
        messages = _paced(messages, rate)

    with (
        opening_trace(trace, name_run("pub"), f"pub-{os.getpid()}") as tracer,
        sync.Node(gms, _telling(node_options(interface, faults, name, tracer))) as node,
        serving_metrics(node, metrics_port),
        sampling(node.core),
    ):
        targets = node.open_all(names, behind=behind)
        _wait_for_members(targets, flush)
        started = time.monotonic()
        sent = size_sent = 0
        for message in messages:
            for target in targets:
                target.send(message)
            sent += 1
            size_sent += len(message)
        lost: UnconfirmedError | None = None
        gone: tuple[Unconfirmed, ...] = ()
        try:
            gone = node.flush(flush)
        except UnconfirmedError as error:
            lost = error
        except TimeoutError:
            raise CommandError(_why_unflushed(node.stats(), sent, flush)) from None
        elapsed = max(1e-9, time.monotonic() - started)
        stats = node.stats()
        sender = node.id
    total = sent * len(names)
    missed = 0 if lost is None else lost.count
    if as_json:
        from quicksilver.cli.output import emit

        emit(
            {
                "event": "summary",
                "node": sender,
                "groups": names,
                "messages": total,
                "acknowledged": max(0, total - missed),
                "unconfirmed": [
                    _as_row(each) for each in (gone if lost is None else lost.messages)
                ],
                "bytes": size_sent * len(names),
                "seconds": round(elapsed, 6),
                "per_second": round(total / elapsed, 1),
                "resent": stats.counters["resent"],
            }
        )
    where = names[0] if len(names) == 1 else f"{len(names)} groups"
    if lost is not None:
        raise CommandError(f"sent {plural(total, 'message')} to {where}, but {lost}")
    if not as_json:
        print(
            f"sent {plural(total, 'message')} to {where}, all acknowledged{_by_whom(gone)}, "
            f"in {elapsed:.2f} s ({format_rate(total / elapsed, 'msg')})",
            file=sys.stderr,
        )
    return 0


def _telling(settings: NodeOptions) -> NodeOptions:
    """Say at once that messages may be lost: the end may be far."""

    def tell(messages: Unconfirmed) -> None:
        if messages.reason.is_failure:
            print(f"quicksilver: {messages}", file=sys.stderr)

    return replace(settings, on_unconfirmed=tell)


def _by_whom(gone: tuple[Unconfirmed, ...]) -> str:
    """Say who did not acknowledge everything, because it is gone."""
    members = sorted({member for each in gone for member in each.members})
    if not members:
        return ""
    count = sum(each.count for each in gone)
    who = f"node {members[0]}" if len(members) == 1 else f"{len(members)} nodes"
    return f" by the members that stayed ({who} left or failed with up to {count:,} to come)"


def _as_row(each: Unconfirmed) -> dict[str, object]:
    return {
        "group": each.group,
        "count": each.count,
        "reason": each.reason.name.lower(),
        "node": each.node,
        "ranges": each.ranges,
        "members": each.members,
    }


def _wait_for_members(targets: list[sync.Group], seconds: float) -> None:
    """A message to nobody is gone, so wait for somebody first."""
    deadline = time.monotonic() + seconds
    for target in targets:
        try:
            target.wait_members(1, timeout_s=max(0.05, deadline - time.monotonic()))
        except TimeoutError:
            raise CommandError(
                f"waited {seconds:g} s for somebody to join {target.name!r}, and nobody did; "
                "start quicksilver sub first"
            ) from None


def _why_unflushed(stats: NodeStats, sent: int, seconds: float) -> str:
    from quicksilver.cli.output import plural

    pending = stats.counters["pending_bytes"]
    lost = stats.counters["unconfirmed"]
    known = f", and {lost:,} messages may be lost" if lost else ""
    return (
        f"sent {plural(sent, 'message')}, but within {seconds:g} s not all were acknowledged "
        f"({pending:,} bytes are pending{known}); see quicksilver top"
    )


def _lines() -> Iterator[bytes]:
    for line in sys.stdin.buffer:
        yield line.rstrip(b"\r\n")


def _generated(count: int, size: int) -> Iterator[bytes]:
    """Yield numbered messages of exactly ``size`` bytes, where the number fits."""
    filler = b"." * size
    for number in range(count):
        yield (b"%d " % number + filler)[:size]


def _paced(messages: Iterator[bytes], rate: float) -> Iterator[bytes]:
    if rate <= 0:
        raise MisuseError("--rate is a number of messages a second")
    started = time.monotonic()
    for number, message in enumerate(messages):
        ahead = started + number / rate - time.monotonic()
        if ahead > 0:
            time.sleep(ahead)
        yield message
