"""The ``quicksilver bench`` commands."""

from __future__ import annotations

import resource
import statistics
import time
from typing import Annotated, Any

import typer

from quicksilver.cli.options import Trace

app = typer.Typer(no_args_is_help=True, help="Measure throughput and latency with real processes.")

Json = Annotated[bool, typer.Option("--json", help="Print JSON: one object per line.")]
Receivers = Annotated[int, typer.Option(min=1, help="Number of receiving processes.")]
Size = Annotated[int, typer.Option(min=0, help="Size of a message in bytes.")]
Seconds = Annotated[
    float, typer.Option(min=0.1, metavar="NUMBER", help="How many seconds to measure.")
]
Interface = Annotated[str, typer.Option(metavar="NAME|ADDRESS", help="Network interface to use.")]
PacketBytes = Annotated[
    int,
    typer.Option(
        min=0,
        max=65_507,
        help="Size of the largest datagram in bytes; 0 takes what the interface allows.",
    ),
]
Rounds = Annotated[int, typer.Option(min=1, help="How often to measure; the median is shown.")]

DETAILS = ("sender_stats", "receiver_stats")


def show(result: dict[str, Any], *, as_json: bool, title: str) -> None:
    """Print a result as JSON or as a table of two columns."""
    from quicksilver.cli.output import emit
    from quicksilver.cli.screen import SafeTable, make_console

    if as_json:
        emit("result", result)
        return
    table = SafeTable(title=title, show_header=False)
    for name, value in result.items():
        if name not in DETAILS:
            table.add_row(name, f"{value:,}" if isinstance(value, int | float) else str(value))
    make_console().print(table)


def peak_memory_bytes() -> int:
    """Return the most memory this process has had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def median_of(rounds: int, run: Any, key: str) -> dict[str, Any]:
    """Run several times and return the result with the median value."""
    results = [run() for _ in range(rounds)]
    middle = statistics.median_low([result[key] for result in results])
    found: dict[str, Any] = next(result for result in results if result[key] == middle)
    return found


@app.command()
def throughput(
    receivers: Receivers = 4,
    groups: Annotated[
        int, typer.Option(min=1, help="Number of groups, to which messages are sent in turn.")
    ] = 1,
    size: Size = 1000,
    seconds: Seconds = 3.0,
    loss: Annotated[
        float, typer.Option(min=0, max=0.5, help="Share of packets that one receiver loses.")
    ] = 0.0,
    burst: Annotated[
        float, typer.Option(min=1, help="Mean number of packets lost in a row.")
    ] = 10.0,
    packet_bytes: PacketBytes = 0,
    interface: Interface = "lo",
    rounds: Rounds = 1,
    ceiling: Annotated[
        bool, typer.Option(help="Whether to measure the loop without a protocol, too.")
    ] = True,
    trace: Trace = None,
    as_json: Json = False,
) -> None:
    """Measure messages per second at the slowest receiver, next to a loop without a protocol."""
    from quicksilver.cli.bench.measures import Plan, measure, measure_ours
    from quicksilver.cli.running import name_target

    target = name_target(trace, "bench")
    plan = Plan(
        receivers=receivers,
        groups=groups,
        size=size,
        seconds=seconds,
        loss=loss,
        burst=burst,
        packet_bytes=packet_bytes,
        interface=interface,
        trace=None if target is None else str(target),
    )
    key = "ratio" if ceiling else "messages_per_second"
    run = measure if ceiling else measure_ours
    show(median_of(rounds, lambda: run(plan), key), as_json=as_json, title="throughput")


@app.command()
def latency(
    receivers: Receivers = 1,
    size: Size = 1000,
    seconds: Seconds = 3.0,
    interface: Interface = "lo",
    rate: Annotated[
        list[float] | None,
        typer.Option(
            help="Messages per second; can be repeated. Default: low and half load.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure the one-way latency from ``send`` to the application, in percentiles."""
    from quicksilver.cli.bench.measures import measure_latency

    results = measure_latency(
        receivers=receivers,
        size=size,
        seconds=seconds,
        interface=interface,
        rates=tuple(rate or ()),
    )
    for result in results:
        show(result, as_json=as_json, title=f"latency at {result['rate']:,} messages per second")


