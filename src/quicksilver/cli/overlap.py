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
    out: Annotated[Path, typer.Option("--out", help="Where the pairs go, as Parquet.")],
    model: Annotated[ModelName, typer.Option(help="How nodes choose groups.")] = ModelName.zipf,
    nodes: Annotated[int, typer.Option(min=1)] = 2000,
    groups: Annotated[int, typer.Option(min=1)] = 10_000,
    fraction: Annotated[float, typer.Option(help="Of the groups, how many a node draws.")] = 0.1,
    alpha: Annotated[float, typer.Option(help="Exponent of the popularity.")] = 1.5,
    templates: Annotated[int, typer.Option(min=1, help="Lists of interests.")] = 200,
    keep: Annotated[float, typer.Option(help="correlated: share of interests kept.")] = 0.9,
    seed: Annotated[int, typer.Option(help="The same seed gives the same pairs.")] = 1,
    master: options.Master = None,
    conf: options.Conf = None,
    as_json: options.Json = False,
) -> int:
    """Make up who joins which groups, distributed and repeatable."""
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
        emit({"out": str(out), "pairs": pairs, "nodes": nodes, "groups": groups})
    else:
        say(f"{out}: {pairs:,} pairs of {nodes:,} nodes and {groups:,} groups")
    return 0


@app.command()
def plan(
    pairs: Annotated[str, typer.Option("--pairs", help="Table with the columns node and group.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the plan, its tables and figure.")],
    strategy: Annotated[
        StrategyName, typer.Option(help="exact: as many regions as sets of groups.")
    ] = StrategyName.merged,
    traffic: Annotated[
        str | None, typer.Option("--traffic", help="Table with the columns group and rate.")
    ] = None,
    regions_per_node_max: Annotated[int, typer.Option(min=1)] = 20,
    region_nodes_min: Annotated[
        int, typer.Option(min=1, help="Smallest part of regular hierarchies; price of a packet.")
    ] = 5,
    figure: Annotated[bool, typer.Option("--figure/--no-figure", help="Draw plan.svg.")] = True,
    master: options.Master = None,
    conf: options.Conf = None,
    as_json: options.Json = False,
) -> int:
    """Plan regions; the file plan.json is what `quicksilver gms --plan` loads."""
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
        emit(found)
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
