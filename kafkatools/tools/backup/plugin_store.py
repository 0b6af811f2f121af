"""Storages of plugins: a backup in a place that neither a directory nor fsspec reaches.

The entry point's name is the scheme of the URL. An object is read and written as a whole; that of a backup behind a URL
has 32 MiB.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from kafkatools.core.entry_points import EntryPoint, find_object
from kafkatools.core.plugin_calls import PluginCalls, failure
from kafkatools.core.secrets import without_userinfo
from kafkatools.exit_status import CommandError, UsageError
from kafkatools.tools.backup.store import CollectedObject, NewObject, ObjectSource

PLUGIN_GROUP = "kafkatools.storage"


@runtime_checkable
class Storage(Protocol):
    """The interface of a plugin's storage. Names are relative to the URL, with `/`. FileNotFoundError is for an object
    that does not exist, any other OSError for a storage that failed. Several threads may call it."""

    def sizes(self, directory: str) -> Mapping[str, int]:
        """Return the names, without the directory, and sizes in bytes of the objects in a directory; empty if it does
        not exist. The empty name is the top."""

    def directories(self, directory: str) -> Sequence[str]:
        """Return the names of the directories in a directory."""

    def read(self, name: str) -> bytes:
        """Return the content of an object."""

    def write(self, name: str, data: bytes) -> None:
        """Write an object, or replace it, so that no reader sees a part; it is durable afterwards."""

    def remove(self, name: str) -> None:
        """Remove an object."""


class StoragePlugin(NamedTuple):
    """A storage of backups of another distribution; `open` takes the URL."""

    open: Callable[[str], Storage]


class PluginStore:
    """A store of objects in a plugin's storage. Exceptions of the plugin, and results of a wrong type, become
    CommandError with the URL, the name of the object and the plugin."""

    is_local = False

    def __init__(self, url: str, point: EntryPoint, storage: Storage) -> None:
        self.url = without_userinfo(url.rstrip("/"))
        self._point = point
        self._storage = storage

    def _calls(self, name: str) -> PluginCalls:
        return _calls_for(f"{self.url}/{name}" if name else self.url, self._point)

    def sizes(self, directory: str) -> dict[str, int]:
        calls = self._calls(directory)
        with _missing(self.url, directory):
            sizes: object = calls.call(lambda: self._storage.sizes(directory))
        if not isinstance(sizes, Mapping):
            raise calls.wrong("sizes", sizes, "a mapping of names to sizes in bytes")
        entries = calls.call(lambda: dict(sizes))
        if not all(isinstance(name, str) and isinstance(size, int) for name, size in entries.items()):
            raise calls.wrong("sizes", sizes, "a mapping of names to sizes in bytes")
        return entries

    def directories(self, directory: str = "") -> list[str]:
        calls = self._calls(directory)
        with _missing(self.url, directory):
            listed: object = calls.call(lambda: self._storage.directories(directory))
        if isinstance(listed, str | bytes) or not isinstance(listed, Iterable):
            raise calls.wrong("directories", listed, "a sequence of names")
        names = calls.call(lambda: list(listed))
        if not all(isinstance(name, str) for name in names):
            raise calls.wrong("directories", listed, "a sequence of names")
        return sorted(names)

    @contextlib.contextmanager
    def open(self, name: str) -> Iterator[ObjectSource]:
        calls = self._calls(name)
        with _missing(self.url, name):
            data: object = calls.call(lambda: self._storage.read(name))
        if not isinstance(data, bytes | bytearray | memoryview):
            raise calls.wrong("read", data, "bytes")
        yield io.BytesIO(data)

    def new_object(self, name: str) -> NewObject:
        return CollectedObject(lambda data: self.put(name, data))

    def put(self, name: str, data: bytes) -> None:
        calls = self._calls(name)
        try:
            calls.call(lambda: self._storage.write(name, data))
        except FileNotFoundError as error:  # not the object, which needs not exist
            raise calls.error(failure(self._point, error)) from error

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._calls(name).call(lambda: self._storage.remove(name))

    def remove_unfinished(self, directory: str) -> None:
        """Do nothing: an object is written by one call."""

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        yield


@contextlib.contextmanager
def _missing(url: str, name: str = "") -> Iterator[None]:
    """Raise CommandError of kind MISSING for the FileNotFoundError of a storage."""
    try:
        yield
    except FileNotFoundError:
        raise CommandError(
            f"{url}/{name} does not exist" if name else f"{url} does not exist", kind="MISSING"
        ) from None


def _calls_for(place: str, point: EntryPoint) -> PluginCalls:
    """Return the calls of a plugin for one object or URL, whose errors are CommandError with that place."""
    return PluginCalls(
        point,
        lambda message: CommandError(f"{place}: {message}", kind="STORAGE_FAILED"),
        passes=(CommandError, UsageError, FileNotFoundError),
    )


def find_store(url: str) -> PluginStore | None:
    """Return the store behind a URL with the scheme of a plugin, None without such a plugin. Raises PluginError if it
    cannot be loaded, CommandError if it cannot open the URL."""
    found = find_object(PLUGIN_GROUP, url.partition("://")[0].lower(), StoragePlugin)
    if found is None:
        return None
    point, plugin = found
    calls = _calls_for(url, point)
    with _missing(url):
        storage: object = calls.call(plugin.open, url)
    if not isinstance(storage, Storage):
        raise calls.wrong("open", storage, "a Storage")
    return PluginStore(url, point, storage)
