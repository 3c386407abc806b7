"""``quicksilver top``: a live table of nodes and regions."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quicksilver.cli import options
from quicksilver.stdx.text import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from quicksilver.cli.inspection import RateMeter
    from quicksilver.wire.gms import NodeStatus, Snapshot

SILENCE_S = 1.5
"""A node is pointed out when its last heartbeat is older than this."""

RATES = {
    "sent_messages": "sent_per_second",
    "delivered_messages": "delivered_per_second",
    "delivered_bytes": "delivered_bytes_per_second",
    "missing": "lost_per_second",
    "repairs_received": "repairs_received_per_second",
    "repairs_sent": "repairs_sent_per_second",
    "kernel_drops": "kernel_drops_per_second",
}
"""Counters that are shown as rates, and what they are called then."""


def top(
    gms: options.Gms = options.GMS_DEFAULT,
    interval: Annotated[
        float, typer.Option("--interval", min=0.1, help="Seconds between two looks.")
    ] = 1.0,
    regions: Annotated[
        int,
        typer.Option("--regions", min=0, help="Show at most so many regions and hybrid groups."),
    ] = 12,
    once: Annotated[bool, typer.Option("--once", help="Look twice, print once and end.")] = False,
    as_json: options.Json = False,
) -> int:
    """Show nodes, regions, rates, token round-trips, losses and slow nodes, live.

    Everything comes from the GMS; nodes report to it with their heartbeats.
    Ctrl-C ends.
    """
    from quicksilver.cli.inspection import Inspector, RateMeter, watch
    from quicksilver.cli.output import emit

    meter = RateMeter()
    with Inspector(gms) as inspector:
        snapshot = watch(inspector, meter)
        if once:
            time.sleep(interval)
            snapshot = watch(inspector, meter)
            if as_json:
                emit(as_dict(snapshot, meter))
            else:
                from quicksilver.cli.output import make_console

                make_console().print(render(snapshot, meter, regions))
            return 0
        if as_json:
            while True:
                time.sleep(interval)
                emit(as_dict(watch(inspector, meter), meter))

        from rich.live import Live

        with Live(render(snapshot, meter, regions), auto_refresh=False, screen=True) as live:
            while True:
                time.sleep(interval)
                snapshot = watch(inspector, meter)
                live.update(render(snapshot, meter, regions), refresh=True)


def as_dict(snapshot: Snapshot, meter: RateMeter) -> dict[str, Any]:
    """Return what the table shows as plain data."""
    from quicksilver.cli.inspection import find_slow

    slow = find_slow(snapshot)
    return {
        "cluster": snapshot.cluster,
        "batch": snapshot.batch,
        "planner": snapshot.planner,
        "groups": snapshot.groups,
        "plan": snapshot.plan,
        "held_s": round(snapshot.held_s, 3),
        "gms": snapshot.counters,
        "nodes": [
            {
                "id": node.id,
                "name": node.name,
                "address": f"{node.ip}:{node.port}",
                "connected": node.connected,
                "groups": node.groups,
                "silence_s": round(node.silence_s, 3),
                **{name: round(meter.rate(node.id, counter), 1) for counter, name in RATES.items()},
                "holds_up": slow.get(node.id, []),
                "stats": node.stats,
            }
            for node in snapshot.nodes
        ],
        "regions": [
            {
                "id": region.id,
                "view": region.view,
                "address": region.address,
                "members": region.members,
                "groups": region.groups,
            }
            for region in snapshot.regions
        ],
        "hybrid": [
            {
                "group": one.group,
                "address": one.address,
                "members": one.members,
                "regions": one.regions,
                "used": one.is_used,
            }
            for one in snapshot.hybrid
        ],
    }


def render(snapshot: Snapshot, meter: RateMeter, regions_max: int) -> RenderableType:
    """Return the tables as something that rich can print."""
    from rich.console import Group
    from rich.text import Text

    plan = snapshot.plan
    head = Text(
        f"cluster {snapshot.cluster:x}  batch {snapshot.batch}  "
        f"planner {printable(snapshot.planner)}  "
        f"nodes {len(snapshot.nodes)}  groups {snapshot.groups}  regions {len(snapshot.regions)}",
        style="bold",
    )
    if plan:
        head.append(
            f"\nregions a node {plan.get('regions_per_node_mean', 0):.1f}  "
            f"a group {plan.get('regions_per_group_mean', 0):.1f}  "
            f"unwanted traffic {plan.get('unwanted_fraction', 0):.1%}",
            style="not bold",
        )
    if snapshot.held_s:
        head.append(
            f"\nmost nodes are silent: for {snapshot.held_s:.0f} s the GMS has suspected its own "
            "link and excluded nobody",
            style="bold yellow",
        )
    parts: list[RenderableType] = [head, _node_table(snapshot, meter)]
    if regions_max and snapshot.regions:
        parts.append(_region_table(snapshot, regions_max))
    if snapshot.hybrid:
        parts.append(_hybrid_table(snapshot, max(1, regions_max)))
    slow = _slow_text(snapshot)
    if slow is not None:
        parts.append(slow)
    return Group(*parts)


def _node_table(snapshot: Snapshot, meter: RateMeter) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    from quicksilver.cli.inspection import find_slow
    from quicksilver.stdx.units import format_bytes

    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="reverse")
    table.add_column("id", justify="right", no_wrap=True)
    table.add_column("node", overflow="ellipsis", no_wrap=True)
    # "got" and "gave" are repairs a second: received from others, sent to others.
    for heading in (
        "groups", "regs", "sent/s", "recv/s", "MB/s", "token", "lost/s", "got/s", "gave/s",
        "pending",
    ):  # fmt: skip
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("state")
    slow = find_slow(snapshot)
    for node in snapshot.nodes:
        stats = node.stats
        table.add_row(
            str(node.id),
            # As Text: a name that looks like markup is shown as it is.
            Text(printable(node.name)),
            str(node.groups),
            Text(printable(str(stats.get("regions", "")), 12)),
            _short(meter.rate(node.id, "sent_messages")),
            _short(meter.rate(node.id, "delivered_messages")),
            f"{meter.rate(node.id, 'delivered_bytes') / 1e6:.1f}",
            f"{_number(stats, 'token_ms'):.1f}ms" if _number(stats, "token_ms") else "",
            _short(meter.rate(node.id, "missing")),
            _short(meter.rate(node.id, "repairs_received")),
            _short(meter.rate(node.id, "repairs_sent")),
            format_bytes(_number(stats, "pending_bytes")),
            _state(node, slow.get(node.id), meter.rate(node.id, "kernel_drops")),
        )
    return table


def _number(stats: dict[str, int | float | str], name: str) -> float:
    """Return a level that a node reported; nodes may report anything."""
    value = stats.get(name, 0)
    return 0.0 if isinstance(value, str) else float(value)


def _short(rate: float) -> str:
    """Return a rate without its unit, such as ``26.6k``."""
    from quicksilver.stdx.units import format_rate

    return format_rate(rate, "").removesuffix("/s").replace(" ", "")


def _state(node: NodeStatus, waiting: list[int] | None, drops: float) -> str:
    if not node.connected:
        return "[red]disconnected[/]"
    if waiting:
        return f"[yellow]slow: {', '.join(str(sender) for sender in waiting)} wait[/]"
    if node.silence_s > SILENCE_S:
        return f"[yellow]silent for {node.silence_s:.1f} s[/]"
    if drops:
        return f"[yellow]kernel drops {drops:,.0f}/s[/]"
    return "[green]ok[/]"


def _region_table(snapshot: Snapshot, regions_max: int) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="reverse")
    table.add_column("region", justify="right")
    table.add_column("view", justify="right")
    table.add_column("address")
    table.add_column("members", justify="right")
    table.add_column("groups", justify="right")
    largest = sorted(snapshot.regions, key=lambda one: (-one.members, one.id))
    for region in largest[:regions_max]:
        table.add_row(
            str(region.id),
            str(region.view),
            Text(printable(region.address)),
            str(region.members),
            str(region.groups),
        )
    if len(largest) > regions_max:
        table.add_row("…", "", f"and {len(largest) - regions_max} more")
    return table


def _hybrid_table(snapshot: Snapshot, groups_max: int) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="reverse")
    table.add_column("hybrid group", overflow="ellipsis", no_wrap=True)
    table.add_column("address")
    table.add_column("members", justify="right")
    table.add_column("regions", justify="right")
    table.add_column("senders")
    widest = sorted(snapshot.hybrid, key=lambda one: (-one.regions, one.group))
    for one in widest[:groups_max]:
        table.add_row(
            Text(printable(one.group)),
            Text(printable(one.address)),
            str(one.members),
            str(one.regions),
            "use it" if one.is_used else "do not use it now",
        )
    if len(widest) > groups_max:
        table.add_row("…", f"and {len(widest) - groups_max} more")
    return table


def _slow_text(snapshot: Snapshot) -> RenderableType | None:
    from quicksilver.cli.inspection import find_slow

    names = {node.id: printable(node.name) for node in snapshot.nodes}
    slow = find_slow(snapshot)
    if not slow:
        return None
    lines = [
        f"{names.get(node, 'a node that is gone')} ({node}) holds up "
        + ", ".join(f"{names[sender]} ({sender})" for sender in senders)
        for node, senders in sorted(slow.items())
    ]
    from rich.text import Text

    return Text("\n".join(lines), style="yellow")
