"""``quicksilver sub``: print what arrives in groups."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quicksilver.cli import options
from quicksilver.cli.problems import CommandError

if TYPE_CHECKING:
    from quicksilver.node.aio import Group
    from quicksilver.node.messages import Batch, View


def sub(
    groups: options.Groups,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="End after so many messages.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option("--seconds", min=0, help="End after so much time.")
    ] = None,
    as_hex: Annotated[
        bool, typer.Option("--hex/--text", help="Show payloads as hexadecimal or as text.")
    ] = False,
    views: Annotated[bool, typer.Option("--views", help="Also show who joins and leaves.")] = False,
    gms: options.Gms = options.GMS_DEFAULT,
    name: options.Name = "",
    interface: options.InterfaceName = None,
    faults: options.Faults = None,
    metrics_port: options.MetricsPort = None,
    trace: options.Trace = None,
    as_json: options.Json = False,
) -> int:
    """Join groups and print every message: group, sender, number, payload.

    Ends with --count, --seconds or Ctrl-C. If --seconds pass before --count
    messages came, it fails.
    """
    from quicksilver.cli.running import name_run, node_options, opening_trace, run_async

    printer = Printer(is_json=as_json, is_hex=as_hex, count_max=count)
    plan = Listening(
        gms=gms,
        names=options.check_groups(groups),
        seconds=seconds,
        shows_views=views,
        metrics_port=metrics_port,
    )
    with opening_trace(trace, name_run("sub"), f"sub-{os.getpid()}") as tracer:
        run_async(_listen(plan, node_options(interface, faults, name, tracer), printer))
    if count is not None and printer.count < count:
        raise CommandError(f"{printer.count} of {count} messages came within {seconds:g} s")
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """What to join, and for how long."""

    gms: str
    names: list[str]
    seconds: float | None
    shows_views: bool
    metrics_port: int | None


async def _listen(plan: Listening, node_options: Any, printer: Printer) -> None:
    from quicksilver.cli.running import serving_metrics
    from quicksilver.node.aio import Node
    from quicksilver.node.samples import sampling

    async with Node(plan.gms, node_options) as node:
        groups = await node.join_all(plan.names)
        if printer.is_json:
            printer.write([{"event": "ready", "node": node.id, "groups": plan.names}])
        with serving_metrics(node, plan.metrics_port), sampling(node.core):
            work: list[asyncio.Future[Any]] = [
                asyncio.ensure_future(_print_messages(group, printer)) for group in groups
            ]
            if plan.shows_views:
                work += [asyncio.ensure_future(_print_views(group, printer)) for group in groups]
            work.append(asyncio.ensure_future(printer.is_full.wait()))
            try:
                done, _ = await asyncio.wait(
                    work, timeout=plan.seconds, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    task.result()
            finally:
                for task in work:
                    task.cancel()


async def _print_messages(group: Group, printer: Printer) -> None:
    while not printer.is_full.is_set():
        printer.print_batch(await group.receive_batch())
        # A long queue is read without waiting: let the other groups have a turn.
        await asyncio.sleep(0)


async def _print_views(group: Group, printer: Printer) -> None:
    async for view in group.views():
        printer.print_view(view)


class Printer:
    """Writes messages and views, one line each, at most ``count_max`` messages."""

    def __init__(self, *, is_json: bool, is_hex: bool, count_max: int | None) -> None:
        self.is_json = is_json
        self.is_hex = is_hex
        self.count = 0
        self.count_max = count_max
        self.is_full = asyncio.Event()

    def print_batch(self, batch: Batch) -> None:
        """Write the messages of a batch."""
        messages = list(batch)
        if self.count_max is not None:
            messages = messages[: self.count_max - self.count]
        self.count += len(messages)
        if self.is_json:
            key = "hex" if self.is_hex else "payload"
            self.write(
                [
                    {
                        "group": message.group,
                        "sender": message.sender,
                        "sequence": message.sequence,
                        "batch": message.batch,
                        key: self._show(message.payload),
                    }
                    for message in messages
                ]
            )
        else:
            self.write(
                [f"{m.group} {m.sender}#{m.sequence} {self._show(m.payload)}" for m in messages]
            )
        if self.count_max is not None and self.count >= self.count_max:
            self.is_full.set()

    def print_view(self, view: View) -> None:
        """Write who is in a group now, and what changed."""
        if self.is_json:
            self.write(
                [
                    {
                        "event": "view",
                        "group": view.group,
                        "number": view.number,
                        "members": view.members,
                        "joined": view.joined,
                        "left": view.left,
                    }
                ]
            )
            return
        changes = [f"+{node}" for node in view.joined] + [f"-{node}" for node in view.left]
        members = " ".join(str(node) for node in view.members)
        self.write([f"{view.group} view {view.number}: {members} ({' '.join(changes)})"])

    def write(self, lines: list[Any]) -> None:
        """Write lines, or objects as JSON, and flush once."""
        import sys

        import msgspec

        if self.is_json:
            encode = msgspec.json.encode
            lines = [encode(line).decode() for line in lines]
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()

    def _show(self, payload: bytes) -> str:
        if self.is_hex:
            return payload.hex()
        return payload.decode("utf-8", errors="backslashreplace")
