"""An archive of Spark's classes (JEP 350), with which a session's JVM starts in about half the time: it maps the
classes that an earlier session used instead of reading, checking and linking them again.

`kt pipeline prepare` makes the archive, in the directory of kt's own files. Each session whose JVM this process starts
uses it, unless its Java options or SPARK_SUBMIT_OPTS say something about archives.

Rules: a Java executable and a Spark each have an archive of their own, and an updated one has a new name. The JVM
itself checks that an archive fits, and otherwise ignores it.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence

from kafkatools.pipeline.errors import PipelineError
from kafkatools.sandbox.home import kt_home

_DIRECTORY = "spark-classes"
_SUFFIX = ".jsa"
_CHOICES = ("SharedArchiveFile", "ArchiveClassesAtExit", "-Xshare")
"""Java options after which this module adds none."""
_QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")
"""A JVM would report on stdout that an archive does not fit."""
_QUICK = ("-XX:TieredStopAtLevel=1",)
"""A session that lives for a minute is done sooner without the optimizing compiler; archives are the same."""
_LONGEST_S = 900
_RECORDS = 1000
_TOPIC = "records"


def java_options(environ: Mapping[str, str], java: str, given: str) -> list[str]:
    """Return the Java options with which a JVM uses the archive; none if there is no archive, or if `given`, the other
    Java options of the session, or SPARK_SUBMIT_OPTS choose one."""
    if any(choice in options for choice in _CHOICES for options in (given, environ.get("SPARK_SUBMIT_OPTS", ""))):
        return []
    archive = archive_path(environ, java)
    return [*_QUIET, f"-XX:SharedArchiveFile={archive}"] if os.path.isfile(archive) else []


def archive_path(environ: Mapping[str, str], java: str) -> str:
    """Return the path of the archive for this Java executable and the Spark of this process, whether or not it
    exists."""
    executable, jars = os.path.realpath(java), os.path.join(_spark_home(environ), "jars")
    parts = [executable, str(os.stat(executable).st_mtime_ns), jars, str(_changed_ns(jars))]
    return os.path.join(_directory(environ), hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16] + _SUFFIX)


def make(environ: Mapping[str, str], java: str) -> str:
    """Run a session that reads a topic and a log and writes both, archive its classes, and return the path. It replaces
    an archive from before as a whole. Raises PipelineError if Spark or Java fails, OSError if the directory cannot be
    written."""
    path = archive_path(environ, java)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=os.path.dirname(path)) as scratch:
        made = os.path.join(scratch, "classes")
        record(made, environ, _QUICK)
        os.replace(made, path)
    return path


def record(archive: str, environ: Mapping[str, str], options: Sequence[str]) -> None:
    """Write the archive of a session with further Java `options` to the path `archive`. Raises PipelineError if Spark
    fails, or if Java writes none."""
    from kafkatools.core.producer.producer import Producer
    from kafkatools.core.producer.producer_record import ProducerRecord
    from kafkatools.sandbox.embedded_cluster import EmbeddedCluster

    with tempfile.TemporaryDirectory() as scratch, EmbeddedCluster(1, directory=f"{scratch}/cluster") as cluster:
        with Producer({"bootstrap.servers": cluster.bootstrap}) as producer:
            for number in range(_RECORDS):
                producer.send(ProducerRecord(_TOPIC, b"%d" % number, b"%d" % (number % 10), partition=0))
        (log,) = (path for path, names, _ in os.walk(f"{scratch}/cluster") if path.endswith(f"{_TOPIC}-0"))
        java = " ".join([*options, "-Xlog:disable", f"-XX:ArchiveClassesAtExit={shlex.quote(archive)}"])
        words = ["-m", "kafkatools.pipeline.run.class_session", java, cluster.bootstrap, _TOPIC, log, f"{scratch}/out"]
        # The JVM inherits the pipes, so this waits until it has written the archive.
        ended = subprocess.run(
            [sys.executable, *words], env=dict(environ), capture_output=True, timeout=_LONGEST_S, check=False
        )
    if ended.returncode:
        raise PipelineError(f"Spark's session failed: {_reason(ended)}")
    if not os.path.isfile(archive):
        raise PipelineError("Java wrote no archive of classes; OpenJDK 17 and later do")


def _reason(ended: subprocess.CompletedProcess[bytes]) -> str:
    """Return the error of a JVM that did not start, which takes two lines, else the last line."""
    lines = ended.stderr.decode(errors="replace").strip().splitlines()
    for number, line in enumerate(lines):
        if line.startswith("Error"):
            return ": ".join(lines[number : number + 2])
    return lines[-1] if lines else f"exit status {ended.returncode}"


def remove(environ: Mapping[str, str]) -> list[str]:
    """Remove the archives of every Java and Spark; return their paths. Raises OSError if one cannot be removed."""
    directory = _directory(environ)
    names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
    archives = [os.path.join(directory, name) for name in names if name.endswith(_SUFFIX)]
    for archive in archives:
        os.unlink(archive)
    return archives


def _directory(environ: Mapping[str, str]) -> str:
    return os.path.join(kt_home(environ), _DIRECTORY)


def _spark_home(environ: Mapping[str, str]) -> str:
    if home := environ.get("SPARK_HOME"):
        return os.path.realpath(home)
    import pyspark

    return os.path.dirname(os.path.realpath(str(pyspark.__file__)))


def _changed_ns(directory: str) -> int:
    return os.stat(directory).st_mtime_ns if os.path.isdir(directory) else 0
