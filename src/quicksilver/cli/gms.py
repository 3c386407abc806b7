"""``quicksilver gms``: the membership service that nodes connect to."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from quicksilver.cli import options
from quicksilver.cli.problems import CommandError, MisuseError
from quicksilver.stdx.install import install_line

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
        str,
        typer.Option(
            "--host",
            metavar="ADDRESS",
            help="Address to listen on. 0.0.0.0 listens on all addresses of this machine, which "
            "nodes on other machines need.",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option("--port", min=0, max=65535, help="TCP port to listen on; 0 takes a free one."),
    ] = 7401,
    state: Annotated[
        str,
        typer.Option(
            "--state",
            metavar="FILE",
            help="SQLite file that keeps the membership. With :memory: nothing is kept: a "
            "restarted GMS begins a new cluster, and every node joins again as a new node.",
        ),
    ] = ":memory:",
    planner: Annotated[
        PlannerName, typer.Option("--planner", help="How to divide nodes into regions.")
    ] = PlannerName.AUTO,
    plan: Annotated[
        Path | None,
        typer.Option(
            "--plan",
            metavar="FILE",
            help="Start with regions from a plan that `quicksilver overlap plan` wrote.",
        ),
    ] = None,
    regions_per_node: Annotated[
        int,
        typer.Option(
            "--regions-per-node",
            min=1,
            help="Largest number of regions (multicast memberships) of one node.",
        ),
    ] = 20,
    region_nodes_min: Annotated[
        int,
        typer.Option(
            "--region-nodes-min",
            min=1,
            help="Smallest number of nodes in a region of the regular planner.",
        ),
    ] = 5,
    pool: Annotated[
        str,
        typer.Option(
            "--pool",
            metavar="NETWORK",
            help="Network from which regions get their multicast addresses.",
        ),
    ] = "239.192.0.0/16",
    multicast_port: Annotated[
        int,
        typer.Option("--multicast-port", min=1, max=65535, help="UDP port that all regions use."),
    ] = 7400,
    transport: Annotated[
        Transport,
        typer.Option(
            "--transport",
            help="How packets reach nodes: by IP multicast, or by unicast where there is none.",
        ),
    ] = Transport.MULTICAST,
    fan_out: Annotated[
        int,
        typer.Option(
            "--fan-out",
            min=0,
            help="With unicast: how many copies of a packet one node sends; members forward it to "
            "the rest. With 0 the sender sends to every member itself.",
        ),
    ] = 3,
    partition_size: Annotated[
        int, typer.Option("--partition-size", min=1, help="Number of nodes in one token ring.")
    ] = 5,
    replication: Annotated[
        int,
        typer.Option(
            "--replication", min=1, help="Number of nodes that cache each packet for repairs."
        ),
    ] = 5,
    heartbeat: Annotated[
        float,
        typer.Option(
            "--heartbeat",
            min=0.01,
            metavar="SECONDS",
            help="How often each node reports to the GMS.",
        ),
    ] = 0.5,
    failure_timeout: Annotated[
        float,
        typer.Option(
            "--failure-timeout",
            min=0.05,
            metavar="SECONDS",
            help="Exclude a node that has been silent for this long.",
        ),
    ] = 3.0,
    silence_max: Annotated[
        float,
        typer.Option(
            "--silence-max",
            min=0.05,
            metavar="SECONDS",
            help="While most nodes are silent, the GMS suspects its own link and excludes nobody. "
            "A node that has been silent for this long is excluded even then.",
        ),
    ] = 30.0,
    any_address: Annotated[
        bool,
        typer.Option(
            "--any-address",
            help="Accept nodes that announce another address than the one they connect from. "
            "Needed where nodes reach the GMS and each other through different interfaces.",
        ),
    ] = False,
    batch_interval: Annotated[
        float,
        typer.Option(
            "--batch-interval",
            min=0.0,
            metavar="SECONDS",
            help="How long to collect joins and leaves before a new view is made of them.",
        ),
    ] = 0.02,
    adapt_interval: Annotated[
        float,
        typer.Option(
            "--adapt-interval",
            min=0.0,
            metavar="SECONDS",
            help="How often to check whether other regions would suit the traffic better; 0 never "
            "checks.",
        ),
    ] = 10.0,
    hybrid: Annotated[
        list[str] | None,
        typer.Option(
            "--hybrid",
            metavar="auto|off|GROUP",
            help="Which groups get a multicast address of their own, which saves packets to groups "
            "that span several regions. auto decides by the traffic, off gives none to any "
            "group. Or name a group; can be repeated.",
            show_default="auto",
        ),
    ] = None,
    discovery: Annotated[
        bool | None,
        typer.Option(
            "--discovery/--no-discovery",
            help="Answer nodes on the network that look for a GMS. Default: yes, unless --port "
            "is 0.",
            show_default=False,
        ),
    ] = None,
    discovery_port: Annotated[
        int,
        typer.Option(
            "--discovery-port",
            envvar="QUICKSILVER_DISCOVERY_PORT",
            min=0,
            max=65535,
            help="UDP port on which to answer them; 0 answers nobody.",
        ),
    ] = 7402,
    verbose: options.Verbose = 0,
    log_json: options.LogJson = False,
    as_json: options.Json = False,
) -> int:
    """Run the membership service (GMS) that nodes connect to.

    It knows which nodes are in which group, and tells them; messages never pass through it.
    Runs until Ctrl-C or SIGTERM.
    """
    if context.invoked_subcommand is not None:
        return 0
    from quicksilver.cli.logs import start_logging
    from quicksilver.cli.output import remark
    from quicksilver.lab.ending import interruption
    from quicksilver.membership.config import ServiceConfig
    from quicksilver.membership.gms import GmsOptions, run_gms
    from quicksilver.membership.planning.model import PlanLimits
    from quicksilver.net.streams import ListenError
    from quicksilver.wire.gms import ClusterSettings

    start_logging(verbose, as_json=log_json)
    if failure_timeout <= heartbeat:
        raise MisuseError(
            f"a failure timeout of {failure_timeout:g} s would fail nodes that send a heartbeat "
            f"every {heartbeat:g} s; give --failure-timeout several heartbeats"
        )
    # A GMS on whatever port is free is for those who were told where it is.
    is_found = port != 0 if discovery is None else discovery
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
        discovery_port=discovery_port if discovery_port and is_found else None,
        on_note=remark,
    )
    try:
        number = run_gms(settings, lambda address: _announce(address, settings, is_json=as_json))
    except ListenError as error:
        raise CommandError(str(error)) from None
    raise interruption(number)


@app.command()
def export(
    state: Annotated[Path, typer.Option("--state", metavar="FILE", help="SQLite file of the GMS.")],
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="FILE", help="Parquet file to write, with the columns node and group."
        ),
    ],
    as_json: options.Json = False,
) -> int:
    """Write which node is in which group to a file, for planning; the GMS may be running."""
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
        raise CommandError(f"export needs pyarrow: {install_line('record')}") from None
    if as_json:
        emit("exported", {"out": str(out), "pairs": pairs})
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
        raise MisuseError("--hybrid auto and --hybrid off cannot be combined with other values")
    return frozenset(options.check_groups(given))


def _announce(address: tuple[str, int], settings: GmsOptions, *, is_json: bool) -> None:
    from quicksilver.cli.output import emit, say

    where = f"{address[0]}:{address[1]}"
    state = ":memory:" if settings.state is None else str(settings.state)
    if is_json:
        emit("ready", {"address": where, "state": state, "planner": settings.planner})
        return
    kept = (
        "state in memory: a restart begins a new cluster (--state FILE keeps it)"
        if settings.state is None
        else f"state in {state}"
    )
    say(f"GMS ready at {where}, planner {settings.planner}, {kept}")
