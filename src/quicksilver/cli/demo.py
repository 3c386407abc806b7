"""``quicksilver demo``: a cluster that loses packets and a process, and no message.

A GMS, subscribers and publishers run as real processes. Subscribers drop a part
of what arrives; half way one of them is killed. In the end each survivor's own
account is held against the publishers' accounts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quicksilver.cli import options

if TYPE_CHECKING:
    from quicksilver.lab.accounts import Published, Received
    from quicksilver.lab.nodes import NodeSpec
    from quicksilver.lab.processes import Child, Children

READY_S = 15.0
PUBLISH_S = 120.0


def demo(
    messages: Annotated[
        int,
        typer.Option(
            "--messages", min=2, help="Number of messages that each publisher sends to each group."
        ),
    ] = 100_000,
    size: Annotated[
        str, typer.Option("--size", metavar="SIZE", help="Size of a message in bytes, such as 4k.")
    ] = "1000",
    subscribers: Annotated[
        int,
        typer.Option(
            "--subscribers", min=2, max=64, help="Number of subscribers; one of them is killed."
        ),
    ] = 6,
    publishers: Annotated[
        int, typer.Option("--publishers", min=1, max=16, help="Number of publishers.")
    ] = 2,
    groups: Annotated[
        str,
        typer.Option(
            "--groups",
            metavar="SPEC",
            help="Groups and the subscribers that join them. All subscribers join a group that "
            "is named without any.",
        ),
    ] = "a:0-3,b:2-5,c",
    faults: Annotated[
        str,
        typer.Option(
            "--faults",
            metavar="TEXT",
            help="Faults to inject into every subscriber's network traffic.",
        ),
    ] = "loss=2%,burst=5,kinds=data",
    kill: Annotated[bool, typer.Option(help="Whether to kill one subscriber half way.")] = True,
    as_json: options.Json = False,
) -> int:
    """Show that nothing is lost: overlapping groups, injected loss, and a crash.

    Starts a GMS, subscribers and publishers as processes of this machine. The command fails
    if any surviving subscriber lacks a single message.
    """
    from quicksilver.cli.options import parse_groups
    from quicksilver.net.faults import parse_faults

    if faults:
        parse_faults(faults)
    scenario = Scenario(
        messages=messages,
        size=options.parse_size(size),
        subscribers=subscribers,
        publishers=publishers,
        groups=parse_groups(groups, subscribers),
        faults=faults,
        victim=subscribers // 2 if kill else None,
    )
    outcome = play(scenario, is_quiet=as_json)
    if as_json:
        from quicksilver.cli.output import emit

        emit("summary", outcome.as_dict())
    else:
        _show(outcome)
    return 0 if outcome.is_complete else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Parameters of the cluster that the demo starts."""

    messages: int
    size: int
    subscribers: int
    publishers: int
    groups: dict[str, tuple[int, ...]]
    faults: str
    victim: int | None
    """The subscriber that is killed half way."""


