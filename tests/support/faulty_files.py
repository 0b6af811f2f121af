"""A `FileSystem` in memory that loses what was not synced and fails when told to: the disk of the fault tests.

Model. A file has the bytes that were written and the bytes that were last synced; a directory has its names and
those that were last synced. `crash()` makes the synced ones the only ones, or keeps a part of what was not synced, as
a disk might. `fail_after` lets a number of operations pass and then raises; a write that fails may have written a
part first, as on a disk that fills up. Every change is an operation and is counted, so that a test can fail at each of
them in turn.
"""

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

from kafkatools.core.log.files import Buffer, DirectoryEntry


class InjectedCrash(BaseException):
    """The process dies here. Not an Exception: nothing in the log may catch it."""


@dataclass
class _Inode:
    data: bytearray = field(default_factory=bytearray)
    synced: bytes = b""
    modified_ms: int = 0


@dataclass
class Fault:
    """What happens at one operation: an error code, how many bytes of a write get through before it, or a crash."""

    code: int = errno.ENOSPC
    short_write_bytes: int = 0
    is_crash: bool = False
    is_permanent: bool = False


class MemoryFile:
    """The parts of a `LogFile` that all files in memory have in common."""

    def write_at(self, position: int, data: Buffer) -> None:
        """Write at a place."""
        raise NotImplementedError

    def truncate(self, size: int) -> None:
        """Cut to a size, or extend with zeros."""
        raise NotImplementedError

    def trim(self) -> None:
        """Do nothing: no space is preallocated."""

    def begin_sync(self) -> Self:
        """Return a sync that counts as an operation when it runs."""
        return self

    def run(self) -> None:
        """Run the sync that `begin_sync` returned."""
        self.flush()

    def flush(self) -> None:
        """Make everything written so far survive a loss of power."""
        raise NotImplementedError

    def fileno(self) -> int:
        """Raise OSError: a file in memory has no descriptor."""
        raise OSError(errno.EBADF, "a file in memory has no descriptor")

    def close(self) -> None:
        """Do nothing: a file in memory holds no descriptor."""


