"""``quicksilver gms``: the membership service that nodes connect to."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from quicksilver.cli import options
from quicksilver.cli.problems import CommandError, MisuseError

if TYPE_CHECKING:
    from quicksilver.membership.gms import GmsOptions


class PlannerName(enum.StrEnum):
    """Ways to divide nodes into regions."""

    AUTO = "auto"
    EXACT = "exact"
    PERFECT = "perfect"
    REGULAR = "regular"
    MERGED = "merged"


class Transport(enum.StrEnum):
    """How packets reach the members of a region."""

    MULTICAST = "multicast"
    UNICAST = "unicast"


app = typer.Typer(invoke_without_command=True)


@app.callback()
def gms(
    context: typer.Context,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; 0.0.0.0 takes all of them.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="TCP port; 0 takes a free one.")
    ] = 7401,
    state: Annotated[
        str,
        typer.Option(
            "--state",
            metavar="FILE",
            help="SQLite file that survives this process. With :memory: a restarted GMS begins a "
            "new cluster, and every node rejoins as a new one.",
        ),
    ] = ":memory:",
    planner: Annotated[
        PlannerName, typer.Option("--planner", help="How nodes are divided into regions.")
    ] = PlannerName.AUTO,
    plan: Annotated[
        Path | None,
        typer.Option("--plan", metavar="FILE", help="Start from a plan computed elsewhere."),
    ] = None,
    regions_per_node: Annotated[
        int,
        typer.Option(
            "--regions-per-node", min=1, help="Most regions (multicast memberships) of one node."
        ),
    ] = 20,
    region_nodes_min: Annotated[
        int,
        typer.Option("--region-nodes-min", min=1, help="Regular planner: no smaller region."),
    ] = 5,
    pool: Annotated[
        str, typer.Option("--pool", metavar="NETWORK", help="Multicast addresses to hand out.")
    ] = "239.192.0.0/16",
    multicast_port: Annotated[
        int, typer.Option("--multicast-port", min=1, max=65535, help="UDP port of all regions.")
    ] = 7400,
    transport: Annotated[
        Transport, typer.Option("--transport", help="unicast: where there is no IP multicast.")
    ] = Transport.MULTICAST,
    fan_out: Annotated[
        int,
        typer.Option(
            "--fan-out",
            min=0,
            help="Without multicast: copies of a packet that one node sends, members hand on the "
            "rest. 0: senders send to every member.",
        ),
    ] = 3,
    partition_size: Annotated[
        int, typer.Option("--partition-size", min=1, help="Nodes of one token ring.")
    ] = 5,
    replication: Annotated[
        int, typer.Option("--replication", min=1, help="Nodes that cache each packet for repair.")
    ] = 5,
    heartbeat: Annotated[
        float, typer.Option("--heartbeat", min=0.01, help="Seconds between signs of life.")
    ] = 0.5,
    failure_timeout: Annotated[
        float,
        typer.Option("--failure-timeout", min=0.05, help="Silent seconds until a node is out."),
    ] = 3.0,
    silence_max: Annotated[
        float,
        typer.Option(
            "--silence-max",
            min=0.05,
            help="While most nodes are silent the GMS suspects its own link; whoever is silent "
            "for so many seconds is out all the same.",
        ),
    ] = 30.0,
    any_address: Annotated[
        bool,
        typer.Option(
            "--any-address",
            help="Let nodes announce addresses that they do not connect from: where they reach "
            "the GMS and each other through different interfaces.",
        ),
    ] = False,
    batch_interval: Annotated[
        float,
        typer.Option("--batch-interval", min=0.0, help="Seconds that changes wait for others."),
    ] = 0.02,
    adapt_interval: Annotated[
        float,
        typer.Option(
            "--adapt-interval",
            min=0.0,
            help="Seconds between looks whether other regions would suit the traffic; 0: never.",
        ),
    ] = 10.0,
    hybrid: Annotated[
        list[str] | None,
        typer.Option(
            "--hybrid",
            metavar="auto|off|GROUP",
            help="Groups with a multicast address of their own, which saves packets to groups "
            "over several regions. auto: where it pays, by the traffic; off: none; or the names "
            "of groups, repeatable.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> int:
    """Run the membership service (GMS) that nodes connect to.

    It keeps track of who is in which group and gives out views; messages never
    pass through it. Runs until interrupted.
    """
    if context.invoked_subcommand is not None:
        return 0
    from quicksilver.cli.output import remark
    from quicksilver.membership.config import ServiceConfig
    from quicksilver.membership.gms import GmsOptions, run_gms
    from quicksilver.membership.planning.model import PlanLimits
    from quicksilver.net.streams import ListenError
    from quicksilver.wire.gms import ClusterSettings

    if failure_timeout <= heartbeat:
        raise MisuseError(
            f"a failure timeout of {failure_timeout:g} s would fail nodes that send a heartbeat "
            f"every {heartbeat:g} s; give --failure-timeout several heartbeats"
        )
    settings = GmsOptions(
        host=host,
        port=port,
        state=None if state == ":memory:" else Path(state),
        planner=planner.value,
        limits=PlanLimits(regions_per_node_max=regions_per_node, region_nodes_min=region_nodes_min),
        addresses=pool,
        settings=ClusterSettings(
            multicast_port=multicast_port,
            transport=transport.value,
            fan_out=fan_out,
            partition_size=partition_size,
            replication=replication,
            heartbeat_interval_s=heartbeat,
            failure_timeout_s=failure_timeout,
        ),
        config=ServiceConfig(
            batch_interval_s=batch_interval,
            adapt_interval_s=adapt_interval,
            silence_s_max=silence_max,
            any_address=any_address,
            hybrid=_hybrid(hybrid or ["auto"]),
            memberships_per_node_max=regions_per_node,
        ),
        plan=plan,
        on_note=remark,
    )
    try:
        run_gms(settings, lambda address: _announce(address, settings, is_json=as_json))
    except ListenError as error:
        raise CommandError(str(error)) from None
    return 0


@app.command()
def export(
    state: Annotated[Path, typer.Option("--state", metavar="FILE", help="The GMS's SQLite file.")],
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="Parquet file of node and group names.")
    ],
    as_json: options.Json = False,
) -> int:
    """Write who is in which group, for planning elsewhere; the GMS may be running."""
    from quicksilver.analysis.memberships import export_memberships
    from quicksilver.cli.output import emit, plural, say
    from quicksilver.membership.store import StoreError

    try:
        pairs = export_memberships(state, out)
    except StoreError as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(f"{error.filename}: {error.strerror}") from None
    except ImportError:
        raise CommandError("export needs pyarrow: pip install 'quicksilver[spark]'") from None
    if as_json:
        emit({"out": str(out), "pairs": pairs})
    else:
        say(f"{out}: {plural(pairs, 'membership')}")
    return 0


def _hybrid(given: list[str]) -> Literal["auto", "off"] | frozenset[str]:
    """Return which groups are to be hybrid."""
    if given == ["auto"]:
        return "auto"
    if given == ["off"]:
        return "off"
    if "auto" in given or "off" in given:
        raise MisuseError("--hybrid auto and --hybrid off go with nothing else")
    return frozenset(options.check_groups(given))


def _announce(address: tuple[str, int], settings: GmsOptions, *, is_json: bool) -> None:
    from quicksilver.cli.output import emit, say

    where = f"{address[0]}:{address[1]}"
    state = ":memory:" if settings.state is None else str(settings.state)
    if is_json:
        emit({"event": "ready", "address": where, "state": state, "planner": settings.planner})
        return
    kept = (
        "state in memory: a restart begins a new cluster (--state FILE keeps it)"
        if settings.state is None
        else f"state in {state}"
    )
    say(f"GMS ready at {where}, planner {settings.planner}, {kept}")
