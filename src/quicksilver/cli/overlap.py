"""``quicksilver overlap``: who is in which group, and regions planned for it on Spark."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from quicksilver.cli import options
from quicksilver.cli.output import emit, say

app = typer.Typer(no_args_is_help=True, help="Plan regions for memberships of any size, on Spark.")


class ModelName(StrEnum):
    """How subscriptions are made up."""

    zipf = "zipf"
    zipf_draws = "zipf-draws"
    templates = "templates"
    correlated = "correlated"
    hierarchy = "hierarchy"


class StrategyName(StrEnum):
    """How regions are planned."""

    exact = "exact"
    perfect = "perfect"
    regular = "regular"
    merged = "merged"


@app.command()
def generate(
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder for the Parquet files.")
    ],
    model: Annotated[
        ModelName, typer.Option(help="How nodes choose their groups.")
    ] = ModelName.zipf,
    nodes: Annotated[int, typer.Option(min=1, help="Number of nodes.")] = 2000,
    groups: Annotated[int, typer.Option(min=1, help="Number of groups.")] = 10_000,
    fraction: Annotated[float, typer.Option(help="Share of all groups that a node joins.")] = 0.1,
    alpha: Annotated[float, typer.Option(help="Zipf exponent of the groups' popularity.")] = 1.5,
    templates: Annotated[
        int,
        typer.Option(
            min=1,
            help="With templates and correlated: number of lists of groups that nodes choose from.",
        ),
    ] = 200,
    keep: Annotated[
        float, typer.Option(help="With correlated: share of its list that a node keeps.")
    ] = 0.9,
    seed: Annotated[int, typer.Option(help="Seed; the same seed gives the same memberships.")] = 1,
    master: options.Master = None,
    conf: options.Conf = None,
    as_json: options.Json = False,
) -> int:
    """Generate random memberships (which node joins which groups) on Spark."""
    from quicksilver.spark.overlap.generate import Workload, generate_pairs
    from quicksilver.spark.sessions import parse_conf, session

    workload = Workload(
        model=model.value,
        nodes=nodes,
        groups=groups,
        fraction=fraction,
        alpha=alpha,
        templates=templates,
        keep=keep,
        seed=seed,
    )
    workload.check()
    with session(
        "quicksilver overlap generate", master=master, conf=parse_conf(conf or [])
    ) as spark:
        generate_pairs(spark, workload).write.mode("overwrite").parquet(str(out))
        pairs = spark.read.parquet(str(out)).count()
    if as_json:
        emit("pairs", {"out": str(out), "pairs": pairs, "nodes": nodes, "groups": groups})
    else:
        say(f"{out}: {pairs:,} pairs of {nodes:,} nodes and {groups:,} groups")
    return 0


@app.command()
def plan(
    pairs: Annotated[
        str, typer.Option("--pairs", metavar="PATH", help="Table with the columns node and group.")
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="DIR", help="Folder for the plan, its tables and its figure."
        ),
    ],
    strategy: Annotated[
        StrategyName,
        typer.Option(
            help="How to plan regions; exact makes one for every set of groups that occurs."
        ),
    ] = StrategyName.merged,
    traffic: Annotated[
        str | None,
        typer.Option("--traffic", metavar="PATH", help="Table with the columns group and rate."),
    ] = None,
    regions_per_node_max: Annotated[
        int, typer.Option(min=1, help="Largest number of regions of one node.")
    ] = 20,
    region_nodes_min: Annotated[
        int,
        typer.Option(min=1, help="Smallest number of nodes in a region of a regular hierarchy."),
    ] = 5,
    figure: Annotated[
        bool, typer.Option("--figure/--no-figure", help="Whether to draw plan.svg.")
    ] = True,
    master: options.Master = None,
    conf: options.Conf = None,
    as_json: options.Json = False,
) -> int:
    """Plan regions; `quicksilver gms --plan` loads the file plan.json that this writes."""
    import msgspec

    from quicksilver.spark.overlap.files import read_pairs, read_traffic, write_plan
    from quicksilver.spark.overlap.measures import draw_plan, measure
    from quicksilver.spark.overlap.schemas import checkpoints
    from quicksilver.spark.overlap.strategies import PlanOptions, make_plan
    from quicksilver.spark.sessions import parse_conf, session

    chosen = PlanOptions(
        strategy=strategy.value,
        regions_per_node_max=regions_per_node_max,
        region_nodes_min=region_nodes_min,
    )
    with session("quicksilver overlap plan", master=master, conf=parse_conf(conf or [])) as spark:
        table = read_pairs(spark, pairs)
        rates = None if traffic is None else read_traffic(spark, traffic)
        with checkpoints(spark, out):
            made = make_plan(table, chosen, rates)
            file = write_plan(made, out)
            measures = measure(table, made, rates)
            if figure:
                draw_plan(table, made, measures, out / "plan.svg")
    found = {"strategy": strategy.value, "plan": str(file), **msgspec.to_builtins(measures)}
    if as_json:
        emit("plan", found)
        return 0
    say(f"{file}: {measures.regions:,} regions in {measures.hierarchies} hierarchies")
    say(
        f"  a node is in {measures.regions_per_node_mean:.1f} regions (at most "
        f"{measures.regions_per_node_max}), a group in {measures.regions_per_group_mean:.1f} "
        f"(at most {measures.regions_per_group_max}); "
        f"{measures.unwanted_traffic_share:.1%} of what "
        "arrives is not wanted"
    )
    return 0