class FaultyLogFile(MemoryFile):
    """A `LogFile` of a `FaultyFileSystem`."""

    def __init__(self, owner: "FaultyFileSystem", path: str, inode: _Inode) -> None:
        self._owner = owner
        self._inode = inode
        self.path = path

    @property
    def size_bytes(self) -> int:
        """The size as the process sees it."""
        return len(self._inode.data)

    def append(self, data: Buffer) -> int:
        """Write at the end, whole or not at all; gives the position of the first byte."""
        position = len(self._inode.data)
        try:
            self._write(position, data)
        except OSError:
            del self._inode.data[position:]
            raise
        return position

    def write_at(self, position: int, data: Buffer) -> None:
        """Overwrite from a position on; the file grows when need be."""
        self._write(position, data)

    def _write(self, position: int, data: Buffer) -> None:
        self._owner.check(self.path)
        fault = self._owner.next_fault(f"write {os.path.basename(self.path)}")
        if fault is not None:
            self._put(position, data[: fault.short_write_bytes])
            self._owner.raise_fault(fault)
        self._put(position, data)

    def _put(self, position: int, data: Buffer) -> None:
        content = self._inode.data
        if len(content) < position:
            content.extend(bytes(position - len(content)))
        content[position : position + len(data)] = data

    def read_at(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""
        self._owner.check(self.path)
        return bytes(self._inode.data[position : position + size])

    def truncate(self, size: int) -> None:
        """Cut to a size, or extend with zeros."""
        self._owner.check(self.path)
        self._owner.operate(f"truncate {os.path.basename(self.path)}")
        content = self._inode.data
        if size < len(content):
            del content[size:]
        else:
            content.extend(bytes(size - len(content)))

    def preallocate(self, size: int) -> None:
        """Counted; the zeros are not kept."""
        self._owner.check(self.path)
        self._owner.operate(f"preallocate {os.path.basename(self.path)}")

    def flush(self) -> None:
        """Make what was written survive a crash."""
        self._owner.check(self.path)
        self._owner.operate(f"fsync {os.path.basename(self.path)}")
        self._inode.synced = bytes(self._inode.data)


class MemoryFileSystem:
    """The parts of a `FileSystem` that all file systems in memory have in common."""

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        """A file as a `LogFile`; FileNotFoundError unless it exists or `create` is set."""
        raise NotImplementedError

    def write_bytes(self, path: str, data: Buffer, *, sync: bool) -> None:
        """Replace the content of a file, and with `sync` make it durable."""
        file = self.open(path, create=True)
        file.truncate(0)
        file.write_at(0, data)
        if sync:
            file.flush()


class FaultyFileSystem(MemoryFileSystem):
    """Files and directories in memory. Inodes are shared by the names of before and after a rename, as on a disk."""

    def __init__(self) -> None:
        self._names: dict[str, _Inode] = {}
        self._synced_names: dict[str, _Inode] = {}
        self._directories: set[str] = {"/"}
        self._fault: Fault | None = None
        self._countdown = -1
        self.operations: list[str] = []
        self.broken_directory: str | None = None
        self.now_ms = 0

    # faults

    def fail_after(self, operation_count: int, fault: Fault) -> None:
        """Let so many operations pass, then fail."""
        self._countdown = operation_count
        self._fault = fault

    def heal(self) -> None:
        """No fault any more."""
        self._fault = None

    def check(self, path: str) -> None:
        """Nothing in `broken_directory` can be read or written."""
        broken = self.broken_directory
        if broken is not None and (path == broken or path.startswith(broken + "/")):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    def next_fault(self, operation: str) -> Fault | None:
        """Count an operation; gives the fault that it is to meet."""
        self.operations.append(operation)
        if self._fault is None:
            return None
        if self._countdown > 0:
            self._countdown -= 1
            return None
        fault = self._fault
        if not fault.is_permanent:
            self._fault = None
        return fault

    def raise_fault(self, fault: Fault) -> None:
        """Fail as the fault says."""
        if fault.is_crash:
            raise InjectedCrash
        raise OSError(fault.code, os.strerror(fault.code))

    def operate(self, operation: str) -> None:
        """Count an operation and fail if it is to."""
        fault = self.next_fault(operation)
        if fault is not None:
            self.raise_fault(fault)

    def crash(self, kept_bytes: Callable[[str, int], int] | None = None) -> None:
        """Lose power. Names that were not synced are gone, files are as they were last synced; `kept_bytes(path, size)`
        may keep a prefix of what was appended since."""
        self._fault = None
        for path, inode in self._synced_names.items():
            synced, written = inode.synced, bytes(inode.data)
            if kept_bytes is not None and written.startswith(synced):
                kept = kept_bytes(path, len(written) - len(synced))
                synced = written[: len(synced) + kept]
            inode.data = bytearray(synced)
        self._names = dict(self._synced_names)

    def lose_names(self, prefix: str) -> None:
        """Let the removals and renames of the files that begin with `prefix` survive a crash, and no others, as a disk
        might that writes them in any order."""
        for path in [path for path in self._synced_names if path.startswith(prefix) and path not in self._names]:
            del self._synced_names[path]

    # the file system

    def open(self, path: str, *, create: bool = False) -> FaultyLogFile:
        """A file as a `LogFile`; FileNotFoundError unless it exists or `create` is set."""
        self.check(path)
        inode = self._names.get(path)
        if inode is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            self.operate(f"create {os.path.basename(path)}")
            inode = self._names[path] = _Inode(modified_ms=self.now_ms)
        return FaultyLogFile(self, path, inode)

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory of this path."""
        if self.broken_directory is not None and path.startswith(self.broken_directory + "/"):
            return False  # as os.path.exists answers for what cannot be looked at
        return path in self._names or path in self._directories

    def list_directory(self, path: str) -> list[DirectoryEntry]:
        """Its entries sorted by name."""
        self.check(path)
        if path not in self._directories:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        found = [
            DirectoryEntry(os.path.basename(name), False, len(inode.data))
            for name, inode in self._names.items()
            if os.path.dirname(name) == path
        ]
        below = (name for name in self._directories if name != path and os.path.dirname(name) == path)
        return sorted(found + [DirectoryEntry(os.path.basename(name), True, 0) for name in below])

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents (which survive a crash: what is tested is what is in them)."""
        self.check(path)
        while path not in self._directories:
            self._directories.add(path)
            path = os.path.dirname(path)

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        self.operate(f"rmdir {os.path.basename(path)}")
        if self.list_directory(path):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        self._directories.discard(path)

    def read_bytes(self, path: str) -> bytes:
        """A whole (small) file."""
        return bytes(self.open(path).read_at(0, 2**62))

    def rename(self, source: str, target: str) -> None:
        """Rename over whatever `target` was; a directory takes its content along."""
        self.check(source)
        self.operate(f"rename {os.path.basename(source)} {os.path.basename(target)}")
        if source in self._directories:
            self._rename_directory(source, target)
            return
        if source not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
        self._names[target] = self._names.pop(source)

    def _rename_directory(self, source: str, target: str) -> None:
        self._directories.remove(source)
        self._directories.add(target)
        for names in (self._names, self._synced_names):
            for path in [path for path in names if os.path.dirname(path) == source]:
                names[os.path.join(target, os.path.basename(path))] = names.pop(path)

    def remove(self, path: str) -> bool:
        """Remove a file; False when there was none."""
        if path not in self._names:
            return False
        self.check(path)
        self.operate(f"remove {os.path.basename(path)}")
        del self._names[path]
        return True

    def modified_ms(self, path: str) -> int:
        """When the content last changed: what was set, or the `now_ms` of its creation."""
        return self._names[path].modified_ms

    def set_modified_ms(self, path: str, time_ms: int) -> None:
        """Set that time."""
        self._names[path].modified_ms = time_ms

    def fsync_directory(self, path: str) -> None:
        """Make creations, renames and removals in a directory survive a crash."""
        self.check(path)
        self.operate(f"fsync-directory {os.path.basename(path)}")
        for name in [name for name in self._synced_names if os.path.dirname(name) == path]:
            del self._synced_names[name]
        here = {name: inode for name, inode in self._names.items() if os.path.dirname(name) == path}
        self._synced_names.update(here)
