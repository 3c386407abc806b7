"""``quicksilver up``: a local cluster of real processes."""

from __future__ import annotations

import queue
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quicksilver.cli import options
from quicksilver.cli.problems import CommandError, MisuseError

if TYPE_CHECKING:
    from quicksilver.lab.processes import Child, Children, Inbox

END_S = 10.0
"""How long a node may take to end after it has closed its output."""


def up(
    nodes: Annotated[
        int, typer.Option("--nodes", "-n", min=1, max=256, help="How many nodes to start.")
    ] = 3,
    groups: Annotated[
        str,
        typer.Option(
            "--groups",
            metavar="SPEC",
            help="Groups and the nodes that join them, such as a:0-3,b:2-5+7,c. All nodes join a "
            "group that is named without nodes.",
        ),
    ] = "demo",
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", min=0, metavar="NUMBER", help="End after this many seconds."),
    ] = None,
    rate: Annotated[
        float,
        typer.Option(
            "--rate",
            min=0,
            metavar="NUMBER",
            help="Messages per second that each node sends to each of its groups.",
        ),
    ] = 0.0,
    size: Annotated[
        str,
        typer.Option("--size", metavar="SIZE", help="Size of such a message in bytes, such as 4k."),
    ] = "100",
    loss: Annotated[
        str | None,
        typer.Option(
            "--loss",
            metavar="RATE",
            help="Share of packets that each node loses on purpose, such as 1%.",
        ),
    ] = None,
    gms: Annotated[
        str | None,
        typer.Option(
            "--gms",
            metavar="HOST:PORT",
            envvar="QUICKSILVER_GMS",
            help="Use this GMS. Default: start one.",
        ),
    ] = None,
    interface: options.InterfaceName = None,
    trace: options.Trace = None,
    as_json: options.Json = False,
) -> int:
    """Start a local cluster of processes, and stop all of them with Ctrl-C.

    Each node joins its groups and says every second what arrived. Watch the cluster from
    another window with quicksilver top, and send to it with quicksilver pub. A node that ends
    is not started again; the others go on.
    """
    from quicksilver.cli.options import parse_groups
    from quicksilver.cli.running import name_target
    from quicksilver.net.faults import FaultError, parse_faults

    faults = "" if loss is None else f"loss={loss}"
    if faults:
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
    return cluster.run()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A cluster to start and to watch."""

    nodes: int
    groups: dict[str, tuple[int, ...]]
    seconds: float | None
    rate: float
    size: int
    faults: str
    gms: str | None
    interface: str | None
    trace: Path | None
    is_json: bool

    def run(self) -> int:
        """Run until the time is over or every node has ended."""
        from quicksilver.lab.processes import Children

        with Children() as children:
            gms = self.gms if self.gms is not None else children.start_gms()
            self._tell("gms", {"event": "gms", "address": gms})
            inbox: Inbox = queue.SimpleQueue()
            for number in range(self.nodes):
                self._start(children, gms, number, inbox)
            self._watch(inbox)
        self._tell("gms", {"event": "stopped"})
        return 0

    def _start(self, children: Children, gms: str, number: int, inbox: Inbox) -> None:
        from quicksilver.cli.options import groups_of
        from quicksilver.lab.participants import Member
        from quicksilver.lab.worker import start_worker

        spec = Member(
            gms=gms,
            name=f"node-{number}",
            groups=groups_of(self.groups, number),
            interface=self.interface,
            faults=f"{self.faults},seed={number + 1}" if self.faults else "",
            rate=self.rate,
            size=self.size,
            trace=None if self.trace is None else str(self.trace),
        )
        start_worker(children, spec, inbox=inbox)

    def _watch(self, inbox: Inbox) -> None:
        """Show what nodes say until the time is over; raises when all have failed."""
        import msgspec

        deadline = None if self.seconds is None else time.monotonic() + self.seconds
        codes: list[int] = []
        while len(codes) < self.nodes:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            try:
                child, line = inbox.get(timeout=left)
            except queue.Empty:
                return
            if line is None:
                codes.append(self._tell_end(child))
                continue
            try:
                said = msgspec.json.decode(line, type=dict[str, Any])
            except msgspec.MsgspecError:
                continue  # a stray line, of a library for example
            self._tell(child.name, said)
        if all(codes):
            raise CommandError("every node has ended; see above for the reason")

    def _tell_end(self, child: Child) -> int:
        code = child.wait(END_S)
        self._tell(
            child.name, {"event": "ended", "exit_code": code, "last_words": child.last_words}
        )
        return code

    def _tell(self, name: str, event: dict[str, Any]) -> None:
        from quicksilver.cli.output import emit, say

        if self.is_json:
            fields = {key: value for key, value in event.items() if key != "event"}
            emit(str(event.get("event", "unknown")), {"process": name, **fields})
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
