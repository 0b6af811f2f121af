"""An archive of Spark's classes (JEP 350), with which a session's JVM starts in about half the time: it maps the
classes that an earlier session used instead of reading, checking and linking them again.

`kt pipeline prepare` makes the archive, in the directory of kt's own files. Each session whose JVM this process starts
uses it, unless its Java options or SPARK_SUBMIT_OPTS say something about archives.

Rules: a Java executable and a Spark each have an archive of their own, and an updated one has a new name. The JVM
itself checks that an archive fits, and otherwise ignores it. It does not check that the archive is whole: reading a
truncated one kills it with SIGBUS. So an archive ends with a trailer of size and checksum, which Java does not read,
and is used only if they are right. One `kt pipeline prepare` at a time changes the directory, under a lock on it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from kafkatools.pipeline.errors import PipelineError
from kafkatools.sandbox.home import kt_home

_DIRECTORY = "spark-classes"
_SUFFIX = ".jsa"
_UNFINISHED = ".new-"
"""How the names of directories begin that hold an archive while it is made."""
_CHOICES = ("SharedArchiveFile", "ArchiveClassesAtExit", "-Xshare")
"""Java options after which this module adds none."""
_VARIABLES = ("SPARK_SUBMIT_OPTS", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS")
"""Where the environment has Java options."""
_QUICK = ("-XX:TieredStopAtLevel=1",)
"""A session that lives for a minute is done sooner without the optimizing compiler; archives are the same."""
_LONGEST_S = 900
_GRACE_S = 30
_RECORDS = 1000
_TOPIC = "records"
_TRAILER = struct.Struct("<8sQL")
_MAGIC = b"kt-jsa-1"
_CHUNK_BYTES = 1 << 20


def java_options(environ: Mapping[str, str], java: str, given: str) -> list[str]:
    """Return the Java options with which a JVM uses the archive; none if there is no sound archive, or if `given`, the
    other Java options of the session, or those of the environment choose one."""
    options = " ".join([given, *(environ.get(name, "") for name in _VARIABLES)])
    if any(choice in options for choice in _CHOICES):
        return []
    archive = archive_path(environ, java)
    return [f"-XX:SharedArchiveFile={archive}"] if _is_sound(archive) else []


def archive_path(environ: Mapping[str, str], java: str) -> str:
    """Return the path of the archive for this Java executable and the Spark of this process, whether or not it
    exists."""
    executable, jars = os.path.realpath(java), os.path.join(_spark_home(environ), "jars")
    parts = [executable, str(os.stat(executable).st_mtime_ns), jars, str(_changed_ns(jars)), _MAGIC.decode()]
    return os.path.join(_directory(environ), hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16] + _SUFFIX)


def ensure_can_archive(environ: Mapping[str, str]) -> None:
    """Raise PipelineError if Java cannot use an archive: below a path with a colon, which separates archives, or with a
    directory of files on Spark's class path (AbstractCommandBuilder.buildClassPath)."""
    if ":" in _directory(environ):
        raise PipelineError(f"Java cannot use archives in {_directory(environ)}: set KT_HOME to a path without a colon")
    directories = {
        "SPARK_CONF_DIR": os.path.join(_spark_home(environ), "conf"),
        "HADOOP_CONF_DIR": "",
        "YARN_CONF_DIR": "",
    }
    for name, default in directories.items():
        directory = environ.get(name) or default
        if os.path.isdir(directory) and os.listdir(directory):
            raise PipelineError(
                f"Java cannot archive classes while Spark's class path has a directory with files, {directory} "
                f"({name}); without them, pass their settings as --conf"
            )


def make(environ: Mapping[str, str], java: str) -> str:
    """Run a session that reads a topic and a log and writes both, archive its classes, and return the path. An existing
    archive is replaced when the new one is complete. Raises PipelineError if Spark or Java fails or another process
    makes an archive, OSError if the directory cannot be written."""
    path = archive_path(environ, java)
    directory = os.path.dirname(path)
    os.makedirs(directory, exist_ok=True)
    with _locked(directory), tempfile.TemporaryDirectory(prefix=_UNFINISHED, dir=directory) as scratch:
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
        java = shlex.join([*options, f"-Djava.io.tmpdir={scratch}", f"-XX:ArchiveClassesAtExit={archive}"])
        words = [java, cluster.bootstrap, _TOPIC, log, f"{scratch}/out"]
        _run_session(words, {**environ, "TMPDIR": scratch, "SPARK_LOCAL_DIRS": scratch})
    if not os.path.isfile(archive):
        raise PipelineError("Java wrote no archive of classes; OpenJDK 17 and later do")
    seal(archive)


