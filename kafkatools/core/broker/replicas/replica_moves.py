"""Moves replicas between the log directories of this broker (Kafka's ReplicaAlterLogDirsManager).

Rules: all moves run on the node's one thread, a few milliseconds per turn, so that requests are served in between. The
replicas take turns, a slice each. A future replica that has caught up replaces the current one in the same turn. A move
interrupted by a stop resumes after the start. replica.alter.log.dirs.io.max.bytes.per.second limits all moves together;
with 0 they stand still.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from kafkatools.core.broker.metadata.broker_settings import BrokerSettings
from kafkatools.core.broker.replicas.partition import Partition
from kafkatools.core.broker.replicas.replica_manager import ReplicaManager
from kafkatools.core.errors import (
    InvalidTopic,
    KafkaError,
    KafkaStorageError,
    LogDirNotFound,
    NotLeaderOrFollower,
    ReplicaNotAvailable,
)
from kafkatools.core.log.format.filenames import MAX_NAME_LENGTH, TopicPartition, future_directory_name
from kafkatools.core.log.partition.log_directory import LogDirectory
from kafkatools.core.log.partition.replica_move import SLICE_BYTES, ReplicaMove

TURN_MS = 5
NO_LIMIT = 2**63 - 1  # bytes per second
NEVER = 2**63 - 1  # ms
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
_UUID_HEX = "0" * 32


@dataclass(eq=False, repr=False)
class ReplicaMoves:
    """The replica moves under way on this broker. `moved(partition)` is called when a move is complete. `is_ready` says
    whether the metadata image is loaded, so that a partition missing from it is deleted."""

    replicas: ReplicaManager
    settings: BrokerSettings
    is_ready: Callable[[], bool]
    note_failure: Callable[[Exception], None]
    moved: Callable[[Partition], None]
    _moves: dict[TopicPartition, ReplicaMove] = field(default_factory=dict, init=False)
    _rate: int | None = field(default=None, init=False)
    _next_ms: int = field(default=0, init=False)

    @property
    def next_deadline_ms(self) -> int | None:
        """Time in ms at which the next slice is due, None without moves."""
        return self._next_ms if self._moves else None

    # requests

    def alter(self, name: TopicPartition, path: str) -> None:
        """Start moving a replica to the log directory `path` (ReplicaManager.alterReplicaLogDirs); one that is there
        already stays. A move to another directory that is under way is cancelled. For a replica that this broker does
        not have, the directory is remembered for its creation before the error is raised. Raises InvalidTopic,
        LogDirNotFound, KafkaStorageError, ReplicaNotAvailable, UnknownTopicOrPartition."""
        logs, replicas = self.replicas.logs, self.replicas
        if len(future_directory_name(name.topic, name.partition, _UUID_HEX)) > MAX_NAME_LENGTH:
            raise InvalidTopic("The topic name is too long.")
        directory = logs.find_directory(path) if os.path.isabs(path) else None
        if directory is None:
            raise LogDirNotFound(f"Log dir {path} is not found in the config.")
        if directory.failure is not None or directory in logs.failing:
            raise KafkaStorageError(f"Log directory {path} is offline")
        partition = replicas.partitions.get(name.topic, {}).get(name.partition)
        if partition is None:
            error = replicas.absence(name.topic, name.partition)
            if not isinstance(error, KafkaStorageError):
                logs.prefer(name, directory)
            raise ReplicaNotAvailable() if isinstance(error, NotLeaderOrFollower) else error
        self._move(name, directory)

    def _move(self, name: TopicPartition, directory: LogDirectory) -> None:
        logs = self.replicas.logs
        future = logs.future_logs.get(name)
        if future is not None:
            if logs.directory_of(future) is directory:
                return
            self._moves.pop(name, None)
            logs.cancel_future(name, self.replicas.clock.wall_ms())
        if logs.directory_of(logs.logs[name]) is not directory:
            self._begin(name, directory)

    def _begin(self, name: TopicPartition, directory: LogDirectory) -> None:
        logs = self.replicas.logs
        future = logs.begin_future(name, directory, self.replicas.clock.wall_ms())
        self._moves[name] = ReplicaMove(logs.logs[name], future)
        self.read_rate()

    def resume(self) -> None:
        """Resume the moves that a stop interrupted; an error is reported. Once the metadata image is loaded, delete
        future replicas of partitions that this broker no longer has."""
        if self.is_ready():
            self._forget_strangers()
        for name, directory in self.replicas.logs.interrupted_futures():
            try:
                self._begin(name, directory)
            except KafkaStorageError as error:
                self.note_failure(error)

    def _forget_strangers(self) -> None:
        image, node_id = self.replicas.image, self.replicas.node_id
        for directory in self.replicas.logs.live:
            for name in [name for name in directory.futures if name not in self.replicas.logs.logs]:
                topic = image.topics.get(name.topic)
                state = None if topic is None else topic.partitions.get(name.partition)
                if state is None or node_id not in state.replicas:
                    directory.run(partial(directory.forget_future, name))

    def read_rate(self) -> None:
        """While moves are under way, read the throttle in bytes per second from the dynamic settings; a changed one
        applies at once."""
        if self._moves:
            rate = self.settings.throttle(RATE)
            if rate is not None and rate >= NO_LIMIT:
                rate = None
            if rate != self._rate:
                self._rate, self._next_ms = rate, NEVER if rate == 0 else 0

    # copying

    def tick(self, now_ms: int) -> None:
        """Copy slices for up to TURN_MS, within the throttle."""
        clock = self.replicas.clock
        while self._moves and now_ms >= self._next_ms:
            name, move = next(iter(self._moves.items()))
            copied = self._step(name, move)
            if copied is not None:  # the next slice comes after those of other replicas
                self._moves[name] = self._moves.pop(name)
                self._note(copied, now_ms)
            if clock.now_ms() - now_ms >= TURN_MS:
                return

    def _note(self, copied: int, now_ms: int) -> None:
        if self._rate:
            self._next_ms = max(self._next_ms, now_ms) + round(copied * 1000 / self._rate)

    def _give_up(self, name: TopicPartition, error: Exception) -> None:
        """Cancel a failed move; the replica stays in its directory. A failed disk is left to `DirectoryKeeper`."""
        del self._moves[name]
        self.note_failure(KafkaStorageError(f"Cannot move replica {name} to another log directory: {error}"))
        if not self.replicas.logs.failing:
            try:
                self.replicas.logs.cancel_future(name, self.replicas.clock.wall_ms())
            except (KafkaError, OSError) as another:
                self.note_failure(another)

    def _step(self, name: TopicPartition, move: ReplicaMove) -> int | None:
        """Copy one slice and return its size in bytes. Returns None when the move is complete, cancelled or failed."""
        logs = self.replicas.logs
        partition = self.replicas.partitions.get(name.topic, {}).get(name.partition)
        if partition is None or logs.future_logs.get(name) is not move.future:
            del self._moves[name]
            return None
        wall_ms = self.replicas.clock.wall_ms()
        if move.future.config is not partition.log.config:
            move.future.update_config(partition.log.config)
        try:
            copied = move.step(wall_ms, SLICE_BYTES if self._rate is None else min(SLICE_BYTES, self._rate))
            if copied:
                return copied
            move.future.flush(wall_ms)
            partition.log = logs.promote_future(name, wall_ms)
        except (KafkaError, OSError) as error:
            self._give_up(name, error)
            return None
        del self._moves[name]
        partition.settle()
        self.moved(partition)
        return None
