"""Where files of a log lie: on this machine's disks, or behind any URL that fsspec can open.

A name without `://`, and one that begins with `file://`, is a path of this machine and is read without fsspec. Of a
chained URL (`zip://orders-0::file:///copy.zip`) the part before the first `::` is the path; the rest goes with it.
"""

from __future__ import annotations

import os
import stat
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast
from urllib.parse import unquote, urlsplit

from kafkatools.core.log.dump.segment_file import WINDOW_BYTES, SegmentFile
from kafkatools.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fsspec import AbstractFileSystem

DIRECTORY = "directory"
FILE = "file"
_MAGIC = frozenset("*?[")


class Entry(NamedTuple):
    """One name in a directory."""

    name: str
    kind: str
    size_bytes: int


def local_path(url: str) -> str | None:
    """The path of this machine that a URL means, absolute; None where it lies elsewhere."""
    if "://" not in url:
        return os.path.abspath(os.path.expanduser(url))
    if "::" in url or not url.lower().startswith("file://"):
        return None
    parts = urlsplit(url)
    return os.path.abspath(unquote(parts.path)) if parts.netloc in ("", "localhost") else None


def normal(url: str) -> str:
    """The one name of a file or directory: an absolute path, or a URL without slashes at its end."""
    path = local_path(url)
    if path is not None:
        return path
    head, chain, tail = url.partition("::")
    return (head.rstrip("/") if not head.endswith("://") else head) + chain + tail


def join(url: str, name: str) -> str:
    """The name of an entry of a directory."""
    head, chain, tail = url.partition("::") if "://" in url else (url, "", "")
    return head + ("" if head.endswith("/") else "/") + name + chain + tail


def split(url: str) -> tuple[str, str]:
    """The directory that something lies in, and its name there."""
    head, chain, tail = url.partition("::") if "://" in url else (url, "", "")
    parent, slash, name = head.rstrip("/").rpartition("/")
    return (parent if parent and not parent.endswith("/") else parent + slash) + chain + tail, name


def kind_of(url: str) -> str | None:
    """Whether there is a file or a directory; None when there is neither. Raises PipelineError where that cannot be
    known."""
    path = local_path(url)
    try:
        if path is None:
            system, inner = _remote(url)
            return (DIRECTORY if system.isdir(inner) else FILE) if system.exists(inner) else None
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except Exception as error:  # whatever a remote system's client raises
        raise unreadable(url, error) from error
    if stat.S_ISDIR(mode):
        return DIRECTORY
    if not stat.S_ISREG(mode):
        raise PipelineError(f"{url} is neither a file nor a directory")
    return FILE


def entries(url: str) -> list[Entry]:
    """What a directory holds, by name. Raises PipelineError when it cannot be read."""
    path = local_path(url)
    try:
        found = list(_local_entries(path)) if path is not None else _remote_entries(url)
    except Exception as error:  # whatever a remote system's client raises
        raise unreadable(url, error) from error
    return sorted(found)


def _local_entries(path: str) -> Iterator[Entry]:
    with os.scandir(path) as found:
        for entry in found:
            try:
                status = entry.stat()
            except OSError:  # a link that leads nowhere, or a file that is gone by now
                continue
            if stat.S_ISDIR(status.st_mode):
                yield Entry(entry.name, DIRECTORY, 0)
            elif stat.S_ISREG(status.st_mode):
                yield Entry(entry.name, FILE, status.st_size)


def _remote_entries(url: str) -> list[Entry]:
    system, inner = _remote(url)
    found = []
    for each in system.ls(inner, detail=True):
        name = str(each["name"]).rstrip("/").rpartition("/")[2]
        kind = DIRECTORY if each["type"] == "directory" else FILE
        if name and str(each["name"]).strip("/") != inner.strip("/"):
            found.append(Entry(name, kind, int(each.get("size") or 0)))
    return found


