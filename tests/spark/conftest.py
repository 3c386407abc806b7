"""One Spark session for all tests that need one: starting it costs seconds, once."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TUNED = {
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.driver.memory": "1g",
    # Compiling little makes short jobs short; throughput is measured elsewhere.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.sql.streaming.checkpoint.fileManager.isTempCheckpointDelete": "true",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session of two cores with small defaults."""
    from quicksilver.spark.sessions import make_session

    # What PySpark warns of, and the sockets that its gateway keeps, are not ours to mend.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = make_session("tests", master="local[2]", conf=TUNED)
    yield made
    made.stop()


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
