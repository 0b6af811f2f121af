"""Files that have the old content or the new one, whenever a reader looks or the machine stops.

The log has the same over its own file system (`core/log/files.py`), so that faults can be injected there.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from io import FileIO


@contextlib.contextmanager
def _replacing(path: str, mode: int = 0o666) -> Iterator[FileIO]:
    """A file beside `path` that takes its name at the end, or is removed when writing fails."""
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
    """Replace the content of a file at once, durable when the system writes it. Raises OSError."""
    with _replacing(path, mode) as file:
        _write_all(file, data)


def replace_durably(path: str, data: bytes) -> None:
    """Replace the content of a file; when this returns, the content and the name survive a crash. Raises OSError."""
    with _replacing(path) as file:
        _write_all(file, data)
        os.fsync(file.fileno())
    sync_directory(os.path.dirname(path))


def sync_directory(path: str) -> None:
    """Make creations, renames and removals in a directory durable. Raises OSError."""
    descriptor = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_all(file: FileIO, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]