@dataclass(slots=True, kw_only=True)
class Outcome:
    """Results of the demo: what survived, how fast, and what is missing."""

    scenario: Scenario
    published: dict[str, Published]
    received: dict[str, Received]
    """By name of process; the victim is not among them."""
    faults: dict[str, list[str]] = field(default_factory=dict)
    """What was wrong with each survivor's account; all empty when complete."""
    seconds: float = 0.0

    @property
    def is_complete(self) -> bool:
        return not any(self.faults.values())

    @property
    def started_at(self) -> float:
        return min(one.started_at for one in self.published.values())

    def publish_rate(self) -> float:
        """Messages a second, all publishers together, until the last was acknowledged."""
        sent = sum(one.messages * len(one.groups) for one in self.published.values())
        end = max(one.flushed_at for one in self.published.values())
        return sent / max(1e-9, end - self.started_at)

    def deliver_rate(self) -> float:
        """Deliveries a second, all survivors together."""
        return sum(self.rate_of(one) for one in self.received.values())

    def rate_of(self, one: Received) -> float:
        """Messages a second of one survivor, from the first sent to its last."""
        return one.messages / max(1e-9, one.last_at - self.started_at)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        names = {one.node: name for name, one in self.published.items()}
        victim = self.scenario.victim
        return {
            "complete": self.is_complete,
            "seconds": round(self.seconds, 3),
            "killed": None if victim is None else f"sub-{victim}",
            "groups": {name: list(nodes) for name, nodes in self.scenario.groups.items()},
            "messages_per_group": self.scenario.messages,
            "size": self.scenario.size,
            "faults": self.scenario.faults,
            "published_per_second": round(self.publish_rate()),
            "delivered_per_second": round(self.deliver_rate()),
            "publishers": {
                name: {
                    "node": one.node,
                    "messages": one.messages * len(one.groups),
                    "seconds": round(one.flushed_at - one.started_at, 3),
                    "resent": one.stats.get("resent", 0),
                }
                for name, one in self.published.items()
            },
            "subscribers": {
                name: {
                    "node": one.node,
                    "messages": one.messages,
                    "per_second": round(self.rate_of(one)),
                    "packets_lost": one.stats.get("missing", 0),
                    "repairs_received": one.stats.get("repairs_received", 0),
                    "repairs_sent": one.stats.get("repairs_sent", 0),
                    "streams": [
                        {
                            "from": names.get(account.sender, str(account.sender)),
                            "group": account.group,
                            "messages": account.count,
                            "checksum": f"{account.checksum:08x}",
                        }
                        for account in sorted(one.streams, key=lambda a: (a.group, a.sender))
                    ],
                    "wrong": self.faults[name],
                }
                for name, one in self.received.items()
            },
        }


def play(scenario: Scenario, *, is_quiet: bool) -> Outcome:
    """Run a scenario from the first process to the last report."""
    from quicksilver.lab.accounts import find_faults
    from quicksilver.lab.processes import Children

    def tell(text: str) -> None:
        if not is_quiet:
            from quicksilver.cli.output import say

            say(f"{time.monotonic() - began:5.1f} s  {text}")

    began = time.monotonic()
    with Children() as children:
        gms = children.start_gms()
        tell(f"GMS at {gms}")
        subscribers = _start_subscribers(children, scenario, gms)
        shown = ", ".join(
            f"{name}: {' '.join(str(n) for n in nodes)}" for name, nodes in scenario.groups.items()
        )
        tell(f"{scenario.subscribers} subscribers in overlapping groups ({shown})")
        tell(f"faults injected into what each of them receives: {scenario.faults or 'none'}")
        # Opened only now: a publisher's first view has every subscriber in it.
        publishers = _start_publishers(children, scenario, gms)
        tell(
            f"{scenario.publishers} publishers send {scenario.messages:,} messages of "
            f"{scenario.size:,} bytes to each of {len(scenario.groups)} groups"
        )
        published = _publish(scenario, publishers, subscribers, tell)
        tell("everything sent is acknowledged; asking the survivors what they have")
        survivors = {
            name: child
            for name, child in subscribers.items()
            if scenario.victim is None or name != f"sub-{scenario.victim}"
        }
        received = _collect(scenario, survivors, published)
    outcome = Outcome(scenario=scenario, published=published, received=received)
    for name, one in received.items():
        joined = _joined(scenario, name)
        outcome.faults[name] = find_faults(published.values(), one, joined)
    outcome.seconds = time.monotonic() - began
    return outcome


def _joined(scenario: Scenario, name: str) -> list[str]:
    from quicksilver.cli.options import groups_of

    return groups_of(scenario.groups, int(name.removeprefix("sub-")))


def _start_subscribers(children: Children, scenario: Scenario, gms: str) -> dict[str, Child]:
    from quicksilver.lab.participants import Subscriber

    specs = []
    for number in range(scenario.subscribers):
        name = f"sub-{number}"
        groups = {group: len(scenario.groups[group]) for group in _joined(scenario, name)}
        faults = f"{scenario.faults},seed={number + 1}" if scenario.faults else ""
        specs.append(Subscriber(gms=gms, name=name, groups=groups, faults=faults))
    return _start(children, specs)


