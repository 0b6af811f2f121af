"""A wall clock that can be wrong, and a disk that can be slow or full.

Without faults the clock adds 0, and the files are those of the system: a fault of the disk replaces methods of the
class of its files, and the end of the fault restores them.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable

from kafkatools.core.clock import SystemClock
from kafkatools.core.log.files import Buffer, RealFileSystem, RealLogFile, Sync

BeforeWrite = Callable[[str], None]
BeforeSync = Callable[[str], None]


class FaultyClock(SystemClock):
    """The system's clock, with a wall clock that is `skew_ms` fast. Timers stay right, as after an operator or NTP has
    set the time."""

    def __init__(self) -> None:
        self.skew_ms = 0

    def wall_ms(self) -> int:
        """Wall clock time in milliseconds since 1970 UTC, plus the skew."""
        return time.time_ns() // 1_000_000 + self.skew_ms


class _DelayedSync:
    """A pending fsync of a slow disk; it waits in the thread that runs it."""

    def __init__(self, sync: Sync, path: str, before: BeforeSync) -> None:
        self._sync, self._path, self._before = sync, path, before

    def run(self) -> None:
        """Wait for the disk, then sync. Raises OSError."""
        self._before(self._path)
        self._sync.run()


class FaultyFiles(RealFileSystem):
    """The machine's file system, whose writes can be slow or fail."""

    def __init__(self, max_open_files: int) -> None:
        super().__init__(max_open_files)
        self._type: type[RealLogFile] = type("SandboxLogFile", (RealLogFile,), {"__slots__": ()})
        self.file_type = self._type
        self._before_write: BeforeWrite | None = None

    def set_faults(self, before_write: BeforeWrite | None, before_sync: BeforeSync | None) -> None:
        """Call these with the path before each write and each sync; None for a sound disk. `before_write` raises the
        OSError of a full disk."""
        self._before_write = before_write
        for name in ("append", "write_at", "preallocate", "flush", "begin_sync"):
            if name in self._type.__dict__:
                delattr(self._type, name)
        if before_write is not None:
            for name in ("append", "write_at", "preallocate"):
                setattr(self._type, name, _preceded(name, before_write))
        if before_sync is not None:
            for name, method in (("flush", _preceded("flush", before_sync)), ("begin_sync", _delayed(before_sync))):
                setattr(self._type, name, method)

    def open(self, path: str, *, create: bool = False) -> RealLogFile:
        """Open a file; with `create` a missing file is a write."""
        if create and self._before_write is not None:
            self._before_write(path)
        return super().open(path, create=create)

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents."""
        if self._before_write is not None:
            self._before_write(path)
        super().make_directory(path)

    def write_bytes(self, path: str, data: Buffer, *, sync: bool) -> None:
        """Replace a file's content in place, or create the file."""
        if self._before_write is not None:
            self._before_write(path)
        super().write_bytes(path, data, sync=sync)


def _preceded(name: str, before: BeforeWrite) -> Callable[..., object]:
    method = getattr(RealLogFile, name)

    def run(file: RealLogFile, *arguments: object) -> object:
        before(file.path)
        return method(file, *arguments)

    return run


def _delayed(before: BeforeSync) -> Callable[[RealLogFile], Sync]:
    return lambda file: _DelayedSync(RealLogFile.begin_sync(file), file.path, before)


def no_space(path: str) -> OSError:
    """The error of a full disk."""
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
