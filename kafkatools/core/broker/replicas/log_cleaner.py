"""Log compaction in a running broker: the cleaner thread and its coordination with the listener's thread (Kafka's
LogCleaner).

Rules:
- Logs belong to the listener's thread, which chooses a log and plans the cleaning. The cleaner thread reads closed
  segments and writes new ones through its own file system. The listener's thread swaps them in between two turns. So no
  log needs a lock. Jobs and swap results pass through queues, swaps and outcomes through a deque and `wakeup`.
- No request waits for the cleaner: truncating or deleting a log aborts its cleaning.
- The cleaner works for a millisecond and sleeps for one, so that a request finds the interpreter lock free; the loops
  over records and keys run without the lock. The cleaner thread also syncs files and writes the checkpoint.
- There is one cleaner thread, even if log.cleaner.threads is larger: a second one would wait for the same lock.
"""

from __future__ import annotations

import math
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.errors import KafkaError, KafkaStorageError
from kafkatools.core.log.cleaner.log_to_clean import CleaningAborted, LogToClean
from kafkatools.core.log.cleaner.manager import LogCleanerManager
from kafkatools.core.log.files import FileSystem, RealFileSystem
from kafkatools.core.log.format import checkpoints
from kafkatools.core.log.format.filenames import TopicPartition
from kafkatools.core.log.partition.log_manager import LogManager
from kafkatools.core.log.partition.partition_log import PartitionLog
from kafkatools.core.log.partition.segment_swap import swap_in

if TYPE_CHECKING:
    from kafkatools.core.log.cleaner.cleaner import CleanedSegment, CleanerStats

REST_MS = 1
THROTTLE_CHECK_MS = 300
NAP_MS = 50
CLEANER_OPEN_FILES = 32


class _Swap(NamedTuple):
    log: PartitionLog
    plan: LogToClean
    cleaned: CleanedSegment


class _Outcome(NamedTuple):
    log: PartitionLog
    plan: LogToClean
    result: CleanerStats | Exception


