"""The partition logs of one log directory: opening, checkpoints, retention, deleting, the lock and the clean-shutdown
marker (Kafka's LogManager).

Rules: `.kafka_cleanshutdown` is removed before anything is opened and written last. Checkpoints are replaced
atomically. A deleted partition's directory is renamed to `<topic>-<n>.<id>-delete` at once and its files go after
file.delete.delay.ms.
"""

from __future__ import annotations

import fcntl
import os
import uuid
from typing import Any

from kafkatools.core.errors import KafkaStorageError
from kafkatools.core.log import checkpoints, filenames
from kafkatools.core.log.delayed_tasks import DelayedTasks
from kafkatools.core.log.filenames import TopicPartition
from kafkatools.core.log.files import FileSystem
from kafkatools.core.log.log_config import LogConfig
from kafkatools.core.log.partition_log import PartitionLog


class DirectoryLock:
    """`.lock` of a log directory: one process at a time."""

    def __init__(self, directory: str) -> None:
        self._descriptor = os.open(f"{directory}/{filenames.LOCK}", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise KafkaStorageError(
                f"Failed to acquire lock on file .lock in {directory}. A Kafka instance in another process or thread "
                "is using this directory."
            ) from None

    def release(self) -> None:
        """Let another process have the directory."""
        os.close(self._descriptor)


class LogManager:
    """All partition logs of `directory`."""

    def __init__(self, files: FileSystem, directory: str) -> None:
        self.files = files
        self.directory = directory
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.is_clean_start = False
        self.tasks = DelayedTasks()
        self._recovery_points: dict[TopicPartition, int] = {}
        self._high_watermarks: dict[TopicPartition, int] = {}
        self._start_offsets: dict[TopicPartition, int] = {}

    def start(self) -> None:
        """Read marker and checkpoints, take the marker away, finish deletions that a stop interrupted."""
        marker = f"{self.directory}/{filenames.CLEAN_SHUTDOWN}"
        self.is_clean_start = self.files.exists(marker)
        if self.is_clean_start:
            self.files.remove(marker)
        self._recovery_points = self._read(filenames.RECOVERY_POINT_CHECKPOINT)
        self._high_watermarks = self._read(filenames.REPLICATION_OFFSET_CHECKPOINT)
        self._start_offsets = self._read(filenames.LOG_START_OFFSET_CHECKPOINT)
        for entry in self.files.list_directory(self.directory):
            if entry.name.endswith(filenames.DELETE_DIRECTORY_SUFFIX):
                self._remove_directory(f"{self.directory}/{entry.name}")

    def _read(self, name: str) -> dict[TopicPartition, int]:
        """A checkpoint; one that is missing or damaged is rebuilt from the logs, which is always safe."""
        path = f"{self.directory}/{name}"
        try:
            return checkpoints.read_offset_checkpoint(self.files, path) if self.files.exists(path) else {}
        except KafkaStorageError:
            return {}

    def partition_directories(self) -> list[TopicPartition]:
        """The partitions that have a directory here."""
        found = [
            filenames.parse_partition_directory(entry.name)
            for entry in self.files.list_directory(self.directory)
            if not entry.name.endswith(
                (filenames.DELETE_DIRECTORY_SUFFIX, filenames.STRAY_DIRECTORY_SUFFIX, filenames.FUTURE_DIRECTORY_SUFFIX)
            )
        ]
        return [name for name in found if name is not None and name.topic != "__cluster_metadata"]

    def get_or_create(self, name: TopicPartition, topic_id: str, config: LogConfig, wall_ms: int) -> PartitionLog:
        """Open the log of a partition, or make it."""
        log = self.logs.get(name)
        if log is not None:
            return log
        directory = f"{self.directory}/{filenames.partition_directory_name(name.topic, name.partition)}"
        is_new = not self.files.exists(directory)
        if is_new:
            self.files.make_directory(directory)
            checkpoints.write_partition_metadata(self.files, f"{directory}/{filenames.PARTITION_METADATA}", topic_id)
        log = PartitionLog.open(
            directory,
            config,
            self.files,
            wall_ms,
            had_clean_shutdown=self.is_clean_start or is_new,
            recovery_point=self._recovery_points.get(name, 0),
            log_start_offset=self._start_offsets.get(name, 0),
            tasks=self.tasks,
        )
        log.update_high_watermark(log.log_end_offset)
        self.logs[name] = log
        return log

    def delete(self, name: TopicPartition, wall_ms: int) -> None:
        """Take a partition's log away."""
        log = self.logs.pop(name, None)
        if log is None:
            return
        log.close()
        source = f"{self.directory}/{filenames.partition_directory_name(name.topic, name.partition)}"
        target = f"{self.directory}/{filenames.deleted_directory_name(name.topic, name.partition, uuid.uuid4().hex)}"
        self.files.rename(source, target)
        self.tasks.schedule(wall_ms + log.config.file_delete_delay_ms, lambda: self._remove_directory(target))

    def _remove_directory(self, path: str) -> None:
        for entry in self.files.list_directory(path):
            self.files.remove(f"{path}/{entry.name}")
        self.files.remove_directory(path)

    def cleanup(self, wall_ms: int) -> int:
        """Retention over all logs that delete (cleanupLogs); gives the number of segments."""
        return sum(log.delete_retention_segments(wall_ms) for log in self.logs.values() if log.config.is_deleted)

    def flush_due(self, now_ms: int, last_flush_ms: dict[TopicPartition, int]) -> None:
        """flush.ms: force logs whose last flush is too long ago (flushDirtyLogs)."""
        for name, log in self.logs.items():
            if now_ms - last_flush_ms.setdefault(name, now_ms) >= log.config.flush_ms:
                log.flush()
                last_flush_ms[name] = now_ms

    def checkpoint_recovery_points(self) -> None:
        """recovery-point-offset-checkpoint."""
        self._write(filenames.RECOVERY_POINT_CHECKPOINT, {name: log.recovery_point for name, log in self.logs.items()})

    def checkpoint_high_watermarks(self) -> None:
        """replication-offset-checkpoint."""
        self._write(
            filenames.REPLICATION_OFFSET_CHECKPOINT, {name: log.high_watermark for name, log in self.logs.items()}
        )

    def checkpoint_start_offsets(self) -> None:
        """log-start-offset-checkpoint: logs whose start lies inside the first segment."""
        moved = {
            name: log.log_start_offset
            for name, log in self.logs.items()
            if log.log_start_offset > log.segments.first.base_offset
        }
        self._write(filenames.LOG_START_OFFSET_CHECKPOINT, moved)

    def _write(self, name: str, offsets: dict[TopicPartition, Any]) -> None:
        checkpoints.write_offset_checkpoint(self.files, f"{self.directory}/{name}", offsets)

    def close(self, broker_epoch: int) -> None:
        """Flush and close every log, write the checkpoints, then the marker of a clean stop."""
        for log in self.logs.values():
            log.flush()
        self.checkpoint_recovery_points()
        self.checkpoint_high_watermarks()
        self.checkpoint_start_offsets()
        for log in self.logs.values():
            log.close()
        checkpoints.write_clean_shutdown(self.files, f"{self.directory}/{filenames.CLEAN_SHUTDOWN}", broker_epoch)
