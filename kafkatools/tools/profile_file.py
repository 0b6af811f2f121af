"""Add and replace profiles in a file of profiles without touching the rest of its text.

Rules: a table is appended, or takes the place of the profile's own tables; every other byte stays, comments too. The
new text is parsed and compared with the old one before it is written, so a file whose profiles are inline tables is
refused instead of damaged. The file is replaced by a rename; a symbolic link stays one.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping

from kafkatools.core import atomic_file
from kafkatools.exit_status import CommandError
from kafkatools.tools.declared.writing import quoted, toml_key

_PRIVATE = 0o600


def profile_table(name: str, keys: Mapping[str, str], settings: Mapping[str, str]) -> str:
    """The text of a profile's tables."""
    path = f"profiles.{toml_key(name)}"
    lines = [f"[{path}]", *(f"{key} = {quoted(value)}" for key, value in keys.items())]
    if settings:
        lines += ["", f"[{path}.settings]", *(f"{quoted(key)} = {quoted(value)}" for key, value in settings.items())]
    return "\n".join(lines) + "\n"


def with_profile(text: str, name: str, table: str, path: str) -> str:
    """Return the text of a file of profiles with this profile's table. Raises CommandError, which names the file, when
    the text cannot be changed without changing something else."""
    lines = text.splitlines(keepends=True)
    kept: list[str] = []
    place = None
    for start, end, keys in _sections(lines):
        if keys[:2] == ["profiles", name]:
            place = len(kept) if place is None else place
            last = end
            while last > start + 1 and lines[last - 1].lstrip()[:1] in ("", "#"):
                last -= 1  # what stands in front of the next table belongs to that table
            kept += lines[last:end]
        else:
            kept += lines[start:end]
    if place is None:
        before = "".join(kept)
        gap = "" if not before else "\n" if before.endswith("\n") else "\n\n"
        changed = f"{before}{gap}{table}"
    else:
        changed = "".join((*kept[:place], table, *kept[place:]))
    _ensure_same_otherwise(text, changed, name, table, path)
    return changed


def _sections(lines: list[str]) -> list[tuple[int, int, list[str]]]:
    """The sections of a TOML text: first line, line after the last, and the keys of the header."""
    headers = {number: keys for number, line in enumerate(lines) if (keys := _header(line)) is not None}
    starts = sorted({0, *headers})
    return [(start, end, headers.get(start, [])) for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)]


def _header(line: str) -> list[str] | None:
    """The keys of a table's header; None for any other line."""
    if not line.lstrip().startswith("["):
        return None
    try:
        table: object = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return None
    keys: list[str] = []
    while isinstance(table, dict) and table:
        (key, table), *_ = table.items()
        keys.append(key)
    return keys


def _ensure_same_otherwise(text: str, changed: str, name: str, table: str, path: str) -> None:
    expected = tomllib.loads(text)
    profiles = expected.setdefault("profiles", {})
    profiles[name] = tomllib.loads(table)["profiles"][name]
    try:
        is_same = tomllib.loads(changed) == expected
    except tomllib.TOMLDecodeError:
        is_same = False
    if not is_same:
        raise CommandError(
            f"{path}: profiles.{name} cannot be written without changing other parts of the file",
            hint="Write each profile as a table of its own, [profiles.NAME], and try again.",
        )


def properties_text(settings: Mapping[str, str]) -> str:
    """The text of a properties file with these values, escaped as Java does."""
    escapes = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"})
    lines = []
    for name, value in settings.items():
        escaped = value.translate(escapes)
        lines.append(f"{name}={chr(92) if escaped.startswith(' ') else ''}{escaped}\n")
    return "".join(lines)


def write_private(path: str, text: str) -> None:
    """Replace a file by a new one that only its owner can read. Raises OSError."""
    _replace(path, text, _PRIVATE)


def write_profile_file(path: str, text: str) -> None:
    """Replace the file of profiles with its permissions; a new one can be read by its owner only. Raises OSError."""
    real = os.path.realpath(path)
    mode = os.stat(real).st_mode & 0o777 if os.path.exists(real) else _PRIVATE
    _replace(real, text, mode)


def _replace(path: str, text: str, mode: int) -> None:
    os.makedirs(os.path.dirname(path) or ".", mode=0o700, exist_ok=True)
    with atomic_file.replacing(path, _PRIVATE) as file:
        os.fchmod(file.fileno(), mode)
        atomic_file.write_all(file, text.encode("utf-8"))
        os.fsync(file.fileno())
    atomic_file.sync_directory(os.path.dirname(path))
