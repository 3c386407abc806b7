"""``quicksilver top``: a live table of nodes and regions."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from quicksilver.cli import options
from quicksilver.stdx.text import printable

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from quicksilver.cli.gms_snapshots import RateMeter
    from quicksilver.node.errors import GmsUnreachableError
    from quicksilver.wire.gms import NodeStatus, Snapshot

NAME_COLUMNS_MIN = 8
"""Columns for the name, at least; it is cut to make room for the rest."""

DROPPED_FIRST = (
    "gave/s", "got/s", "regs", "groups", "token", "MB/s", "pending", "lost/s", "recv/s", "sent/s",
)  # fmt: skip
"""What a narrow terminal does not show, in this order."""

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
        float,
        typer.Option(
            "--interval", min=0.1, metavar="SECONDS", help="How often to look at the cluster."
        ),
    ] = 1.0,
    regions: Annotated[
        int,
        typer.Option("--regions", min=0, help="Show at most this many regions and hybrid groups."),
    ] = 12,
    once: Annotated[
        bool, typer.Option("--once", help="Print one table, for one --interval, and end.")
    ] = False,
    as_json: options.Json = False,
) -> int:
    """Show nodes, regions, rates, token round-trips, losses and slow nodes, live.

    Everything comes from the GMS, to which nodes report with their heartbeats. If a manager
    answers in place of a GMS: members, topics, rates and lags of its scope. Ctrl-C ends.
    """
    from quicksilver.cli.gms_snapshots import Inspector, RateMeter, watch
    from quicksilver.node.errors import GmsUnreachableError

    meter = RateMeter()
    with Inspector(gms) as inspector:

        def take() -> Shown:
            snapshot = watch(inspector, meter)
            return Shown(
                lambda: as_dict(snapshot, meter),
                lambda columns: render(snapshot, meter, regions, columns),
            )

        try:
            take()
        except GmsUnreachableError as error:
            take = find_scope(gms, error)
            take()
        if once or as_json:
            while True:
                time.sleep(interval)
                show(take(), as_json=as_json)
                if once:
                    return 0

        from quicksilver.cli.screen import make_live

        with make_live() as live:
            while True:
                live.update(take().render(live.console.width), refresh=True)
                time.sleep(interval)


class Shown(NamedTuple):
    """What there is to see at one moment."""

    as_dict: Callable[[], dict[str, Any]]
    render: Callable[[int], RenderableType]
    """For a terminal of so many columns."""


def show(shown: Shown, *, as_json: bool) -> None:
    if as_json:
        from quicksilver.cli.output import emit

        emit("snapshot", shown.as_dict())
    else:
        from quicksilver.cli.screen import make_console

        console = make_console()
        console.print(shown.render(console.width))


def find_scope(address: str, error: GmsUnreachableError) -> Callable[[], Shown]:
    """Return what looks at a scope if its manager is what answers; else raises the error."""
    from quicksilver.cli import scope_top
    from quicksilver.cli.scope_view import InspectError

    meter = scope_top.ScopeMeter(address)
    try:
        meter.look()
    except InspectError:
        raise error from None

    def take() -> Shown:
        top = meter.look()
        return Shown(lambda: scope_top.as_dict(top, meter), lambda _: scope_top.render(top, meter))

    return take


def as_dict(snapshot: Snapshot, meter: RateMeter) -> dict[str, Any]:
    """Return what the table shows as plain data."""
    from quicksilver.cli.gms_snapshots import find_slow

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


def render(
    snapshot: Snapshot, meter: RateMeter, regions_max: int, columns_max: int
) -> RenderableType:
    """Return the tables, for a terminal of so many columns."""
    from quicksilver.cli.screen import stack, styled

    plan = snapshot.plan
    head = styled(
        f"cluster {snapshot.cluster:x}  batch {snapshot.batch}  "
        f"planner {printable(snapshot.planner)}  "
        f"nodes {len(snapshot.nodes)}  groups {snapshot.groups}  regions {len(snapshot.regions)}",
        "bold",
    )
    if plan:
        head.append(
            f"\nregions per node {plan.get('regions_per_node_mean', 0):.1f}  "
            f"per group {plan.get('regions_per_group_mean', 0):.1f}  "
            f"unwanted traffic {plan.get('unwanted_fraction', 0):.1%}",
            style="not bold",
        )
    if snapshot.held_s:
        head.append(
            f"\nmost nodes are silent: for {snapshot.held_s:.0f} s the GMS has suspected its own "
            "link and excluded nobody",
            style="bold yellow",
        )
    parts: list[RenderableType] = [head, _node_table(snapshot, meter, columns_max)]
    if regions_max and snapshot.regions:
        parts.append(_region_table(snapshot, regions_max))
    if snapshot.hybrid:
        parts.append(_hybrid_table(snapshot, max(1, regions_max)))
    slow = _slow_text(snapshot)
    if slow is not None:
        parts.append(slow)
    return stack(*parts)


def _node_table(snapshot: Snapshot, meter: RateMeter, columns_max: int) -> RenderableType:
    """Return the table of nodes; a narrow terminal gets fewer columns, and always the state."""
    from quicksilver.cli.gms_snapshots import find_slow
    from quicksilver.cli.screen import SafeTable

    slow = find_slow(snapshot)
    states = [
        _state(node, slow.get(node.id), meter.rate(node.id, "kernel_drops"))
        for node in snapshot.nodes
    ]
    cells = _measures(snapshot, meter)
    ids = [str(node.id) for node in snapshot.nodes]
    fixed = [("id", ids), ("state", [state.plain for state in states])]
    dropped = iter(DROPPED_FIRST)
    # A space follows each column but the last: the name's makes up for that.
    while (taken := sum(_width(*one) + 1 for one in [*fixed, *cells.items()])) and cells:
        if taken + NAME_COLUMNS_MIN <= columns_max:
            break
        del cells[next(dropped)]
    table = SafeTable(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="reverse")
    table.add_column("id", justify="right", no_wrap=True)
    room = max(NAME_COLUMNS_MIN, columns_max - taken)
    table.add_column("node", overflow="ellipsis", no_wrap=True, max_width=room)
    for heading in cells:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("state", no_wrap=True)
    for row, node in enumerate(snapshot.nodes):
        shown = [column[row] for column in cells.values()]
        table.add_row(ids[row], node.name, *shown, states[row])
    return table


def _measures(snapshot: Snapshot, meter: RateMeter) -> dict[str, list[str]]:
    """Return the columns between a node's name and its state.

    "got" and "gave" are repairs per second: received from others, sent to others.
    """
    from quicksilver.stdx.units import format_bytes

    def rates(counter: str) -> list[str]:
        return [_short(meter.rate(node.id, counter)) for node in nodes]

    nodes = snapshot.nodes
    tokens = [_number(node.stats, "token_ms") for node in nodes]
    return {
        "groups": [str(node.groups) for node in nodes],
        "regs": [printable(str(node.stats.get("regions", "")), 12) for node in nodes],
        "sent/s": rates("sent_messages"),
        "recv/s": rates("delivered_messages"),
        "MB/s": [f"{meter.rate(node.id, 'delivered_bytes') / 1e6:.1f}" for node in nodes],
        "token": [f"{token:.1f}ms" if token else "" for token in tokens],
        "lost/s": rates("missing"),
        "got/s": rates("repairs_received"),
        "gave/s": rates("repairs_sent"),
        "pending": [format_bytes(_number(node.stats, "pending_bytes")) for node in nodes],
    }


def _width(heading: str, cells: list[str]) -> int:
    return max(map(len, [heading, *cells]))


def _number(stats: dict[str, int | float | str], name: str) -> float:
    """Return a level that a node reported; nodes may report anything."""
    value = stats.get(name, 0)
    return 0.0 if isinstance(value, str) else float(value)


def _short(rate: float) -> str:
    """Return a rate without its unit, such as ``26.6k``."""
    from quicksilver.stdx.units import format_rate

    return format_rate(rate, "").removesuffix("/s").replace(" ", "")


def _state(node: NodeStatus, waiting: list[int] | None, drops: float) -> Text:
    from quicksilver.cli.screen import styled

    if not node.connected:
        return styled("disconnected", "red")
    if waiting:
        who = str(waiting[0]) if len(waiting) == 1 else f"{len(waiting)} nodes"
        return styled(f"slow, {who} wait", "yellow")
    if node.silence_s > SILENCE_S:
        return styled(f"silent for {node.silence_s:.1f} s", "yellow")
    if drops:
        return styled(f"kernel drops {drops:,.0f}/s", "yellow")
    return styled("ok", "green")


def _region_table(snapshot: Snapshot, regions_max: int) -> RenderableType:
    from quicksilver.cli.screen import SafeTable

    table = SafeTable(box=None, pad_edge=False, header_style="reverse")
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
            region.address,
            str(region.members),
            str(region.groups),
        )
    if len(largest) > regions_max:
        table.add_row("…", "", f"and {len(largest) - regions_max} more")
    return table


def _hybrid_table(snapshot: Snapshot, groups_max: int) -> RenderableType:
    from quicksilver.cli.screen import SafeTable

    table = SafeTable(box=None, pad_edge=False, header_style="reverse")
    table.add_column("hybrid group", overflow="ellipsis", no_wrap=True)
    table.add_column("address")
    table.add_column("members", justify="right")
    table.add_column("regions", justify="right")
    table.add_column("senders")
    widest = sorted(snapshot.hybrid, key=lambda one: (-one.regions, one.group))
    for one in widest[:groups_max]:
        table.add_row(
            one.group,
            one.address,
            str(one.members),
            str(one.regions),
            "use it" if one.is_used else "do not use it now",
        )
    if len(widest) > groups_max:
        table.add_row("…", f"and {len(widest) - groups_max} more")
    return table


def _slow_text(snapshot: Snapshot) -> RenderableType | None:
    from quicksilver.cli.gms_snapshots import find_slow

    names = {node.id: printable(node.name) for node in snapshot.nodes}
    slow = find_slow(snapshot)
    if not slow:
        return None
    lines = [
        f"{names.get(node, 'a node that is gone')} ({node}) holds up "
        + ", ".join(f"{names[sender]} ({sender})" for sender in senders)
        for node, senders in sorted(slow.items())
    ]
    from quicksilver.cli.screen import styled

    return styled("\n".join(lines), "yellow")
