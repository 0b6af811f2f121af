"""The file system seam of the log: a `FileSystem` with whole-file operations and the `LogFile`s it opens.

`append` writes all or nothing. When the disk takes only part of the data (full, broken), the file is cut back before
the error is raised. So a reader does not meet half a batch that the log does not know of. A `LogFile` opens its
descriptor on first use. `RealFileSystem` may close it again, starting with files not used lately, so a thousand
partitions do not need a thousand descriptors. Code that passes `fileno()` to the kernel does so at once and keeps no
copy. Only one thread at a time may use a file. A fake that forgets unsynced data is in `tests/support/faulty_files.py`.
"""

import contextlib
import errno
import os
from typing import NamedTuple, Protocol

from kafkatools.core import atomic_file

Buffer = bytes | bytearray | memoryview

MAX_OPEN_FILES = 512


class Sync(Protocol):
    """A pending fsync of one file. Another thread may run it while the file is appended to."""

    def run(self) -> None:
        """Make everything written so far survive a power loss. Call once. Raises OSError."""


class DirectoryEntry(NamedTuple):
    """A file or directory inside a directory. `size_bytes` is 0 for a directory."""

    name: str
    is_directory: bool
    size_bytes: int


class LogFile(Protocol):
    """An open file that is appended to at its end and read at any position. Errors are OSError."""

    path: str
    size_bytes: int

    def append(self, data: Buffer) -> int:
        """Append all of the data, and return the position of its first byte. After a failed or partial write the file
        is cut back to its old size, and the OSError is raised."""

    def write_at(self, position: int, data: Buffer) -> None:
        """Overwrite bytes from a position on. The file grows if they reach past its end."""

    def read_at(self, position: int, size: int) -> bytes:
        """Read up to `size` bytes from a position on; fewer at the end of the content, none past it."""

    def truncate(self, size: int) -> None:
        """Set the file's size in bytes: cut the end off, or extend with zeros."""

    def preallocate(self, size: int) -> None:
        """Extend the file with zeros to `size` bytes, which do not count in `size_bytes`. A file with more content
        keeps its size."""

    def trim(self) -> None:
        """Cut off the part that was preallocated and not written."""

    def flush(self) -> None:
        """Make everything written survive a power loss (fsync)."""

    def begin_sync(self) -> Sync:
        """Return a pending fsync of this file, for any thread to run later. It works even if the file is closed,
        renamed or removed before."""

    def fileno(self) -> int:
        """Return the file descriptor, opening it if needed. It is valid until the next call on this file system."""

    def close(self) -> None:
        """Close the file descriptor. A later call on the file opens it again."""


class FileSystem(Protocol):
    """The file operations that a log needs. Errors are OSError."""

    def open(self, path: str, *, create: bool = False) -> LogFile:
        """Open a file for appending and reading. With `create` a missing file is made; without it, a missing file
        raises FileNotFoundError."""

    def exists(self, path: str) -> bool:
        """Return whether a file or directory exists."""

    def list_directory(self, path: str) -> list[DirectoryEntry]:
        """Return the files and directories in a directory, sorted by name."""

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents. An existing directory is no error."""

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""

    def read_bytes(self, path: str) -> bytes:
        """Return the whole content of a (small) file."""

    def write_bytes(self, path: str, data: Buffer, *, sync: bool) -> None:
        """Replace a file's content in place, or create the file; a crash may leave part of it. `sync` makes the content
        durable, but not the name (see `fsync_directory`)."""

    def rename(self, source: str, target: str) -> None:
        """Rename a file or directory. A file at `target` is replaced."""

    def remove(self, path: str) -> bool:
        """Remove a file. Return True, or False when there was none."""

    def modified_ms(self, path: str) -> int:
        """Return a file's modification time in ms since 1970."""

    def set_modified_ms(self, path: str, time_ms: int) -> None:
        """Set a file's modification time in ms since 1970."""

    def fsync_directory(self, path: str) -> None:
        """Make the creation, renaming and removal of files in a directory durable."""


def with_filename(error: OSError, path: str) -> OSError:
    """Return the same error, with `path` as its `filename` if it has none. An OSError from a call on a file descriptor
    has none."""
    if error.filename is None:
        error.filename = path
    return error


def is_disk_full(error: OSError) -> bool:
    """Return whether a write failed because the disk, or the quota of the user, has no room."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def write_atomically(files: FileSystem, path: str, data: Buffer) -> None:
    """Replace a file durably; a crash leaves either the old or the new content. Writes `path.tmp`, fsyncs it, renames
    it and fsyncs the directory (CheckpointFile.write, Utils.atomicMoveWithFallback)."""
    replace_content(files, path, data, sync=True)
    files.fsync_directory(os.path.dirname(path))


def replace_content(files: FileSystem, path: str, data: Buffer, *, sync: bool) -> None:
    """Replace a file by writing `path.tmp` and renaming it. `sync` makes the content durable, but not the rename."""
    temporary = path + ".tmp"
    files.write_bytes(temporary, data, sync=sync)
    files.rename(temporary, path)


class DescriptorSync:
    """A `Sync` that owns a duplicate of the file's descriptor."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def run(self) -> None:
        """Call fdatasync and close the descriptor. Raises OSError."""
        try:
            os.fdatasync(self._descriptor)
        finally:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)