class LogCleaner:
    """The log cleaner of one broker. Its public methods are called on the listener's thread."""

    def __init__(
        self,
        logs: LogManager,
        config: Config,
        clock: Clock,
        wakeup: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """`wakeup` is called on the cleaner thread when the listener's thread must call `turn`."""
        self.manager = LogCleanerManager()
        self._logs = logs
        self._clock = clock
        self._wakeup = wakeup
        self._failed = failed
        self._throttle = Throttle(clock)
        self._due_ms: int | None = None
        self.configure(config)
        own_files = isinstance(logs.files, RealFileSystem)
        self._files: FileSystem = RealFileSystem(CLEANER_OPEN_FILES) if own_files else logs.files
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._posted: deque[_Swap | _Outcome] = deque()
        self._answers: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._cleaning: LogToClean | None = None
        self._is_stopping = False
        self._worked_since_ms = 0

    # on the listener's thread

    def configure(self, config: Config) -> None:
        """Apply the current settings of the cleaner. Sizes count for the next log that is cleaned."""
        self._dedupe_buffer_bytes: int = config.log_cleaner_dedupe_buffer_size
        self._load_factor: float = config.log_cleaner_io_buffer_load_factor
        self._throttle.max_bytes_per_second = config.log_cleaner_io_max_bytes_per_second
        self._backoff_ms = max(1, config.log_cleaner_backoff_ms)
        if self._due_ms is not None:
            self._due_ms = min(self._due_ms, self._clock.now_ms() + self._backoff_ms)

    def begin(self) -> None:
        """Check the logs from now on, which are open."""
        self._due_ms = self._clock.now_ms() + self._backoff_ms

    @property
    def next_deadline_ms(self) -> int | None:
        """Return the time of the next check; None before `begin`."""
        return self._due_ms

    def tick(self, now_ms: int) -> None:
        """Check the logs every log.cleaner.backoff.ms."""
        if self._due_ms is not None and now_ms >= self._due_ms:
            self._due_ms = now_ms + self._backoff_ms
            self.check()

    @property
    def is_busy(self) -> bool:
        """Return whether a log is being cleaned."""
        return self._cleaning is not None

    def check(self) -> None:
        """Apply retention to compacted logs, and start cleaning the dirtiest log unless one is being cleaned. Errors
        are reported, not raised. Called every log.cleaner.backoff.ms; LogManager leaves the retention of compacted logs
        to the cleaner."""
        for name in [name for name in self.manager.uncleanable if name not in self._logs.logs]:
            self.manager.forget(name)
        for log in self._logs.logs.values():
            if log.config.is_compacted and log.cleaning is None and log.failure is None:
                try:
                    log.delete_retention_segments(self._clock.wall_ms())
                except KafkaError as error:
                    self._failed(error)
        self._begin_next()

    def _begin_next(self) -> None:
        if self._cleaning is not None or self._is_stopping:
            return
        reported = set(self.manager.uncleanable)
        filthiest = self.manager.grab_filthiest_log(self._logs.cleanable_logs(), self._clock.wall_ms())
        self._report_new(reported)
        if filthiest is None:
            return
        log, self._cleaning = filthiest
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="kafka-log-cleaner-thread-0", daemon=True)
            self._thread.start()
        plan = self._cleaning
        self._jobs.put(lambda: self._clean(log, plan))

    def turn(self) -> None:
        """Swap in cleaned segments and handle finished cleanings; called between two turns of the listener."""
        while self._posted:
            posted = self._posted.popleft()
            if isinstance(posted, _Swap):
                self._answers.put(self._swap(posted))
            else:
                self._settle(posted)

    def _swap(self, posted: _Swap) -> Exception | None:
        try:
            swap_in(posted.log, posted.plan, posted.cleaned, self._clock.wall_ms())
        except KafkaStorageError as error:
            self._failed(error)
            return error
        except (CleaningAborted, OSError) as error:
            return error
        return None

    def _settle(self, outcome: _Outcome) -> None:
        reported = set(self.manager.uncleanable)
        self._cleaning = None
        is_cleaner = self.manager.done_cleaning(outcome.log, outcome.plan, outcome.result, self._clock.wall_ms())
        self._report_new(reported)
        if isinstance(outcome.result, OSError) and not outcome.plan.is_aborted:
            name = outcome.log.topic_partition
            if outcome.log.on_storage_error is not None:
                outcome.log.on_storage_error(outcome.result)
            self._failed(KafkaStorageError(f"Compaction of {name} failed and will be retried: {outcome.result}"))
        if is_cleaner:
            path, offsets = self._logs.cleaner_checkpoint(outcome.log)
            self._jobs.put(lambda: self._write_checkpoint(path, offsets))
            self._begin_next()

    def _report_new(self, reported: set[TopicPartition]) -> None:
        for name, reason in self.manager.uncleanable.items():
            if name not in reported:
                self._failed(KafkaStorageError(f"{name} is no longer compacted: {reason}"))

    def close(self) -> None:
        """Abort the current cleaning, and stop the thread and wait for its end."""
        self._is_stopping = True
        if self._cleaning is not None:
            self._cleaning.abort()
        if self._thread is not None:
            self._jobs.put(None)
            self._answers.put(CleaningAborted())
            self._thread.join()
            self._thread = None

    # on the cleaner thread

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    def _clean(self, log: PartitionLog, plan: LogToClean) -> None:
        from kafkatools.core.log.cleaner.cleaner import Cleaner  # with its kernels it would delay the broker's start

        size_bytes, load_factor = self._dedupe_buffer_bytes, self._load_factor
        cleaner = Cleaner(self._files, dedupe_buffer_bytes=size_bytes, load_factor=load_factor, turn=self._rest)

        def swap(_plan: LogToClean, cleaned: CleanedSegment) -> None:
            self._posted.append(_Swap(log, plan, cleaned))
            self._wakeup()
            refusal = self._answers.get()
            if refusal is not None:
                raise refusal

        result: CleanerStats | Exception
        self._worked_since_ms = self._clock.now_ms()
        try:
            result = cleaner.clean(plan, self._clock.wall_ms(), swap)
        except Exception as error:  # noqa: BLE001 - the boundary of a thread: whatever it is, the partition is put aside
            result = error
        self._posted.append(_Outcome(log, plan, result))
        self._wakeup()

    def _rest(self, plan: LogToClean, size_bytes: int) -> None:
        def check() -> None:
            if plan.is_aborted or self._is_stopping:
                raise CleaningAborted

        check()
        self._throttle.note(size_bytes, check)
        now_ms = self._clock.now_ms()
        if now_ms > self._worked_since_ms:
            self._clock.sleep_ms(REST_MS)
            self._worked_since_ms = self._clock.now_ms()

    def _write_checkpoint(self, path: str, offsets: dict[TopicPartition, int]) -> None:
        try:
            checkpoints.write_offset_checkpoint(self._files, path, offsets)
        except OSError as error:
            self._failed(KafkaStorageError(f"Cannot write the cleaner checkpoint {path}: {error}"))


class Throttle:
    """Limits the bytes read and written to log.cleaner.io.max.bytes.per.second (Kafka's Throttler)."""

    def __init__(self, clock: Clock, max_bytes_per_second: float = math.inf) -> None:
        self.max_bytes_per_second = max_bytes_per_second
        self._clock = clock
        self._since_ms = clock.now_ms()
        self._size_bytes = 0

    def note(self, size_bytes: int, check: Callable[[], None]) -> None:
        """Count bytes; every `THROTTLE_CHECK_MS`, sleep if they came faster than the limit, for ever if it is 0.
        `check` is called before each nap, since a low limit may take minutes; the sleep ends with what it raises."""
        self._size_bytes += size_bytes
        if self._clock.now_ms() - self._since_ms < THROTTLE_CHECK_MS:
            return
        while (wait_ms := self._wait_ms()) >= 1:
            check()
            self._clock.sleep_ms(int(min(wait_ms, NAP_MS)))
        self._since_ms = self._clock.now_ms()
        self._size_bytes = 0

    def _wait_ms(self) -> float:
        limit = self.max_bytes_per_second
        due_ms = self._size_bytes * 1000 / limit if limit else math.inf
        return due_ms - (self._clock.now_ms() - self._since_ms)
