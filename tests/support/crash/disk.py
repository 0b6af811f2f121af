"""A disk in memory that can be asked what a loss of power may leave of it, at any operation.

Model, as harsh as POSIX allows. A file has synced bytes and the writes and truncations since; a directory has synced
names and the changes of names since. fsync of a file makes its bytes durable, not its name; fsync of a directory makes
its own names durable, also those of directories in it, not what is in those. `after_power_loss` makes a disk from the
synced state and a part of the changes that were not synced:

- NOTHING: none of them.
- EVERYTHING: all, as after a kill of the process.
- PREFIX: the changes of the whole disk up to a moment, the last write torn.
- SOME: any of them, each by itself: names without contents, contents of later writes without earlier ones.

`kafkatools.core.log.faulty_files` is the simpler disk of the log's own tests: it fails at an operation and keeps
directories.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from support.faulty_files import MemoryFile, MemoryFileSystem

from kafkatools.core.log.files import Buffer, DirectoryEntry

NOTHING, EVERYTHING, PREFIX, SOME = "nothing", "everything", "prefix", "some"
MODES = (NOTHING, EVERYTHING, PREFIX, SOME)


class Write(NamedTuple):
    """Bytes at a place, or with `data` None a truncation to it; `moment` orders the changes of the disk."""

    moment: int
    position: int
    data: bytes | None


class NameChange(NamedTuple):
    """Names of one directory that change together: gone, and set."""

    moment: int
    removed: tuple[str, ...]
    added: tuple[tuple[str, Inode], ...]


class Content:
    """The bytes of a file; zeros that a truncation put at its end take no memory."""

    def __init__(self, data: bytes = b"", size: int = 0) -> None:
        self.data = bytearray(data)
        self.size = max(size, len(data))

    def put(self, position: int, data: bytes) -> None:
        """Write at a place."""
        content = self.data
        if len(content) < position:
            content.extend(bytes(position - len(content)))
        content[position : position + len(data)] = data
        self.size = max(self.size, len(content))

    def cut(self, size: int) -> None:
        """Cut to a size, or extend with zeros."""
        del self.data[size:]
        self.size = size

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes."""
        size = max(0, min(size, self.size - position))
        found = bytes(self.data[position : position + size])
        return found + bytes(size - len(found))

    def copy(self) -> Content:
        """Return a copy."""
        return Content(self.data, self.size)


class Inode:
    """A file or a directory."""

    def __init__(self, *, is_directory: bool) -> None:
        self.is_directory = is_directory
        self.content = Content()
        self.synced = Content()
        self.writes: list[Write] = []
        self.names: dict[str, Inode] = {}
        self.synced_names: dict[str, Inode] = {}
        self.changes: list[NameChange] = []
        self.modified_ms = 0


class DiskFile(MemoryFile):
    """A `LogFile` of a `PowerDisk`."""

    def __init__(self, disk: PowerDisk, path: str, inode: Inode) -> None:
        self._disk = disk
        self._inode = inode
        self.path = path

    @property
    def size_bytes(self) -> int:
        """The size as the process sees it."""
        return self._inode.content.size

    def append(self, data: Buffer) -> int:
        """Write at the end."""
        position = self._inode.content.size
        self.write_at(position, data)
        return position

    def write_at(self, position: int, data: Buffer) -> None:
        """Overwrite from a position on."""
        written = bytes(data)
        self._inode.writes.append(Write(self._disk.next_moment(), position, written))
        self._inode.content.put(position, written)
        self._disk.done("write", self.path)

    def read_at(self, position: int, size: int) -> bytes:
        """Up to `size` bytes."""
        return self._inode.content.read(position, size)

    def truncate(self, size: int) -> None:
        """Cut to a size, or extend with zeros."""
        self._inode.writes.append(Write(self._disk.next_moment(), size, None))
        self._inode.content.cut(size)
        self._disk.done("truncate", self.path)

    def preallocate(self, size: int) -> None:
        """The zeros are not kept."""

    def flush(self) -> None:
        """Make what was written durable."""
        self._inode.synced = self._inode.content.copy()
        self._inode.writes.clear()
        self._disk.done("fsync", self.path)


