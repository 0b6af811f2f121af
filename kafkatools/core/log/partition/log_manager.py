"""The partition logs of a broker in one or several log directories (Kafka's LogManager).

A new partition goes to the directory with the fewest logs, unless the metadata or a request names one. With several
directories, one may fail: a disk error is recorded in `failing`, and the owner takes the whole directory offline
(`take_offline`). A partition that may be in an offline directory is not begun anew in another one. A broker's only
directory never goes offline; the failed operation is tried again. The owner calls the periodic methods. Nothing here
waits.
"""

import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import MappingProxyType

from kafkatools.core.errors import KafkaStorageError
from kafkatools.core.log.delayed_tasks import DelayedTasks
from kafkatools.core.log.files import FileSystem
from kafkatools.core.log.format import filenames
from kafkatools.core.log.format.filenames import TopicPartition
from kafkatools.core.log.partition.log_config import LogConfig
from kafkatools.core.log.partition.log_directory import LogDirectory, of_each
from kafkatools.core.log.partition.partition_log import PartitionLog

UNASSIGNED = uuid.UUID(int=1)
"""Kafka's DirectoryId.UNASSIGNED: the broker may choose."""


class LogManager:
    """All partition logs of a broker, in its log directories `paths`; `directory_ids` has their ids by path."""

    def __init__(
        self,
        files: FileSystem,
        *paths: str,
        report: Callable[[str], None] = lambda line: None,
        directory_ids: Mapping[str, uuid.UUID] = MappingProxyType({}),
    ) -> None:
        self.files = files
        self.tasks = DelayedTasks()
        self.has_several = len(paths) > 1
        note_failure = self.note_failure if self.has_several else None
        self.directories = [
            LogDirectory(files, path, self.tasks, note_failure, directory_ids.get(path)) for path in paths
        ]
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.future_logs: dict[TopicPartition, PartitionLog] = {}
        self.failing: dict[LogDirectory, Exception] = {}
        self._report = report
        self._preferred: dict[TopicPartition, LogDirectory] = {}

    # directories

    @property
    def live(self) -> list[LogDirectory]:
        """The log directories that are online."""
        return [directory for directory in self.directories if directory.failure is None]

    @property
    def offline(self) -> list[LogDirectory]:
        """The log directories that are offline."""
        return [directory for directory in self.directories if directory.failure is not None]

    @property
    def is_clean_start(self) -> bool:
        """Return whether every live log directory had a clean shutdown marker at start; True also when none is live."""
        return all(directory.is_clean_start for directory in self.live)

    @property
    def last_broker_epoch(self) -> int:
        """The broker epoch in the clean shutdown markers; -1 when unknown or when the directories differ
        (LogManager.readBrokerEpochFromCleanShutdownFiles)."""
        epochs = {directory.last_broker_epoch for directory in self.live}
        return epochs.pop() if len(epochs) == 1 else -1

    def find_directory(self, path: str) -> LogDirectory | None:
        """Return the log directory with this path, None when there is none."""
        absolute = os.path.abspath(path)
        return next((directory for directory in self.directories if os.path.abspath(directory.path) == absolute), None)

    def directory_of(self, log: PartitionLog) -> LogDirectory:
        """Return the log directory that holds a log, the first directory when none does."""
        name = log.topic_partition
        owners = (directory for directory in self.directories if directory.logs.get(name) is log)
        return next(owners, self.directories[0])

    def note_failure(self, directory: LogDirectory, error: Exception) -> None:
        """Record the first disk error of a directory in `failing`, for the owner to take it offline. Until then its
        logs refuse appends and reads, because the sequences of batches in flight must not be checked. Does nothing for
        an offline directory."""
        if directory.failure is None:
            self.failing.setdefault(directory, error)
            directory.refuse(error)

    def take_offline(self, directory: LogDirectory) -> list[TopicPartition]:
        """Take a directory offline and remove its logs from `logs` and `future_logs` (LogManager.handleLogDirFailure).
        Return the partitions whose current log was in it."""
        error = self.failing.pop(directory, None) or KafkaStorageError("its disk failed")
        directory.go_offline(error)
        offline = [name for name, log in self.logs.items() if directory.logs.get(name) is log]
        for name in offline:
            del self.logs[name]
        futures = [name for name, log in self.future_logs.items() if directory.logs.get(name) is log]
        for name in futures:
            del self.future_logs[name]
        if offline or futures:
            self._report(
                f"WARN Logs for partitions {_joined_names(offline)} are offline and logs for future partitions "
                f"{_joined_names(futures)} are offline due to failure on log directory {directory.path}: {error}"
            )
        return offline

    def _for_live_directories(self, work: Callable[[LogDirectory], object]) -> None:
        """Call `work` for every live directory. An OSError or KafkaStorageError is raised if there is one directory;
        with several it is recorded in `failing`."""
        for directory in self.live:
            try:
                work(directory)
            except (OSError, KafkaStorageError) as error:
                if not self.has_several:
                    raise
                self.note_failure(directory, error)

    # start

    def start(self) -> None:
        """Read the markers and checkpoints of all directories. With several, one that cannot be read goes offline, and
        a partition in two directories is renamed to `-stray` in one of them. Raises KafkaStorageError when no directory
        is left, OSError of a broker's only directory."""
        self._give_up_failing()
        self._for_live_directories(LogDirectory.start)
        self._give_up_failing()
        if not self.live:
            raise KafkaStorageError(
                "Shutdown broker because none of the specified log dirs from "
                f"{', '.join(directory.path for directory in self.directories)} can be created or validated"
            )
        if self.has_several:
            self._for_live_directories(self._put_duplicates_aside)

    def _give_up_failing(self) -> None:
        for directory, error in list(self.failing.items()):
            self._report(f"WARN Failed to create or validate data directory {directory.path}: {error}")
            self.take_offline(directory)

    def _put_duplicates_aside(self, directory: LogDirectory) -> None:
        """Keep one copy of a partition that is in two directories, and rename the other one to `-stray`. This happens
        when a crash came between the two renames of a move, or when a failed directory is back. The copy whose last
        segment begins later stays, or is larger if both begin at the same offset."""
        for other_directory in self.live[self.live.index(directory) + 1 :]:
            for name in sorted(directory.residents & other_directory.residents):
                retained_directory = max(
                    (directory, other_directory), key=lambda candidate: self._reach(candidate, name)
                )
                stray_directory = other_directory if retained_directory is directory else directory
                stray_directory.put_aside(name)
                stray_directory.residents.discard(name)
                self._report(
                    f"WARN {name} is in both {retained_directory.path} and {stray_directory.path}; "
                    "the latter is renamed to -stray"
                )

    def _reach(self, directory: LogDirectory, name: TopicPartition) -> tuple[int, int]:
        """Return the base offset and the size in bytes of a partition's last segment, (-1, 0) without a segment."""
        path = directory.path_of(filenames.partition_directory_name(*name))
        segments = [
            (filenames.offset_from_name(entry.name) or 0, entry.size_bytes)
            for entry in self.files.list_directory(path)
            if filenames.is_log_name(entry.name)
        ]
        return max(segments, default=(-1, 0))

    def partition_paths(self) -> Iterator[tuple[TopicPartition, str]]:
        """Yield each partition with a directory in a live log directory, and that directory's path. Leaves out
        `__cluster_metadata`, future replicas, and `-delete` and `-stray` directories. Raises OSError."""
        for directory in self.live:
            for name in directory.partitions():
                yield name, directory.path_of(filenames.partition_directory_name(*name))

    # logs

    def get_or_create(
        self,
        name: TopicPartition,
        topic_id: str,
        config: LogConfig,
        wall_ms: int,
        *,
        is_replicated: bool = False,
        directory_id: uuid.UUID | None = UNASSIGNED,
    ) -> PartitionLog:
        """Return the log of a partition: open, loaded from disk, or new (durable after `sync_names`). `directory_id` is
        the directory in the metadata.

        Raises KafkaStorageError when the log cannot be created or may be in an offline directory, CorruptRecord for a
        log that cannot be loaded. A disk error (OSError too) is raised as it is from the only directory, or from the
        one that has the partition. Another directory's error is recorded in `failing`, and the next one is tried.
        """
        log = self.logs.get(name)
        if log is not None:
            return log
        candidates = [self.directories[0]] if not self.has_several else self._candidates(name, directory_id)
        for directory in candidates:
            try:
                log = directory.open(name, topic_id, config, wall_ms, is_replicated=is_replicated)
            except (OSError, KafkaStorageError) as error:
                if not self.has_several or name in directory.residents:
                    raise
                self.note_failure(directory, error)
                continue
            directory.residents.add(name)
            self._preferred.pop(name, None)
            self.logs[name] = log
            return log
        paths = ", ".join(directory.path for directory in candidates)
        raise KafkaStorageError(f"No log directories available. Tried {paths}")

    def _candidates(self, name: TopicPartition, directory_id: uuid.UUID | None) -> list[LogDirectory]:
        """Return the directory that has a partition, or the directories to try for a new one, best first. Raises
        KafkaStorageError when the partition may be in an offline directory."""
        usable = [directory for directory in self.live if directory not in self.failing]
        for directory in self.live:
            if name in directory.residents:
                return [directory]
        assigned = [directory for directory in usable if directory.directory_id == directory_id]
        if len(usable) < len(self.directories) and not assigned and directory_id != UNASSIGNED:
            offline = ",".join(directory.path for directory in self.directories if directory not in usable)
            raise KafkaStorageError(f"Can not create log for {name} because log directories {offline} are offline")
        preferred = self._preferred.get(name)
        if preferred in usable:
            return [preferred]
        return assigned or self._next_directories(usable)

    @staticmethod
    def _next_directories(usable: list[LogDirectory]) -> list[LogDirectory]:
        """Return the directories for a new partition, the one with the fewest logs first (LogManager.nextLogDirs).
        Cordoned ones are left out, unless all are."""
        free = [directory for directory in usable if not directory.is_cordoned] or usable
        return sorted(free, key=lambda directory: len(directory.logs))

    def prefer(self, name: TopicPartition, directory: LogDirectory) -> None:
        """Choose the directory in which a partition will be created, unless its log is open there
        (LogManager.maybeUpdatePreferredLogDir)."""
        if name not in directory.logs:
            self._preferred[name] = directory

    def sync_names(self) -> None:
        """Make new partition directories durable, one fsync per log directory. Raises KafkaStorageError with one
        directory; with several, an error is recorded in `failing`."""
        self._for_live_directories(LogDirectory.sync_names)

    def delete(self, name: TopicPartition, wall_ms: int) -> None:
        """Delete a partition's log and its future replica, if they are open. The files are removed after
        file.delete.delay.ms. Raises OSError and KafkaStorageError of the future replica, or with one directory; else
        the error is recorded in `failing`."""
        self.cancel_future(name, wall_ms)
        log = self.logs.pop(name, None)
        if log is not None:
            directory = self.directory_of(log)
            directory.run(partial(directory.delete, name, wall_ms))

    # future replicas

    def begin_future(self, name: TopicPartition, directory: LogDirectory, wall_ms: int) -> PartitionLog:
        """Open or create the log of a future replica, into which an open partition will be copied to move it to
        `directory`. Aborts a cleaning of the current log. Raises KafkaStorageError, with the disk error recorded in
        `failing`."""
        current = self.logs[name]
        assert current.topic_id is not None, "an open log has the id of its topic"
        try:
            future = directory.open_future(name, current.topic_id, current.config, wall_ms)
            directory.sync_names()
        except (OSError, KafkaStorageError) as error:
            self.note_failure(directory, error)
            raise KafkaStorageError(f"Error while creating log for {name} in dir {directory.path}: {error}") from error
        current.abort_cleaning()
        future.first_dirty_offset = current.first_dirty_offset
        self.future_logs[name] = future
        return future

    def cancel_future(self, name: TopicPartition, wall_ms: int) -> None:
        """Cancel a partition's move to another directory and delete its future replica, if there is one. Raises
        OSError, KafkaStorageError."""
        future = self.future_logs.pop(name, None)
        if future is not None:
            self.directory_of(future).delete(name, wall_ms)

    def interrupted_futures(self) -> list[tuple[TopicPartition, LogDirectory]]:
        """Return the moves of open partitions that a shutdown interrupted, with their target directories."""
        return [
            (name, directory)
            for directory in self.live
            for name in directory.futures
            if name in self.logs and name not in self.future_logs and name not in directory.residents
        ]

    def promote_future(self, name: TopicPartition, wall_ms: int) -> PartitionLog:
        """Replace a partition's current replica with its complete and durable future replica
        (replaceCurrentWithFutureLog). Return the new current log.

        Raises KafkaStorageError if the future replica's directory cannot be renamed durably; after a rename, the next
        start keeps one of the two. A disk error after that is only recorded in `failing`, for the old directory.
        """
        current, future = self.logs[name], self.future_logs[name]
        source, target = self.directory_of(current), self.directory_of(future)
        try:
            target.promote(name)
        except OSError as error:
            self.note_failure(target, error)
            raise KafkaStorageError(f"Error while moving {name} to dir {target.path}: {error}") from error
        del self.future_logs[name]
        self.logs[name] = future
        future.update_high_watermark(current.high_watermark)
        future.first_dirty_offset, future.attempts = current.first_dirty_offset, current.attempts
        try:
            source.delete(name, wall_ms)
            self.files.fsync_directory(source.path)
            for directory in (source, target):
                directory.checkpoint_recovery_points()
                directory.checkpoint_start_offsets()
                if directory.first_dirty_offsets():
                    directory.checkpoint(filenames.CLEANER_OFFSET_CHECKPOINT, lambda log: log.first_dirty_offset)
        except (OSError, KafkaStorageError) as error:
            self.note_failure(source, error)
        return future

    # periodic work

    def cleanup(self, wall_ms: int) -> int:
        """Apply retention to all logs that are neither failed nor being cleaned (LogManager.cleanupLogs). Return the
        number of deleted segments. Raises the first error after all logs were tried: a full disk keeps a log from
        rolling its last segment, but not the others from making room."""
        idle = [log for log in self.logs.values() if log.failure is None and log.cleaning is None]
        return sum(of_each(idle, lambda log: log.delete_retention_segments(wall_ms)))

    def cleanable_logs(self) -> Iterator[PartitionLog]:
        """Iterate over the open logs without a future replica, whatever their cleanup.policy."""
        return (log for name, log in self.logs.items() if name not in self.future_logs)

    def cleaner_checkpoint(self, log: PartitionLog) -> tuple[str, dict[TopicPartition, int]]:
        """Return the path and the new content of the cleaner-offset-checkpoint in a log's directory."""
        directory = self.directory_of(log)
        return directory.path_of(filenames.CLEANER_OFFSET_CHECKPOINT), directory.first_dirty_offsets()

    def flush_due(self, wall_ms: int) -> None:
        """Flush the logs whose last flush is flush.ms ago or more (LogManager.flushDirtyLogs). Raises the first
        KafkaStorageError after all were tried."""
        due = [log for log in self.logs.values() if wall_ms - log.last_flush_ms >= log.config.flush_ms]
        of_each(due, lambda log: log.flush(wall_ms))

    def remove_expired_producers(self, wall_ms: int) -> None:
        """Forget producers without an open transaction that wrote nothing for producer.id.expiration.ms, in all
        logs."""
        for log in self.logs.values():
            log.producer_state.remove_expired_producers(wall_ms)

    def checkpoint_recovery_points(self) -> None:
        """Write recovery-point-offset-checkpoint in every live directory where an offset has changed. Raises OSError
        with one directory; with several, an error is recorded in `failing`."""
        self._for_live_directories(LogDirectory.checkpoint_recovery_points)

    def checkpoint_high_watermarks(self) -> None:
        """Write replication-offset-checkpoint in every live directory where an offset has changed. Raises OSError with
        one directory; with several, an error is recorded in `failing`."""
        self._for_live_directories(LogDirectory.checkpoint_high_watermarks)

    def checkpoint_start_offsets(self) -> None:
        """Write log-start-offset-checkpoint in every live directory where an offset has changed. Raises OSError with
        one directory; with several, an error is recorded in `failing`."""
        self._for_live_directories(LogDirectory.checkpoint_start_offsets)

    def abandon(self, *, is_clean: bool = True) -> None:
        """Close the logs opened so far, during a start that failed. Nothing is flushed, and no checkpoint is written. A
        directory without an opened log gets its clean shutdown marker back, unless `is_clean` is False."""
        self._for_live_directories(lambda directory: directory.abandon(is_clean=is_clean))

    def close(self, broker_epoch: int, *, is_clean: bool = True) -> None:
        """Flush and close the logs of all live directories, and write their checkpoints. Clean shutdown markers are
        written if `is_clean`, except in a directory with an error. Raises the first OSError or KafkaError after all
        directories were tried."""
        of_each(self.live, lambda directory: directory.close(broker_epoch, is_clean=is_clean))


def _joined_names(names: list[TopicPartition]) -> str:
    return ",".join(str(name) for name in names) or "none"
