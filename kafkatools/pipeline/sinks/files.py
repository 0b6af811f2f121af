"""Directories of file sinks: list their data files, and move the files of a run into place at once.

A run with a manifest writes to a hidden directory inside the sink (`_kt-...`, ignored by Spark) and moves the files up
once all exist. A journal lists the moves first. If a run is killed during the moves, the next run completes them; if it
is killed earlier, no visible file exists. File names are unique in Spark, so a file that is missing from the hidden
directory was already moved.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from threading import Event
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run.session import is_connected, plain_error
from kafkatools.pipeline.storage import local_path, read_bytes

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject, JVMView
    from pyspark.sql import SparkSession


_ATTEMPTS = 10
_WAIT_S = 0.2


class SinkFile(NamedTuple):
    """A data file: its path relative to the sink's directory, its size in bytes and its modification time in epoch
    ms."""

    path: str
    size_bytes: int
    modified_ms: int


class Directory:
    """A directory that Spark's executors write to, accessed through Hadoop's file systems. A Spark Connect session has
    no Hadoop client, so only local directories are visible and none can be changed. Raises PipelineError for an unknown
    file system."""

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
        """Return whether the content can be listed; False for a remote directory over Spark Connect."""
        return self._system is not None or self._local is not None

    def files(self, below: str = "") -> list[SinkFile]:
        """List data files recursively, sorted by path, without names that start with _ or a dot. `below` is a
        subdirectory; paths are then relative to it. Empty if the directory does not exist or is not visible. Raises
        PipelineError if it cannot be listed."""
        root = f"{self.path}/{below}" if below else self.path
        return sorted(
            file
            for file in self._list_files(root)
            if not any(part.startswith(("_", ".")) for part in file.path.split("/"))
        )

    def log_names(self, below: str) -> list[str]:
        """Return the paths of all files below a subdirectory, hidden ones too; empty if it does not exist or is not
        visible. Raises PipelineError if it cannot be listed."""
        return [file.path for file in self._list_files(f"{self.path}/{below}")]

    def read_text(self, name: str) -> str | None:
        """Return the content of a small UTF-8 file; None if it does not exist or is not visible. Raises PipelineError
        if it cannot be read."""
        if self._system is None:
            data = None if self._local is None else read_bytes(os.path.join(self._local, name))
            return None if data is None else data.decode()
        path = self._hadoop(f"{self.path}/{name}")
        try:
            if not self._system.exists(path):
                return None
            stream = self._system.open(path)
            try:
                return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
            finally:
                stream.close()
        except Exception as error:
            raise PipelineError(f"{self.path}/{name}: {plain_error(error)}") from error

    def write_text(self, name: str, text: str) -> None:
        """Replace a small UTF-8 file, with a rename at the end; create the directory if it does not exist. Not possible
        over Spark Connect. Raises PipelineError if the file cannot be written."""
        path, unfinished = self._hadoop(f"{self.path}/{name}"), self._hadoop(f"{self.path}/{name}.unfinished")
        try:
            self._system.mkdirs(path.getParent())
            self._jvm.org.apache.hadoop.fs.FileUtil.write(self._system, unfinished, bytearray(text.encode()))
            self._system.delete(path, False)
            is_renamed = bool(self._system.rename(unfinished, path))
        except Exception as error:
            raise PipelineError(f"{self.path}/{name}: {plain_error(error)}") from error
        if not is_renamed:
            raise PipelineError(f"{self.path}/{name} cannot be written: its new content is in {name}.unfinished")

    def _list_files(self, root: str) -> list[SinkFile]:
        """List a directory, with up to ten attempts while files disappear, as those of stopping tasks do. Raises
        PipelineError after the last one."""
        for remaining in reversed(range(_ATTEMPTS)):
            try:
                return list(self._walk(root))
            except Exception as error:
                if not remaining:
                    raise PipelineError(f"{self.path}: {plain_error(error)}") from error
                Event().wait(_WAIT_S)
        return []

    def exists(self) -> bool:
        """Return whether the path is a file, or a directory with at least one data file; False if the path is not
        visible. Raises PipelineError if it cannot be listed."""
        return bool(self.files()) or self._is_file()

    def _is_file(self) -> bool:
        if self._system is not None:
            path = self._hadoop(self.path)
            return bool(self._system.exists(path)) and bool(self._system.getFileStatus(path).isFile())
        return self._local is not None and os.path.isfile(self._local)

    def _walk(self, root: str) -> Iterator[SinkFile]:
        if self._system is not None:
            start = self._hadoop(root)
            if not self._system.exists(start):
                return
            base = self._system.makeQualified(start).toUri().getPath().rstrip("/")
            files = self._system.listFiles(start, True)
            while files.hasNext():
                status = files.next()
                path = status.getPath().toUri().getPath()
                yield SinkFile(path[len(base) + 1 :], int(status.getLen()), int(status.getModificationTime()))
        elif self._local is not None:
            top = local_path(root) or root
            for folder, _, names in os.walk(top):
                for name in names:
                    path = os.path.join(folder, name)
                    status = os.stat(path)
                    yield SinkFile(os.path.relpath(path, top), status.st_size, status.st_mtime_ns // 1_000_000)

    def delete(self, names: Iterable[str]) -> None:
        """Delete files or directories by path relative to this directory; missing ones are ignored. Does nothing over
        Spark Connect."""
        for name in names:
            if self._system is not None:
                self._system.delete(self._hadoop(f"{self.path}/{name}"), True)

    def move(self, source: str, names: Iterable[str]) -> None:
        """Move files from the subdirectory `source` up to this directory; files already moved are skipped. Not possible
        over Spark Connect. Raises PipelineError if a file is missing from both or cannot be moved."""
        for name in names:
            source_path, target = self._hadoop(f"{self.path}/{source}/{name}"), self._hadoop(f"{self.path}/{name}")
            if not self._system.exists(source_path):
                if not self._system.exists(target):
                    raise PipelineError(f"{self.path}/{name} is missing, and so is its staged file in {source}")
                continue
            self._system.mkdirs(target.getParent())
            if not self._system.rename(source_path, target):
                raise PipelineError(f"{self.path}/{name} cannot be moved into place from {self.path}/{source}")

    @property
    def can_move(self) -> bool:
        """Return whether files can be moved and deleted; False over Spark Connect."""
        return self._system is not None

    def mark_success(self) -> None:
        """Write the empty file `_SUCCESS`, which marks a complete directory. Not possible over Spark Connect."""
        self._system.create(self._hadoop(f"{self.path}/_SUCCESS"), True).close()

    def _hadoop(self, path: str) -> JavaObject:
        return self._jvm.org.apache.hadoop.fs.Path(path)
