"""``quicksilver record``: keep what is multicast in groups, on disk."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quicksilver.cli import options
from quicksilver.cli.problems import MisuseError, needing

if TYPE_CHECKING:
    from quicksilver.recorder.process import Recorder
    from quicksilver.recorder.repair import Repaired

PROGRESS_S = 1.0


def record(
    groups: options.Groups,
    path: Annotated[Path, typer.Option("--path", metavar="DIR", help="Folder to record into.")],
    retain_hours: Annotated[
        float | None,
        typer.Option(
            "--retain-hours", min=0, metavar="NUMBER", help="Delete segments older than this."
        ),
    ] = None,
    retain_bytes: Annotated[
        str | None,
        typer.Option(
            "--retain-bytes",
            metavar="SIZE",
            help="Keep about this many bytes of each group, such as 10GiB.",
        ),
    ] = None,
    retain_committed: Annotated[
        bool,
        typer.Option("--retain-committed", help="Never delete what a consumer has not committed."),
    ] = False,
    flush_ms: Annotated[
        float,
        typer.Option(
            "--flush-ms",
            min=1,
            metavar="NUMBER",
            help="How often to write received messages to disk, in milliseconds.",
        ),
    ] = 200.0,
    segment_bytes: Annotated[
        str,
        typer.Option(
            "--segment-bytes",
            metavar="SIZE",
            help="Size at which a file is finished and the next one begins.",
        ),
    ] = "64MiB",
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen",
            metavar="HOST:PORT",
            help="Serve the recording at this address to other recorders and to late joiners.",
        ),
    ] = None,
    peer: Annotated[
        list[str] | None,
        typer.Option(
            "--peer",
            metavar="HOST:PORT",
            help="Another recorder to fill gaps from. Can be repeated.",
        ),
    ] = None,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Give up damaged rows, say which, and go on after them.",
        ),
    ] = False,
    gms: options.Gms = options.GMS_DEFAULT,
    name: options.Name = "",
    interface: options.InterfaceName = None,
    faults: options.Faults = None,
    verbose: options.Verbose = 0,
    log_json: options.LogJson = False,
    as_json: options.Json = False,
) -> int:
    """Join groups and record every message on disk, for Spark and for nodes that join late.

    Ctrl-C and SIGTERM end it; what was received is written to disk first. With --listen, the
    recorders of one cluster find each other and fill each other's gaps.

    A recording with damaged rows is refused. With --repair the recorder reads all of it, leaves
    damaged files as they are, and never uses their offsets again.
    """
    from quicksilver.cli.logs import start_logging
    from quicksilver.cli.running import node_options

    start_logging(verbose, as_json=log_json)
    with needing("recording", "record"):
        from quicksilver.recorder.process import Recorder, RecorderConfig
        from quicksilver.recorder.retention import Retention
        from quicksilver.recorder.writer import LogConfig
    config = RecorderConfig(
        flush_interval_s=flush_ms / 1000,
        log=LogConfig(segment_bytes=options.parse_size(segment_bytes)),
        retention=Retention(
            age_max_s=None if retain_hours is None else retain_hours * 3600,
            bytes_max=None if retain_bytes is None else options.parse_size(retain_bytes),
            needs_commit=retain_committed,
        ),
        listen=None if listen is None else _check_listen(listen),
        peers=tuple(peer or ()),
        repairs=repair,
    )
    names = options.check_groups(groups)
    settings = node_options(interface, faults, name)
    return _run(lambda: Recorder(gms, names, path, config, settings), gms, as_json)


def _run(make: Callable[[], Recorder], gms: str, as_json: bool) -> int:
    from quicksilver.cli.running import run_async

    made: list[Recorder] = []

    async def work() -> None:
        recorder = make()
        made.append(recorder)
        async with asyncio.TaskGroup() as tasks:
            recording = tasks.create_task(recorder.run())
            showing = tasks.create_task(_show(recorder, gms, as_json))
            recording.add_done_callback(lambda _: showing.cancel())

    try:
        run_async(_plain(work()))
    except KeyboardInterrupt:
        if made:
            _say_end(made[0], as_json)
        raise
    _say_end(made[0], as_json)
    return 0


async def _plain(work: object) -> None:
    """Raise the first problem of several tasks, as if there were one task."""
    try:
        await work  # type: ignore[misc]  # a coroutine
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None


async def _show(recorder: Recorder, gms: str, as_json: bool) -> None:
    from quicksilver.cli.output import emit, remark
    from quicksilver.cli.waiting import waiting_for_gms

    with waiting_for_gms(gms):
        await recorder.is_ready.wait()
    for one in recorder.repaired:
        _say_repaired(one, as_json)
    if as_json:
        emit(
            "ready",
            {
                "groups": recorder.groups,
                "path": str(recorder.path),
                "address": recorder.server.address,
            },
        )
    else:
        where = f", serving at {recorder.server.address}" if recorder.server.address else ""
        remark(f"recording {', '.join(recorder.groups)} into {recorder.path}{where}")
    is_shown = sys.stderr.isatty()
    before = -1
    told: dict[str, str] = {}
    while True:
        await asyncio.sleep(PROGRESS_S)
        told = _say_problems(recorder, told, as_json)
        messages = sum(one.messages for one in recorder.status())
        if as_json:
            if messages != before:
                emit("progress", {"groups": recorder.status()})
        elif is_shown:
            rate = (messages - max(before, 0)) / PROGRESS_S
            sys.stderr.write(f"\r{messages:,} messages, {rate:,.0f} per second \x1b[K")
            sys.stderr.flush()
        before = messages


def _say_repaired(found: Repaired, as_json: bool) -> None:
    from quicksilver.cli.output import emit, plural, remark

    if as_json:
        emit("repaired", found)
        return
    if found.has_new_mark:
        remark(f"{found.group}: the mark was made anew: the log goes on at offset {found.past:,}")
    for first, end in found.lost:
        rows = plural(end - first, "row")
        remark(f"{found.group}: {rows} given up, offsets {first:,} to {end - 1:,}")


def _say_problems(recorder: Recorder, told: dict[str, str], as_json: bool) -> dict[str, str]:
    """Say what is new of the problems with other recorders; return those that were said."""
    from quicksilver.cli.output import emit, remark

    problems = {} if recorder.peers is None else dict(recorder.peers.problems)
    for address, problem in problems.items():
        if told.get(address) != problem:
            if as_json:
                emit("problem", {"text": problem})
            else:
                remark(problem)
    return problems


def _say_end(recorder: Recorder, as_json: bool) -> None:
    from quicksilver.cli.output import emit, plural, say

    if as_json:
        emit("stopped", {"groups": recorder.status()})
        return
    for one in recorder.status():
        extra = f", {one.fetched:,} from other recorders" if one.fetched else ""
        if one.repeats:
            extra += f", {plural(one.repeats, 'repeat')} of jobs left out"
        say(f"{one.group}: {plural(one.messages, 'message')}{extra}; up to offset {one.durable:,}")


def _check_listen(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise MisuseError(f"--listen {text}: give host:port; port 0 takes a free one")
    return text
