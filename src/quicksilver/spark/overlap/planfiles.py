"""Plans in files: as the GMS loads them, and as tables."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import functions as F

from quicksilver.membership.planning.files import (
    PlanFile,
    PlanFileHierarchy,
    PlanFileRegion,
    save_plan,
)
from quicksilver.spark.overlap.strategies import Planned

PLAN = "plan.json"


def to_plan_file(planned: Planned) -> PlanFile:
    """Return a plan as the GMS loads it.

    The file is one document, so this is where all of a plan comes to one machine:
    the places, which are fewer than the pairs, and never the pairs.
    """
    members = planned.places.groupBy("hierarchy", "region").agg(
        F.sort_array(F.collect_list("node")).alias("nodes")
    )
    regions: dict[int, list[tuple[str, ...]]] = {}
    for row in members.toLocalIterator():
        regions.setdefault(row["hierarchy"], []).append(tuple(row["nodes"]))
    named = planned.levels.groupBy("hierarchy").agg(
        F.sort_array(F.collect_list("group")).alias("groups")
    )
    groups = {row["hierarchy"]: tuple(row["groups"]) for row in named.toLocalIterator()}
    return PlanFile(
        version=1,
        hierarchies=tuple(
            PlanFileHierarchy(
                groups.get(level, ()),
                tuple(PlanFileRegion(nodes) for nodes in sorted(regions.get(level, []))),
            )
            for level in sorted(groups.keys() | regions.keys())
        ),
    )


def write_plan(planned: Planned, folder: Path) -> Path:
    """Write a plan file and the tables; return the file."""
    folder.mkdir(parents=True, exist_ok=True)
    planned.places.write.mode("overwrite").parquet(str(folder / "places.parquet"))
    planned.levels.write.mode("overwrite").parquet(str(folder / "levels.parquet"))
    path = folder / PLAN
    save_plan(path, to_plan_file(planned))
    return path
