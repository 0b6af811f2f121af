"""Replace a file as a whole: readers see the old content or the new one, never a part of it.

`write_atomically` does the same for the log's files, over a file system that can inject faults (`core/log/files.py`).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from io import FileIO


@contextlib.contextmanager
def replacing(path: str, mode: int = 0o666) -> Iterator[FileIO]:
    """Open a temporary file beside `path`. It is renamed to `path` at the end, or removed if writing fails."""
    beside = f"{path}.{os.getpid()}.tmp"
    try:
        with open(beside, "wb", buffering=0, opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside)
        raise


def replace(path: str, data: bytes, mode: int = 0o666) -> None:
    """Replace the content of a file without fsync: a power failure may lose the new content. `mode`: the permissions of
    the file, less the umask. Raises OSError and leaves the old content."""
    with replacing(path, mode) as file:
        write_all(file, data)


def replace_durably(path: str, data: bytes) -> None:
    """Replace the content of a file with fsync: once this returns, the new content survives a power failure. Raises
    OSError."""
    with replacing(path) as file:
        write_all(file, data)
        os.fsync(file.fileno())
    sync_directory(os.path.dirname(path))


def rename_to_new(temporary: str, path: str) -> None:
    """Rename a file. Raises FileExistsError if `path` exists, another OSError if the rename fails. A file system
    without hard links replaces an existing `path`."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        os.rename(temporary, path)
    else:
        os.unlink(temporary)


def sync_directory(path: str) -> None:
    """Make creations, renames and removals in a directory durable with fsync; an empty path is the current directory.
    Raises OSError."""
    descriptor = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(file: FileIO, data: bytes | bytearray | memoryview) -> None:
    """Write all bytes to an unbuffered file, which may take them in several parts. Raises OSError."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]
