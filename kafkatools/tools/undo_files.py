"""Undo files: files with the inverse of a change, written before the change is made.

An undo file is either absent or complete and durable. Most hold JSON lines, which `read_changes` reads.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from kafkatools.core import atomic_file
from kafkatools.core.json_values import JsonValue
from kafkatools.exit_status import CommandError, UsageError

T = TypeVar("T")
OTHER_UNDO_FILE = "Name another one with --undo-file."


def write_undo_file(path: str, lines: Iterable[str], hint: str = OTHER_UNDO_FILE) -> None:
    """Write lines, each with its newline, to a new file that only its owner can read. Raises CommandError with `hint`
    if the file exists or cannot be written."""
    with _refusing(path, hint):
        write_new_file(path, lines)


def write_unnamed_undo_file(
    name: str, wall_ms: int, suffix: str, lines: Collection[str], hint: str = OTHER_UNDO_FILE
) -> str:
    """Write lines to an unused path `NAME-20260131T134500Z.undo.json`, `...-2.undo.json` and so on in the working
    directory, and return the path. Raises CommandError as `write_undo_file`."""
    while True:
        path = _free_path(name, wall_ms, suffix)
        with _refusing(path, hint), suppress(FileExistsError):  # another process has just taken the path
            write_new_file(path, lines)
            return path


@contextmanager
def _refusing(path: str, hint: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CommandError(
            f"The undo file {path} cannot be written, so nothing was changed: {error.strerror}",
            hint=hint,
        ) from None


def write_new_file(path: str, lines: Iterable[str]) -> None:
    """Write lines, each with its newline, durably to a new file with mode 0600. Raises FileExistsError if the path
    exists, another OSError if it cannot be written."""
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "x", encoding="utf-8", newline="", opener=_open_private) as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        atomic_file.rename_to_new(temporary, path)
    except BaseException:
        if os.path.lexists(temporary):
            os.unlink(temporary)
        raise
    atomic_file.sync_directory(os.path.dirname(path))


def _free_path(name: str, wall_ms: int, suffix: str) -> str:
    from datetime import UTC, datetime

    start = f"{name}-{datetime.fromtimestamp(wall_ms / 1000, UTC):%Y%m%dT%H%M%SZ}"
    number, path = 1, f"{start}.undo{suffix}"
    while os.path.lexists(path):
        number += 1
        path = f"{start}-{number}.undo{suffix}"
    return path


def _open_private(path: str, flags: int) -> int:
    """Open a file descriptor; a file that this creates can be read and written by its owner only (mode 0600)."""
    return os.open(path, flags, 0o600)


def read_changes(path: str, convert: Callable[[JsonValue], T]) -> list[T]:
    """Read a file of JSON lines and convert each value with `read`. Skips empty lines.

    Raises OSError if the file cannot be read, CommandError if it is not UTF-8. Raises CommandError with the line number
    for invalid JSON and for a ValueError or UsageError of `read`.
    """
    import json

    from kafkatools.core.json_texts import parse_json

    changes = []
    try:
        with open(path, encoding="utf-8-sig") as file:  # unlike splitlines(), a file ends lines only with newlines
            for number, line in enumerate(file, 1):
                try:
                    if line.strip():
                        changes.append(convert(parse_json(line.rstrip("\n"))))
                except json.JSONDecodeError as problem:
                    raise CommandError(f"{path}, line {number}, column {problem.colno}: {problem.msg}") from None
                except (ValueError, UsageError) as problem:
                    raise CommandError(f"{path}, line {number}: {problem}") from None
    except UnicodeDecodeError:
        raise CommandError(f"{path} is not UTF-8 text") from None
    return changes
