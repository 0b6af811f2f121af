"""Storages of plugins: a backup in a place that neither a directory nor fsspec reaches.

The entry point's name is the scheme of the URL. An object is read and written as a whole; that of a backup behind a URL
has 32 MiB.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from kafkatools.core.entry_points import find_object
from kafkatools.tools.backup.store import CollectedObject, NewObject, ObjectSource, remote_errors

PLUGIN_GROUP = "kafkatools.storage"


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
    """A store of objects in a plugin's storage."""

    is_local = False

    def __init__(self, url: str, storage: Storage) -> None:
        self.url = url.rstrip("/")
        self._storage = storage

    def _place(self, name: str) -> str:
        return f"{self.url}/{name}" if name else self.url

    def sizes(self, directory: str) -> dict[str, int]:
        with remote_errors(self._place(directory)):
            return dict(self._storage.sizes(directory))

    def directories(self, directory: str = "") -> list[str]:
        with remote_errors(self._place(directory)):
            return sorted(self._storage.directories(directory))

    @contextlib.contextmanager
    def open(self, name: str) -> Iterator[ObjectSource]:
        with remote_errors(self._place(name)):
            data = self._storage.read(name)
        yield io.BytesIO(data)

    def new_object(self, name: str) -> NewObject:
        return CollectedObject(lambda data: self.put(name, data))

    def put(self, name: str, data: bytes) -> None:
        with remote_errors(self._place(name)):
            self._storage.write(name, data)

    def remove(self, name: str) -> None:
        with remote_errors(self._place(name)), contextlib.suppress(FileNotFoundError):
            self._storage.remove(name)

    def remove_unfinished(self, directory: str) -> None:
        """Do nothing: an object is written by one call."""

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        yield


def find_store(url: str) -> PluginStore | None:
    """Return the store behind a URL with the scheme of a plugin, None without such a plugin. Raises PluginError if it
    cannot be loaded, CommandError if it cannot open the URL."""
    found = find_object(PLUGIN_GROUP, url.partition("://")[0].lower(), StoragePlugin)
    if found is None:
        return None
    with remote_errors(url):
        return PluginStore(url, found[1].open(url))