class RealLogFile:
    """A `LogFile` of the machine's file system."""

    __slots__ = ("_descriptor", "_is_preallocated", "_owner", "path", "recently_used", "size_bytes")

    def __init__(self, owner: "RealFileSystem", path: str, size_bytes: int) -> None:
        self._owner = owner
        self._descriptor = -1
        self._is_preallocated = False
        self.path = path
        self.size_bytes = size_bytes
        self.recently_used = False

    def fileno(self) -> int:
        self.recently_used = True
        if self._descriptor < 0:
            self._descriptor = self._owner.open_descriptor(self)
        return self._descriptor

    def append(self, data: Buffer) -> int:
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
            raise with_filename(error, self.path) from None
        self.size_bytes = position + size
        return position

    def write_at(self, position: int, data: Buffer) -> None:
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
            raise with_filename(error, self.path) from None

    def read_at(self, position: int, size: int) -> bytes:
        if self._is_preallocated:
            size = max(0, min(size, self.size_bytes - position))
        try:
            return os.pread(self.fileno(), size, position)
        except OSError as error:
            raise with_filename(error, self.path) from None

    def truncate(self, size: int) -> None:
        self._resize(size)
        self.size_bytes = size

    def preallocate(self, size: int) -> None:
        self._resize(max(size, self.size_bytes))
        self._is_preallocated = True

    def trim(self) -> None:
        if self._is_preallocated:
            self._resize(self.size_bytes)
            self._is_preallocated = False

    def _resize(self, size: int) -> None:
        try:
            os.ftruncate(self.fileno(), size)
        except OSError as error:
            raise with_filename(error, self.path) from None

    def flush(self) -> None:
        try:
            os.fsync(self.fileno())
        except OSError as error:
            raise with_filename(error, self.path) from None

    def begin_sync(self) -> DescriptorSync:
        return DescriptorSync(os.dup(self.fileno()))

    def close(self) -> None:
        if self._descriptor >= 0:
            self._owner.close_descriptor(self, self._descriptor)
            self._descriptor = -1


class RealFileSystem:
    """The machine's file system, with a limit on the number of open file descriptors. `file_type`: the class of the
    files that it opens."""

    def __init__(self, max_open_files: int = MAX_OPEN_FILES) -> None:
        self.max_open_files = max_open_files
        self.file_type = RealLogFile
        self._open: dict[int, RealLogFile] = {}

    @property
    def open_file_count(self) -> int:
        """The number of file descriptors that are open."""
        return len(self._open)

    def open_descriptor(self, file: RealLogFile) -> int:
        """Open and return a file's descriptor. At `max_open_files` those of files not used since the last such sweep
        are closed first. If all were used, a quarter of them is closed, oldest first. Raises OSError."""
        if len(self._open) >= self.max_open_files:
            self._sweep()
        descriptor = os.open(file.path, os.O_RDWR | os.O_CLOEXEC)
        self._open[descriptor] = file
        return descriptor

    def close_descriptor(self, file: RealLogFile, descriptor: int) -> None:
        """Close a descriptor from `open_descriptor`, unless its number belongs to another file by now."""
        if self._open.get(descriptor) is file:
            del self._open[descriptor]
            os.close(descriptor)

    def close(self) -> None:
        """Close all file descriptors. Files stay usable: the next use opens a descriptor again."""
        for file in list(self._open.values()):
            file.close()

    # Logs and files refer to each other, so only the cycle collector finds descriptors that nobody closed.
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
        try:
            return self.file_type(self, path, os.stat(path).st_size)
        except FileNotFoundError:
            if not create:
                raise
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644))
        return self.file_type(self, path, 0)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def list_directory(self, path: str) -> list[DirectoryEntry]:
        with os.scandir(path) as entries:
            return sorted(_directory_entry(entry) for entry in entries)

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def remove_directory(self, path: str) -> None:
        os.rmdir(path)

    def read_bytes(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def write_bytes(self, path: str, data: Buffer, *, sync: bool) -> None:
        try:
            with open(path, "wb", buffering=0) as file:
                atomic_file.write_all(file, data)
                if sync:
                    os.fsync(file.fileno())
        except OSError as error:
            raise with_filename(error, path) from None

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> bool:
        try:
            os.unlink(path)
        except FileNotFoundError:
            return False
        return True

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, time_ms: int) -> None:
        os.utime(path, ns=(time_ms * 1_000_000, time_ms * 1_000_000))

    def fsync_directory(self, path: str) -> None:
        try:
            atomic_file.sync_directory(path)
        except OSError as error:
            raise with_filename(error, path) from None


def _directory_entry(entry: "os.DirEntry[str]") -> DirectoryEntry:
    is_directory = entry.is_dir(follow_symlinks=True)
    return DirectoryEntry(entry.name, is_directory, 0 if is_directory else entry.stat().st_size)