def expand(url: str) -> list[str]:
    """What a name with `*`, `?` or `[...]` stands for, sorted; the name itself when it has none of them or is one."""
    url = normal(url)
    if not _MAGIC & set(url) or kind_of(url) is not None:
        return [url]
    head, chain, tail = url.partition("::") if "://" in url else (url, "", "")
    parts = head.split("/")
    first = next((index for index, part in enumerate(parts) if _MAGIC & set(part)), len(parts))
    found = [("/".join(parts[:first]) or "/") + chain + tail]
    for part in parts[first:]:
        found = (
            [
                join(directory, entry.name)
                for directory in found
                if kind_of(directory) == DIRECTORY
                for entry in entries(directory)
                if fnmatchcase(entry.name, part) and (part.startswith(".") or not entry.name.startswith("."))
            ]
            if _MAGIC & set(part)
            else [join(directory, part) for directory in found]
        )
    return sorted(each for each in found if kind_of(each) is not None)


def open_file(url: str) -> BinaryIO:
    """A file to read and to seek in. Raises PipelineError when it cannot be opened."""
    path = local_path(url)
    try:
        if path is not None:
            return open(path, "rb", buffering=0)
        system, inner = _remote(url)
        return cast("BinaryIO", system.open(inner, "rb"))
    except Exception as error:  # whatever a remote system's client raises
        raise unreadable(url, error) from error


def open_segment(url: str, window_bytes: int = WINDOW_BYTES) -> SegmentFile:
    """A segment to be read through a bounded window. Raises PipelineError when it cannot be opened."""
    path = local_path(url)
    try:
        return SegmentFile(path, window_bytes) if path is not None else _RemoteSegment(url)
    except Exception as error:  # whatever a remote system's client raises
        raise unreadable(url, error) from error


class _RemoteSegment(SegmentFile):
    """A segment behind a URL; windows are read one at a time."""

    def __init__(self, url: str) -> None:
        self.path = url
        self._file = open_file(url)
        self.size = self._file.seek(0, os.SEEK_END)
        self._window_bytes = WINDOW_BYTES
        self._start = 0
        self._window = memoryview(b"")

    def close(self) -> None:
        self._file.close()

    def next_data(self, position: int) -> int:
        """Return the position: holes of remote files are not known."""
        return position

    def read_ahead_from(self, position: int) -> None:
        """The client of the remote system reads ahead as it likes."""

    def _read_window(self, position: int, size: int) -> None:
        self._file.seek(position)
        wanted = min(max(size, self._window_bytes), max(self.size - position, 0))
        parts = []
        while wanted > 0 and (part := self._file.read(wanted)):
            parts.append(part)
            wanted -= len(part)
        self._start, self._window = position, memoryview(b"".join(parts))


def read_bytes(url: str) -> bytes | None:
    """All of a small file; None when there is none."""
    path = local_path(url)
    try:
        if path is None:
            system, inner = _remote(url)
            return bytes(system.cat_file(inner))
        with open(path, "rb") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except Exception as error:  # whatever a remote system's client raises
        raise unreadable(url, error) from error


def ensure_readable(url: str) -> None:
    """Raise PipelineError when this process may not read a file of this machine."""
    path = local_path(url)
    if path is not None and not os.access(path, os.R_OK):
        raise PipelineError(f"{path} cannot be read: Permission denied")


def unreadable(url: str, error: Exception) -> PipelineError:
    """What is told of a file or directory that cannot be read."""
    if isinstance(error, PipelineError):
        return error
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error).strip()
    first_line = reason.splitlines()[0] if reason else type(error).__name__
    return PipelineError(f"{url} cannot be read: {first_line}")


def _remote(url: str) -> tuple[AbstractFileSystem, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise PipelineError(
            f"{url} cannot be read: URLs need the package fsspec and the one for their kind of storage "
            "(pip install fsspec, for s3:// also s3fs)"
        ) from None
    head, chain, tail = url.partition("::")
    if not chain:
        system, inner = url_to_fs(url)
        return system, str(inner)
    scheme, _, inner = head.partition("://")
    return _archive(scheme, tail), inner


@cache
def _archive(scheme: str, tail: str) -> AbstractFileSystem:
    """What is within a file of another system: kept, for it closes that file when it is let go."""
    from fsspec.core import url_to_fs

    return url_to_fs(f"{scheme}://::{tail}")[0]
