"""The archive of Spark's classes, shared between the JVMs of the tests.

A session that lives for some short queries loads and checks 16,000 classes, which is half of its processor time. The
archive is recorded as by `kt pipeline prepare`, once for a Java and the files of a PySpark, and lies beside the jars of
Apache Kafka. Without it everything works as well, only slower.

Rules: a JVM uses the archive only if its class path begins with that of the session that made it, as those of drivers,
executors, masters and workers do without `extraClassPath`; others read their classes from the jars. Two paths of one
file are the same, as long as that of the recording exists: so it is a link beside the archive, and all environments
with links to the same files, as uv makes them, have one archive.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import shlex
import shutil
import sys
from importlib.util import find_spec

from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run import class_archive as spark_archive

from . import class_archive
from .apache_kafka import CACHE, QUICK_START, Unavailable, java_executable

QUICK = " ".join(QUICK_START)
"""Options of a JVM that lives for short queries: compiled for speed, it would take twice the processor time. The
JVM would update counters for jstat 20 times a second."""
DIRECT_START = "-Djdk.lang.Process.launchMechanism=VFORK"
"""Hadoop runs programs to read links and rights of files. Otherwise the JVM starts jspawnhelper before each of them."""
SHARED = {
    "spark.driver.extraJavaOptions": f"{QUICK} -XX:ReservedCodeCacheSize=240m -Xmn300m {DIRECT_START}",
    "spark.sql.artifact.isolation.enabled": "false",
}
"""Settings of a session that many tests share. `QUICK` leaves 48 MB for compiled code, which the JVM sweeps again and
again, as it does with few objects. Isolated artifacts give each command's session classes of its own."""
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Settings of a session whose queries read some hundred rows: compiling their code takes longer than they do. The
process of the fixture `official` and the sessions of commands compile it, as Spark does by default."""
COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
"""Spark's own settings."""


def share_classes() -> None:
    """Make the archive unless it is there, and let every JVM that PySpark starts from here use it."""
    os.environ["SPARK_SUBMIT_OPTS"] = quick_options()


def quick_options() -> str:
    """The options of a JVM of Spark that lives for short queries, with the archive if there can be one."""
    if find_spec("pyspark") is None:
        return QUICK
    try:
        java = java_executable()
    except Unavailable:
        return QUICK
    flags = [*class_archive.flags(shared_archive(java)), "-Xlog:disable"]  # no word about an archive that does not fit
    return " ".join([QUICK, *map(shlex.quote, flags)])


def shared_archive(java: str) -> pathlib.Path:
    """The archive for this Java and the files of the installed PySpark, made once."""
    (package,) = find_spec("pyspark").submodule_search_locations
    jars = sorted(
        (jar.name, jar.stat().st_dev, jar.stat().st_ino) for jar in pathlib.Path(package, "jars").glob("*.jar")
    )
    executable = os.path.realpath(java)
    key = hashlib.sha256(repr([executable, os.stat(executable).st_mtime_ns, jars]).encode()).hexdigest()[:16]
    archive = CACHE / "spark-classes" / f"{key}.jsa"
    class_archive.make_once(archive, lambda made: _make(made, java, package))
    return archive


def _make(made: pathlib.Path, java: str, package: str) -> None:
    linked = made.with_suffix("")
    shutil.rmtree(linked, ignore_errors=True)
    try:
        shutil.copytree(package, linked, copy_function=os.link)
    except OSError:  # another file system: then the archive is for this environment alone
        linked = pathlib.Path(package)
    environ = {
        **os.environ,
        "JAVA_HOME": str(pathlib.Path(java).resolve().parents[1]),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(linked),
        "SPARK_SUBMIT_OPTS": QUICK,
    }
    with contextlib.suppress(PipelineError):  # a Java that cannot
        spark_archive.record(str(made), environ, ())


if __name__ == "__main__":  # before the tests, whose time is limited
    quick_options()
