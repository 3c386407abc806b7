"""``quicksilver pub``: send lines or generated messages to groups."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from quicksilver.cli import options
from quicksilver.cli.problems import CommandError, MisuseError

if TYPE_CHECKING:
    from quicksilver.node import sync
    from quicksilver.node.messages import NodeStats, Unconfirmed
    from quicksilver.node.options import NodeOptions

FLUSH_QUIET_S = 1.0
"""Acknowledgements that take longer than this are worth a line."""


def pub(
    groups: options.Groups,
    count: Annotated[
        int | None,
        typer.Option(
            "--count",
            "-n",
            min=1,
            metavar="NUMBER",
            help="Send this many generated messages instead of the lines of standard input.",
        ),
    ] = None,
    size: Annotated[
        str,
        typer.Option(
            "--size", metavar="SIZE", help="Size of a generated message in bytes, such as 4k."
        ),
    ] = "100",
    rate: Annotated[
        float | None,
        typer.Option(
            "--rate",
            min=0.001,
            metavar="NUMBER",
            help="Send at most this many messages per second. Default: as fast as possible.",
        ),
    ] = None,
    flush: Annotated[
        float,
        typer.Option(
            "--flush",
            metavar="SECONDS",
            min=0,
            help="How long to wait for a first member, and at the end for acknowledgements.",
        ),
    ] = 30.0,
    behind: Annotated[
        str | None,
        typer.Option(
            "--behind",
            metavar="CHOICE",
            help="What to do about members that do not keep up: wait for them (wait); keep "
            "messages for them (keep, keep:64MB, keep+slow); or drop messages to them (drop).",
            show_default="wait",
        ),
    ] = None,
    gms: options.Gms = options.GMS_DEFAULT,
    name: options.Name = "",
    interface: options.InterfaceName = None,
    faults: options.Faults = None,
    metrics_port: options.MetricsPort = None,
    trace: options.Trace = None,
    verbose: options.Verbose = 0,
    log_json: options.LogJson = False,
    as_json: options.Json = False,
) -> int:
    """Send messages to groups: the lines of standard input, or generated messages.

    Each message goes to every group that is named. At the end the command waits until every
    member has acknowledged every message. If some may not have arrived, it says how many and
    fails.
    """
    from quicksilver.cli.logs import start_logging
    from quicksilver.cli.output import emit, plural, remark
    from quicksilver.cli.running import name_run, node_options, opening_trace, serving_metrics
    from quicksilver.cli.waiting import saying, waiting_for_gms
    from quicksilver.node import sync
    from quicksilver.node.errors import MessageTooLargeError, UnconfirmedError
    from quicksilver.node.samples import sampling
    from quicksilver.stdx.units import format_rate
    from quicksilver.wire.packets import MESSAGE_BYTES_MAX

    start_logging(verbose, as_json=log_json)
    names = options.check_groups(groups)
    length = options.parse_size(size)
    if length > MESSAGE_BYTES_MAX:
        raise MessageTooLargeError(length, MESSAGE_BYTES_MAX)
    if count is None and sys.stdin.isatty() and not as_json:
        remark("type one message per line; Ctrl-D ends")
    messages = _lines() if count is None else _generated(count, length)
    if rate is not None:
        messages = _paced(messages, rate)

    with ExitStack() as stack:
        tracer = stack.enter_context(opening_trace(trace, name_run("pub"), f"pub-{os.getpid()}"))
        made = sync.Node(gms, _telling(node_options(interface, faults, name, tracer)))
        with waiting_for_gms(gms):
            node = stack.enter_context(made)
        stack.enter_context(serving_metrics(node, metrics_port))
        stack.enter_context(sampling(node.core))
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
            with saying(lambda: _describe_flush(node.stats(), flush), FLUSH_QUIET_S):
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
        emit(
            "summary",
            {
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
            },
        )
    where = names[0] if len(names) == 1 else f"{len(names)} groups"
    if lost is not None:
        raise CommandError(f"sent {plural(total, 'message')} to {where}, but {lost}")
    if not as_json:
        remark(
            f"sent {plural(total, 'message')} to {where}, all acknowledged{_by_whom(gone)}, "
            f"in {elapsed:.2f} s ({format_rate(total / elapsed, 'msg')})"
        )
    return 0


def _telling(settings: NodeOptions) -> NodeOptions:
    """Say at once that messages may be lost: the end may be far."""

    from quicksilver.cli.output import remark

    def tell(messages: Unconfirmed) -> None:
        if messages.reason.is_failure:
            remark(str(messages))

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


def _wait_for_members(targets: list[sync.Group[bytes]], seconds: float) -> None:
    """A message to nobody is gone, so wait for somebody first."""
    from quicksilver.cli.waiting import saying
    from quicksilver.node.errors import ScopeLimitError

    deadline = time.monotonic() + seconds
    for target in targets:
        text = (
            f"nobody has joined {target.name!r}; waiting {seconds:g} s for a first member "
            f"(start one with: quicksilver sub {target.name})"
        )
        try:
            with saying(lambda text=text: text):  # type: ignore[misc]  # bound now, not later
                target.wait_members(1, timeout=max(0.05, deadline - time.monotonic()))
        except ScopeLimitError:
            return  # who is in a topic of scopes nobody knows; the flush waits for them
        except TimeoutError:
            raise CommandError(
                f"nobody joined {target.name!r} within {seconds:g} s, so nothing was sent; "
                f"check the name, or start a member first: quicksilver sub {target.name}"
            ) from None


def _describe_flush(stats: NodeStats, seconds: float) -> str:
    pending = stats.counters["pending_bytes"]
    return f"waiting up to {seconds:g} s for acknowledgements; {pending:,} bytes are pending"


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
        raise MisuseError("--rate is a number of messages per second")
    started = time.monotonic()
    for number, message in enumerate(messages):
        ahead = started + number / rate - time.monotonic()
        if ahead > 0:
            time.sleep(ahead)
        yield message
