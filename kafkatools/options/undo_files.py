"""Files that hold the inverse of a change, written before it: whole and on the disk under their name, or not there."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable

from kafkatools.exit_status import CommandError


def write_undo_file(path: str, lines: Iterable[str]) -> None:
    """Writes the lines, newline included, to a file that is not there yet. Raises CommandError."""
    try:
        write_new_file(path, lines)
    except OSError as error:
        raise CommandError(
            f"The undo file {path} cannot be written, so nothing was changed: {error.strerror}",
            hint="Name another one with --undo-file.",
        ) from None


def write_new_file(path: str, lines: Iterable[str]) -> None:
    """The same. Raises OSError."""
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "x", encoding="utf-8", newline="") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, path)
    except BaseException:
        if os.path.lexists(temporary):
            os.unlink(temporary)
        raise
    directory = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
