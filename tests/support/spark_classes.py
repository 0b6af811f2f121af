"""Class data of Spark, shared between the JVMs of the tests.

A session that lives for some short queries loads and checks 16,000 classes, which is half of its processor time. The
archive (JEP 350) has those of one such session, is made once for a PySpark and a Java, and lies beside the jars of
Apache Kafka. Without it everything works as well, only slower.

Rules: a JVM uses the archive only if its class path begins with that of the session that made it, as those of drivers,
executors, masters and workers do without `extraClassPath`; others read their classes from the jars.
"""

from __future__ import annotations

import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
from importlib.util import find_spec

from . import class_archive
from .apache_kafka import CACHE, Unavailable, java_executable
from .recorded_logs import unpack_log
from .waiting import PATIENCE_S

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a JVM that lives for short queries: compiled for speed, it would take twice the processor time."""
_TESTS = pathlib.Path(__file__).parents[1]


def share_classes() -> None:
    """Make the archive unless it is there, and let every JVM that PySpark starts from here use it."""
    os.environ["SPARK_SUBMIT_OPTS"] = quick_options()


def quick_options() -> str:
    """The options of a JVM of Spark that lives for short queries, with the archive if there can be one."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        return QUICK
    home = pathlib.Path(spec.origin).parent
    try:
        java = java_executable()
    except Unavailable:
        return QUICK
    archive = class_archive.archive_path(CACHE, java, f"{home / 'jars'}/*", "spark-classes")
    class_archive.make_once(archive, lambda made: _make(made, java))
    flags = [*class_archive.flags(archive), "-Xlog:disable"]  # no word about an archive that does not fit
    return " ".join([QUICK, *map(shlex.quote, flags)])


def _make(made: pathlib.Path, java: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        log = unpack_log("codec-lz4-java", directory)
        environ = {
            **os.environ,
            "JAVA_HOME": str(pathlib.Path(java).resolve().parents[1]),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join((str(_TESTS), str(_TESTS.parent))),
            "SPARK_SUBMIT_OPTS": f"{QUICK} -Xlog:disable -XX:ArchiveClassesAtExit={shlex.quote(str(made))}",
        }
        command = [sys.executable, "-m", "support.spark_classes_session", str(log), str(directory / "out")]
        # The JVM inherits the pipes, so this waits for its end as well, when it writes the archive.
        subprocess.run(command, env=environ, capture_output=True, timeout=PATIENCE_S, check=False, cwd=directory)


if __name__ == "__main__":  # before the tests, whose time is limited
    quick_options()
