"""The log directories of a node at start: created, formatted if requested, validated against each other, locked.

Rules: all directories belong to one cluster and one node, and each has an id (KIP-858). The metadata log lies in one of
them only. If one of several directories cannot be read, it is offline from the start, with the reason in `failed`.
Without the metadata log's directory the node does not start. A directory locked by another process is an error, not an
offline directory. Source: MetaPropertiesEnsemble and KafkaRaftServer.initializeLogDirs of Apache Kafka 4.3, including
the messages.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from kafkatools.core.broker.metadata.directory_ids import is_reserved
from kafkatools.core.broker.metadata.feature_levels import (
    LATEST_RELEASE,
    METADATA_LEVELS,
    METADATA_VERSION,
    default_levels,
)
from kafkatools.core.broker.metadata.formatter import METADATA_PARTITION, MOVED, FormatRequest, plan, write_directory
from kafkatools.core.broker.server.node_settings import NodeSettings
from kafkatools.core.errors import ConfigError, KafkaStorageError
from kafkatools.core.log.directory_lock import DirectoryLock
from kafkatools.core.log.files import FileSystem
from kafkatools.core.log.format.checkpoints import read_meta_properties, write_meta_properties
from kafkatools.core.log.format.filenames import META_PROPERTIES
from kafkatools.core.log.partition.log_manager import LogManager
from kafkatools.core.protocol import uuids

_Result = TypeVar("_Result")


class NodeDirectories:
    """The node's log directories, their ids and locks; `release` frees the locks."""

    def __init__(self, files: FileSystem, settings: NodeSettings) -> None:
        self.cluster_id = ""
        self.ids: dict[str, uuid.UUID] = {}
        self.failed: dict[str, Exception] = {}
        self.metadata_path = settings.log_directory
        self._files = files
        self._node_id = settings.node_id
        self._paths = tuple(dict.fromkeys((settings.log_directory, *settings.log_directories)))
        self._locks: dict[str, DirectoryLock] = {}

    @property
    def metadata_id(self) -> uuid.UUID:
        """The id of the metadata log's directory."""
        return self.ids[self.metadata_path]

    def open(self, wall_ms: int, *, format_if_needed: bool) -> None:
        """Lock and validate all directories; with `format_if_needed`, first create and format those that are not.
        Raises ConfigError, KafkaStorageError, OSError, after releasing all locks."""
        try:
            self._open(wall_ms, format_if_needed)
        except BaseException:
            self.release()
            raise

    def _open(self, wall_ms: int, format_if_needed: bool) -> None:
        for path in self._paths:
            self._attempt(path, partial(self._take, path, make=format_if_needed))
        properties_by_path = self._read()
        if format_if_needed and any(values is None for values in properties_by_path.values()):
            self._format(properties_by_path, wall_ms)
            properties_by_path = self._read()
        formatted = {path: values for path, values in properties_by_path.items() if values is not None}
        for path, values in properties_by_path.items():
            if values is None:
                raise not_formatted(path)
        if self.metadata_path in self.failed:
            raise KafkaStorageError(
                f"Encountered I/O error in metadata log directory {self.metadata_path}. Cannot continue. "
                f"({self.failed[self.metadata_path]})"
            )
        self._verify(formatted)
        for path, values in formatted.items():
            self._attempt(path, partial(self._take_id, path, values, wall_ms))
        self._verify_ids()

    def _attempt(self, path: str, work: Callable[[], _Result]) -> _Result | None:
        """Run `work` on a directory and return its result. None if the directory is offline, or goes offline because of
        an OSError; with a single directory that is raised."""
        if path in self.failed:
            return None
        try:
            return work()
        except OSError as error:
            if len(self._paths) == 1:
                raise
            self.failed[path] = error
            self.release(path)
            return None

    def _take(self, path: str, *, make: bool) -> None:
        if make:
            self._files.make_directory(path)
        elif not self._files.exists(path):
            raise not_formatted(path)
        self._locks[path] = DirectoryLock(path)

    def _read(self) -> dict[str, dict[str, str] | None]:
        """Read meta.properties of every online directory; None for an unformatted one."""
        properties_by_path = {path: self._attempt(path, partial(self._properties, path)) for path in self._usable()}
        return {path: properties for path, properties in properties_by_path.items() if path not in self.failed}

    def _usable(self) -> list[str]:
        return [path for path in self._paths if path not in self.failed]

    def _properties(self, path: str) -> dict[str, str] | None:
        name = os.path.join(path, META_PROPERTIES)
        try:
            return read_meta_properties(self._files, name)
        except FileNotFoundError:
            return None
        except KafkaStorageError as error:  # an invalid file
            if len(self._paths) == 1:
                raise
            raise OSError(str(error)) from error

    def _format(self, properties_by_path: dict[str, dict[str, str] | None], wall_ms: int) -> None:
        """Format the unformatted directories for the cluster of the formatted ones, or else for a new cluster."""
        ids = [
            properties["cluster.id"]
            for properties in properties_by_path.values()
            if properties is not None and "cluster.id" in properties
        ]
        level = METADATA_LEVELS[LATEST_RELEASE]
        request = FormatRequest(
            ids[0] if ids else uuids.uuid_text(uuids.random_uuid()),
            self._node_id,
            self._usable(),
            self.metadata_path,
            {METADATA_VERSION: level, **default_levels(level)},
        )
        unformatted = {path for path, properties in properties_by_path.items() if properties is None}
        for planned in plan(self._files, request._replace(directories=sorted(unformatted), ignore_formatted=True)):
            if planned.path in unformatted:
                self._attempt(planned.path, partial(write_directory, self._files, request, planned, wall_ms))

    def _verify(self, properties_by_path: dict[str, dict[str, str]]) -> None:
        """Check that all directories have this node's id, one cluster id, which is stored, and no second metadata log.
        Raises ConfigError, KafkaStorageError without a cluster id."""
        for path, properties in properties_by_path.items():
            meta_path = os.path.join(path, META_PROPERTIES)
            stored = properties.get("node.id", properties.get("broker.id", ""))
            if stored != str(self._node_id):
                moved = f" {MOVED}" if len(self._paths) > 1 else ""
                raise ConfigError(
                    f"Stored node id {stored} doesn't match previous node id {self._node_id} in {meta_path}.{moved}"
                )
            if "cluster.id" not in properties:
                raise KafkaStorageError(
                    f"{meta_path} has no cluster.id; format the directory again or restore the file"
                )
            if self.cluster_id and properties["cluster.id"] != self.cluster_id:
                raise ConfigError(
                    f"Invalid cluster.id in: {meta_path}. "
                    f"Expected {self.cluster_id}, but read {properties['cluster.id']}"
                )
            self.cluster_id = properties["cluster.id"]
            metadata_path = os.path.join(path, METADATA_PARTITION)
            if path != self.metadata_path and self._files.exists(metadata_path):
                raise ConfigError(
                    f"Found unexpected metadata location in data directory `{metadata_path}` (the configured metadata "
                    f"directory is {self.metadata_path})."
                )

    def _take_id(self, path: str, properties: dict[str, str], wall_ms: int) -> None:
        """Read the directory's id. A directory formatted before directory ids existed gets a new one."""
        stored = properties.get("directory.id")
        if stored is None:
            self.ids[path] = uuids.random_uuid()
            new_properties = {**properties, "directory.id": uuids.uuid_text(self.ids[path])}
            write_meta_properties(self._files, os.path.join(path, META_PROPERTIES), new_properties, wall_ms)
        else:
            self.ids[path] = uuids.uuid_from_text(stored)

    def _verify_ids(self) -> None:
        paths: dict[uuid.UUID, str] = {}
        for path, directory_id in self.ids.items():
            id_text = uuids.uuid_text(directory_id)
            if is_reserved(directory_id):
                raise ConfigError(f"Invalid reserved directory ID {id_text} found in {path}")
            if directory_id in paths:
                raise ConfigError(
                    f"Duplicate directory ID {id_text} found. "
                    f"It was the ID of {paths[directory_id]}, but also of {path}"
                )
            paths[directory_id] = path

    def report_to(self, logs: LogManager) -> None:
        """Report the directories that are offline to the log manager, with the reason."""
        for directory in logs.directories:
            if directory.path in self.failed:
                logs.note_failure(directory, self.failed[directory.path])

    def release(self, path: str | None = None) -> None:
        """Release the lock of one failed directory, or of all."""
        for locked in [path] if path is not None else list(self._locks):
            lock = self._locks.pop(locked, None)
            if lock is not None:
                lock.release()


def not_formatted(path: str) -> ConfigError:
    """Return the error for a directory without meta.properties."""
    return ConfigError(
        f"No `meta.properties` found in {path} (have you run `kafka-storage.sh` to format the directory?)",
        "Format it: kt storage format --config FILE --cluster-id $(kt storage random-uuid)",
    )
