"""The storages of backups: a local directory, or a place behind any URL that fsspec can open.

Rules: names are relative to the URL, with `/`. An object appears under its name only when it is complete. Locally it
is written as `.partial`, synced and renamed; behind a URL it is collected in memory and written by one call. The last
step of an object may run in another thread. Errors of a storage become CommandError with URL and name.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

from kafkatools.core.atomic_file import sync_directory
from kafkatools.core.secrets import without_userinfo
from kafkatools.exit_status import CommandError, UsageError

if TYPE_CHECKING:
    import io

    from fsspec import AbstractFileSystem

_PARTIAL = ".partial"
_UNFINISHED = (".log.partial", ".json.partial")
_LOCK = ".lock"
PLACES = (
    "Pass a directory, or a URL such as s3://BUCKET/PATH, gs://BUCKET/PATH, abfs://CONTAINER/PATH, sftp://HOST/PATH."
)
"""Advice for a place that is no storage."""
_SETTINGS = "The package of the storage reads its address and credentials from its own variables and files."
_EXTRA = "URLs need the package fsspec and that of the storage (pip install fsspec; for s3:// also s3fs)"


class ObjectSource(Protocol):
    """An object that is being read."""

    def read(self, size: int = -1) -> bytes:
        """Return the next `size` bytes (-1: all), fewer at the end."""


class NewObject(Protocol):
    """An object that is being written."""

    def write(self, data: memoryview) -> None:
        """Append bytes. They may change after the call."""

    def finish(self) -> None:
        """Make the object durable and visible under its name; another thread may call it. Raises CommandError."""

    def discard(self) -> None:
        """Drop what was written."""


class Store(Protocol):
    """The objects of a backup. `url`: for messages and reports, without user and password."""

    url: str
    is_local: bool

    def sizes(self, directory: str) -> dict[str, int]:
        """Return the names and sizes in bytes of the objects in a directory, without those that are unfinished; empty
        if it does not exist. Names are without the directory."""

    def directories(self, directory: str = "") -> list[str]:
        """Return the names of the directories in a directory, by default at the top."""

    def open(self, name: str) -> contextlib.AbstractContextManager[ObjectSource]:
        """Open an object for reading from its start. Raises CommandError, of kind MISSING if there is none."""

    def new_object(self, name: str) -> NewObject:
        """Begin to write an object. Raises CommandError."""

    def put(self, name: str, data: bytes) -> None:
        """Write a small object, or replace it as a whole."""

    def remove(self, name: str) -> None:
        """Remove an object if it exists."""

    def remove_unfinished(self, directory: str) -> None:
        """Remove what a killed run left of unfinished objects in a directory. The store must be locked."""

    def lock(self) -> contextlib.AbstractContextManager[None]:
        """Keep other writers out. Raises CommandError if there is one. Only a local directory knows of others."""


def read_object(store: Store, name: str) -> bytes:
    """Return the content of a small object. Raises CommandError, of kind MISSING if there is none."""
    with store.open(name) as file:
        return file.read()


class LocalStore:
    """A directory of this machine. What it creates is for the owner only, since it holds records."""

    is_local = True

    def __init__(self, path: str, *, create: bool = False, may_be_missing: bool = False) -> None:
        self.url = path
        if create and not os.path.exists(path):
            try:
                _make_directories(path)
            except OSError as error:
                raise CommandError(f"{path} cannot be created: {error.strerror}", kind="STORAGE_FAILED") from None
        if not os.path.isdir(path) and not (may_be_missing and not os.path.lexists(path)):
            reason = "is not a directory" if os.path.exists(path) else "does not exist"
            raise CommandError(f"{path} {reason}: it is no backup", kind="MISSING")

    def _path(self, name: str) -> str:
        return os.path.join(self.url, *name.split("/"))

    def sizes(self, directory: str) -> dict[str, int]:
        path = self._path(directory) if directory else self.url
        with _local_errors(path):
            try:
                entries = list(os.scandir(path))
            except FileNotFoundError:
                return {}
            return {
                entry.name: entry.stat().st_size
                for entry in entries
                if entry.is_file() and not entry.name.endswith(_PARTIAL)
            }

    def directories(self, directory: str = "") -> list[str]:
        path = self._path(directory) if directory else self.url
        with _local_errors(path):
            try:
                return sorted(entry.name for entry in os.scandir(path) if entry.is_dir())
            except FileNotFoundError:
                return []

    @contextlib.contextmanager
    def open(self, name: str) -> Iterator[ObjectSource]:
        path = self._path(name)
        with _local_errors(path), open(path, "rb", buffering=0) as file:
            yield _Whole(file)

    def new_object(self, name: str) -> NewObject:
        path = self._path(name)
        with _local_errors(path):
            _make_directories(os.path.dirname(path))
            return _LocalObject(path)

    def put(self, name: str, data: bytes) -> None:
        new = self.new_object(name)
        new.write(memoryview(data))
        new.finish()

    def remove(self, name: str) -> None:
        with _local_errors(self._path(name)), contextlib.suppress(FileNotFoundError):
            os.unlink(self._path(name))

    def remove_unfinished(self, directory: str) -> None:
        path = self._path(directory) if directory else self.url
        with _local_errors(path):
            for name in os.listdir(path):
                if name.endswith(_UNFINISHED):
                    os.unlink(os.path.join(path, name))

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        import fcntl

        path = self._path(_LOCK)
        with _local_errors(path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise CommandError(f"Another kt backup is writing to {self.url}", kind="LOCKED") from None
            except OSError as error:
                raise CommandError(f"{path} cannot be locked: {error.strerror}", kind="STORAGE_FAILED") from None
            yield
        finally:
            os.close(descriptor)


def _make_directories(path: str) -> None:
    """Create a directory and its missing parents. Their names survive a power failure, as the files in them do. Raises
    OSError."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path) or "."
    _make_directories(parent)
    with contextlib.suppress(FileExistsError):  # another run has just made it
        os.mkdir(path, 0o700)
    sync_directory(parent)