@app.command()
def idle(
    nodes: Annotated[int, typer.Option(min=1, help="Number of nodes in one group.")] = 4,
    seconds: Seconds = 5.0,
    interface: Interface = "lo",
    as_json: Json = False,
) -> None:
    """Measure what a silent cluster costs."""
    from quicksilver.cli.bench.measures import measure_idle

    show(
        measure_idle(nodes=nodes, seconds=seconds, interface=interface),
        as_json=as_json,
        title="idle",
    )


@app.command()
def groups(
    count: Annotated[int, typer.Option(min=2, help="Number of groups to compare with one.")] = 8192,
    receivers: Receivers = 1,
    size: Size = 1000,
    seconds: Seconds = 3.0,
    rounds: Rounds = 3,
    interface: Interface = "lo",
    as_json: Json = False,
) -> None:
    """Compare the rate and memory of many groups with one group.

    The application's own work grows with its groups, so that the loop without a protocol is
    slower with many, too: ``ceiling_ratio_to_one`` says by how much.
    """
    from quicksilver.cli.bench.measures import Plan, measure

    def pair() -> dict[str, Any]:
        def run(number: int) -> dict[str, Any]:
            plan = Plan(
                receivers=receivers,
                size=size,
                seconds=seconds,
                interface=interface,
                groups=number,
            )
            return measure(plan)

        one, many = run(1), run(count)
        ceilings = [result["ceiling_messages_per_second"] for result in (one, many)]
        grown = many["sender_rss_bytes"] - one["sender_rss_bytes"]
        return {
            "groups": count,
            "one_group_messages_per_second": one["messages_per_second"],
            "messages_per_second": many["messages_per_second"],
            "ratio": round(many["messages_per_second"] / one["messages_per_second"], 3),
            "ceiling_messages_per_second": ceilings[1],
            "ratio_to_ceiling": many["ratio"],
            "ceiling_ratio_to_one": round(ceilings[1] / ceilings[0], 3),
            "sender_bytes_per_group": round(grown / (count - 1)),
            "lost": one["lost"] + many["lost"],
        }

    show(median_of(rounds, pair, "ratio"), as_json=as_json, title="many groups")


@app.command()
def loss(
    receivers: Receivers = 4,
    rate: Annotated[
        float, typer.Option(min=0, max=0.5, help="Share of packets that one receiver loses.")
    ] = 0.01,
    burst: Annotated[
        float, typer.Option(min=1, help="Mean number of packets lost in a row.")
    ] = 10.0,
    size: Size = 1000,
    seconds: Seconds = 3.0,
    rounds: Rounds = 3,
    interface: Interface = "lo",
    as_json: Json = False,
) -> None:
    """Compare the rate with bursty loss at one receiver to the rate without loss."""
    from quicksilver.cli.bench.measures import Plan, measure_ours

    def pair() -> dict[str, Any]:
        def run(part: float) -> dict[str, Any]:
            return measure_ours(
                Plan(
                    receivers=receivers,
                    size=size,
                    seconds=seconds,
                    interface=interface,
                    loss=part,
                    burst=burst,
                )
            )

        # The harness that loses packets costs time itself: it is there in both runs.
        clean, harmed = run(1e-9), run(rate)
        return {
            "loss": rate,
            "lossless_messages_per_second": clean["messages_per_second"],
            "messages_per_second": harmed["messages_per_second"],
            "ratio": round(harmed["messages_per_second"] / clean["messages_per_second"], 3),
            "repairs": harmed["receiver_stats"][0]["repairs_received"],
            "missing": harmed["receiver_stats"][0]["missing"],
            "lost": clean["lost"] + harmed["lost"],
        }

    show(median_of(rounds, pair, "ratio"), as_json=as_json, title="bursty loss")


@app.command()
def unicast(
    receivers: Receivers = 4,
    fan_out: Annotated[int, typer.Option(min=1, help="Number of copies that one node sends.")] = 3,
    size: Size = 1000,
    seconds: Seconds = 3.0,
    packet_bytes: PacketBytes = 0,
    rounds: Rounds = 3,
    interface: Interface = "lo",
    as_json: Json = False,
) -> None:
    """Compare unicast with multicast: the sender sends all copies, or members forward them."""
    from quicksilver.cli.bench.measures import Plan, compare

    plan = Plan(
        receivers=receivers,
        size=size,
        seconds=seconds,
        packet_bytes=packet_bytes,
        interface=interface,
    )
    ways = {
        "multicast": (),
        "copies": ("--transport", "unicast", "--fan-out", "0"),
        "tree": ("--transport", "unicast", "--fan-out", str(fan_out)),
    }
    result = median_of(rounds, lambda: compare(plan, ways), "ratio_tree")
    show(result, as_json=as_json, title=f"unicast, {receivers} receivers")