def _start_publishers(children: Children, scenario: Scenario, gms: str) -> dict[str, Child]:
    from quicksilver.lab.participants import Publisher

    groups = list(scenario.groups)
    return _start(
        children,
        [
            Publisher(gms=gms, name=f"pub-{number}", groups=groups)
            for number in range(scenario.publishers)
        ],
    )


def _start(children: Children, specs: Sequence[NodeSpec]) -> dict[str, Child]:
    from quicksilver.lab.participants import Ready
    from quicksilver.lab.worker import start_worker

    found = {spec.name: start_worker(children, spec) for spec in specs}
    for child in found.values():
        child.expect(Ready, READY_S)
    return found


def _publish(
    scenario: Scenario,
    publishers: dict[str, Child],
    subscribers: dict[str, Child],
    tell: Callable[[str], None],
) -> dict[str, Published]:
    from quicksilver.lab.accounts import Published
    from quicksilver.lab.participants import HalfSent, Publish

    for child in publishers.values():
        child.tell(Publish(scenario.messages, scenario.size, PUBLISH_S))
    first = next(iter(publishers.values()))
    first.expect(HalfSent, PUBLISH_S)
    if scenario.victim is not None:
        victim = subscribers[f"sub-{scenario.victim}"]
        victim.kill()
        tell(f"half way: {victim.name} (process {victim.pid}) killed with SIGKILL")
    return {name: child.expect(Published, PUBLISH_S) for name, child in publishers.items()}


def _collect(
    scenario: Scenario, survivors: dict[str, Child], published: dict[str, Published]
) -> dict[str, Received]:
    from quicksilver.lab.accounts import Received, expected_of
    from quicksilver.lab.participants import Finish

    for name, child in survivors.items():
        child.tell(Finish(expected_of(published.values(), _joined(scenario, name))))
    return {name: child.expect(Received, 2 * READY_S) for name, child in survivors.items()}


def _show(outcome: Outcome) -> None:
    from quicksilver.cli.output import say
    from quicksilver.cli.screen import SafeTable, make_console, styled
    from quicksilver.lab.accounts import expected_of
    from quicksilver.stdx.units import format_rate

    console = make_console()
    table = SafeTable(box=None, padding=(0, 1), pad_edge=False, header_style="reverse")
    table.add_column("node")
    table.add_column("groups")
    for heading in (
        "messages", "missing", "msg/s", "packets\nlost", "repaired\nby others",
        "repaired\nfor others",
    ):  # fmt: skip
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict")
    scenario = outcome.scenario
    for number in range(scenario.subscribers):
        name = f"sub-{number}"
        joined = _joined(scenario, name)
        expected = sum(n for _, _, n in expected_of(outcome.published.values(), joined))
        one = outcome.received.get(name)
        if one is None:
            table.add_row(name, " ".join(joined), "", "", "", "", "", "", "killed", style="dim")
            continue
        stats = one.stats
        table.add_row(
            name,
            " ".join(joined),
            f"{one.messages:,}",
            f"{expected - one.messages:,}",
            f"{outcome.rate_of(one):,.0f}",
            f"{stats.get('missing', 0):,}",
            f"{stats.get('repairs_received', 0):,}",
            f"{stats.get('repairs_sent', 0):,}",
            styled("wrong", "red") if outcome.faults[name] else styled("complete", "green"),
        )
    console.print(table)
    for name, sent in outcome.published.items():
        count = sent.messages * len(sent.groups)
        took = sent.flushed_at - sent.started_at
        resent = sent.stats.get("resent", 0)
        say(
            f"{name}: {count:,} messages, the last acknowledged after {took:.2f} s; "
            f"{resent:,} packets sent again"
        )
    say(
        f"together: {format_rate(outcome.publish_rate(), 'msg')} published, "
        f"{format_rate(outcome.deliver_rate(), 'msg')} delivered, "
        f"{format_rate(outcome.deliver_rate() * scenario.size)}; {outcome.seconds:.1f} s in all"
    )
    for wrong in outcome.faults.values():
        for line in wrong:
            console.print(styled("wrong", "red") + styled(f": {line}"))
    if outcome.is_complete:
        survivors = len(outcome.received)
        verdict = f": all {survivors} surviving subscribers got every message, once and in order."
        console.print(styled("Nothing is missing", "green") + styled(verdict))
