"""Find the storage of a backup by its path or URL: a directory, a plugin's, or what fsspec opens."""

from __future__ import annotations

import os
from urllib.parse import unquote, urlsplit

from kafkatools.exit_status import UsageError
from kafkatools.tools.backup.plugin_store import find_store
from kafkatools.tools.backup.store import LocalStore, RemoteStore, Store


def open_store(url: str, *, create: bool = False, may_be_missing: bool = False) -> Store:
    """Return the store behind a path or URL. `create`: make a missing local directory; `may_be_missing`: take it for an
    empty one. Raises CommandError for a directory that does not exist or a storage that cannot be opened, UsageError
    for an empty text, PluginError for the storage of a plugin that cannot be loaded."""
    if not url:
        raise UsageError("The directory or URL of the backup is empty")
    path = _local_path(url)
    if path is None:
        return find_store(url) or RemoteStore(url)
    return LocalStore(path, create=create, may_be_missing=may_be_missing)


def _local_path(url: str) -> str | None:
    if "://" not in url:
        return os.path.abspath(os.path.expanduser(url))
    if not url.lower().startswith("file://"):
        return None
    parts = urlsplit(url)
    return os.path.abspath(unquote(parts.path)) if parts.netloc in ("", "localhost") else None
