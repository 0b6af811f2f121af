"""The directory of an export in this process, and the files of a round in its stage.

A directory of the layout has one file in a round, or more above 512 MiB. A file is open only while it is written, so
any number of directories works. Rows of Parquet are kept until all files together have 8 MiB, or a file has a million
rows.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from kafkatools.core import atomic_file
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.jobs.export_state import Export, ExportDirectory, ExportState
from kafkatools.pipeline.jobs.in_process.export_rows import ShapedRows
from kafkatools.pipeline.storage import local_path
from kafkatools.pipeline.uris import path_of
from kafkatools.tools.record_files.table_formats import Written

_SUFFIXES = {"parquet": ".c000.snappy.parquet", "json": ".c000.json", "csv": ".c000.csv"}
_FILE_BYTES = 512 << 20
_HELD_BYTES = 8 << 20
_ROW_GROUP_RECORDS = 1 << 20


class LocalDirectory:
    """A directory of this machine, with the operations of an export. Raises PipelineError if one fails."""

    can_move = True

    def __init__(self, path: str) -> None:
        self.path = path

    def exists(self) -> bool:
        """Return whether the path is a file, or a directory with a data file: one below no name that starts with _ or a
        dot."""
        if os.path.lexists(self.path) and not os.path.isdir(self.path):
            return True
        for _, directories, files in os.walk(self.path):
            directories[:] = [name for name in directories if not name.startswith(("_", "."))]
            if any(not name.startswith(("_", ".")) for name in files):
                return True
        return False

    def delete(self, names: Iterable[str]) -> None:
        """Delete files or directories; missing ones are ignored."""
        for name in names:
            with self._failures(name, "deleted"), suppress(FileNotFoundError):
                path = os.path.join(self.path, name)
                shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)

    def move(self, source: str, names: Iterable[str]) -> None:
        """Move files from the subdirectory `source` up, durably; files already moved are skipped."""
        changed = {self.path}
        for name in names:
            staged, target = os.path.join(self.path, source, name), os.path.join(self.path, name)
            if not os.path.lexists(staged):
                if not os.path.lexists(target):
                    raise PipelineError(f"{target} is missing, and so is its staged file in {source}")
                continue
            with self._failures(name, "moved into place"):
                os.makedirs(os.path.dirname(target), exist_ok=True)
                os.rename(staged, target)
                changed |= {os.path.dirname(target), os.path.dirname(os.path.dirname(target))}
        with self._failures("", "made durable"):
            for directory in changed:
                atomic_file.sync_directory(directory)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold a lock on the directory, which must exist. Raises PipelineError if another export holds it, or the file
        system has no locks."""
        with self._failures("", "opened"):
            descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with self._failures("", "locked"):
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise PipelineError(f"{self.path}: another export into this directory is running") from None
            yield
        finally:
            os.close(descriptor)

    @contextmanager
    def _failures(self, name: str, action: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise PipelineError(f"{os.path.join(self.path, name)} cannot be {action}: {error.strerror}") from error


@contextmanager
def locked_state(export: Export, directory: ExportDirectory) -> Iterator[ExportState]:
    """Yield the state of an export, and hold the lock on its directory if that is on this machine. Raises
    PipelineError."""
    state = ExportState.load(export, directory)
    local = local_path(path_of(export.sink))
    if local is None:
        yield state
        return
    with LocalDirectory(local).alone():
        yield ExportState.load(export, directory)  # another run may have ended since


class RoundFiles:
    """The files of a round below a directory that does not exist yet."""

    def __init__(self, path: str, kind: str, header: bytes) -> None:
        """`kind`: parquet, json or csv; `header`: the first line of each file."""
        self._path = path
        self._kind = kind
        self._header = header
        self._run = uuid.uuid4()
        self._parts: dict[str, _Part] = {}
        self._names: list[str] = []
        self._held_bytes = 0
        self.rows = 0

    def add(self, shaped: ShapedRows) -> None:
        """Write rows to the file of their directory. Raises PipelineError if it cannot be written."""
        part = self._parts.get(shaped.folder) or self._new_part(shaped.folder)
        self.rows += shaped.rows.num_rows
        with self._failures(part):
            if part.add(shaped.rows):
                self._held_bytes += shaped.nbytes
            if self._held_bytes >= _HELD_BYTES:
                for held in self._parts.values():
                    held.flush()
                self._held_bytes = 0
            if part.size_bytes >= _FILE_BYTES:
                self._parts.pop(shaped.folder).finish()

    def finish(self) -> list[str]:
        """End all files, make them durable and return their paths below the directory. Raises PipelineError."""
        for part in self._parts.values():
            with self._failures(part):
                part.finish()
        self._parts.clear()
        return self._names

    def _new_part(self, folder: str) -> _Part:
        name = os.path.join(folder, f"part-{len(self._names):05d}-{self._run}{_SUFFIXES[self._kind]}")
        path = os.path.join(self._path, name)
        part = self._parts[folder] = _ParquetPart(path) if self._kind == "parquet" else _LinesPart(path, self._header)
        with self._failures(part):
            os.makedirs(os.path.dirname(path), exist_ok=True)
        self._names.append(name)
        return part

    @contextmanager
    def _failures(self, part: _Part) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise PipelineError(f"{part.path} cannot be written: {error.strerror or error}") from error


class _Part(Protocol):
    path: str
    size_bytes: int

    def add(self, rows: pa.RecordBatch) -> bool:
        """Take rows; return whether they are held in memory."""

    def flush(self) -> None:
        """Write the held rows."""

    def finish(self) -> None:
        """End the file and make it durable."""


class _LinesPart:
    """A file of JSON or CSV lines."""

    def __init__(self, path: str, header: bytes) -> None:
        self.path = path
        self.size_bytes = 0
        self._header = header

    def add(self, rows: pa.RecordBatch) -> bool:
        lines = rows.column(0)
        _, offsets, data = lines.buffers()
        ends = memoryview(offsets).cast("B").cast("q" if pa.types.is_large_string(lines.type) else "i")
        first, last = ends[lines.offset], ends[lines.offset + len(lines)]
        header = b"" if self.size_bytes else self._header
        self.size_bytes += _append(self.path, header) if header else 0
        self.size_bytes += _append(self.path, memoryview(data)[first:last])
        return False

    def flush(self) -> None:
        pass

    def finish(self) -> None:
        _sync(self.path)


class _ParquetPart:
    """A Parquet file with Spark's types: a timestamp is an INT96, as Spark writes it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.size_bytes = 0
        self._stream = Written()
        self._writer: pq.ParquetWriter | None = None
        self._held: list[pa.RecordBatch] = []
        self._held_records = 0

    def add(self, rows: pa.RecordBatch) -> bool:
        self._held.append(rows)
        self._held_records += rows.num_rows
        if self._held_records >= _ROW_GROUP_RECORDS:
            self.flush()
        return True

    def flush(self) -> None:
        if not self._held:
            return
        table = pa.Table.from_batches(self._held)
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self._stream, table.schema, compression="snappy", use_deprecated_int96_timestamps=True
            )
        self._writer.write_table(table, row_group_size=_ROW_GROUP_RECORDS)
        self._held, self._held_records = [], 0
        self._write()

    def finish(self) -> None:
        self.flush()
        if self._writer is not None:
            self._writer.close()
        self._write()
        _sync(self.path)

    def _write(self) -> None:
        data = bytearray()
        self._stream.take(data)
        self.size_bytes += _append(self.path, data)


def _append(path: str, data: bytes | bytearray | memoryview) -> int:
    with open(path, "ab", buffering=0) as file:
        atomic_file.write_all(file, data)
    return len(data)


def _sync(path: str) -> None:
    with open(path, "ab") as file:
        os.fsync(file.fileno())