def _run_session(words: Sequence[str], environ: Mapping[str, str]) -> None:
    """Run `class_session` with these arguments until its JVM has ended. Raises PipelineError if it fails. No process is
    left, also after Ctrl-C."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "kafkatools.pipeline.run.class_session", *words],
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C on the terminal is for this process, which then ends that one
    )
    try:
        _, output = process.communicate(timeout=_LONGEST_S)
    except BaseException as error:
        process.terminate()  # it kills its JVM
        try:
            with suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=_GRACE_S)
        finally:
            process.kill()
        if isinstance(error, subprocess.TimeoutExpired):
            raise PipelineError(f"Spark's session did not end within {_LONGEST_S} s") from error
        raise
    if process.returncode:
        raise PipelineError(f"Spark's session failed: {_reason(output, process.returncode)}")


def _reason(output: bytes, status: int) -> str:
    """Return a JVM's error at its start or end, which takes two lines, else the last line."""
    lines = output.decode(errors="replace").strip().splitlines()
    for number, line in enumerate(lines):
        if line.startswith("Error"):
            return ": ".join(lines[number : number + 2])
    return lines[-1] if lines else f"exit status {status}"


def seal(archive: str) -> None:
    """Append the trailer, with which `java_options` finds that the archive is whole."""
    mode = os.stat(archive).st_mode
    os.chmod(archive, mode | 0o200)  # Java makes it read-only
    with open(archive, "r+b") as file:
        checksum, size_bytes = 0, 0
        while chunk := file.read(_CHUNK_BYTES):
            checksum, size_bytes = zlib.crc32(chunk, checksum), size_bytes + len(chunk)
        file.write(_TRAILER.pack(_MAGIC, size_bytes, checksum))
    os.chmod(archive, mode)


def _is_sound(archive: str) -> bool:
    """Return whether the archive exists and has the size and checksum of its trailer: 0.1 s of processor time."""
    try:
        with open(archive, "rb") as file:
            size_bytes = left = os.fstat(file.fileno()).st_size - _TRAILER.size
            checksum = 0
            while left > 0 and (chunk := file.read(min(_CHUNK_BYTES, left))):
                checksum, left = zlib.crc32(chunk, checksum), left - len(chunk)
            return file.read() == _TRAILER.pack(_MAGIC, max(0, size_bytes), checksum)
    except OSError:
        return False


def remove(environ: Mapping[str, str]) -> list[str]:
    """Remove the archives of every Java and Spark; return their paths. Raises OSError if one cannot be removed,
    PipelineError while another process makes one."""
    directory = _directory(environ)
    if not os.path.isdir(directory):
        return []
    with _locked(directory):
        names = sorted(name for name in os.listdir(directory) if name.endswith(_SUFFIX))
        archives = [os.path.join(directory, name) for name in names]
        for archive in archives:
            os.unlink(archive)
    return archives


@contextmanager
def _locked(directory: str) -> Iterator[None]:
    """Hold the directory's lock, after removing what a killed process left in it. Raises PipelineError if another
    process holds it."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PipelineError(f"Another kt pipeline prepare runs, which writes to {directory}; wait for it") from None
        for name in os.listdir(directory):
            if name.startswith(_UNFINISHED):
                shutil.rmtree(os.path.join(directory, name))
        yield
    finally:
        os.close(descriptor)


def _directory(environ: Mapping[str, str]) -> str:
    return os.path.join(kt_home(environ), _DIRECTORY)


def _spark_home(environ: Mapping[str, str]) -> str:
    if home := environ.get("SPARK_HOME"):
        return os.path.realpath(home)
    import pyspark

    return os.path.dirname(os.path.realpath(str(pyspark.__file__)))


def _changed_ns(directory: str) -> int:
    return os.stat(directory).st_mtime_ns if os.path.isdir(directory) else 0
