"""One log directory of a broker: its clean shutdown marker, its checkpoints and the logs in it (a part of LogManager).

The marker `.kafka_cleanshutdown` is removed before any log is opened and written last, so a crash in between never
counts as a clean shutdown. A damaged checkpoint counts as missing: recovery then starts at the beginning. The directory
of a deleted partition is renamed at once. It is removed after file.delete.delay.ms or at the next start. A partition
directory with another topic id belongs to a deleted topic: it is renamed to `-stray` and stays there unused. A future
replica of a deleted topic is removed. A log directory that is offline (`failure`) is not touched any more.
"""

import os
import uuid
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from kafkatools.core.errors import KafkaError, KafkaStorageError
from kafkatools.core.log.delayed_tasks import DelayedTasks
from kafkatools.core.log.files import FileSystem
from kafkatools.core.log.format import checkpoints, filenames
from kafkatools.core.log.format.filenames import TopicPartition
from kafkatools.core.log.partition.log_config import LogConfig
from kafkatools.core.log.partition.partition_log import PartitionLog

_NOT_PARTITIONS = (
    filenames.DELETE_DIRECTORY_SUFFIX,
    filenames.STRAY_DIRECTORY_SUFFIX,
    filenames.FUTURE_DIRECTORY_SUFFIX,
)
_METADATA_TOPIC = "__cluster_metadata"
_Offsets = dict[TopicPartition, int]
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class LogDirectory:
    """One log directory and its open logs, including those of future replicas."""

    def __init__(
        self,
        files: FileSystem,
        path: str,
        tasks: DelayedTasks,
        note_failure: "Callable[[LogDirectory, Exception], None] | None" = None,
        directory_id: uuid.UUID | None = None,
    ) -> None:
        """`note_failure` is called with this directory and each disk error, if the broker has several directories."""
        self.files = files
        self.path = path
        self.directory_id = directory_id
        self.is_clean_start = False
        self.last_broker_epoch = -1
        self.is_cordoned = False
        self.failure: KafkaStorageError | None = None
        self.on_storage_error = None if note_failure is None else partial(note_failure, self)
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.futures: dict[TopicPartition, str] = {}
        self.residents: set[TopicPartition] = set()
        self._tasks = _DirectoryTasks(tasks, self.run)
        self._checkpoints: dict[str, _Offsets] = {}
        self._stored_offsets: dict[str, _Offsets] = {}
        self._has_new_names = False
        self._unopened: set[TopicPartition] = set()  # logs that could not be opened and may need recovery

    def __repr__(self) -> str:
        return f"LogDirectory({self.path!r})"

    def path_of(self, name: str) -> str:
        """Return the path of a file or a partition's directory in this log directory."""
        return os.path.join(self.path, name)

    # start

    def start(self) -> None:
        """Read and remove the clean shutdown marker, read the checkpoints, remove `-delete` directories, and list the
        partitions (`residents`) and future replicas (`futures`). Raises OSError."""
        marker = self.path_of(filenames.CLEAN_SHUTDOWN)
        stopped = checkpoints.read_clean_shutdown(self.files, marker)
        self.is_clean_start = stopped is not None
        if stopped is not None:
            self.last_broker_epoch = stopped.broker_epoch
            self.files.remove(marker)
            self.files.fsync_directory(self.path)
        for name in (
            filenames.RECOVERY_POINT_CHECKPOINT,
            filenames.LOG_START_OFFSET_CHECKPOINT,
            filenames.CLEANER_OFFSET_CHECKPOINT,
            filenames.REPLICATION_OFFSET_CHECKPOINT,
        ):
            self._checkpoints[name] = self._read(name)
        for entry in self.files.list_directory(self.path):
            if not entry.is_directory:
                continue
            if entry.name.endswith(filenames.DELETE_DIRECTORY_SUFFIX):
                self._remove_directory(self.path_of(entry.name))
            elif (future := filenames.parse_future_directory(entry.name)) is not None:
                self.futures[future] = entry.name
            elif (resident := filenames.parse_partition_directory(entry.name)) is not None:
                self.residents.add(resident)

    def _read(self, name: str) -> _Offsets:
        try:
            return checkpoints.read_offset_checkpoint(self.files, self.path_of(name))
        except KafkaStorageError:
            return {}

    def partitions(self) -> list[TopicPartition]:
        """List the partitions with a directory here, except `__cluster_metadata`, future replicas, and `-delete` and
        `-stray` directories. Raises OSError."""
        names = [
            filenames.parse_partition_directory(entry.name)
            for entry in self.files.list_directory(self.path)
            if entry.is_directory and not entry.name.endswith(_NOT_PARTITIONS)
        ]
        return [name for name in names if name is not None and name.topic != _METADATA_TOPIC]

    # logs

    def open(
        self, name: TopicPartition, topic_id: str, config: LogConfig, wall_ms: int, *, is_replicated: bool = False
    ) -> PartitionLog:
        """Load a partition's log, or begin an empty one, whose directory `sync_names` makes durable. A directory with
        another topic id is renamed to `-stray` first.

        The high watermark comes from the checkpoint (0 if missing) if `is_replicated`, else it is the log end offset.
        Raises KafkaStorageError, CorruptRecord, OSError.
        """
        path = self.path_of(filenames.partition_directory_name(name.topic, name.partition))
        is_new = not self.files.exists(path)
        if not is_new and self._is_of_another_topic(path, topic_id):
            self.put_aside(name)
            is_new = True
        if not is_new:
            self._unopened.add(name)
        log = self._load(path, name, topic_id, config, wall_ms, is_new=is_new, is_replicated=is_replicated)
        self._unopened.discard(name)
        return log

    def open_future(self, name: TopicPartition, topic_id: str, config: LogConfig, wall_ms: int) -> PartitionLog:
        """Load or begin the log of a future replica in this directory. A future replica with another topic id is
        removed, and a new one begun. Raises KafkaStorageError, CorruptRecord, OSError."""
        existing = self.futures.get(name)
        if existing is not None and self._is_of_another_topic(self.path_of(existing), topic_id):
            self._remove_directory(self.path_of(existing))
            existing = None
        directory = existing or filenames.future_directory_name(name.topic, name.partition, uuid.uuid4().hex)
        log = self._load(self.path_of(directory), name, topic_id, config, wall_ms, is_new=existing is None)
        self.futures[name] = directory
        return log

    def _load(
        self,
        path: str,
        name: TopicPartition,
        topic_id: str,
        config: LogConfig,
        wall_ms: int,
        *,
        is_new: bool,
        is_replicated: bool = True,
    ) -> PartitionLog:
        log = PartitionLog(path, config, self.files, self._tasks, self.on_storage_error)
        high_watermark = 0
        if is_new:
            log.begin(wall_ms)
            self._has_new_names = True
        else:
            offsets = self._checkpoints
            log.first_dirty_offset = offsets[filenames.CLEANER_OFFSET_CHECKPOINT].get(name)
            start = offsets[filenames.LOG_START_OFFSET_CHECKPOINT].get(name, 0)
            recovery_point = offsets[filenames.RECOVERY_POINT_CHECKPOINT].get(name, 0)
            log.load(start, recovery_point, wall_ms, had_clean_shutdown=self.is_clean_start)
            high_watermark = offsets[filenames.REPLICATION_OFFSET_CHECKPOINT].get(name, 0)
        log.assign_topic_id(topic_id)
        log.update_high_watermark(high_watermark if is_replicated else log.log_end_offset)
        self.logs[name] = log
        return log

    def _is_of_another_topic(self, path: str, topic_id: str) -> bool:
        metadata = os.path.join(path, filenames.PARTITION_METADATA)
        if not self.files.exists(metadata):
            return False
        return checkpoints.read_partition_metadata(self.files, metadata).topic_id != topic_id

    def put_aside(self, name: TopicPartition) -> None:
        """Rename a partition's directory to `<name>.<random id>-stray`, so that it is kept but not used. Raises
        OSError."""
        path = self.path_of(filenames.partition_directory_name(*name))
        self.files.rename(path, self.path_of(filenames.stray_directory_name(*name, uuid.uuid4().hex)))

    def sync_names(self) -> None:
        """Make new partition directories durable, with one fsync for all; without new ones do nothing. Raises
        KafkaStorageError."""
        if self._has_new_names:
            try:
                self.files.fsync_directory(self.path)
            except OSError as error:
                raise KafkaStorageError(f"Error while creating directories in {self.path}: {error}") from error
            self._has_new_names = False

    def delete(self, name: TopicPartition, wall_ms: int) -> None:
        """Close a partition's log (or future replica) and rename its directory to `-delete`, for removal after
        file.delete.delay.ms. Writes nothing, because a full disk must not keep the files of a deleted topic. In an
        offline directory only forget the log. Raises KeyError for a log that is not open, OSError."""
        log = self.logs.pop(name)
        self.residents.discard(name)
        self.futures.pop(name, None)
        if self.failure is not None:
            return
        log.release()
        target = self.path_of(filenames.deleted_directory_name(name.topic, name.partition, uuid.uuid4().hex))
        self.files.rename(log.directory, target)
        log.move_to(target)
        self._tasks.schedule(wall_ms + log.config.file_delete_delay_ms, lambda: self._remove_directory(target))

    def _remove_directory(self, path: str) -> None:
        if self.failure is not None or not self.files.exists(path):
            return
        for entry in self.files.list_directory(path):
            self.files.remove(os.path.join(path, entry.name))
        self.files.remove_directory(path)

    def promote(self, name: TopicPartition) -> PartitionLog:
        """Rename a future replica's directory to that of the current replica, durably. Return its log. Raises
        OSError."""
        log = self.logs[name]
        target = self.path_of(filenames.partition_directory_name(name.topic, name.partition))
        self.files.rename(log.directory, target)
        log.move_to(target)
        self.files.fsync_directory(self.path)
        self.futures.pop(name, None)
        self.residents.add(name)
        return log

    def run(self, task: Callable[[], None]) -> None:
        """Run a delayed task, unless the directory is offline. A disk error is reported, or raised if this is the only
        directory."""
        if self.failure is not None:
            return
        try:
            task()
        except (OSError, KafkaStorageError) as error:
            if self.on_storage_error is None:
                raise
            self.on_storage_error(error)

    def forget_future(self, name: TopicPartition) -> None:
        """Remove the directory of a future replica that is not open, because its partition was deleted. Raises
        OSError."""
        self._remove_directory(self.path_of(self.futures.pop(name)))

    # checkpoints

    def checkpoint(self, checkpoint: str, offset_of: Callable[[PartitionLog], int | None]) -> None:
        """Write a checkpoint file with one offset per open log, unless it would be the same as at the last write. Logs
        for which `offset_of` returns None are omitted. Raises OSError."""
        offsets = self._offsets(checkpoint, offset_of)
        if self._stored_offsets.get(checkpoint) != offsets:  # an idle broker does not write
            checkpoints.write_offset_checkpoint(self.files, self.path_of(checkpoint), offsets)
            self._stored_offsets[checkpoint] = offsets

    def _offsets(self, checkpoint: str, offset_of: Callable[[PartitionLog], int | None]) -> _Offsets:
        """Return the offsets of the open logs, and those that the checkpoint had at the start for logs that could not
        be opened: a later start must not take their log start or recovery point for 0."""
        found = self._checkpoints.get(checkpoint, {})
        offsets = {name: found[name] for name in self._unopened if name in found}
        opened = {name: offset for name, log in self.logs.items() if (offset := offset_of(log)) is not None}
        return {**offsets, **opened}

    def checkpoint_recovery_points(self) -> None:
        """Write recovery-point-offset-checkpoint, if an offset has changed. Raises OSError."""
        self.checkpoint(filenames.RECOVERY_POINT_CHECKPOINT, lambda log: log.recovery_point)

    def checkpoint_high_watermarks(self) -> None:
        """Write replication-offset-checkpoint, if an offset has changed. Raises OSError."""
        self.checkpoint(filenames.REPLICATION_OFFSET_CHECKPOINT, lambda log: log.high_watermark)

    def checkpoint_start_offsets(self) -> None:
        """Write log-start-offset-checkpoint, if an offset has changed, for logs whose start offset is above the base
        offset of their first segment. Raises OSError."""
        self.checkpoint(
            filenames.LOG_START_OFFSET_CHECKPOINT,
            lambda log: log.log_start_offset if log.log_start_offset > log.segments.first.base_offset else None,
        )

    def first_dirty_offsets(self) -> _Offsets:
        """Return the first dirty offset of each log that was cleaned: the content of cleaner-offset-checkpoint."""
        return self._offsets(filenames.CLEANER_OFFSET_CHECKPOINT, lambda log: log.first_dirty_offset)

    # end

    def close(self, broker_epoch: int, *, is_clean: bool = True) -> None:
        """Flush and close every log, write the checkpoints, then the clean shutdown marker if `is_clean`. After a disk
        error in one step the other steps still run. With an error, an offline log or one that could not be opened there
        is no marker, and the next start recovers. Raises the first OSError or KafkaStorageError."""
        steps: list[Callable[[], object]] = [log.flush_and_close for log in self.logs.values()]
        steps += [self.checkpoint_recovery_points, self.checkpoint_high_watermarks, self.checkpoint_start_offsets]
        if self.first_dirty_offsets():
            name = filenames.CLEANER_OFFSET_CHECKPOINT
            steps.append(partial(self.checkpoint, name, lambda log: log.first_dirty_offset))
        of_each(steps, lambda step: step())
        if not is_clean or self._unopened or any(log.failure is not None for log in self.logs.values()):
            return
        checkpoints.write_clean_shutdown(self.files, self.path_of(filenames.CLEAN_SHUTDOWN), broker_epoch)

    def abandon(self, *, is_clean: bool = True) -> None:
        """Close the logs opened so far, during a start that failed. Nothing is flushed and no checkpoint written. If no
        log was opened, the clean shutdown marker found at start is written again, unless `is_clean` is False. Raises
        KafkaStorageError, OSError."""
        was_opened = bool(self.logs)
        for log in self.logs.values():
            log.close()
        if is_clean and self.is_clean_start and not was_opened:
            checkpoints.write_clean_shutdown(self.files, self.path_of(filenames.CLEAN_SHUTDOWN), self.last_broker_epoch)

    def refuse(self, error: Exception) -> None:
        """Make every log refuse appends and reads, because the disk failed and the directory is about to go offline."""
        for log in list(self.logs.values()):
            log.refuse(error)

    def go_offline(self, error: Exception) -> None:
        """Take the directory and all its logs offline after a disk error. Nothing in it is read or written any more."""
        self.failure = KafkaStorageError(f"Log directory {self.path} is offline: {error}")
        for log in self.logs.values():
            log.go_offline(error)


def of_each(items: Iterable[_Item], work: Callable[[_Item], _Result]) -> list[_Result]:
    """Call `work` for each item and return the results. Raises the first OSError or KafkaError after all were tried."""
    results, failures = [], []
    for item in items:
        try:
            results.append(work(item))
        except (OSError, KafkaError) as error:
            failures.append(error)
    if failures:
        raise failures[0]
    return results


class _DirectoryTasks(DelayedTasks):
    """The task queue for the logs of one directory. It passes tasks to the broker's queue; once the directory is
    offline they do nothing when due."""

    def __init__(self, tasks: DelayedTasks, run: Callable[[Callable[[], None]], None]) -> None:
        super().__init__()
        self._tasks = tasks
        self._run = run

    def schedule(self, due_ms: int, task: Callable[[], None]) -> None:
        self._tasks.schedule(due_ms, lambda: self._run(task))
