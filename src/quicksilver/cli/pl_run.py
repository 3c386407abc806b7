"""``quicksilver pl run``: a program over the members of a group."""

from __future__ import annotations

import asyncio
import re
import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quicksilver.cli import options
from quicksilver.cli.output import emit, remark, say
from quicksilver.cli.pl_programs import Program, read_program

if TYPE_CHECKING:
    from quicksilver.properties.groups import GroupProtocol
    from quicksilver.properties.plan import Plan

EVENT = re.compile(r"\s*(\w+)\s*\((.*)\)\s*;?\s*")


def run(
    program: Program,
    group: Annotated[
        str, typer.Option("--group", help="Group whose members run it; named after it if left out.")
    ] = "",
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", min=0, metavar="NUMBER", help="End after this many seconds."),
    ] = None,
    gms: options.Gms = options.GMS_DEFAULT,
    name: options.Name = "",
    interface: options.InterfaceName = None,
    as_json: options.Json = False,
) -> int:
    """Run a program with all others that run it in the same cluster.

    Each line of standard input is an event, such as Receive(7); each line of output is something
    that the program asks of its application, such as DoCleanup(7).
    """
    named, text = read_program(program)
    from quicksilver.cli.running import node_options, run_async
    from quicksilver.properties.compile.program import compile_text

    plan = compile_text(text, name=named)
    chosen = node_options(interface, None, name)
    run_async(_take_part(plan, group, gms, chosen, seconds, as_json=as_json))
    return 0


async def _take_part(
    plan: Plan, group: str, gms: str, chosen: Any, seconds: float | None, *, as_json: bool
) -> None:
    from quicksilver.cli.waiting import waiting_for_gms
    from quicksilver.node.aio import Node
    from quicksilver.properties.groups import GroupProtocol

    async with AsyncExitStack() as stack:
        with waiting_for_gms(gms):
            node = await stack.enter_async_context(Node(gms, chosen))
        protocol = await stack.enter_async_context(GroupProtocol(node, plan, group or None))
        if as_json:
            emit("ready", {"node": node.id, "group": protocol.group_name})
        else:
            remark(f"ready: node {node.id} runs {plan.name} in {protocol.group_name}")
        sys.stdout.flush()
        printing = asyncio.ensure_future(_print_requests(protocol, as_json=as_json))
        reading = asyncio.ensure_future(_read_events(protocol))
        try:
            done, _ = await asyncio.wait([printing], timeout=seconds)
            for task in done:
                task.result()
        finally:
            printing.cancel()
            reading.cancel()


async def _print_requests(protocol: GroupProtocol, *, as_json: bool) -> None:
    from quicksilver.properties.values.encoding import encode_value
    from quicksilver.properties.verify.timeline import show

    while True:
        request, arguments = await protocol.next_request()
        if as_json:
            plain = [encode_value(value) for value in arguments]
            emit("request", {"request": request, "arguments": plain})
        else:
            say(f"{request}({', '.join(show(value) for value in arguments)})")
        sys.stdout.flush()


async def _read_events(protocol: GroupProtocol) -> None:
    from quicksilver.stdx.errors import QuicksilverError

    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        found = EVENT.fullmatch(line.strip())
        if found is None:
            if line.strip():
                remark(f"{line.strip()!r} is no event; one looks like Receive(7)")
            continue
        try:
            protocol.give(found[1], *_arguments(found[2]))
        except QuicksilverError as error:
            remark(str(error))


def _arguments(text: str) -> list[Any]:
    """Read numbers, truth values and addresses."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return [_argument(part) for part in parts]


def _argument(part: str) -> Any:
    if re.fullmatch(r"-?\d+", part):
        return int(part)
    if part in {"true", "false"}:
        return part == "true"
    return part.strip('"')
