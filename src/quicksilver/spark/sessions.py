"""Spark sessions that need no set-up: no activated environment, no Java on the PATH.

A session gets a Java (``java``), the Python that quicksilver is installed for, the
format ``quicksilver`` and defaults that suit a laptop. Whatever the user sets wins.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quicksilver.spark.errors import NoSparkError, OptionError
from quicksilver.spark.java import find_java
from quicksilver.stdx.install import install_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


MASTER = "local[*]"

DEFAULTS: Mapping[str, str] = {
    # One machine: eight partitions keep both cores busy, 200 would only cost.
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.streaming.metricsEnabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.log.level": "ERROR",
}


def parse_conf(pairs: list[str]) -> dict[str, str]:
    """Return settings given as ``name=value``; raises OptionError."""
    settings: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.startswith("spark."):
            raise OptionError(f"--conf {pair}: write it as spark.name=value")
        settings[name] = value
    return settings


def make_session(
    app: str, *, master: str | None = None, conf: Mapping[str, str] | None = None
) -> SparkSession:
    """Return a session, which the caller stops; raises NoSparkError, NoJavaError.

    ``conf`` wins over the defaults, and so does what ``spark-submit`` or
    ``SPARK_CONF_DIR`` set: a default is only for a setting that nobody made.
    """
    try:
        from pyspark import SparkConf
        from pyspark.sql import SparkSession
    except ImportError:
        raise NoSparkError(f"Spark is not installed: {install_line('spark')}") from None
    os.environ.setdefault("JAVA_HOME", find_java().home)
    given = dict(conf or {})
    settings = SparkConf()
    for name, value in {**DEFAULTS, **given}.items():
        if name in given or not settings.contains(name):
            settings.set(name, value)
    if master is not None:
        settings.setMaster(master)
    elif not settings.contains("spark.master"):
        settings.setMaster(MASTER)
    is_local = str(settings.get("spark.master", MASTER)).startswith("local")
    if not settings.contains("spark.pyspark.python") and (is_local or not _is_ours("python3")):
        # Spark would run whatever python3 is on the PATH, which need not be the one with
        # quicksilver in it. Where it is, a cluster's workers may have theirs elsewhere.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder: Any = SparkSession.builder
    made: SparkSession = builder.appName(app).config(conf=settings).getOrCreate()
    # Spark finds the connector by itself, but where the search fails it says nothing and never
    # searches again; seen on a busy machine. What is registered needs no search.
    from quicksilver.spark.connector.datasource import GroupSource

    made.dataSource.register(GroupSource)
    return made


def _is_ours(name: str) -> bool:
    """Whether a command of the PATH is of the same environment as this Python."""
    found = shutil.which(name)
    return found is not None and Path(found).parent == Path(sys.executable).parent


@contextmanager
def session(
    app: str = "quicksilver", *, master: str | None = None, conf: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Have a session for the time of a job; raises NoSparkError, NoJavaError.

    ``conf`` are settings of Spark, ``master`` is ``local[*]`` unless somebody set another.
    """
    made = make_session(app, master=master, conf=conf)
    try:
        yield made
    finally:
        made.stop()


SEARCH_TIMEOUT_S = 60.0

# How a session that Spark makes, without ``session``, finds the format ``quicksilver``.
# Before the first format that it does not know, Spark starts a Python, which
# imports every package named ``pyspark_*`` of its path and reports their data
# sources. It is the Python of ``PYSPARK_DRIVER_PYTHON``, else of
# ``PYSPARK_PYTHON``, else ``python3`` of the PATH. If any of the imports fails,
# Spark logs a warning and knows none of the formats, for as long as the session
# lives. Where a virtual environment is active, ``python3`` is its own and all is
# well; elsewhere ``session`` registers the format itself. ``search`` does the same in advance.

_SEARCH = """
from importlib import import_module
from pkgutil import iter_modules
names = [one.name for one in iter_modules() if one.name.startswith("pyspark_")]
for name in names:
    try:
        import_module(name)
    except Exception as error:
        print(f"{name} cannot be imported: {type(error).__name__}: {error}")
        break
else:
    print("found" if "pyspark_quicksilver" in names else "it does not have quicksilver")
"""


def find_python(environment: Mapping[str, str]) -> str:
    """Return the Python that Spark would search with in this environment."""
    for name in ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON"):
        if environment.get(name):
            return environment[name]
    return shutil.which("python3", path=environment.get("PATH")) or "python3"


def search(python: str) -> str | None:
    """Search as Spark does; return what is wrong, None if the format is found."""
    try:
        done = subprocess.run(
            [python, "-c", _SEARCH],
            capture_output=True,
            text=True,
            timeout=SEARCH_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not run: {error}"
    said = done.stdout.strip().splitlines()
    if not said:
        return "does not run: " + (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
    return None if said[-1] == "found" else said[-1]
