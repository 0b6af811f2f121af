"""Output files of console-consumer: one for all records, or one for each partition in a directory.

Rules: records go to `NAME.partial` beside the file. `complete` ends each file, makes it durable and renames it, so a
file under its final name is complete. A run that ends early leaves the partial files, ended as well, and names them.
Without `replaces` nothing that exists is replaced. A file is open only while it is written, so any number of partitions
works.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from kafkatools.core import atomic_file
from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.exit_status import CommandError
from kafkatools.tools.lines.formatters import MessageFormatter, OnError
from kafkatools.tools.lines.record_printer import finish

PARTIAL = ".partial"
_BUFFER_BYTES = 1 << 16
_BUFFERS_BYTES = 32 << 20


class RecordFiles:
    """A formatter whose output goes to files. `path` is a directory if `suffix` is set, and its files are named
    TOPIC-PARTITION and the suffix; it is created if needed. `new_formatter` returns the formatter of one file."""

    def __init__(
        self, path: str, suffix: str | None, new_formatter: Callable[[], MessageFormatter], replaces: bool
    ) -> None:
        self._path = path
        self._suffix = suffix
        self._new_formatter = new_formatter
        self._replaces = replaces
        self._files: dict[str, _RecordFile] = {}

    def open(self) -> None:
        """Create the partial file, or the directory. Raises CommandError if a file would be replaced, or the directory
        has files, and OSError."""
        if self._suffix is None:
            self._file(self._path)
            return
        os.makedirs(self._path, exist_ok=True)
        if not self._replaces and os.listdir(self._path):
            raise CommandError(
                f"The directory {self._path} has files already",
                hint="Name another one, or add --force to replace files.",
            )

    @property
    def count(self) -> int:
        """Number of files so far; at least 1."""
        return max(len(self._files), 1)

    def write(self, out: bytearray, fetched: FetchedColumns, on_error: OnError) -> int:
        """Write the formatted records to their file, nothing to `out`. Returns how many were processed. Raises
        OSError."""
        name = self._path if self._suffix is None else os.path.join(self._path, _name(fetched) + self._suffix)
        return self._file(name).write(fetched, on_error, min(_BUFFER_BYTES, _BUFFERS_BYTES // self.count))

    def _file(self, path: str) -> _RecordFile:
        if path not in self._files:
            self._files[path] = _RecordFile(path, self._new_formatter(), self._replaces)
        return self._files[path]

    def complete(self) -> None:
        """End all files and give them their names. Raises CommandError if such a file exists meanwhile or a write was
        interrupted, and OSError."""
        if any(file.is_damaged for file in self._files.values()):
            raise CommandError("A write to an output file was interrupted")
        for file in self._files.values():
            file.end()
        for file in self._files.values():
            file.rename()

    def abandon(self) -> list[str]:
        """End the partial files that have records, remove the others, and return the paths of those that stay. Ends
        none after a failed write."""
        kept = []
        for file in self._files.values():
            if file.abandon():
                kept.append(file.partial)
        return kept


def _name(fetched: FetchedColumns) -> str:
    if "/" in fetched.topic:  # no broker allows it, and it would name another directory
        raise CommandError(f"The name of topic {fetched.topic} cannot be part of a file name")
    return f"{fetched.topic}-{fetched.partition}"


class _RecordFile:
    """One file and its formatter. After a failed write the partial file stays as it is."""

    def __init__(self, path: str, formatter: MessageFormatter, replaces: bool) -> None:
        self.path = path
        self.partial = path + PARTIAL
        self._replaces = replaces
        self._formatter = formatter
        self._buffer = bytearray()
        self._count = 0
        self.is_damaged = False
        if os.path.lexists(path) and not os.path.isfile(path):
            raise CommandError(f"{path} is not a regular file, so no output file can take its place")
        if not replaces:
            for existing in (self.path, self.partial):
                if os.path.lexists(existing):
                    raise CommandError(
                        f"The file {existing} exists already", hint="Name another one, or add --force to replace it."
                    )
        with open(self.partial, "wb" if replaces else "xb"):
            pass

    def write(self, fetched: FetchedColumns, on_error: OnError, buffer_bytes: int) -> int:
        self.is_damaged = True  # until the end of this call, also when an exception ends it
        count = self._formatter.write(self._buffer, fetched, on_error)
        self._count += count
        if len(self._buffer) >= buffer_bytes:
            self._flush()
        self.is_damaged = False
        return count

    def _flush(self) -> None:
        try:
            with open(self.partial, "ab", buffering=0) as file:
                atomic_file.write_all(file, self._buffer)
        except OSError as error:  # a write does not name the file, as open does
            error.filename = self.partial
            raise
        self._buffer = bytearray()

    def end(self) -> None:
        finish(self._formatter, self._buffer)
        self._flush()
        with open(self.partial, "ab") as file:
            os.fsync(file.fileno())

    def rename(self) -> None:
        if self._replaces:
            os.replace(self.partial, self.path)
        else:
            try:
                atomic_file.rename_to_new(self.partial, self.path)
            except FileExistsError:
                raise CommandError(
                    f"The file {self.path} was created meanwhile; the records are in {self.partial}"
                ) from None
        atomic_file.sync_directory(os.path.dirname(self.path))

    def abandon(self) -> bool:
        if not self._count and not self.is_damaged:
            os.unlink(self.partial)
            return False
        if not self.is_damaged:
            self.end()
        return True
