"""What every Python that has quicksilver runs at its start, for Spark's sake.

A session that a user makes with ``SparkSession.builder`` never imports
quicksilver, and yet ``pip install 'quicksilver[spark]'`` is to be all the set-up.
So ``quicksilver_spark.pth`` imports this module, which waits for PySpark: when it
is about to start its Java, the environment gets what is missing in it, a
``JAVA_HOME`` and the Python to search for data sources. What is set stays as it
is, and ``QUICKSILVER_SPARK_START=off`` turns all of this off.

Nothing is imported for it that Python has not imported at its start anyway, and
a Python that Spark itself has started does not wait for anything.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

GATEWAY = "pyspark.java_gateway"


class _Watch:
    """Sees PySpark import the module that starts Java, once."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name != GATEWAY:
            return None
        sys.meta_path.remove(self)
        from importlib.util import find_spec

        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)  # type: ignore[assignment]  # a loader, by its methods
        return spec


class _Loader:
    """Loads a module as another loader does, and wraps it.

    The other is left as it is: that of a zip file loads all its modules.
    """

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        wrap(module)


def wrap(module: Any) -> None:
    """Have ``launch_gateway`` complete the environment first."""
    launch = module.launch_gateway

    def launch_gateway(*arguments: Any, **named: Any) -> Any:
        complete(os.environ)
        return launch(*arguments, **named)

    module.launch_gateway = launch_gateway


def complete(environment: Any) -> None:
    """Set what Spark needs and nobody has set."""
    if environment.get("QUICKSILVER_SPARK_START") == "off":
        return
    if "PYSPARK_GATEWAY_PORT" in environment:
        return  # spark-submit runs us: its Java is there already
    name_python(environment)
    if "JAVA_HOME" not in environment:
        from quicksilver.spark.errors import NoJavaError
        from quicksilver.spark.java import find_java

        try:
            found = find_java(environment)
        except NoJavaError as error:
            sys.stderr.write(f"quicksilver: {error}\n")
            return
        environment["JAVA_HOME"] = found.home


def name_python(environment: Any) -> None:
    """Have Spark search for data sources with this Python if it would take another.

    It takes ``python3`` of the PATH, which is this one where a virtual
    environment is active; then nothing is set, because on a cluster the same
    words may mean another path. ``PYSPARK_PYTHON`` would also decide what runs
    users' functions; the other variable concerns data sources only.
    """
    if "PYSPARK_PYTHON" in environment or "PYSPARK_DRIVER_PYTHON" in environment:
        return
    import shutil
    from pathlib import Path

    found = shutil.which("python3", path=environment.get("PATH"))
    if sys.executable and (found is None or Path(found).parent != Path(sys.executable).parent):
        environment["PYSPARK_DRIVER_PYTHON"] = sys.executable


if GATEWAY not in sys.modules and "SPARK_ENV_LOADED" not in os.environ:
    sys.meta_path.insert(0, _Watch())