class _Whole:
    """A raw file whose `read` returns as many bytes as requested, except at the end."""

    def __init__(self, file: io.FileIO) -> None:
        self._file = file

    def read(self, size: int = -1) -> bytes:
        if size < 0:
            return self._file.readall()
        parts = []
        while size > 0 and (part := self._file.read(size)):
            parts.append(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


class _LocalObject:
    def __init__(self, path: str) -> None:
        self._path = path
        descriptor = os.open(path + _PARTIAL, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._file = open(descriptor, "wb", buffering=0)  # noqa: SIM115 - closed by finish or discard

    def write(self, data: memoryview) -> None:
        with _local_errors(self._path):
            while data:
                data = data[self._file.write(data) :]

    def finish(self) -> None:
        with _local_errors(self._path):
            with self._file:
                os.fsync(self._file.fileno())
            os.replace(self._path + _PARTIAL, self._path)
            sync_directory(os.path.dirname(self._path))

    def discard(self) -> None:
        self._file.close()
        with contextlib.suppress(OSError):
            os.unlink(self._path + _PARTIAL)


@contextlib.contextmanager
def _local_errors(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise CommandError(f"{error.filename or path} does not exist", kind="MISSING") from None
    except OSError as error:
        raise CommandError(f"{error.filename or path}: {error.strerror}", kind="STORAGE_FAILED") from None


class RemoteStore:
    """A place behind a URL."""

    is_local = False

    def __init__(self, url: str) -> None:
        self.url = without_userinfo(url.rstrip("/"))
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise CommandError(f"{url} cannot be opened: {_EXTRA}") from None
        _ensure_known(url)
        with _remote_errors(url):
            try:
                system, inner = url_to_fs(url)
            except ImportError as error:
                raise CommandError(f"{url}: {_first_line(error)}", hint=_missing_package(url)) from None
        self._system: AbstractFileSystem = system
        self._root = str(inner).rstrip("/")

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def sizes(self, directory: str) -> dict[str, int]:
        items = [item for item in self._items(directory) if item["type"] == "file"]
        return {str(item["name"]).rpartition("/")[2]: int(str(item["size"])) for item in items}

    def directories(self, directory: str = "") -> list[str]:
        items = (item for item in self._items(directory) if item["type"] == "directory")
        return sorted(str(item["name"]).rstrip("/").rpartition("/")[2] for item in items)

    def _items(self, directory: str) -> list[dict[str, object]]:
        path = self._path(directory)
        with _remote_errors(path):
            self._system.invalidate_cache()
            try:
                items = self._system.ls(path, detail=True)
            except FileNotFoundError:
                return []
            return [item for item in items if str(item["name"]).strip("/") != path.strip("/")]

    @contextlib.contextmanager
    def open(self, name: str) -> Iterator[ObjectSource]:
        with _remote_errors(self._path(name)), self._system.open(self._path(name), "rb") as file:
            yield file

    def new_object(self, name: str) -> NewObject:
        return CollectedObject(lambda data: self.put(name, data))

    def put(self, name: str, data: bytes) -> None:
        path = self._path(name)
        with _remote_errors(path):
            self._system.makedirs(path.rpartition("/")[0], exist_ok=True)
            self._system.pipe_file(path, data)

    def remove(self, name: str) -> None:
        with _remote_errors(self._path(name)), contextlib.suppress(FileNotFoundError):
            self._system.rm_file(self._path(name))

    def remove_unfinished(self, directory: str) -> None:
        """Do nothing: an object is written by one call."""

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        yield


class CollectedObject:
    """A new object that is collected in memory and written by one call."""

    def __init__(self, put: Callable[[bytes], None]) -> None:
        self._put = put
        self._parts: list[bytes] = []

    def write(self, data: memoryview) -> None:
        self._parts.append(bytes(data))

    def finish(self) -> None:
        data = b"".join(self._parts)
        self._parts = []
        self._put(data)

    def discard(self) -> None:
        self._parts = []


def _protocols(url: str) -> list[str]:
    """Return the names of storages in a URL: `zip://a::s3://b` has two."""
    return [part.partition("://")[0] for part in url.split("::")]


def _ensure_known(url: str) -> None:
    """Raise UsageError for a URL of a storage that fsspec does not know."""
    from fsspec.registry import known_implementations, registry

    for protocol in _protocols(url):
        if protocol not in known_implementations and protocol not in registry:
            raise UsageError(f"{url}: there is no storage '{protocol}'", PLACES)


def _missing_package(url: str) -> str:
    from fsspec.registry import known_implementations

    classes = (known_implementations.get(protocol, {}).get("class", "") for protocol in _protocols(url))
    packages = [package for name in classes if (package := name.partition(".")[0]) not in ("", "fsspec")]
    return (
        f"Install the package of the storage beside kafkatools{': pip install ' * bool(packages)}{' '.join(packages)}"
    )


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


@contextlib.contextmanager
def _remote_errors(path: str) -> Iterator[None]:
    """Raise CommandError with the path for the errors of a storage."""
    try:
        yield
    except CommandError:
        raise
    except FileNotFoundError:
        raise CommandError(f"{path} does not exist", kind="MISSING") from None
    except (OSError, ValueError, RuntimeError, ImportError) as error:  # what clients of storages raise
        hint = _SETTINGS if isinstance(error, PermissionError) else ""
        raise CommandError(f"{path}: {_first_line(error)}", hint=hint, kind="STORAGE_FAILED") from None
    except Exception as error:  # packages of storages have classes of their own, such as botocore's NoCredentialsError
        if type(error).__module__.partition(".")[0] in ("builtins", "kafkatools"):
            raise
        reason = f"{_first_line(error)} ({type(error).__name__})"
        raise CommandError(f"{path}: {reason}", hint=_SETTINGS, kind="STORAGE_FAILED") from None
