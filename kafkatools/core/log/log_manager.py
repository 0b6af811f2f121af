"""The partition logs of one log directory. Kafka's LogManager.

Rules. `.kafka_cleanshutdown` is removed before any log is opened and written last, so a crash in between is never taken
for a clean stop. A checkpoint that is damaged is as good as missing: recovery starts from the beginning. A deleted
partition's directory is renamed at once and removed after file.delete.delay.ms, or at the next start. A directory
whose topic id is not the one asked for belongs to a topic that was deleted meanwhile: it is put aside as `-stray`,
never mixed in and never removed. The owner calls the periodic methods; nothing here waits.
"""

import os
import uuid
from collections.abc import Callable

from kafkatools.core.errors import KafkaStorageError
from kafkatools.core.log import checkpoints, filenames
from kafkatools.core.log.delayed_tasks import DelayedTasks
from kafkatools.core.log.filenames import TopicPartition
from kafkatools.core.log.files import FileSystem
from kafkatools.core.log.log_config import LogConfig
from kafkatools.core.log.partition_log import PartitionLog

_NOT_PARTITIONS = (
    filenames.DELETE_DIRECTORY_SUFFIX,
    filenames.STRAY_DIRECTORY_SUFFIX,
    filenames.FUTURE_DIRECTORY_SUFFIX,
)
_METADATA_TOPIC = "__cluster_metadata"


