"""Files that hold the inverse of a change, written before it: whole and on the disk under their name, or not there."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable

from kafkatools.exit_status import CommandError


def write_undo_file(path: str, lines: Iterable[str]) -> None:
    """Writes the lines, newline included, to a file that is not there yet. Raises CommandError."""
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        _write(temporary, lines)
        os.rename(temporary, path)
        _sync_directory(path)
    except OSError as error:
        raise CommandError(
            f"The undo file {path} cannot be written, so nothing was changed: {error.strerror}",
            hint="Name another one with --undo-file.",
        ) from None
    finally:
        if os.path.lexists(temporary):
            os.unlink(temporary)


def _write(path: str, lines: Iterable[str]) -> None:
    with open(path, "x", encoding="utf-8", newline="") as file:
        file.writelines(lines)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(path: str) -> None:
    directory = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
