"""The only door between the log and a disk: a `FileSystem` of whole-file operations and the `LogFile`s it opens.

Rules. `append` is all or nothing: when the disk takes only part of it (full, broken), the file is cut back to what it
was before the error is raised, so that a reader never meets half a batch that the log does not know of. A `LogFile`
opens its descriptor when it is first used and may lose it to the least recently used sweep of `RealFileSystem`, so a
thousand partitions do not need a thousand descriptors; whoever passes `fileno()` to the kernel does so at once and
keeps no copy. One thread at a time per file. The fake that forgets unsynced data is in `tests/support/faulty_files.py`.
"""

import contextlib
import os
from collections.abc import Callable
from typing import NamedTuple, Protocol

from kafkatools.core import atomic_file

Buffer = bytes | bytearray | memoryview

MAX_OPEN_FILES = 512


class Sync(Protocol):
    """A sync of one file that another thread may run while the file goes on being written."""

    def run(self) -> None:
        """Make everything written so far survive a loss of power. May be called once; raises OSError."""


class DirectoryEntry(NamedTuple):
    """One name in a directory."""

    name: str
    is_directory: bool
    size_bytes: int


class LogFile(Protocol):
    """A file that grows at its end and is read anywhere."""

    path: str
    size_bytes: int

    def append(self, data: Buffer) -> int:
        """Write at the end, whole or not at all; gives the position of the first byte."""

    def write_at(self, position: int, data: Buffer) -> None:
        """Overwrite from a position on; the file grows when need be."""

    def read_at(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""

    def truncate(self, size: int) -> None:
        """Cut to a size, or extend with zeros."""

    def preallocate(self, size: int) -> None:
        """Give the file a size in advance, of zeros that do not count as content."""

    def trim(self) -> None:
        """Give back what was preallocated and not written."""

    def flush(self) -> None:
        """Make what was written survive a loss of power (fsync)."""

    def begin_sync(self) -> Sync:
        """Return a sync that stays valid when the file is closed, renamed or removed meanwhile."""

    def fileno(self) -> int:
        """The descriptor, opened if it was not; valid until the next call on this file system."""

    def close(self) -> None:
        """Let the descriptor go; a later call opens it again."""


class FileSystem(Protocol):
    """What the log needs of a disk. Errors are OSError."""

    def open(self, path: str, *, create: bool = False) -> LogFile:
        """A file as a `LogFile`; FileNotFoundError unless it exists or `create` is set."""

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory of this path."""

    def list_directory(self, path: str) -> list[DirectoryEntry]:
        """Its entries sorted by name."""

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents; one that exists is fine."""

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""

    def read_bytes(self, path: str) -> bytes:
        """A whole (small) file."""

    def write_bytes(self, path: str, data: Buffer, *, sync: bool) -> None:
        """Replace the content of a file, and with `sync` make it durable (not its name: `fsync_directory`)."""

    def rename(self, source: str, target: str) -> None:
        """Rename over whatever `target` was."""

    def remove(self, path: str) -> bool:
        """Remove a file; False when there was none."""

    def modified_ms(self, path: str) -> int:
        """When the content last changed, in ms since 1970."""

    def set_modified_ms(self, path: str, time_ms: int) -> None:
        """Set that time."""

    def fsync_directory(self, path: str) -> None:
        """Make creations, renames and removals in a directory durable."""


def named(error: OSError, path: str) -> OSError:
    """The error with the file it is about: calls on a descriptor raise it without."""
    if error.filename is None:
        error.filename = path
    return error


def write_atomically(files: FileSystem, path: str, data: Buffer) -> None:
    """Replace a file so that a crash leaves the old content or the new, never a mixture: write `.tmp`, fsync it,
    rename, fsync the directory (Kafka's CheckpointFile.write and Utils.atomicMoveWithFallback)."""
    replace_content(files, path, data, sync=True)
    files.fsync_directory(os.path.dirname(path))


def replace_content(files: FileSystem, path: str, data: Buffer, *, sync: bool) -> None:
    """Replace a file by one that is whole, and with `sync` durable; its name is durable when the directory is."""
    temporary = path + ".tmp"
    files.write_bytes(temporary, data, sync=sync)
    files.rename(temporary, path)


class DescriptorSync:
    """A `Sync` over a duplicate of the file's descriptor."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def run(self) -> None:
        """fdatasync, and close the descriptor."""
        try:
            os.fdatasync(self._descriptor)
        finally:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)


class RealLogFile:
    """A `LogFile` on a real disk."""

    __slots__ = ("_descriptor", "_is_preallocated", "_owner", "path", "recently_used", "size_bytes")

    def __init__(self, owner: "RealFileSystem", path: str, size_bytes: int) -> None:
        self._owner = owner
        self._descriptor = -1
        self._is_preallocated = False
        self.path = path
        self.size_bytes = size_bytes
        self.recently_used = False

    def fileno(self) -> int:
        """The descriptor, opened if it was not; valid until the next call on this file system."""
        self.recently_used = True
        if self._descriptor < 0:
            self._descriptor = self._owner.open_descriptor(self)
        return self._descriptor

    def append(self, data: Buffer) -> int:
        """Write at the end, whole or not at all; gives the position of the first byte."""
        position = self.size_bytes
        size = len(data)
        descriptor = self._descriptor
        if descriptor < 0:
            descriptor = self.fileno()
        self.recently_used = True
        try:
            written = os.pwrite(descriptor, data, position)
            if written != size:
                self._write_rest(position + written, memoryview(data)[written:])
        except OSError as error:
            os.ftruncate(descriptor, position)
            raise named(error, self.path) from None
        self.size_bytes = position + size
        return position

    def write_at(self, position: int, data: Buffer) -> None:
        """Overwrite from a position on; the file grows when need be."""
        self._write_rest(position, memoryview(data))
        self.size_bytes = max(self.size_bytes, position + len(data))

    def _write_rest(self, position: int, data: memoryview) -> None:
        descriptor = self.fileno()
        try:
            while data:
                written = os.pwrite(descriptor, data, position)
                position += written
                data = data[written:]
        except OSError as error:
            raise named(error, self.path) from None

    def read_at(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""
        if self._is_preallocated:
            size = max(0, min(size, self.size_bytes - position))
        try:
            return os.pread(self.fileno(), size, position)
        except OSError as error:
            raise named(error, self.path) from None

    def truncate(self, size: int) -> None:
        """Cut to a size, or extend with zeros."""
        self._resize(size)
        self.size_bytes = size

    def preallocate(self, size: int) -> None:
        """Give the file a size in advance, of zeros that do not count as content (a sparse file, as Kafka's)."""
        self._resize(max(size, self.size_bytes))
        self._is_preallocated = True

    def trim(self) -> None:
        """Give back what was preallocated and not written."""
        if self._is_preallocated:
            self._resize(self.size_bytes)
            self._is_preallocated = False

    def _resize(self, size: int) -> None:
        try:
            os.ftruncate(self.fileno(), size)
        except OSError as error:
            raise named(error, self.path) from None

    def flush(self) -> None:
        """Make what was written survive a loss of power (fsync)."""
        try:
            os.fsync(self.fileno())
        except OSError as error:
            raise named(error, self.path) from None

    def begin_sync(self) -> DescriptorSync:
        """Return a sync that stays valid when the file is closed, renamed or removed meanwhile."""
        return DescriptorSync(os.dup(self.fileno()))

    def close(self) -> None:
        """Let the descriptor go; a later call opens it again."""
        if self._descriptor >= 0:
            self._owner.close_descriptor(self, self._descriptor)
            self._descriptor = -1


class RealFileSystem:
    """The machine's file system, with a bound on the descriptors of the files it opened."""

    def __init__(self, max_open_files: int = MAX_OPEN_FILES) -> None:
        self.max_open_files = max_open_files
        self._open: dict[int, RealLogFile] = {}

    @property
    def open_file_count(self) -> int:
        """How many descriptors are held now."""
        return len(self._open)

    def open_descriptor(self, file: RealLogFile) -> int:
        """Open a file's descriptor; closes others first when there are too many (second chance: a file used since the
        last sweep stays)."""
        if len(self._open) >= self.max_open_files:
            self._sweep()
        descriptor = os.open(file.path, os.O_RDWR | os.O_CLOEXEC)
        self._open[descriptor] = file
        return descriptor

    def close_descriptor(self, file: RealLogFile, descriptor: int) -> None:
        """Close what `open_descriptor` opened."""
        if self._open.get(descriptor) is file:
            del self._open[descriptor]
            os.close(descriptor)

    def close(self) -> None:
        """Let all descriptors go; a file that is used later opens its own again."""
        for file in list(self._open.values()):
            file.close()

    # Logs and their files refer to each other: what is dropped unclosed is found by the collector of cycles only.
    __del__ = close

    def _sweep(self) -> None:
        candidates = list(self._open.values())
        for file in candidates:
            if file.recently_used:
                file.recently_used = False
            else:
                file.close()
        if len(self._open) >= self.max_open_files:
            for file in candidates[: max(1, self.max_open_files // 4)]:
                file.close()

    def open(self, path: str, *, create: bool = False) -> RealLogFile:
        """A file as a `LogFile`; FileNotFoundError unless it exists or `create` is set."""
        try:
            return RealLogFile(self, path, os.stat(path).st_size)
        except FileNotFoundError:
            if not create:
                raise
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644))
        return RealLogFile(self, path, 0)

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory of this path."""
        return os.path.exists(path)

    def list_directory(self, path: str) -> list[DirectoryEntry]:
        """Its entries sorted by name."""
        with os.scandir(path) as entries:
            return sorted(_directory_entry(entry) for entry in entries)

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents; one that exists is fine."""
        os.makedirs(path, exist_ok=True)

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        os.rmdir(path)

    def read_bytes(self, path: str) -> bytes:
        """A whole (small) file."""
        with open(path, "rb") as file:
            return file.read()

    def write_bytes(self, path: str, data: Buffer, *, sync: bool) -> None:
        """Replace the content of a file, and with `sync` make it durable."""
        try:
            with open(path, "wb", buffering=0) as file:
                remaining = memoryview(data)
                while remaining:
                    remaining = remaining[file.write(remaining) :]
                if sync:
                    os.fsync(file.fileno())
        except OSError as error:
            raise named(error, path) from None

    def rename(self, source: str, target: str) -> None:
        """Rename over whatever `target` was."""
        os.replace(source, target)

    def remove(self, path: str) -> bool:
        """Remove a file; False when there was none."""
        return _found(lambda: os.unlink(path))

    def modified_ms(self, path: str) -> int:
        """When the content last changed, in ms since 1970."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, time_ms: int) -> None:
        """Set that time."""
        os.utime(path, ns=(time_ms * 1_000_000, time_ms * 1_000_000))

    def fsync_directory(self, path: str) -> None:
        """Make creations, renames and removals in a directory durable."""
        try:
            atomic_file.sync_directory(path)
        except OSError as error:
            raise named(error, path) from None


def _directory_entry(entry: "os.DirEntry[str]") -> DirectoryEntry:
    is_directory = entry.is_dir(follow_symlinks=True)
    return DirectoryEntry(entry.name, is_directory, 0 if is_directory else entry.stat().st_size)


def _found(operation: Callable[[], None]) -> bool:
    try:
        operation()
    except FileNotFoundError:
        return False
    return True
