"""Run files, by which processes find a running broker: one JSON object each, locked while the broker is running.

The lock tells whether the broker is running, since a pid alone may belong to another process later. The file is written
under its lock and removed when the broker ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Mapping

from kafkatools.sandbox.messages import RunInfo

FAULTS_FILE, FAULTS_STATE_FILE = "faults.json", "faults.state.json"
"""The files beside a run file that have the faults of its broker (`faults/`), and what the broker made of them."""


class RunFile:
    """The run file of this process, open, locked and empty. Raises OSError when another process has locked it (EAGAIN),
    or it cannot be created."""

    def __init__(self, path: str) -> None:
        self.path = path
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        descriptor = _locked(path)
        while descriptor is None:
            descriptor = _locked(path)
        self._descriptor = descriptor
        os.ftruncate(descriptor, 0)  # the pid of a broker that was killed must not be read as that of this one

    def write(self, content: Mapping[str, object]) -> None:
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, json.dumps(content).encode(), 0)

    def remove(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        os.close(self._descriptor)


def _locked(path: str) -> int | None:
    """Return a locked descriptor of the file at `path`; None if the broker before removed the file meanwhile. Raises
    OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
    except OSError:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def read_run_file(path: str) -> RunInfo | None:
    """The content of a run file while its broker is running. None without a file, for the file of a broker that was
    killed, and before its broker has written it. Raises OSError."""
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
        info: RunInfo = json.loads(os.pread(descriptor, 1 << 16, 0))
    except ValueError:
        return None  # its broker has locked the file and not written it yet
    return info if isinstance(info, dict) else None


def forget_faults(directory: str) -> None:
    """Remove the faults of a broker that does not run, given the directory of its run file."""
    for name in (FAULTS_FILE, FAULTS_STATE_FILE):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(directory, name))