class PowerDisk(MemoryFileSystem):
    """A `FileSystem`. `on_operation` is called after every change, with its kind and path."""

    def __init__(self, root: Inode | None = None) -> None:
        self._root = root or Inode(is_directory=True)
        self._moment = 0
        self.operations = 0
        self.now_ms = 0
        self.on_operation: Callable[[str, str], None] | None = None

    def next_moment(self) -> int:
        """The next change of the disk."""
        self._moment += 1
        return self._moment

    def done(self, kind: str, path: str) -> None:
        """A change has happened."""
        self.operations += 1
        if self.on_operation is not None:
            self.on_operation(kind, path)

    # loss of power

    def after_power_loss(self, mode: str, rng: Random) -> PowerDisk:
        """The disk as the next start finds it; this one goes on."""
        moment = rng.randint(0, self._moment) if mode == PREFIX else self._moment
        pending = sorted(self._pending_moments(self._root, set()))
        if mode == PREFIX:
            moment = rng.choice([0, *pending])
        copies: dict[int, Inode] = {}
        disk = PowerDisk(_survivor(self._root, _Loss(mode, moment, rng), copies))
        disk.now_ms = self.now_ms
        return disk

    def _pending_moments(self, inode: Inode, seen: set[int]) -> set[int]:
        if id(inode) in seen:
            return set()
        seen.add(id(inode))
        found = {change.moment for change in inode.changes} | {write.moment for write in inode.writes}
        for each in [*inode.names.values(), *inode.synced_names.values()]:
            found |= self._pending_moments(each, seen)
        return found

    # the file system

    def _find(self, path: str) -> Inode | None:
        found: Inode | None = self._root
        for name in path.strip("/").split("/"):
            if name:
                found = found.names.get(name) if found is not None else None
        return found

    def _existing(self, path: str) -> Inode:
        found = self._find(path)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return found

    def _change(self, directory: Inode, removed: tuple[str, ...], added: tuple[tuple[str, Inode], ...]) -> None:
        directory.changes.append(NameChange(self.next_moment(), removed, added))
        for name in removed:
            directory.names.pop(name, None)
        directory.names.update(added)

    def open(self, path: str, *, create: bool = False) -> DiskFile:
        """A file; FileNotFoundError unless it exists or `create` is set."""
        found = self._find(path)
        if found is None:
            if not create:
                self._existing(path)
            found = Inode(is_directory=False)
            found.modified_ms = self.now_ms
            self._change(self._existing(os.path.dirname(path)), (), ((os.path.basename(path), found),))
            self.done("create", path)
        return DiskFile(self, path, found)

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory of this path."""
        return self._find(path) is not None

    def list_directory(self, path: str) -> list[DirectoryEntry]:
        """Its entries sorted by name."""
        names = self._existing(path).names
        return sorted(DirectoryEntry(name, each.is_directory, each.content.size) for name, each in names.items())

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents."""
        if not path.strip("/") or self._find(path) is not None:
            return
        self.make_directory(os.path.dirname(path))
        made = Inode(is_directory=True)
        self._change(self._existing(os.path.dirname(path)), (), ((os.path.basename(path), made),))
        self.done("mkdir", path)

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        if self._existing(path).names:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        self._change(self._existing(os.path.dirname(path)), (os.path.basename(path),), ())
        self.done("rmdir", path)

    def read_bytes(self, path: str) -> bytes:
        """A whole file."""
        content = self._existing(path).content
        return content.read(0, content.size)

    def rename(self, source: str, target: str) -> None:
        """Rename within a directory, over whatever `target` was."""
        inode, parent = self._existing(source), self._existing(os.path.dirname(source))
        other = self._existing(os.path.dirname(target))
        if other is parent:
            self._change(parent, (os.path.basename(source),), ((os.path.basename(target), inode),))
        else:
            self._change(other, (), ((os.path.basename(target), inode),))
            self._change(parent, (os.path.basename(source),), ())
        self.done("rename", target)

    def remove(self, path: str) -> bool:
        """Remove a file; False when there was none."""
        if self._find(path) is None:
            return False
        self._change(self._existing(os.path.dirname(path)), (os.path.basename(path),), ())
        self.done("remove", path)
        return True

    def modified_ms(self, path: str) -> int:
        """The time of the last change: the time that was set, or `now_ms` at the file's creation."""
        return self._existing(path).modified_ms

    def set_modified_ms(self, path: str, time_ms: int) -> None:
        """Set that time."""
        self._existing(path).modified_ms = time_ms

    def fsync_directory(self, path: str) -> None:
        """Make the names in a directory durable."""
        inode = self._existing(path)
        inode.synced_names = dict(inode.names)
        inode.changes.clear()
        self.done("fsync-directory", path)


class _Loss(NamedTuple):
    mode: str
    moment: int
    rng: Random

    def keeps(self, moment: int) -> bool:
        """Whether a change that was not synced is on the disk all the same."""
        if self.mode == SOME:
            return self.rng.random() < 0.5
        return self.mode == EVERYTHING or (self.mode == PREFIX and moment <= self.moment)

    def content(self, inode: Inode) -> Content:
        """The contents of a file that the power failure left."""
        content = inode.synced.copy()
        for write in inode.writes:
            if not self.keeps(write.moment):
                continue
            if write.data is None:
                content.cut(write.position)
            else:
                is_torn = (self.mode == PREFIX and write.moment == self.moment) or (
                    self.mode == SOME and self.rng.random() < 0.3
                )
                data = write.data[: self.rng.randint(0, len(write.data))] if is_torn else write.data
                content.put(write.position, data)
        return content


def _survivor(inode: Inode, loss: _Loss, copies: dict[int, Inode]) -> Inode:
    known = copies.get(id(inode))
    if known is not None:
        return known
    copy = copies[id(inode)] = Inode(is_directory=inode.is_directory)
    copy.modified_ms = inode.modified_ms
    if not inode.is_directory:
        copy.synced = loss.content(inode)
        copy.content = copy.synced.copy()
        return copy
    names = dict(inode.synced_names)
    for change in inode.changes:
        if loss.keeps(change.moment):
            for name in change.removed:
                names.pop(name, None)
            names.update(change.added)
    copy.names = {name: _survivor(each, loss, copies) for name, each in names.items()}
    copy.synced_names = dict(copy.names)
    return copy