class LogManager:
    """All partition logs of `directory`."""

    def __init__(self, files: FileSystem, directory: str) -> None:
        self.files = files
        self.directory = directory
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.tasks = DelayedTasks()
        self.is_clean_start = False
        self._recovery_points: dict[TopicPartition, int] = {}
        self._start_offsets: dict[TopicPartition, int] = {}
        self._first_dirty_offsets: dict[TopicPartition, int] = {}
        self._high_watermarks: dict[TopicPartition, int] = {}
        self._written: dict[str, dict[TopicPartition, int]] = {}
        self._has_new_names = False

    def start(self) -> None:
        """Read marker and checkpoints, take the marker away, finish the deletions that a stop interrupted."""
        marker = self._path(filenames.CLEAN_SHUTDOWN)
        self.is_clean_start = self.files.exists(marker)
        if self.is_clean_start:
            self.files.remove(marker)
            self.files.fsync_directory(self.directory)
        self._recovery_points = self._read(filenames.RECOVERY_POINT_CHECKPOINT)
        self._start_offsets = self._read(filenames.LOG_START_OFFSET_CHECKPOINT)
        self._first_dirty_offsets = self._read(filenames.CLEANER_OFFSET_CHECKPOINT)
        self._high_watermarks = self._read(filenames.REPLICATION_OFFSET_CHECKPOINT)
        for entry in self.files.list_directory(self.directory):
            if entry.is_directory and entry.name.endswith(filenames.DELETE_DIRECTORY_SUFFIX):
                self._remove_directory(self._path(entry.name))

    def _path(self, name: str) -> str:
        return os.path.join(self.directory, name)

    def _read(self, name: str) -> dict[TopicPartition, int]:
        try:
            return checkpoints.read_offset_checkpoint(self.files, self._path(name))
        except KafkaStorageError:
            return {}

    def partition_directories(self) -> list[TopicPartition]:
        """The partitions that have a directory here, the metadata log apart."""
        found = [
            filenames.parse_partition_directory(entry.name)
            for entry in self.files.list_directory(self.directory)
            if entry.is_directory and not entry.name.endswith(_NOT_PARTITIONS)
        ]
        return [name for name in found if name is not None and name.topic != _METADATA_TOPIC]

    def get_or_create(
        self, name: TopicPartition, topic_id: str, config: LogConfig, wall_ms: int, *, is_replicated: bool = False
    ) -> PartitionLog:
        """The log of a partition: the open one, the one on disk, or a new one, durable after `sync_names`. Its high
        watermark is the end of the log, or, of one of several replicas, what the checkpoint says."""
        log = self.logs.get(name)
        if log is not None:
            return log
        directory = self._path(filenames.partition_directory_name(name.topic, name.partition))
        is_new = not self.files.exists(directory)
        if not is_new and self._is_of_another_topic(directory, topic_id):
            self.files.rename(directory, f"{directory}.{uuid.uuid4().hex}{filenames.STRAY_DIRECTORY_SUFFIX}")
            is_new = True
        log = PartitionLog(directory, config, self.files, self.tasks)
        if not is_new:
            log.first_dirty_offset = self._first_dirty_offsets.get(name)
        log.load(
            0 if is_new else self._start_offsets.get(name, 0),
            0 if is_new else self._recovery_points.get(name, 0),
            wall_ms,
            had_clean_shutdown=self.is_clean_start or is_new,
        )
        self._has_new_names = self._has_new_names or is_new
        log.assign_topic_id(topic_id)
        known = self._high_watermarks.get(name, 0) if not is_new else 0
        log.update_high_watermark(known if is_replicated else log.log_end_offset)
        self.logs[name] = log
        return log

    def sync_names(self) -> None:
        """Make the directories that `get_or_create` made durable: once for many. Raises KafkaStorageError."""
        if self._has_new_names:
            try:
                self.files.fsync_directory(self.directory)
            except OSError as error:
                raise KafkaStorageError(f"Error while creating directories in {self.directory}: {error}") from error
            self._has_new_names = False

    def _is_of_another_topic(self, directory: str, topic_id: str) -> bool:
        path = os.path.join(directory, filenames.PARTITION_METADATA)
        if not self.files.exists(path):
            return False
        return checkpoints.read_partition_metadata(self.files, path).topic_id != topic_id

    def delete(self, name: TopicPartition, wall_ms: int) -> None:
        """Take a partition's log away; its files are removed after file.delete.delay.ms."""
        log = self.logs.pop(name, None)
        if log is None:
            return
        log.close()
        target = self._path(filenames.deleted_directory_name(name.topic, name.partition, uuid.uuid4().hex))
        self.files.rename(log.directory, target)
        log.move_to(target)
        self.tasks.schedule(wall_ms + log.config.file_delete_delay_ms, lambda: self._remove_directory(target))

    def _remove_directory(self, path: str) -> None:
        if not self.files.exists(path):
            return
        for entry in self.files.list_directory(path):
            self.files.remove(os.path.join(path, entry.name))
        self.files.remove_directory(path)

    # periodic work

    def cleanup(self, wall_ms: int) -> int:
        """Retention over all logs but one that is being cleaned (LogManager.cleanupLogs); gives the number of segments
        deleted."""
        idle = (log for log in self.logs.values() if log.failure is None and log.cleaning is None)
        return sum(log.delete_retention_segments(wall_ms) for log in idle)

    def first_dirty_offsets(self) -> dict[TopicPartition, int]:
        """Up to where each log is clean: what cleaner-offset-checkpoint holds."""
        offsets = {name: log.first_dirty_offset for name, log in self.logs.items()}
        return {name: offset for name, offset in offsets.items() if offset is not None}

    def flush_due(self, wall_ms: int) -> None:
        """flush.ms: force logs whose last flush is too long ago (LogManager.flushDirtyLogs)."""
        for log in self.logs.values():
            if wall_ms - log.last_flush_ms >= log.config.flush_ms:
                log.flush(wall_ms)

    def remove_expired_producers(self, wall_ms: int) -> None:
        """Forget producers that wrote nothing for producer.id.expiration.ms."""
        for log in self.logs.values():
            log.producer_state.remove_expired_producers(wall_ms)

    def checkpoint_recovery_points(self) -> None:
        """Write recovery-point-offset-checkpoint."""
        self._write(filenames.RECOVERY_POINT_CHECKPOINT, lambda log: log.recovery_point)

    def checkpoint_high_watermarks(self) -> None:
        """Write replication-offset-checkpoint."""
        self._write(filenames.REPLICATION_OFFSET_CHECKPOINT, lambda log: log.high_watermark)

    def checkpoint_start_offsets(self) -> None:
        """Write log-start-offset-checkpoint: the logs whose start lies inside their first segment."""
        self._write(
            filenames.LOG_START_OFFSET_CHECKPOINT,
            lambda log: log.log_start_offset if log.log_start_offset > log.segments.first.base_offset else None,
        )

    def _write(self, name: str, offset_of: Callable[[PartitionLog], int | None]) -> None:
        offsets = {partition: offset_of(log) for partition, log in self.logs.items()}
        known = {partition: offset for partition, offset in offsets.items() if offset is not None}
        if self._written.get(name) != known:  # an idle broker leaves the disk alone
            checkpoints.write_offset_checkpoint(self.files, self._path(name), known)
            self._written[name] = known

    def close(self, broker_epoch: int) -> None:
        """Flush and close every log, write the checkpoints, then the marker of a clean stop. When a disk error stops
        it, or a log is offline, there is no marker, and the next start recovers."""
        for log in self.logs.values():
            log.flush()
            log.close()
        self.checkpoint_recovery_points()
        self.checkpoint_high_watermarks()
        self.checkpoint_start_offsets()
        if self.first_dirty_offsets():
            self._write(filenames.CLEANER_OFFSET_CHECKPOINT, lambda log: log.first_dirty_offset)
        if any(log.failure is not None for log in self.logs.values()):
            return
        checkpoints.write_clean_shutdown(self.files, self._path(filenames.CLEAN_SHUTDOWN), broker_epoch)
