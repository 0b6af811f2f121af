"""File access for log segments, on local disks or behind any URL that fsspec can open.

A name without `://` and a `file://` URL are local paths, read without fsspec. In a chained URL
(`zip://orders-0::file:///copy.zip`) the text before the first `::` is the path inside the archive.
"""

from __future__ import annotations

import os
import stat
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, BinaryIO, NamedTuple
from urllib.parse import unquote, urlsplit

from kafkatools.core import atomic_file
from kafkatools.core.log.dump.segment_file import WINDOW_BYTES, SegmentFile
from kafkatools.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fsspec import AbstractFileSystem

DIRECTORY = "directory"
FILE = "file"
CREDENTIALS = (
    "check that the credentials are valid, not expired, and may access the bucket, for example AWS_ACCESS_KEY_ID, "
    "AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN"
)
CREDENTIAL_CODES = (
    "ExpiredToken", "InvalidToken", "RequestExpired", "InvalidAccessKeyId", "SignatureDoesNotMatch",
    "NoCredentialsError", "400", "403",
)  # fmt: skip
"""S3's error codes for credentials that are expired or wrong, botocore's exception without any, and the codes of HEAD
requests, whose responses have no body that could name the reason."""
UNREACHABLE = "check that the object store runs and can be reached from here"
_UNREACHED = frozenset(
    {"EndpointConnectionError", "ConnectTimeoutError", "ReadTimeoutError", "ConnectionClosedError", "HTTPClientError"}
)
"""botocore's exceptions for a store that does not answer."""
STORE_TIMEOUT_S = 15.0
"""How long S3 may stay silent, to connect and between two parts of an answer, before the next attempt."""
STORE_ATTEMPTS = 5
_S3_SCHEMES = ("s3://", "s3a://")
_MAGIC = frozenset("*?[")
_REMOTE_WINDOW_BYTES = 4 << 20


class Entry(NamedTuple):
    """One entry of a directory listing: its name, DIRECTORY or FILE, and its size in bytes (0 for a directory)."""

    name: str
    kind: str
    size_bytes: int


def local_path(url: str) -> str | None:
    """Return the absolute local path for a path or `file://` URL. None for another URL, a chained URL, or a `file://`
    URL with a host other than localhost."""
    if "://" not in url:
        return os.path.abspath(os.path.expanduser(url))
    if "::" in url or not url.lower().startswith("file://"):
        return None
    parts = urlsplit(url)
    return os.path.abspath(unquote(parts.path)) if parts.netloc in ("", "localhost") else None


def normal(url: str) -> str:
    """Normalize a file or directory name: an absolute local path, or a URL without trailing slashes."""
    path = local_path(url)
    if path is not None:
        return path
    head, chain = _split_chain(url)
    return (head if head.endswith("://") else head.rstrip("/")) + chain


def join(url: str, name: str) -> str:
    """Append a file name to a directory path or URL; in a chained URL the name is inserted before the first `::`."""
    head, chain = _split_chain(url)
    return head + ("" if head.endswith("/") else "/") + name + chain


def split(url: str) -> tuple[str, str]:
    """Split a path or URL into its parent directory and its last name, as `join` takes them; trailing slashes are
    ignored."""
    head, chain = _split_chain(url)
    parent, slash, name = head.rstrip("/").rpartition("/")
    return (parent if parent and not parent.endswith("/") else parent + slash) + chain, name


def _split_chain(url: str) -> tuple[str, str]:
    """Split a chained URL before its first `::`; the second part is empty for a path or a plain URL."""
    head, chain, tail = url.partition("::") if "://" in url else (url, "", "")
    return head, chain + tail


def kind_of(url: str) -> str | None:
    """Return DIRECTORY, FILE, or None if the path or URL does not exist. Raises PipelineError if the storage cannot be
    read or a local path is neither a file nor a directory."""
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
        raise PipelineError(f"{url} is a pipe, a socket or a device; name a regular file or a directory")
    return FILE


def entries(url: str) -> list[Entry]:
    """List a directory's files and subdirectories, sorted by name. Local sockets, devices and broken links are left
    out. Raises PipelineError if the directory is missing or cannot be read."""
    path = local_path(url)
    try:
        return sorted(_local_entries(path) if path is not None else _remote_entries(url))
    except Exception as error:  # whatever a remote system's client raises
        raise unreadable(url, error) from error


def forget_listings(url: str) -> None:
    """Let the next listing below a URL ask its storage, since fsspec keeps listings and does not see what other
    processes write. Raises PipelineError if fsspec is missing."""
    if local_path(url) is None:
        _remote(url)[0].invalidate_cache()


