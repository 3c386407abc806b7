"""Who joins which groups, made up: seeded, and by as many tasks as there are.

What a node joins depends on the seed and on its number alone, so the same pairs
come out however the work is divided. The models, from least to most structure:

zipf
    Every node takes a fraction of the groups, without repetition, by Zipf
    popularity (dissertation 4.1.2): draws of different nodes are independent.
zipf-draws
    The same number of draws, with repetition: popular groups are drawn often, so
    that a node ends with far fewer groups.
templates
    Nodes copy one of a few lists of interests, each drawn as in ``zipf``.
correlated
    Nodes of a template keep each interest with a chance and replace the rest.
hierarchy
    Components inside components: any two groups are nested or disjoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import msgspec

from quicksilver.spark.errors import OptionError
from quicksilver.spark.overlap.schemas import PAIRS

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Model: TypeAlias = Literal["zipf", "zipf-draws", "templates", "correlated", "hierarchy"]
MODELS: tuple[Model, ...] = get_args(Model)

_BATCH_ROWS = 64_000
"""Pairs that a task makes at a time."""


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of made-up subscriptions."""

    model: Model = "zipf"
    nodes: int = 2_000
    groups: int = 10_000
    fraction: float = 0.1
    """Of the groups, how many each node draws."""
    alpha: float = 1.5
    """How much more popular the first groups are."""
    templates: int = 200
    keep: float = 0.9
    """``correlated``: the chance that a node has an interest of its template."""
    fanout: int = 4
    """``hierarchy``: parts that each group is divided into."""
    seed: int = 1

    def check(self) -> None:
        """Raise OptionError for what cannot be made."""
        if self.nodes < 1 or self.groups < 1 or self.templates < 1 or self.fanout < 2:
            raise OptionError("nodes, groups and templates start at 1, fanout at 2")
        if not 0 < self.fraction <= 1 or not 0 <= self.keep <= 1:
            raise OptionError("fraction and keep are shares between 0 and 1")
        if self.alpha < 0:
            raise OptionError("alpha cannot be negative")

    @property
    def draws(self) -> int:
        """How many groups a node draws."""
        return max(1, round(self.groups * self.fraction))


def generate_pairs(spark: SparkSession, workload: Workload, *, tasks: int = 0) -> DataFrame:
    """Return the pairs of a workload: ``node`` and ``group``, by name."""
    workload.check()

    def fill(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        nodes = (int(node) for batch in batches for node in batch.column(0).to_numpy())
        return _fill_batches(workload, nodes)

    numbers = spark.range(0, workload.nodes, 1, tasks or spark.sparkContext.defaultParallelism * 2)
    return numbers.mapInArrow(fill, PAIRS)


def groups_of(workload: Workload, node: int) -> list[int]:
    """Return the groups of one node, ascending; from 0, the most popular first."""
    return [int(one) for one in _wanted(workload, node)]


def _fill_batches(workload: Workload, nodes: Iterator[int]) -> Iterator[pa.RecordBatch]:
    """Yield the pairs of these nodes; names are made once a task, not once a pair."""
    import numpy as np
    import pyarrow as pa

    names = pa.array([f"g{group}" for group in range(workload.groups)])
    while True:
        own: list[int] = []
        wanted: list[np.ndarray] = []
        rows = 0
        while rows < _BATCH_ROWS and (node := next(nodes, -1)) >= 0:
            own.append(node)
            wanted.append(_wanted(workload, node))
            rows += len(wanted[-1])
        if not own:
            return
        repeats = np.repeat(np.arange(len(own)), [len(one) for one in wanted])
        columns = [
            pa.array([f"n{node}" for node in own]).take(pa.array(repeats)),
            names.take(pa.array(np.concatenate(wanted))),
        ]
        yield pa.RecordBatch.from_arrays(columns, names=PAIRS.fieldNames())


def _wanted(workload: Workload, node: int) -> np.ndarray:
    import numpy as np

    match workload.model:
        case "zipf":
            return _draw(workload, _rng(workload, 1, node))
        case "zipf-draws":
            rng = _rng(workload, 1, node)
            return np.unique(rng.choice(workload.groups, workload.draws, p=_chances(workload)))
        case "templates":
            return _template(workload, _template_of(workload, node))
        case "correlated":
            return _correlated(workload, node)
        case "hierarchy":
            return np.array(_nested(workload, node))


def _rng(workload: Workload, stream: int, number: int) -> np.random.Generator:
    import numpy as np

    return np.random.Generator(np.random.Philox(key=workload.seed, counter=[0, 0, stream, number]))


@lru_cache(maxsize=4)
def _chances(workload: Workload) -> np.ndarray:
    import numpy as np

    weights = np.arange(1, workload.groups + 1, dtype=float) ** -workload.alpha
    chances: np.ndarray = weights / weights.sum()
    return chances


def _draw(workload: Workload, rng: np.random.Generator) -> np.ndarray:
    """Drawing without repetition is a race: a group arrives sooner the more popular it is."""
    import numpy as np

    arrivals = rng.exponential(size=workload.groups) / _chances(workload)
    count = workload.draws
    if count >= workload.groups:
        return np.arange(workload.groups)
    return np.sort(np.argpartition(arrivals, count)[:count])


def _template_of(workload: Workload, node: int) -> int:
    return int(_rng(workload, 2, node).integers(workload.templates))


@lru_cache(maxsize=1024)
def _template(workload: Workload, template: int) -> np.ndarray:
    return _draw(workload, _rng(workload, 3, template))


def _correlated(workload: Workload, node: int) -> np.ndarray:
    import numpy as np

    rng = _rng(workload, 4, node)
    favourites = _template(workload, _template_of(workload, node))
    kept = favourites[rng.random(len(favourites)) < workload.keep]
    strays = rng.choice(workload.groups, len(favourites) - len(kept), p=_chances(workload))
    return np.union1d(kept, strays)


def _nested(workload: Workload, node: int) -> list[int]:
    """Level by level: the group of this node is one of ``fanout`` parts of the one above."""
    wanted = [0]
    first, width = 1, workload.fanout
    while first + width <= workload.groups and width <= workload.nodes:
        wanted.append(first + node * width // workload.nodes)
        first += width
        width *= workload.fanout
    return wanted