@app.command()
def hybrid(
    receivers: Receivers = 4,
    regions: Annotated[
        int, typer.Option(min=2, help="Number of regions that the group spans.")
    ] = 4,
    size: Size = 1000,
    seconds: Seconds = 3.0,
    packet_bytes: PacketBytes = 0,
    rounds: Rounds = 3,
    interface: Interface = "lo",
    as_json: Json = False,
) -> None:
    """Compare a group that has an address of its own with one packet to each of its regions."""
    from quicksilver.cli.bench.measures import Plan, compare

    plan = Plan(
        receivers=receivers,
        regions=regions,
        size=size,
        seconds=seconds,
        packet_bytes=packet_bytes,
        interface=interface,
    )
    ways = {"off": ("--hybrid", "off"), "on": ("--hybrid", "load-0")}
    result = median_of(rounds, lambda: compare(plan, ways), "ratio_on")
    show(result, as_json=as_json, title=f"hybrid, {receivers} receivers in {regions} regions")


@app.command()
def messaging(
    size: Size = 100,
    seconds: Seconds = 3.0,
    rounds: Rounds = 1,
    as_json: Json = False,
) -> None:
    """Compare headers, patterns, queues, retained values and requests with plain messages."""
    from quicksilver.cli.bench.messaging import measure_messaging

    result = median_of(
        rounds, lambda: measure_messaging(size=size, seconds=seconds), "ratio_headers"
    )
    show(result, as_json=as_json, title=f"messaging, {size} bytes")


@app.command()
def scopes(
    nodes: Annotated[
        int, typer.Option(min=2, max=50, help="Number of nodes in each of three networks.")
    ] = 5,
    size: Size = 1000,
    seconds: Seconds = 5.0,
    rounds: Rounds = 3,
    as_json: Json = False,
) -> int:
    """Compare one topic across three networks with one network that has as many nodes.

    One node publishes and all others receive, in turn in one network and in three. Then the
    latency of each part of the way is measured without load. Needs root: networks are namespaces
    of this machine.
    """
    from dataclasses import asdict

    from quicksilver.cli.output import emit, say
    from quicksilver.lab.scopes import throughput as compared

    tell = _nothing if as_json else say
    measured = []
    for _ in range(rounds):
        speeds = {}
        for name, scenario in compared.arms(nodes, seconds, max(64, size)).items():
            speeds[name] = compared.measure(name, scenario, tell)
        measured.append(speeds)
    found = {name: round(value, 3) for name, value in compared.compare(measured).items()}
    for hop in compared.measure_hops(nodes, max(64, size), _nothing):
        parts = (hop.inside_s, hop.entry_s, hop.others_s)
        if as_json:
            emit("hop", asdict(hop))
        else:
            shown = ", ".join("-" if each is None else f"{each * 1e3:.1f} ms" for each in parts)
            say(f"{hop.source} to {hop.target}: own network, entry, others there: {shown}")
    wrong = sum(speed.wrong for speeds in measured for speed in speeds.values())
    show({**found, "wrong": wrong}, as_json=as_json, title="one topic across networks")
    return 1 if wrong else 0


def _nothing(text: str) -> None:
    """Say nothing."""


@app.command()
def controller(
    applications: Annotated[
        int, typer.Option(min=1, help="Number of applications on the machine.")
    ] = 4,
    size: Size = 1000,
    seconds: Seconds = 3.0,
    rate: Annotated[
        float,
        typer.Option(
            min=0, help="Messages per second, to measure latency; 0 sends as fast as it goes."
        ),
    ] = 0.0,
    rounds: Rounds = 3,
    interface: Interface = "lo",
    as_json: Json = False,
) -> None:
    """Compare applications that are nodes themselves with as many behind one controller."""
    from quicksilver.cli.bench.sharing import measure_sharing

    def pair() -> dict[str, Any]:
        return measure_sharing(
            applications=applications,
            size=size,
            seconds=seconds,
            interface=interface,
            rate=rate,
        )

    title = f"controller, {applications} applications"
    show(median_of(rounds, pair, "ratio"), as_json=as_json, title=title)


