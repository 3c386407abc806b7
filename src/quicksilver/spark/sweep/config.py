"""What to sweep, from a TOML file.

name = "seeds"
kind = "seeds"            # trials under mixed faults, as `quicksilver sim` runs them
seeds = { first = 1, count = 500 }

name = "size"
kind = "experiment"       # points of an experiment, simulated
experiment = "scale"
seeds = { first = 1, count = 3 }
settings = { seconds = 2.0 }
traces = "failed"         # whose trace records are kept: all (default), failed, none
[axes]
nodes = [2, 10, 50]
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from hashlib import blake2b
from itertools import product
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from quicksilver.analysis.errors import BadInputError

TASKS_MAX = 1_000_000
Value = int | float | str | bool


class Seeds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which seeds."""

    first: Annotated[int, msgspec.Meta(ge=0)] = 1
    count: Annotated[int, msgspec.Meta(ge=1, le=TASKS_MAX)] = 1


class Sweep(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One sweep."""

    name: Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9_-]{1,80}$")]
    kind: Literal["seeds", "experiment"]
    seeds: Seeds = Seeds()
    experiment: str = ""
    axes: dict[str, list[Value]] = {}
    settings: dict[str, Value] = {}
    traces: Literal["all", "failed", "none"] = "all"
    """Of which simulations trace records are kept."""
    trace_records_max: Annotated[int, msgspec.Meta(ge=1)] = 50_000
    """Of one simulation: what a sweep writes is bounded by this and their number."""

    def tasks(self) -> Iterator[SweepTask]:
        """Yield every combination of seed and parameters."""
        for values in product(*self.axes.values()):
            parameters = self.settings | dict(zip(self.axes, values, strict=True))
            for seed in range(self.seeds.first, self.seeds.first + self.seeds.count):
                yield SweepTask(self.kind, self.experiment, seed, parameters)


class SweepTask(msgspec.Struct, frozen=True):
    """One simulation."""

    kind: str
    experiment: str
    seed: int
    parameters: dict[str, Value]
    """Settings and one value of each axis: all that the file says about it."""

    @property
    def key(self) -> str:
        """The same for the same simulation, whoever runs it and when."""
        parts = [self.kind, self.experiment, self.seed, sorted(self.parameters.items())]
        return blake2b(msgspec.json.encode(parts), digest_size=12).hexdigest()


def load_sweep(path: Path) -> Sweep:
    """Read a sweep; raises BadInputError that says what is wrong."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInputError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInputError(f"{path}: not TOML: {error}") from None
    try:
        sweep = msgspec.convert(data, Sweep)
    except msgspec.ValidationError as error:
        raise BadInputError(f"{path}: {error}") from None
    if sweep.kind == "experiment" and not sweep.experiment:
        raise BadInputError(f'{path}: say which experiment: experiment = "scale"')
    if sweep.kind == "seeds" and (sweep.axes or sweep.settings or sweep.experiment):
        raise BadInputError(f"{path}: a sweep of seeds draws its parameters from them")
    count = sweep.seeds.count
    for name, values in sweep.axes.items():
        if not values:
            raise BadInputError(f"{path}: the axis {name} has no values")
        count *= len(values)
    if count > TASKS_MAX:
        raise BadInputError(f"{path}: {count:,} simulations are more than {TASKS_MAX:,}")
    return sweep
