"""The ``quicksilver bench`` commands."""

from __future__ import annotations

import json
import resource
import statistics
import time
from typing import Annotated, Any

import typer

from quicksilver.cli.options import Trace

app = typer.Typer(no_args_is_help=True, help="Measure with real processes, side by side.")

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Receivers = Annotated[int, typer.Option(min=1, help="Receiving processes.")]
Size = Annotated[int, typer.Option(min=0, help="Bytes a message.")]
Seconds = Annotated[float, typer.Option(min=0.1, help="How long to send.")]
Interface = Annotated[str, typer.Option(help="Network interface.")]
PacketBytes = Annotated[
    int, typer.Option(min=0, max=65_507, help="Largest datagram; 0: the interface's.")
]
Rounds = Annotated[int, typer.Option(min=1, help="Repeats; the median counts.")]

DETAILS = ("sender_stats", "receiver_stats")


def show(result: dict[str, Any], *, as_json: bool, title: str) -> None:
    """Print a result as JSON or as a table of two columns."""
    from rich.console import Console
    from rich.table import Table

    if as_json:
        print(json.dumps(result))
        return
    table = Table(title=title, show_header=False)
    for name, value in result.items():
        if name not in DETAILS:
            table.add_row(name, f"{value:,}" if isinstance(value, int | float) else str(value))
    Console().print(table)


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
    groups: Annotated[int, typer.Option(min=1, help="Groups, sent to in turn.")] = 1,
    size: Size = 1000,
    seconds: Seconds = 3.0,
    loss: Annotated[float, typer.Option(min=0, max=0.5, help="Lost at one receiver.")] = 0.0,
    burst: Annotated[float, typer.Option(min=1, help="Packets lost in a row, on average.")] = 10.0,
    packet_bytes: PacketBytes = 0,
    interface: Interface = "lo",
    rounds: Rounds = 1,
    ceiling: Annotated[bool, typer.Option(help="Also run the protocol-free loop.")] = True,
    trace: Trace = None,
    as_json: Json = False,
) -> None:
    """Reliable messages a second at the slowest receiver, next to the ceiling."""
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
        list[float] | None, typer.Option(help="Messages a second; default: low and half load.")
    ] = None,
    as_json: Json = False,
) -> None:
    """One-way latency from ``send`` to the application, in percentiles."""
    from quicksilver.cli.bench.measures import measure_latency

    results = measure_latency(
        receivers=receivers,
        size=size,
        seconds=seconds,
        interface=interface,
        rates=tuple(rate or ()),
    )
    for result in results:
        show(result, as_json=as_json, title=f"latency at {result['rate']:,} messages a second")


@app.command()
def idle(
    nodes: Annotated[int, typer.Option(min=1, help="Nodes in one group.")] = 4,
    seconds: Seconds = 5.0,
    interface: Interface = "lo",
    as_json: Json = False,
) -> None:
    """What a silent cluster costs."""
    from quicksilver.cli.bench.measures import measure_idle

    show(
        measure_idle(nodes=nodes, seconds=seconds, interface=interface),
        as_json=as_json,
        title="idle",
    )


@app.command()
def groups(
    count: Annotated[int, typer.Option(min=2, help="Groups to compare with one.")] = 8192,
    receivers: Receivers = 1,
    size: Size = 1000,
    seconds: Seconds = 3.0,
    rounds: Rounds = 3,
    interface: Interface = "lo",
    as_json: Json = False,
) -> None:
    """Rate and memory with many groups: against one group, and against the ceiling.

    The application's own work grows with its groups, so the protocol-free loop is
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
    rate: Annotated[float, typer.Option(min=0, max=0.5, help="Lost at one receiver.")] = 0.01,
    burst: Annotated[float, typer.Option(min=1)] = 10.0,
    size: Size = 1000,
    seconds: Seconds = 3.0,
    rounds: Rounds = 3,
    interface: Interface = "lo",
    as_json: Json = False,
) -> None:
    """Rate with bursty loss at one receiver, against none, in turns."""
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
    fan_out: Annotated[int, typer.Option(min=1, help="Copies that one node sends.")] = 3,
    size: Size = 1000,
    seconds: Seconds = 3.0,
    packet_bytes: PacketBytes = 0,
    rounds: Rounds = 3,
    interface: Interface = "lo",
    as_json: Json = False,
) -> None:
    """Without multicast: all copies by the sender, and a tree of members, against multicast."""
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
    regions: Annotated[int, typer.Option(min=2, help="Regions that the group spans.")] = 4,
    size: Size = 1000,
    seconds: Seconds = 3.0,
    packet_bytes: PacketBytes = 0,
    rounds: Rounds = 3,
    interface: Interface = "lo",
    as_json: Json = False,
) -> None:
    """A group over several regions: with an address of its own, against a packet to each."""
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
def mtu(
    receivers: Receivers = 1,
    size: Size = 1000,
    seconds: Seconds = 3.0,
    rounds: Rounds = 1,
    as_json: Json = False,
) -> None:
    """MTU-sized packets between network namespaces, next to the ceiling (needs root)."""
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
    nodes: Annotated[int, typer.Option(min=1)] = 2000,
    groups_: Annotated[int, typer.Option("--groups", min=1)] = 10_000,
    fraction: Annotated[float, typer.Option(help="Of the groups, joined by each node.")] = 0.1,
    alpha: Annotated[float, typer.Option(help="Zipf exponent of popularity.")] = 1.5,
    planner: Annotated[str, typer.Option(help="auto, exact, perfect, regular or merged.")] = "auto",
    seed: Annotated[int, typer.Option()] = 1,
    as_json: Json = False,
) -> None:
    """Time, memory and quality of a region plan for random subscriptions."""
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
    """All targets in one run: throughput at 1, 4 and 8 receivers, groups, loss, idle, latency."""
    from rich.console import Console
    from rich.table import Table

    from quicksilver.cli.bench.measures import Plan, measure, measure_idle, measure_latency

    console = Console(stderr=True)
    rows: list[tuple[str, str, str, str]] = []
    results: dict[str, Any] = {}
    for count in (1, 4, 8):
        console.print(f"throughput with {count} receivers …")
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
    console.print("idle …")
    results["idle"] = measure_idle(nodes=4, seconds=5, interface="lo")
    rows.append(("idle", f"{results['idle']['cpu_percent_per_node']} % of a core", "", "< 1 %"))
    console.print("latency …")
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
        print(json.dumps(results))
        return
    table = Table("what", "measured", "ratio", "target", title="quicksilver bench suite")
    for row in rows:
        table.add_row(*row)
    Console().print(table)