def _local_entries(path: str) -> Iterator[Entry]:
    with os.scandir(path) as entries:
        for entry in entries:
            try:
                status = entry.stat()
            except OSError:  # a broken link, or a file deleted since the directory was listed
                continue
            if stat.S_ISDIR(status.st_mode):
                yield Entry(entry.name, DIRECTORY, 0)
            elif stat.S_ISREG(status.st_mode):
                yield Entry(entry.name, FILE, status.st_size)


def _remote_entries(url: str) -> Iterator[Entry]:
    system, inner = _remote(url)
    for item in system.ls(inner, detail=True):
        path = str(item["name"]).rstrip("/")
        name = path.rpartition("/")[2]
        if name and path.strip("/") != inner.strip("/"):  # some systems list the directory itself
            yield Entry(name, DIRECTORY if item["type"] == "directory" else FILE, int(item.get("size") or 0))


def files_below(url: str) -> Iterator[str]:
    """Yield the URLs of the files below a directory of a URL, as they are now. Raises exceptions of the storage."""
    system, inner = _remote(url)
    system.invalidate_cache()
    for path in system.find(inner):
        yield str(system.unstrip_protocol(path))


def delete_below(url: str) -> None:
    """Delete a directory of a URL with all that is below; a missing one is ignored. Raises PipelineError if it cannot
    be deleted."""
    try:
        system, inner = _remote(url)
        system.invalidate_cache()
        if system.exists(inner):
            system.rm(inner, recursive=True)
    except FileNotFoundError:  # another process has deleted it
        return
    except Exception as error:  # whatever a remote system's client raises
        raise _failure(url, "deleted", error) from error


def expand(url: str) -> list[str]:
    """Return the sorted existing paths that match a glob pattern with `*`, `?` or `[...]`; empty if none matches. A
    name without these characters, even if nothing has it, or one that exists literally, is returned alone and
    normalized.

    A part of the pattern matches hidden names only if it starts with a dot. Raises PipelineError if a directory cannot
    be read.
    """
    url = normal(url)
    if not _MAGIC & set(url) or kind_of(url) is not None:
        return [url]
    head, chain = _split_chain(url)
    parts = head.split("/")
    first = next((index for index, part in enumerate(parts) if _MAGIC & set(part)), len(parts))
    paths = [("/".join(parts[:first]) or "/") + chain]
    for part in parts[first:]:
        paths = (
            [
                join(directory, entry.name)
                for directory in paths
                if kind_of(directory) == DIRECTORY
                for entry in entries(directory)
                if fnmatchcase(entry.name, part) and (part.startswith(".") or not entry.name.startswith("."))
            ]
            if _MAGIC & set(part)
            else [join(directory, part) for directory in paths]
        )
    return sorted(path for path in paths if kind_of(path) is not None)


def open_segment(url: str, window_bytes: int = WINDOW_BYTES) -> SegmentFile:
    """Open a log segment for reading through a window of bounded size. Raises PipelineError if it cannot be opened.
    `window_bytes` applies to local files; remote files use 4 MiB."""
    path = local_path(url)
    try:
        return SegmentFile(path, window_bytes) if path is not None else _RemoteSegment(url)
    except Exception as error:  # whatever a remote system's client raises
        raise unreadable(url, error) from error


class _RemoteSegment(SegmentFile):
    """A log segment behind a URL, read one window at a time."""

    def __init__(self, url: str) -> None:
        self.path = url
        system, inner = _remote(url)
        self._file: BinaryIO = system.open(inner, "rb")
        self.size = self._file.seek(0, os.SEEK_END)
        self._window_bytes = _REMOTE_WINDOW_BYTES
        self._start = 0
        self._window = memoryview(b"")

    def close(self) -> None:
        self._file.close()

    def next_data(self, position: int) -> int:
        """Return `position` unchanged: remote storage does not report the holes of sparse files."""
        return position

    def _read_window(self, position: int, size: int) -> None:
        self._file.seek(position)
        missing = min(max(size, self._window_bytes), max(self.size - position, 0))
        parts = []
        while missing > 0 and (part := self._file.read(missing)):
            parts.append(part)
            missing -= len(part)
        self._start, self._window = position, memoryview(b"".join(parts))


def read_bytes(url: str) -> bytes | None:
    """Read a whole small file; None if it does not exist. Raises PipelineError if it cannot be read, or its bucket does
    not exist."""
    path = local_path(url)
    try:
        if path is None:
            system, inner = _remote(url)
            return bytes(system.cat_file(inner))
        with open(path, "rb") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError) as error:
        if "NoSuchBucket" in _store_codes(error):
            raise unreadable(url, error) from error
        return None
    except Exception as error:  # whatever a remote system's client raises
        raise unreadable(url, error) from error


