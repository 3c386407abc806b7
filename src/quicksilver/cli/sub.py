"""``quicksilver sub``: print what arrives in groups."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quicksilver.cli import options
from quicksilver.cli.output import encode, encode_payload, show_payload
from quicksilver.cli.problems import CommandError
from quicksilver.stdx.text import printable

if TYPE_CHECKING:
    from quicksilver.node.aio import Group
    from quicksilver.node.messages import Batch, Message, View


def sub(
    groups: options.Groups,
    count: Annotated[
        int | None,
        typer.Option(
            "--count", "-n", min=1, metavar="NUMBER", help="End after this many messages."
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", min=0, metavar="NUMBER", help="End after this many seconds."),
    ] = None,
    as_hex: Annotated[
        bool, typer.Option("--hex/--text", help="Show payloads in hexadecimal, or as text.")
    ] = False,
    views: Annotated[
        bool, typer.Option("--views", help="Also show which nodes join and leave.")
    ] = False,
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
    """Join groups and print every message: its group, sender, number and payload.

    Runs until --count messages have arrived, --seconds have passed, or Ctrl-C. It fails if
    --seconds pass before --count messages have arrived.
    """
    from quicksilver.cli.logs import start_logging
    from quicksilver.cli.running import name_run, node_options, opening_trace, run_async

    start_logging(verbose, as_json=log_json)
    printer = Printer(is_json=as_json, is_hex=as_hex, count_max=count)
    plan = Listening(
        gms=gms,
        names=options.check_groups(groups, allow_patterns=True),
        seconds=seconds,
        shows_views=views,
        metrics_port=metrics_port,
    )
    with opening_trace(trace, name_run("sub"), f"sub-{os.getpid()}") as tracer:
        run_async(_listen(plan, node_options(interface, faults, name, tracer), printer))
    if count is not None and printer.count < count:
        raise CommandError(f"{printer.count} of {count} messages arrived within {seconds:g} s")
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
    from quicksilver.cli.output import remark
    from quicksilver.cli.running import serving_metrics
    from quicksilver.cli.waiting import waiting_for_gms
    from quicksilver.node.aio import Node
    from quicksilver.node.samples import sampling

    async with AsyncExitStack() as stack:
        with waiting_for_gms(plan.gms):
            node = await stack.enter_async_context(Node(plan.gms, node_options))
        groups = await node.join_all(plan.names)
        if printer.is_json:
            printer.write([encode("ready", {"node": node.id, "groups": plan.names})])
        else:
            who = f"node {node.id}" if node.cluster else node.name  # scopes have no numbers
            remark(f"ready: {who} has joined {', '.join(plan.names)}")
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


async def _print_messages(group: Group[bytes], printer: Printer) -> None:
    while not printer.is_full.is_set():
        printer.print_batch(await group.receive_batch())
        # A long queue is read without waiting: let the other groups have a turn.
        await asyncio.sleep(0)


async def _print_views(group: Group[bytes], printer: Printer) -> None:
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
            self.write([self._encode(message) for message in messages])
        else:
            show = bytes.hex if self.is_hex else show_payload
            self.write(
                [
                    f"{printable(m.group)} {_source(m)}#{m.sequence} {show(m.payload)}"
                    for m in messages
                ]
            )
        if self.count_max is not None and self.count >= self.count_max:
            self.is_full.set()

    def print_view(self, view: View) -> None:
        """Write who is in a group now, and what changed."""
        if self.is_json:
            fields = {
                "group": view.group,
                "number": view.number,
                "members": view.members,
                "joined": view.joined,
                "left": view.left,
            }
            self.write([encode("view", fields)])
            return
        changes = [f"+{node}" for node in view.joined] + [f"-{node}" for node in view.left]
        members = " ".join(str(node) for node in view.members)
        self.write([f"{printable(view.group)} view {view.number}: {members} ({' '.join(changes)})"])

    def write(self, lines: list[str]) -> None:
        """Write lines, and flush once."""
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()

    def _encode(self, message: Message[bytes]) -> str:
        return encode(
            "message",
            {
                "group": message.group,
                "sender": message.sender,
                **({"source": message.source} if message.source else {}),
                "sequence": message.sequence,
                "batch": message.batch,
                **encode_payload(message.payload, is_hex=self.is_hex),
            },
        )


def _source(message: Message[bytes]) -> str:
    """Return who sent a message, as people know it: in scopes by its name."""
    return printable(message.source) if message.source else str(message.sender)
