"""What becomes of a node's log directories while it runs: one that fails is taken offline, replicas move between them,
the controller is told where replicas are.

Rules: a failure is noted by whatever meets it and handled here, between two turns of the listener (Kafka's
LogDirFailureHandler): the replicas in it answer KAFKA_STORAGE_ERROR, the others go on. Without the metadata log's
directory, or without any, the node ends. A node with one directory has no keeper unless it is one of a cluster.
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
    """The node of the directories."""

    @property
    def log_directory(self) -> str:
        """The directory of the metadata log."""

    def release_directory(self, path: str) -> None:
        """Let another process have a log directory that failed."""

    def note_failure(self, error: Exception) -> None:
        """Report what the disk did."""


class ToldOfDirectories(Protocol):
    """The node's membership, through which the controller hears of directories."""

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration."""

    @property
    def is_ready(self) -> bool:
        """Whether the metadata is known."""

    def assign_directories(self, fields: Mapping[str, Any], on_answer: Callable[[Any | None], None]) -> None:
        """Tell the controller where replicas are."""

    def directory_failed(self, directory: LogDirectory) -> None:
        """Tell the controller that a log directory is offline. Raises KafkaStorageError."""

    def directories_cordoned(self, directory_ids: list[uuid.UUID]) -> None:
        """Tell the controller which directories get no new replicas."""

    def fail(self, error: KafkaError) -> None:
        """End: the node cannot go on."""


class DirectoryKeeper:
    """A worker of the node."""

    def __init__(
        self, replicas: ReplicaManager, settings: BrokerSettings, owner: Owner, member: ToldOfDirectories
    ) -> None:
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
        """When `tick` has something to do."""
        if self._logs.failing:
            return 0
        found = [each.next_deadline_ms for each in (self.moves, self.assignments)]
        return min((each for each in found if each is not None), default=None)

    def tick(self, now_ms: int) -> None:
        """Failures first."""
        logs = self._logs
        while logs.failing:
            self._give_up(next(iter(logs.failing)))
        self.moves.tick(now_ms)
        self.assignments.tick(now_ms)

    def look(self) -> None:
        """Once in a while: moves that wait for their partition, and the settings."""
        self.moves.resume()
        self.moves.read_rate()
        self._cordon()

    def _cordon(self) -> None:
        """cordoned.log.dirs: new partitions go elsewhere (KIP-1066)."""
        named = tuple(self._settings.effective()["cordoned.log.dirs"])
        logs = self._logs
        cordoned = [logs.find_directory(path) for path in named if path != ALL_DIRECTORIES]
        for directory in logs.directories:
            directory.is_cordoned = ALL_DIRECTORIES in named or directory in cordoned
        ids = [each.directory_id for each in logs.live if each.is_cordoned and each.directory_id is not None]
        self._member.directories_cordoned(ids)

    # -- where replicas are ----------------------------------------------------------------------------------------
    def directory_of(self, partition: Partition) -> uuid.UUID | None:
        """The id of the directory that a replica lies in."""
        return self._logs.directory_of(partition.log).directory_id

    def offline_directories(self) -> list[uuid.UUID]:
        """The ids of the directories that are offline, as far as they could be read."""
        return [each.directory_id for each in self._logs.offline if each.directory_id is not None]

    def note_directory(self, partition: Partition, state: PartitionState) -> None:
        """A replica was opened; the controller is told when the metadata has it elsewhere."""
        directory_id = self.directory_of(partition)
        if directory_id is not None and state.directory(self._replicas.node_id) != directory_id:
            self.assignments.submit(partition.topic_id, partition.index, directory_id)

    def _moved(self, partition: Partition) -> None:
        directory_id = self.directory_of(partition)
        if directory_id is not None:
            self.assignments.submit(partition.topic_id, partition.index, directory_id)

    # -- failures --------------------------------------------------------------------------------------------------
    def _give_up(self, directory: LogDirectory) -> None:
        logs, node, member = self._logs, self._owner, self._member
        lost = logs.take_offline(directory)
        self._replicas.lose(lost)
        node.release_directory(directory.path)
        if directory.path == node.log_directory:
            member.fail(KafkaStorageError(f"Shutdown broker because the metadata log dir {directory.path} has failed"))
        elif not logs.live:
            paths = ", ".join(each.path for each in logs.directories)
            member.fail(KafkaStorageError(f"Shutdown broker because all log dirs in {paths} have failed"))
        else:
            try:
                member.directory_failed(directory)
            except KafkaStorageError as error:  # the metadata's disk, too: its turn is next
                node.note_failure(error)
