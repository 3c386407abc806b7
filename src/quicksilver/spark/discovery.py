"""How a session that Spark makes finds the format ``quicksilver``, done in advance.

Before the first format that it does not know, Spark starts a Python, which
imports every package named ``pyspark_*`` of its path and reports their data
sources. It is the Python of ``PYSPARK_DRIVER_PYTHON``, else of
``PYSPARK_PYTHON``, else ``python3`` of the PATH. If any of the imports fails,
Spark logs a warning and knows none of the formats, for as long as the session
lives. Where a virtual environment is active, ``python3`` is its own and all is
well; elsewhere ``quicksilver.spark.session()`` registers the format itself.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping

SEARCH_TIMEOUT_S = 60.0

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
