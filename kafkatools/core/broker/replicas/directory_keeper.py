"""A running node's log directories: failed ones go offline, replicas move between them, the controller learns where
replicas are.

Rules: the code that meets an I/O error notes it; this module takes the directory offline between two turns of the
listener (Kafka's LogDirFailureHandler). Its replicas answer KAFKA_STORAGE_ERROR; other replicas keep working. Without
the metadata log's directory, or without any directory, the node ends. A node with one directory has no keeper unless it
belongs to a cluster.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from kafkatools.core.broker.metadata.broker_settings import BrokerSettings
from kafkatools.core.broker.metadata.image import PartitionState
from kafkatools.core.broker.replicas.directory_assignments import DirectoryAssignments
from kafkatools.core.broker.replicas.partition import Partition
from kafkatools.core.broker.replicas.replica_manager import ReplicaManager
from kafkatools.core.broker.replicas.replica_moves import ReplicaMoves
from kafkatools.core.errors import KafkaError, KafkaStorageError
from kafkatools.core.log.partition.log_directory import LogDirectory

ALL_DIRECTORIES = "*"


class Owner(Protocol):
    """The node that owns the log directories."""

    @property
    def log_directory(self) -> str:
        """The path of the metadata log's directory."""

    def release_directory(self, path: str) -> None:
        """Release the lock of a failed log directory."""

    def note_failure(self, error: Exception) -> None:
        """Report a disk error."""


class Membership(Protocol):
    """The node's cluster membership, which reports log directories to the controller."""

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration."""

    @property
    def is_ready(self) -> bool:
        """Return whether the metadata image has been loaded."""

    def assign_directories(self, fields: Mapping[str, Any], on_response: Callable[[Any | None], None]) -> None:
        """Send AssignReplicasToDirs; `on_response` gets the response, None without one."""

    def directory_failed(self, directory: LogDirectory) -> None:
        """Report an offline log directory to the controller. Raises KafkaStorageError."""

    def directories_cordoned(self, directory_ids: list[uuid.UUID]) -> None:
        """Report the cordoned log directories to the controller (KIP-1066)."""

    def fail(self, error: KafkaError) -> None:
        """Stop the node because of this error."""


class DirectoryKeeper:
    """The worker that handles log directory failures, replica moves and directory assignments of a node."""

    def __init__(self, replicas: ReplicaManager, settings: BrokerSettings, owner: Owner, member: Membership) -> None:
        self._replicas = replicas
        self._logs = replicas.logs
        self._settings = settings
        self._owner = owner
        self._member = member
        self.moves = ReplicaMoves(replicas, settings, lambda: member.is_ready, owner.note_failure, self._moved)
        self.assignments = DirectoryAssignments(
            replicas.node_id, lambda: member.broker_epoch, member.assign_directories, replicas.clock.now_ms
        )

    @property
    def next_deadline_ms(self) -> int | None:
        """Time in ms at which `tick` must run next: 0 for a failed directory, None without work."""
        if self._logs.failing:
            return 0
        deadlines = (self.moves.next_deadline_ms, self.assignments.next_deadline_ms)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def tick(self, now_ms: int) -> None:
        """Take failed directories offline, then continue moves and send assignments."""
        while self._logs.failing:
            self._take_offline(next(iter(self._logs.failing)))
        self.moves.tick(now_ms)
        self.assignments.tick(now_ms)

    def check(self) -> None:
        """Resume interrupted moves, reread the throttle of moves, and apply and report cordoned.log.dirs; called
        periodically."""
        self.moves.resume()
        self.moves.read_rate()
        self._cordon()

    def _cordon(self) -> None:
        """Apply cordoned.log.dirs and report it: cordoned directories get no new partitions (KIP-1066)."""
        paths = tuple(self._settings.effective()["cordoned.log.dirs"])
        logs = self._logs
        cordoned = [logs.find_directory(path) for path in paths if path != ALL_DIRECTORIES]
        for directory in logs.directories:
            directory.is_cordoned = ALL_DIRECTORIES in paths or directory in cordoned
        ids = [
            directory.directory_id
            for directory in logs.live
            if directory.is_cordoned and directory.directory_id is not None
        ]
        self._member.directories_cordoned(ids)

    def directory_of(self, partition: Partition) -> uuid.UUID | None:
        """Return the id of the directory that holds the replica, None if the directory has no id."""
        return self._logs.directory_of(partition.log).directory_id

    def note_directory(self, partition: Partition, state: PartitionState) -> None:
        """Queue a report to the controller of an opened replica's directory, if the metadata names another one."""
        if state.directory(self._replicas.node_id) != self.directory_of(partition):
            self._moved(partition)

    def _moved(self, partition: Partition) -> None:
        directory_id = self.directory_of(partition)
        if directory_id is not None:
            self.assignments.submit(partition.topic_id, partition.index, directory_id)

    def _take_offline(self, directory: LogDirectory) -> None:
        logs, node, member = self._logs, self._owner, self._member
        partitions = logs.take_offline(directory)
        self._replicas.lose(partitions)
        node.release_directory(directory.path)
        if directory.path == node.log_directory:
            member.fail(KafkaStorageError(f"Shutdown broker because the metadata log dir {directory.path} has failed"))
        elif not logs.live:
            paths = ", ".join(log_directory.path for log_directory in logs.directories)
            member.fail(KafkaStorageError(f"Shutdown broker because all log dirs in {paths} have failed"))
        else:
            try:
                member.directory_failed(directory)
            except KafkaStorageError as error:  # the metadata log's disk failed as well and is handled next
                node.note_failure(error)