def write_bytes(url: str, data: bytes) -> None:
    """Replace a whole small file atomically and durably; an object store replaces an object atomically. Raises
    PipelineError if it cannot be written."""
    path = local_path(url)
    try:
        if path is not None:
            atomic_file.replace_durably(path, data)
        else:
            system, inner = _remote(url)
            system.pipe_file(inner, data)
    except Exception as error:  # whatever a remote system's client raises
        raise _failure(url, "written", error) from error


def delete_file(url: str) -> None:
    """Delete a file; a missing one is ignored. Raises PipelineError if it cannot be deleted."""
    path = local_path(url)
    try:
        if path is not None:
            os.unlink(path)
        else:
            system, inner = _remote(url)
            system.rm_file(inner)
    except FileNotFoundError:
        return
    except Exception as error:  # whatever a remote system's client raises
        raise _failure(url, "deleted", error) from error


def read_text(path: str) -> str:
    """Read a local UTF-8 text file, without a byte order mark. Raises PipelineError if the file cannot be read or is
    not UTF-8."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            return file.read()
    except OSError as error:
        raise unreadable(path, error) from None
    except UnicodeDecodeError:
        raise PipelineError(f"{path} cannot be read: it is not UTF-8 text") from None


def ensure_readable(url: str) -> None:
    """Raise PipelineError if this process lacks read permission for a local file. Remote URLs are not checked."""
    path = local_path(url)
    if path is not None and not os.access(path, os.R_OK):
        raise PipelineError(f"{path} cannot be read: Permission denied")


def unreadable(url: str, error: Exception) -> PipelineError:
    """Make a PipelineError that says a file or directory cannot be read and gives the first line of the cause. An
    exception that already is a PipelineError is returned unchanged."""
    return _failure(url, "read", error)


def _failure(url: str, action: str, error: Exception) -> PipelineError:
    if isinstance(error, PipelineError):
        return error
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error).strip()
    first_line = reason.splitlines()[0].rstrip(".") if reason else type(error).__name__
    return PipelineError(f"{url} cannot be {action}: {first_line}{_advice(url, error)}")


def _advice(url: str, error: Exception) -> str:
    """Return the hint for an error of an object store; empty for other errors."""
    codes = set() if local_path(url) is not None else {*_store_codes(error)}
    if codes & {*CREDENTIAL_CODES}:
        return f"; {CREDENTIALS}"
    return f"; {UNREACHABLE}" if codes & _UNREACHED else ""


def _store_codes(error: BaseException) -> list[str]:
    """Return the error codes of an object store in the chain of causes; the name of an exception that has none."""
    codes = []
    cause: BaseException | None = error
    while cause is not None:
        response = getattr(cause, "response", None)
        details = response.get("Error", {}) if isinstance(response, dict) else {}
        codes.append(str(details.get("Code", type(cause).__name__)))
        cause = cause.__cause__ or cause.__context__
    return codes


def _remote(url: str) -> tuple[AbstractFileSystem, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise PipelineError(
            f"{url} cannot be read: URLs need the package fsspec and the package of their storage "
            "(pip install fsspec; for s3:// also s3fs)"
        ) from None
    head, chain, tail = url.partition("::")
    if not chain:
        if not url.startswith(_S3_SCHEMES):
            system, inner = url_to_fs(url)
            return system, str(inner)
        system, inner = url_to_fs(url, **_s3_limits())
        system.retries = 1  # s3fs would repeat botocore's attempts
        return system, str(inner)
    scheme, _, inner = head.partition("://")
    return _archive(scheme, tail), inner


def _s3_limits() -> dict[str, dict[str, object]]:
    """Return the options of s3fs that bound the wait for a store that does not answer. By default it is asked twenty
    times, each time for up to a minute: s3fs repeats the attempts of botocore."""
    retries = {"total_max_attempts": STORE_ATTEMPTS, "mode": "standard"}
    limits = {"connect_timeout": STORE_TIMEOUT_S, "read_timeout": STORE_TIMEOUT_S, "retries": retries}
    return {"config_kwargs": limits}


@cache
def _archive(scheme: str, tail: str) -> AbstractFileSystem:
    """Return the file system inside an archive. Cached because fsspec closes the archive file when the object is
    released."""
    from fsspec.core import url_to_fs

    return url_to_fs(f"{scheme}://::{tail}")[0]
