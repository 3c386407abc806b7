"""A class-data archive, with which Spark's Java starts in less time.

Java can keep the classes that a program has loaded, checked and laid out, in a
file that the next start maps into memory. Making it takes a session's start and
some ten seconds more, so nobody is made to wait for it: it is made once, by
``python -m quicksilver.spark.archive``, and used from then on by our sessions.

It is safe to have an old one. Its name says for which Java and which jar files it
was made, and Java itself compares both again and goes on without it if they
differ. It appears under its name only when it is whole and was seen to work, and
the name also says how long it is: a Java that maps half a file dies of it.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from quicksilver.spark.errors import PipelineError
from quicksilver.spark.java import Java, find_java

CHILD_TIMEOUT_S = 300.0

_CHILD = """
import sys
from pyspark.sql import SparkSession
from quicksilver.spark.session import MASTER
spark = (
    SparkSession.builder.master(MASTER)
    .config("spark.driver.extraJavaOptions", sys.argv[1])
    .config("spark.ui.enabled", "false")
    .config("spark.log.level", "ERROR")
    .getOrCreate()
)
spark.range(1000).selectExpr("id % 7 as k", "id").groupBy("k").count().orderBy("k").collect()
spark.range(10).mapInPandas(lambda parts: parts, "id bigint").write.mode("overwrite").parquet(
    sys.argv[2]
)
spark.read.parquet(sys.argv[2]).count()
java = spark.sparkContext._gateway.proc
spark.stop()
# Java writes the archive when it ends, which it does when its input does.
java.stdin.close()
java.wait()
"""


class ArchiveError(PipelineError):
    """No archive could be made."""


def archive_stem(java: Java, environment: Mapping[str, str] | None = None) -> Path:
    """Return how the name of the archive for a Java and the installed Spark begins."""
    import pyspark

    given = os.environ if environment is None else environment
    jars = sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar"))
    facts = [java.home, _full_version(java), *(f"{one} {one.stat().st_size}" for one in jars)]
    mark = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:12]
    cache = given.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "quicksilver" / f"spark-{mark}"


def _full_version(java: Java) -> str:
    """What is in the file that every Java has about itself."""
    for home in (Path(java.home), Path(java.home).resolve()):
        try:
            return (home / "release").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
    return str(java.version)


def archive_options(path: Path) -> str:
    """Return the options with which Java uses an archive, quietly if it cannot."""
    # The checksums of 180 MB take 0.2 s, and bytes that have changed would be executed.
    use = f"-XX:SharedArchiveFile={path} -XX:+VerifySharedSpaces"
    return f"{use} -Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"


def find_archive(java: Java) -> Path | None:
    """Return the archive for a Java, if it was made."""
    stem = archive_stem(java)
    for path in stem.parent.glob(f"{stem.name}-*.jsa"):
        if path.name == f"{stem.name}-{path.stat().st_size}.jsa":
            return path
    return None


def make_archive(java: Java) -> Path:
    """Make the archive for a Java; raises ArchiveError."""
    stem = archive_stem(java)
    stem.parent.mkdir(parents=True, exist_ok=True)
    fresh = stem.with_name(f"{stem.name}.{os.getpid()}")
    try:
        _run(java, f"-XX:ArchiveClassesAtExit={fresh}")
        if not fresh.is_file():
            raise ArchiveError(f"the Java in {java.home} makes no archive: another one may")
        # Must be used, or Java ends: so it is known to fit.
        _run(java, archive_options(fresh).replace("-Xshare:auto", "-Xshare:on"))
        return fresh.replace(f"{stem}-{fresh.stat().st_size}.jsa")
    finally:
        fresh.unlink(missing_ok=True)


def _run(java: Java, options: str) -> None:
    """Run a small job in a Spark with such options."""
    import shutil
    import tempfile

    scratch = tempfile.mkdtemp(prefix="quicksilver-archive-")
    try:
        done = subprocess.run(
            [sys.executable, "-c", _CHILD, options, f"{scratch}/rows"],
            capture_output=True,
            text=True,
            timeout=CHILD_TIMEOUT_S,
            env={**os.environ, "JAVA_HOME": java.home, "PYSPARK_PYTHON": sys.executable},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ArchiveError(f"Spark did not end in {CHILD_TIMEOUT_S:.0f} s") from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise ArchiveError(f"Spark does not start with {options}: {last}")


def main() -> int:
    """Make the archive and say where it is."""
    try:
        path = make_archive(find_java())
    except PipelineError as error:
        sys.stderr.write(f"quicksilver: {error}\n")
        return 1
    sys.stdout.write(f"{path}: {path.stat().st_size >> 20} MB, used by our sessions from now on\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
