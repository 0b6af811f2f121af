"""Add and replace profiles in a file of profiles without touching the rest of its text.

Rules: a table is appended, or takes the place of the profile's own tables; every other byte stays, comments too. The
new text is parsed and compared with the old one before it is written, so a file whose profiles are inline tables is
refused instead of damaged. The file is replaced by a rename; a symbolic link stays one.
"""

from __future__ import annotations

import contextlib
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


def secrets_text(name: str, settings: Mapping[str, str]) -> str:
    """The text of the properties file with the secrets of a profile. Its first line says whose file it is, see
    `is_made_for`."""
    return f"{_made_for(name)}\n{properties_text(settings)}"


def is_made_for(path: str, name: str) -> bool:
    """Return whether a file has the text of `secrets_text` for this profile: then no user wrote it, and it may be
    replaced. False for a symbolic link and for what is no file. Raises OSError."""
    if os.path.islink(path) or not os.path.isfile(path):
        return False
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.readline().rstrip("\n") == _made_for(name)


def _made_for(name: str) -> str:
    return f"# Made by kt profile import for the profile {quoted(name)}; kt profile import --force replaces this file."


def properties_text(settings: Mapping[str, str]) -> str:
    """The text of a properties file with these values, escaped as Java does."""
    escapes = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"})
    lines = []
    for name, value in settings.items():
        escaped = value.translate(escapes)
        lines.append(f"{name}={chr(92) if escaped.startswith(' ') else ''}{escaped}\n")
    return "".join(lines)


def write_profile_files(path: str, text: str, secrets: Mapping[str, str]) -> None:
    """Replace the files with secrets (path -> text), then the file of profiles, which names them. Only the owner can
    read a new file; the file of profiles keeps its permissions. Raises OSError; every file is as before then."""
    before = {place: _content(place) for place in secrets}
    try:
        for place, content in secrets.items():
            _replace(place, content.encode(), _PRIVATE)
        real = os.path.realpath(path)
        mode = os.stat(real).st_mode & 0o777 if os.path.exists(real) else _PRIVATE
        _replace(real, text.encode(), mode)
    except OSError:
        for place, old in before.items():
            with contextlib.suppress(OSError):  # the first error is the one to report
                _restore(place, old)
        raise


def _content(path: str) -> bytes | None:
    if not os.path.lexists(path):
        return None
    with open(path, "rb") as file:
        return file.read()


def _restore(path: str, content: bytes | None) -> None:
    if content is not None:
        _replace(path, content, _PRIVATE)
    elif os.path.lexists(path):
        os.unlink(path)


def _replace(path: str, content: bytes, mode: int) -> None:
    os.makedirs(os.path.dirname(path) or ".", mode=0o700, exist_ok=True)
    with atomic_file.replacing(path, _PRIVATE) as file:
        os.fchmod(file.fileno(), mode)
        atomic_file.write_all(file, content)
        os.fsync(file.fileno())
    atomic_file.sync_directory(os.path.dirname(path))
