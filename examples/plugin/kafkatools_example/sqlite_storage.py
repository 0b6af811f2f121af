"""kt backup --to sqlite:///PATH: a backup in one file of SQLite."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote, urlsplit

from kafkatools.plugins import StoragePlugin


class SqliteStorage:
    """Objects as rows. Each call has a connection of its own, since several threads call it."""

    def __init__(self, url: str) -> None:
        self._path = unquote(urlsplit(url).path)

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        try:
            database = sqlite3.connect(self._path, timeout=60)
            try:
                with database:  # commits, and syncs the file
                    yield database
            finally:
                database.close()
        except sqlite3.Error as error:
            raise OSError(str(error)) from error

    def _below(self, directory: str) -> list[tuple[str, int]]:
        if not os.path.exists(self._path):  # reading creates no file
            return []
        prefix = f"{directory}/" if directory else ""
        with self._database() as database:
            rows = database.execute("SELECT name, length(data) FROM objects").fetchall()
        return [(name.removeprefix(prefix), size) for name, size in rows if name.startswith(prefix)]

    def sizes(self, directory: str) -> dict[str, int]:
        """Return the objects in a directory."""
        return {name: size for name, size in self._below(directory) if "/" not in name}

    def directories(self, directory: str) -> list[str]:
        """Return the directories in a directory."""
        return sorted({name.partition("/")[0] for name, _ in self._below(directory) if "/" in name})

    def read(self, name: str) -> bytes:
        """Return the content of an object."""
        if not os.path.exists(self._path):
            raise FileNotFoundError(self._path)
        with self._database() as database:
            row = database.execute("SELECT data FROM objects WHERE name = ?", (name,)).fetchone()
        if row is None:
            raise FileNotFoundError(name)
        return bytes(row[0])

    def write(self, name: str, data: bytes) -> None:
        """Write an object, or replace it. Creates the file and its directory."""
        os.makedirs(os.path.dirname(self._path) or "/", exist_ok=True)
        with self._database() as database:
            database.execute("CREATE TABLE IF NOT EXISTS objects (name TEXT PRIMARY KEY, data BLOB NOT NULL)")
            database.execute("INSERT OR REPLACE INTO objects VALUES (?, ?)", (name, data))

    def remove(self, name: str) -> None:
        """Remove an object."""
        with self._database() as database:
            database.execute("DELETE FROM objects WHERE name = ?", (name,))


STORAGE = StoragePlugin(SqliteStorage)
