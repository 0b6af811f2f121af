"""kt backup --to sqlite:///PATH: a backup in one file of SQLite."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from kafkatools.plugins import StoragePlugin


class SqliteStorage:
    """Objects as rows. Each call has a connection of its own, since several threads call it. Only `write` creates the
    file; another thread sees the file without the table until the first write commits."""

    def __init__(self, url: str) -> None:
        self._path = unquote(urlsplit(url).path)

    @contextmanager
    def _database(self, mode: str) -> Iterator[sqlite3.Connection]:
        """Open the file in a mode of SQLite's URIs: `rw` for an existing file, `rwc` to create it. Mode `ro` could not
        roll back a write that was killed."""
        if mode == "rw" and not os.path.exists(self._path):
            raise FileNotFoundError(self._path)
        try:
            database = sqlite3.connect(f"file://{quote(self._path)}?mode={mode}", timeout=60, uri=True)
            try:
                with database:  # commits, and syncs the file
                    yield database
            finally:
                database.close()
        except sqlite3.Error as error:
            raise OSError(str(error)) from error

    def _run(self, statement: str, *values: str) -> list[Any]:
        """Run a statement and return its rows, none without the table. Raises FileNotFoundError without the file."""
        with self._database("rw") as database:
            has_table = database.execute("SELECT 1 FROM sqlite_master WHERE name = 'objects'").fetchone()
            return database.execute(statement, values).fetchall() if has_table else []

    def _below(self, directory: str) -> list[tuple[str, int]]:
        try:
            rows = self._run("SELECT name, length(data) FROM objects")
        except FileNotFoundError:
            return []
        prefix = f"{directory}/" if directory else ""
        return [(name.removeprefix(prefix), size) for name, size in rows if name.startswith(prefix)]

    def sizes(self, directory: str) -> dict[str, int]:
        """Return the objects in a directory."""
        return {name: size for name, size in self._below(directory) if "/" not in name}

    def directories(self, directory: str) -> list[str]:
        """Return the directories in a directory."""
        return sorted({name.partition("/")[0] for name, _ in self._below(directory) if "/" in name})

    def read(self, name: str) -> bytes:
        """Return the content of an object."""
        rows = self._run("SELECT data FROM objects WHERE name = ?", name)
        if not rows:
            raise FileNotFoundError(name)
        return bytes(rows[0][0])

    def write(self, name: str, data: bytes) -> None:
        """Write an object, or replace it. Creates the file and its directory."""
        os.makedirs(os.path.dirname(self._path) or "/", exist_ok=True)
        with self._database("rwc") as database:
            database.execute("CREATE TABLE IF NOT EXISTS objects (name TEXT PRIMARY KEY, data BLOB NOT NULL)")
            database.execute("INSERT OR REPLACE INTO objects VALUES (?, ?)", (name, data))

    def remove(self, name: str) -> None:
        """Remove an object. Raises FileNotFoundError without the file."""
        self._run("DELETE FROM objects WHERE name = ?", name)


STORAGE = StoragePlugin(SqliteStorage)
