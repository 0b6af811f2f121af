"""`kt` with a wall clock that can be wrong and a disk that can be full, as a file says. argv: file, arguments of kt.

The file holds JSON: `skew_ms` is added to the wall clock (the monotonic clock stays right, as after an operator or NTP
has set the time), `is_full` has every write fail with ENOSPC. It is looked at ten times a second.
"""

from __future__ import annotations

import errno
import json
import os
import pathlib
import sys
import threading
import time
from typing import Any

from kafkatools.__main__ import main
from kafkatools.core.clock import SystemClock
from kafkatools.core.log.files import RealFileSystem

LOOK_S = 0.1


class Faults:
    """The current faults."""

    def __init__(self, path: str) -> None:
        self._path = pathlib.Path(path)
        self.skew_ms = 0
        self.is_full = False

    def look(self) -> None:
        """Read the file; one that is missing or half written changes nothing."""
        try:
            found = json.loads(self._path.read_text())
        except (OSError, ValueError):
            return
        self.skew_ms, self.is_full = found.get("skew_ms", 0), found.get("is_full", False)

    def watch(self) -> None:
        """Look again and again."""
        while True:
            self.look()
            time.sleep(LOOK_S)

    def check(self, path: object = None) -> None:
        """Raise what a full disk raises."""
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


def install(faults: Faults) -> None:
    """Put the faults between kt and the system."""
    pwrite, wall_ms = os.pwrite, SystemClock.wall_ms
    opened, written, made = RealFileSystem.open, RealFileSystem.write_bytes, RealFileSystem.make_directory

    def full_pwrite(*arguments: Any) -> int:
        faults.check()
        return pwrite(*arguments)

    def full_open(self: RealFileSystem, path: str, *, create: bool = False) -> Any:
        if create:
            faults.check(path)
        return opened(self, path, create=create)

    def full_write_bytes(self: RealFileSystem, path: str, *arguments: Any, **options: Any) -> None:
        faults.check(path)
        written(self, path, *arguments, **options)

    def full_make_directory(self: RealFileSystem, path: str) -> None:
        faults.check(path)
        made(self, path)

    os.pwrite = full_pwrite
    SystemClock.wall_ms = lambda self: wall_ms(self) + faults.skew_ms  # type: ignore[method-assign]
    RealFileSystem.open = full_open  # type: ignore[method-assign]
    RealFileSystem.write_bytes = full_write_bytes  # type: ignore[method-assign]
    RealFileSystem.make_directory = full_make_directory  # type: ignore[method-assign]


if __name__ == "__main__":
    active = Faults(sys.argv.pop(1))
    active.look()
    install(active)
    threading.Thread(target=active.watch, daemon=True).start()
    main()
