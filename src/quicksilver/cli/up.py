"""``quicksilver up``: a local cluster of real processes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quicksilver.cli import options
from quicksilver.cli.problems import CommandError, MisuseError

if TYPE_CHECKING:
    from quicksilver.cli.cluster.children import Child, Children

READY_S = 20.0


def up(
    nodes: Annotated[
        int, typer.Option("--nodes", "-n", min=1, max=256, help="How many nodes to start.")
    ] = 3,
    groups: Annotated[
        str,
        typer.Option(
            "--groups",
            metavar="SPEC",
            help="Who joins what, such as a:0-3,b:2-5+7,c; a group without nodes: everybody.",
        ),
    ] = "demo",
    seconds: Annotated[
        float | None, typer.Option("--seconds", min=0, help="End after so much time.")
    ] = None,
    rate: Annotated[
        float,
        typer.Option("--rate", min=0, help="Messages a second of each node to each of its groups."),
    ] = 0.0,
    size: Annotated[str, typer.Option("--size", metavar="SIZE", help="Of such a message.")] = "100",
    loss: Annotated[
        str | None,
        typer.Option(
            "--loss", metavar="RATE", help="Share of packets each node drops, such as 1%."
        ),
    ] = None,
    gms: Annotated[
        str | None,
        typer.Option(
            "--gms",
            metavar="HOST:PORT",
            envvar="QUICKSILVER_GMS",
            help="Use this GMS; default: start one.",
        ),
    ] = None,
    interface: options.InterfaceName = None,
    trace: options.Trace = None,
    as_json: options.Json = False,
) -> int:
    """Start a local cluster of processes, and stop all of them with Ctrl-C.

    Each node joins its groups and says every second what arrived. Watch it from
    another window with top, send to it with pub. A node that ends is not
    restarted; the rest goes on.
    """
    from quicksilver.cli.cluster.groupspec import parse_groups
    from quicksilver.cli.running import run_async
    from quicksilver.cli.tracing import name_target
    from quicksilver.net.faults import FaultError, parse_faults

    faults = None if loss is None else f"loss={loss}"
    if faults is not None:
        try:
            parse_faults(faults)
        except FaultError as error:
            raise MisuseError(f"--loss {loss}: {error.problem}; write for example 1%") from None
    cluster = Cluster(
        nodes=nodes,
        groups=parse_groups(groups, nodes),
        seconds=seconds,
        rate=rate,
        size=options.parse_size(size),
        faults=faults,
        gms=gms,
        interface=interface,
        trace=name_target(trace, "up"),
        is_json=as_json,
    )
    return run_async(cluster.run())


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A cluster to start and to watch."""

    nodes: int
    groups: dict[str, tuple[int, ...]]
    seconds: float | None
    rate: float
    size: int
    faults: str | None
    gms: str | None
    interface: str | None
    trace: Path | None
    is_json: bool

    async def run(self) -> int:
        """Run until the time is over or every node has ended."""
        from quicksilver.cli.cluster.children import local_cluster

        async with local_cluster(self.gms) as (children, gms):
            self._tell("gms", {"event": "gms", "address": gms})
            watched = [
                asyncio.ensure_future(self._watch(await self._start(children, gms, number)))
                for number in range(self.nodes)
            ]
            try:
                done, pending = await asyncio.wait(watched, timeout=self.seconds)
                if not pending and not any(task.result() for task in done):
                    raise CommandError("every node has ended; see above for the reason")
            finally:
                for task in watched:
                    task.cancel()
        self._tell("gms", {"event": "stopped"})
        return 0

    async def _start(self, children: Children, gms: str, number: int) -> Child:
        import msgspec

        from quicksilver.cli.cluster.groupspec import groups_of
        from quicksilver.cli.cluster.worker import WorkerSpec

        spec = WorkerSpec(
            role="member",
            gms=gms,
            name=f"node-{number}",
            groups=dict.fromkeys(groups_of(self.groups, number), 0),
            interface=self.interface,
            faults=None if self.faults is None else f"{self.faults},seed={number + 1}",
            rate=self.rate,
            size=self.size,
            trace=None if self.trace is None else str(self.trace),
        )
        return await children.start(
            spec.name, ["quicksilver.cli.cluster.worker", msgspec.json.encode(spec).decode()]
        )

    async def _watch(self, child: Child) -> bool:
        """Show what a node says; returns whether it ended well."""
        async for event in child.events():
            self._tell(child.name, event)
        code = await child.process.wait()
        self._tell(
            child.name, {"event": "ended", "exit_code": code, "last_words": child.last_words}
        )
        return code == 0

    def _tell(self, name: str, event: dict[str, Any]) -> None:
        from quicksilver.cli.output import emit, say

        if self.is_json:
            emit({"process": name, **event})
        else:
            say(f"{name:>8} | {_sentence(event)}")


def _sentence(event: dict[str, Any]) -> str:
    match event.get("event"):
        case "gms":
            return f"ready at {event['address']}; try: quicksilver top --gms {event['address']}"
        case "ready":
            return f"is node {event['node']}, in {', '.join(event['groups']) or 'no group'}"
        case "view":
            members = " ".join(str(node) for node in event["members"])
            return f"{event['group']}: view {event['number']} has {members}"
        case "received":
            return f"{event['group']}: {event['messages']:,} messages, the last: {event['last']}"
        case "ended":
            code = event["exit_code"]
            how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
            return f"ended ({how}) {event['last_words']}".rstrip()
        case "stopped":
            return "all stopped"
        case _:
            return str(event)
