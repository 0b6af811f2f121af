"""Find the storage of a backup by its path or URL: a directory, a plugin's, or what fsspec opens."""

from __future__ import annotations

import os
from urllib.parse import unquote, urlsplit

from kafkatools.exit_status import UsageError
from kafkatools.tools.backup.plugin_store import find_store
from kafkatools.tools.backup.store import PLACES, LocalStore, RemoteStore, Store

_SCHEMES = frozenset(
    ("abfs", "abfss", "adl", "az", "file", "ftp", "gcs", "gs", "hdfs", "http", "https", "memory", "oss", "s3", "s3a")
    + ("sftp", "ssh", "webdav", "webhdfs")
)
"""Names of storages, to recognize a URL that lacks its slashes."""


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
    """Return the path of a local directory, None for another URL. Raises UsageError for what is neither."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        path = os.path.abspath(os.path.expanduser(url))
        scheme, _, rest = url.partition(":")
        if scheme.lower() in _SCHEMES and not os.path.exists(path):
            written = f"{scheme}://{'/' if scheme.lower() == 'file' else ''}{rest.lstrip('/')}"
            raise UsageError(
                f"'{url}' is neither a directory nor a URL", f"Write {written}, or ./{url} for a directory."
            )
        return path
    if not scheme:
        raise UsageError(f"{url} has no name of a storage before ://", PLACES)
    if scheme.lower() != "file":
        return None
    parts = urlsplit(url)
    if parts.netloc not in ("", "localhost"):
        raise UsageError(f"{url} names another machine", f"Write file://{parts.path} for a directory of this one.")
    return os.path.abspath(unquote(parts.path))
