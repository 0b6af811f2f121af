"""Files that tell other processes of a running broker: one JSON object, locked by the broker while it lives.

The lock says whether the process is there; a pid alone would lie once it is used again. Rules: the file is written
under its lock and removed at the end.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Mapping

from kafkatools.sandbox.messages import RunInfo


class RunFile:
    """Held open and locked by the broker."""

    def __init__(self, path: str) -> None:
        self.path = path
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise

    def write(self, content: Mapping[str, object]) -> None:
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, json.dumps(content).encode(), 0)

    def remove(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        os.close(self._descriptor)


def read_run_file(path: str) -> RunInfo | None:
    """The content while its broker lives, else None; the file that a killed broker left counts for nothing."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return _content(descriptor)
        return None
    finally:
        os.close(descriptor)


def _content(descriptor: int) -> RunInfo | None:
    try:
        found: RunInfo = json.loads(os.pread(descriptor, 1 << 16, 0))
    except ValueError:
        return None  # its broker is about to write it
    return found if isinstance(found, dict) else None
