"""Class data of Apache Kafka's tools and server, shared between the many short lives of its JVMs.

A JVM spends most of such a life with loading and checking the same classes; with an archive of them (JEP 310) a tool
needs half the processor time and a broker a third. The archive is made once, from what a broker and three tools load,
and kept beside the jars. Without it everything works as well, only slower.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import pathlib
import subprocess
import tempfile
from collections.abc import Callable

from .waiting import PATIENCE_S


@functools.cache
def archive_path(cache: pathlib.Path, java: str, class_path: str, name: str = "classes") -> pathlib.Path:
    """Where the archive for exactly this JVM and these jars is, or would be."""
    version = subprocess.run([java, "-version"], capture_output=True, timeout=PATIENCE_S, check=False).stderr
    directory = pathlib.Path(class_path.removesuffix("/*"))
    jars = sorted(f"{jar.name} {jar.stat().st_mtime_ns}" for jar in directory.glob("*.jar"))
    program = os.path.realpath(java)  # JAVA_HOME and PATH name the same one differently
    key = hashlib.sha256("\n".join([program, version.decode(), class_path, *jars]).encode()).hexdigest()[:16]
    return cache / f"{name}-{key}.jsa"


def ensure(archive: pathlib.Path, java: str, class_path: str, train: Callable[[pathlib.Path], None]) -> None:
    """Makes the archive unless it is there; `train` runs what shall be in it, with a directory for its files."""
    make_once(archive, lambda made: _make(made, java, class_path, train))


def make_once(archive: pathlib.Path, make: Callable[[pathlib.Path], None]) -> None:
    """Makes an archive unless it is there: of several processes one makes it and the others wait. `make` gets the path
    for it. Where the JVM cannot, an empty file ends all trying."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with archive.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            made = archive.with_suffix(".new")
            made.unlink(missing_ok=True)
            make(made)
            if not made.exists():
                made.touch()
            made.replace(archive)


def flags(archive: pathlib.Path) -> list[str]:
    """What a JVM is told so that it uses the archive: nothing as long as there is none."""
    return [f"-XX:SharedArchiveFile={archive}"] if archive.exists() and archive.stat().st_size else []


def _make(made: pathlib.Path, java: str, class_path: str, train: Callable[[pathlib.Path], None]) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        before = os.environ.get("JDK_JAVA_OPTIONS")
        os.environ["JDK_JAVA_OPTIONS"] = f"-XX:DumpLoadedClassList={directory}/%p.classes"
        try:
            train(directory)
        finally:
            del os.environ["JDK_JAVA_OPTIONS"]
            if before is not None:
                os.environ["JDK_JAVA_OPTIONS"] = before
        lines = [line for path in sorted(directory.glob("*.classes")) for line in path.read_text().splitlines()]
        (directory / "all").write_text("\n".join(dict.fromkeys(lines)) + "\n")
        options = ["-Xshare:dump", f"-XX:SharedClassListFile={directory}/all", f"-XX:SharedArchiveFile={made}"]
        subprocess.run([java, *options, "-cp", class_path], capture_output=True, check=False)
