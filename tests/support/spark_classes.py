"""The archive of Spark's classes, shared between the JVMs of the tests.

A session that lives for some short queries loads and checks 16,000 classes, which is half of its processor time. The
archive is that of `kt pipeline prepare`, is made once for a PySpark and a Java, and lies beside the jars of Apache
Kafka. Without it everything works as well, only slower.

Rules: a JVM uses the archive only if its class path begins with that of the session that made it, as those of drivers,
executors, masters and workers do without `extraClassPath`; others read their classes from the jars.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shlex
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
HOME = {"KT_HOME": str(CACHE)}
"""Where kt looks for the archive."""


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
    archive = pathlib.Path(spark_archive.archive_path(HOME, java))
    class_archive.make_once(archive, lambda made: _make(made, java))
    flags = [*class_archive.flags(archive), "-Xlog:disable"]  # no word about an archive that does not fit
    return " ".join([QUICK, *map(shlex.quote, flags)])


def _make(made: pathlib.Path, java: str) -> None:
    environ = {
        **os.environ,
        "JAVA_HOME": str(pathlib.Path(java).resolve().parents[1]),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_SUBMIT_OPTS": QUICK,
    }
    with contextlib.suppress(PipelineError):  # a Java that cannot
        spark_archive.record(str(made), environ, ())


if __name__ == "__main__":  # before the tests, whose time is limited
    quick_options()