@app.command()
def gateways(
    receivers: Receivers = 1,
    size: Size = 1000,
    seconds: Seconds = 3.0,
    rounds: Rounds = 3,
    interface: Interface = "lo",
    as_json: Json = False,
) -> None:
    """Compare one network with two that gateways join, with the receivers in the second.

    All processes share this machine: ``ratio`` is what is left of the rate there.
    ``ratio_by_busiest_process`` is what would be left if each had a core of its own and links
    were no limit.
    """
    from quicksilver.cli.bench.gateways import measure_gateways

    def pair() -> dict[str, Any]:
        return measure_gateways(
            receivers=receivers, size=size, seconds=seconds, interface=interface
        )

    result = median_of(rounds, pair, "ratio_by_busiest_process")
    show(result, as_json=as_json, title=f"gateways, {receivers} receivers")


@app.command()
def mtu(
    receivers: Receivers = 1,
    size: Size = 1000,
    seconds: Seconds = 3.0,
    rounds: Rounds = 1,
    as_json: Json = False,
) -> None:
    """Measure packets of MTU size between network namespaces; needs root."""
    from quicksilver.cli.bench.measures import Plan, measure
    from quicksilver.lab.namespaces import Namespaces

    with Namespaces(receivers + 1) as spaces:
        plan = Plan(
            receivers=receivers,
            size=size,
            seconds=seconds,
            packet_bytes=1472,
        )
        result = median_of(rounds, lambda: measure(plan, spaces), "ratio")
    show(result, as_json=as_json, title="1472-byte packets between namespaces")


@app.command()
def plan(
    nodes: Annotated[int, typer.Option(min=1, help="Number of nodes.")] = 2000,
    groups_: Annotated[int, typer.Option("--groups", min=1, help="Number of groups.")] = 10_000,
    fraction: Annotated[
        float, typer.Option(help="Share of all groups that each node joins.")
    ] = 0.1,
    alpha: Annotated[float, typer.Option(help="Zipf exponent of the groups' popularity.")] = 1.5,
    planner: Annotated[
        str, typer.Option(help="How to plan regions: auto, exact, perfect, regular or merged.")
    ] = "auto",
    seed: Annotated[int, typer.Option(help="Seed of the random memberships.")] = 1,
    as_json: Json = False,
) -> None:
    """Measure the time, memory and quality of a plan of regions for random memberships."""
    from quicksilver.membership.planning.measure import measure_plan

    result = measure_plan(
        nodes=nodes,
        groups=groups_,
        fraction=fraction,
        alpha=alpha,
        planner=planner,
        seed=seed,
        clock=time.perf_counter,
        memory_bytes=peak_memory_bytes,
    )
    show(result, as_json=as_json, title=f"plan: {planner}")


@app.command()
def suite(
    seconds: Seconds = 3.0,
    rounds: Rounds = 3,
    as_json: Json = False,
) -> None:
    """Measure throughput with 1, 4 and 8 receivers, idle cost and latency in one run."""
    from quicksilver.cli.bench.measures import Plan, measure, measure_idle, measure_latency
    from quicksilver.cli.output import emit, remark
    from quicksilver.cli.screen import SafeTable, make_console

    rows: list[tuple[str, str, str, str]] = []
    results: dict[str, Any] = {}
    for count in (1, 4, 8):
        remark(f"measuring throughput with {count} receivers")
        result = median_of(
            rounds, lambda c=count: measure(Plan(receivers=c, seconds=seconds)), "ratio"
        )
        results[f"throughput_{count}"] = result
        rows.append(
            (
                f"{count} receivers",
                f"{result['messages_per_second']:,}/s",
                f"{result['ratio']:.2f} of the ceiling",
                "≥ 0.60",
            )
        )
    remark("measuring an idle cluster")
    results["idle"] = measure_idle(nodes=4, seconds=5, interface="lo")
    rows.append(("idle", f"{results['idle']['cpu_percent_per_node']} % of a core", "", "< 1 %"))
    remark("measuring latency")
    results["latency"] = measure_latency(receivers=1, size=1000, seconds=3, interface="lo")
    rows.extend(
        (
            f"latency at {result['rate']:,}/s",
            f"p50 {result['p50_us']} µs",
            f"p99 {result['p99_us']} µs",
            "",
        )
        for result in results["latency"]
    )
    if as_json:
        for result in results.values():
            for one in result if isinstance(result, list) else [result]:
                for name in DETAILS:
                    one.pop(name, None)
        emit("suite", results)
        return
    table = SafeTable("what", "measured", "ratio", "target", title="quicksilver bench suite")
    for row in rows:
        table.add_row(*row)
    make_console().print(table)
