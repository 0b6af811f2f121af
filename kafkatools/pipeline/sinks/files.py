"""The files of a file sink: what is there, and how a run's files appear all at once or not at all.

A run with a manifest writes below a directory of its own in the sink (`_kt-...`, which Spark does not read), and moves
the files up when all of them are there. What it is about to move stands in a journal first, so that a run that is
killed meanwhile is finished by the next one, and one that is killed earlier has left nothing that anybody sees.
Names of files are unique in Spark, so that a file that is not below that directory any more has been moved.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from threading import Event
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run.session import is_connected, plain_error
from kafkatools.pipeline.storage import local_path

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject, JVMView
    from pyspark.sql import SparkSession


_LOOKS = 10
_WAIT_S = 0.2


class SinkFile(NamedTuple):
    """A file by its path below the sink's directory."""

    path: str
    size_bytes: int
    modified_ms: int


class Directory:
    """A directory where Spark's executors write, seen through Hadoop's file systems as they see it. Over Spark Connect
    there is none of those: then only directories of this machine can be seen."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self.path = path.rstrip("/") or "/"
        self._local = local_path(path) if is_connected(spark) else None
        self._system: JavaObject = None
        if not is_connected(spark):
            self._jvm: JVMView = spark._jvm
            try:
                self._system = self._hadoop(self.path).getFileSystem(spark._jsc.hadoopConfiguration())
            except Exception as error:
                raise PipelineError(f"{path}: {plain_error(error)}") from error

    @property
    def is_visible(self) -> bool:
        """Can what is in it be known?"""
        return self._system is not None or self._local is not None

    def files(self, below: str = "") -> list[SinkFile]:
        """Its data files, also in directories below, but not what begins with _ or a dot. Empty when there is none."""
        root = f"{self.path}/{below}" if below else self.path
        found = [
            SinkFile(path, size, modified)
            for path, size, modified in self._walked(root)
            if not any(part.startswith(("_", ".")) for part in path.split("/"))
        ]
        return sorted(found)

    def _walked(self, root: str) -> list[tuple[str, int, int]]:
        """What is there; looked at again while files go away meanwhile, as those of tasks that are being stopped do."""
        for left in reversed(range(_LOOKS)):
            try:
                return list(self._walk(root))
            except Exception as error:
                if not left:
                    raise PipelineError(f"{self.path}: {plain_error(error)}") from error
                Event().wait(_WAIT_S)
        return []

    def exists(self) -> bool:
        """Is there anything, a directory with data or a file?"""
        return bool(self.files()) or self._is_file()

    def _is_file(self) -> bool:
        if self._system is not None:
            path = self._hadoop(self.path)
            return bool(self._system.exists(path)) and bool(self._system.getFileStatus(path).isFile())
        return self._local is not None and os.path.isfile(self._local)

    def _walk(self, root: str) -> Iterator[tuple[str, int, int]]:
        if self._system is not None:
            start = self._hadoop(root)
            if not self._system.exists(start):
                return
            base = self._system.makeQualified(start).toUri().getPath().rstrip("/")
            every = self._system.listFiles(start, True)
            while every.hasNext():
                status = every.next()
                path = status.getPath().toUri().getPath()
                yield path[len(base) + 1 :], int(status.getLen()), int(status.getModificationTime())
        elif self._local is not None:
            for folder, _, names in os.walk(root if self._local is None else local_path(root) or root):
                for name in names:
                    file = os.path.join(folder, name)
                    status = os.stat(file)
                    yield os.path.relpath(file, local_path(root)), status.st_size, status.st_mtime_ns // 1_000_000

    def delete(self, names: Iterable[str]) -> None:
        """Deletes files or directories by their path below this one; what is not there is no failure."""
        for name in names:
            if self._system is not None:
                self._system.delete(self._hadoop(f"{self.path}/{name}"), True)

    def move(self, source: str, names: Iterable[str]) -> None:
        """Moves files from a directory below this one up here; those that have been moved already are left alone."""
        for name in names:
            here, there = self._hadoop(f"{self.path}/{source}/{name}"), self._hadoop(f"{self.path}/{name}")
            if not self._system.exists(here):
                if not self._system.exists(there):
                    raise PipelineError(f"{self.path}/{name} was to be moved here, and is gone")
                continue
            self._system.mkdirs(there.getParent())
            if not self._system.rename(here, there):
                raise PipelineError(f"{self.path}/{name} cannot be moved here from {source}")

    @property
    def can_move(self) -> bool:
        """Can files be moved and deleted?"""
        return self._system is not None

    def mark_success(self) -> None:
        """The empty file that says a directory is complete."""
        self._system.create(self._hadoop(f"{self.path}/_SUCCESS"), True).close()

    def _hadoop(self, path: str) -> JavaObject:
        return self._jvm.org.apache.hadoop.fs.Path(path)
