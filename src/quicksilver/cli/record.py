"""``quicksilver record``: keep what is multicast in groups, on disk."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quicksilver.cli import options
from quicksilver.cli.problems import CommandError, MisuseError

if TYPE_CHECKING:
    from quicksilver.recorder.process import Recorder, RecorderConfig

PROGRESS_S = 1.0


def record(
    groups: options.Groups,
    path: Annotated[Path, typer.Option("--path", metavar="DIR", help="Folder of the recording.")],
    retain_hours: Annotated[
        float | None,
        typer.Option("--retain-hours", min=0, help="Forget segments older than this."),
    ] = None,
    retain_bytes: Annotated[
        str | None,
        typer.Option(
            "--retain-bytes",
            metavar="SIZE",
            help="Keep about so much of each group, such as 10GiB.",
        ),
    ] = None,
    retain_committed: Annotated[
        bool,
        typer.Option("--retain-committed", help="Never forget what a consumer has not committed."),
    ] = False,
    flush_ms: Annotated[
        float,
        typer.Option("--flush-ms", min=1, help="Make what arrived safe on disk so often."),
    ] = 200.0,
    segment_bytes: Annotated[
        str, typer.Option("--segment-bytes", metavar="SIZE", help="Size of a finished file.")
    ] = "64MiB",
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen",
            metavar="HOST:PORT",
            help="Serve the recording to other recorders and to nodes that join late.",
        ),
    ] = None,
    peer: Annotated[
        list[str] | None,
        typer.Option("--peer", metavar="HOST:PORT", help="Fill gaps from this recorder, too."),
    ] = None,
    gms: options.Gms = options.GMS_DEFAULT,
    name: options.Name = "",
    interface: options.InterfaceName = None,
    faults: options.Faults = None,
    as_json: options.Json = False,
) -> int:
    """Join groups and append every message to a log that Spark and latecomers read.

    Ctrl-C ends it: what was received is made safe first. With --listen,
    recorders of one cluster find each other and fill each other's gaps.
    """
    from quicksilver.cli.node_commands import node_options

    try:
        from quicksilver.recorder.process import Recorder, RecorderConfig
        from quicksilver.recorder.retention import Retention
        from quicksilver.recorder.writer import LogConfig
    except ModuleNotFoundError as error:
        raise CommandError(
            f"recording needs {error.name}: pip install 'quicksilver[spark]'"
        ) from None
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
    )
    names = options.check_groups(groups)
    settings = node_options(interface, faults, name)
    return _run(lambda: Recorder(gms, names, path, config, settings), config, as_json)


def _run(make: object, config: RecorderConfig, as_json: bool) -> int:
    from quicksilver.cli.run_async import run_async

    assert callable(make)
    made: list[Recorder] = []

    async def work() -> None:
        recorder = make()
        made.append(recorder)
        async with asyncio.TaskGroup() as tasks:
            recording = tasks.create_task(recorder.run())
            showing = tasks.create_task(_show(recorder, as_json))
            recording.add_done_callback(lambda _: showing.cancel())

    try:
        run_async(_plain(work()))
    except KeyboardInterrupt:
        pass  # the usual end of a recording
    _say_end(made[0], as_json)
    return 0


async def _plain(work: object) -> None:
    """Raise the first problem of several tasks, as if there were one task."""
    try:
        await work  # type: ignore[misc]  # a coroutine
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None


async def _show(recorder: Recorder, as_json: bool) -> None:
    from quicksilver.cli.output import emit, remark

    await recorder.is_ready.wait()
    if as_json:
        emit(
            {
                "event": "ready",
                "groups": recorder.groups,
                "path": str(recorder.path),
                "address": recorder.server.address,
            }
        )
    else:
        where = f", serving at {recorder.server.address}" if recorder.server.address else ""
        remark(f"recording {', '.join(recorder.groups)} into {recorder.path}{where}")
    is_shown = sys.stderr.isatty()
    before = -1
    while True:
        await asyncio.sleep(PROGRESS_S)
        messages = sum(one.messages for one in recorder.status())
        if as_json:
            if messages != before:
                emit({"event": "progress", "groups": recorder.status()})
        elif is_shown:
            rate = (messages - max(before, 0)) / PROGRESS_S
            sys.stderr.write(f"\r{messages:,} messages, {rate:,.0f} a second \x1b[K")
            sys.stderr.flush()
        before = messages


def _say_end(recorder: Recorder, as_json: bool) -> None:
    from quicksilver.cli.output import emit, plural, say

    if as_json:
        emit({"event": "stopped", "groups": recorder.status()})
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
