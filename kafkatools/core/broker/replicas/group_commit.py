"""Group commit for log.durability=fsync: produce responses wait, and readers see no record, until the record is on
disk.

Apache Kafka has no such mode: it responds when the page cache has the records, and relies on replicas.

Rules:
- A partition's appends of one turn of the listener are synced at once, on another thread. Appends that arrive during a
  sync share the partition's next one: the slower the disk, the larger the group. Up to `MAX_THREADS` partitions sync at
  the same time.
- The high watermark stays at the synced offset, so delayed produce requests and fetches wait as they do for followers.
- A segment created since the last sync is synced by the listener's thread, with its directory and its predecessor.
- After a failed sync the content of the disk is unknown: the log is taken offline until the next start recovers it.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkatools.core.broker.replicas.partition import Partition
from kafkatools.core.clock import Clock
from kafkatools.core.errors import KafkaStorageError
from kafkatools.core.log.files import Sync

MAX_THREADS = 4


class _Sync(NamedTuple):
    """A file to sync, and the partition offset that is durable afterwards unless the log is truncated meanwhile."""

    partition: Partition
    offset: int
    truncations: int
    file: Sync


class _Outcome(NamedTuple):
    partition: Partition
    offset: int
    truncations: int
    error: OSError | None


@dataclass(eq=False, repr=False)
class GroupCommit:
    """The partitions with unsynced appends, and the threads that sync their files. `wakeup` is called on a sync thread
    when a sync is done. On the caller's thread, `failed` gets the error of a failed sync, and `committed` is called
    after every sync, failed or not. With `max_threads` 0 only `run_pending` syncs."""

    clock: Clock
    wakeup: Callable[[], None]
    committed: Callable[[Partition], None]
    failed: Callable[[Exception], None]
    max_threads: int = field(default=MAX_THREADS, init=False)
    _dirty: dict[object, Partition] = field(default_factory=dict, init=False)
    _in_flight: set[object] = field(default_factory=set, init=False)
    _work: queue.SimpleQueue[_Sync | None] = field(default_factory=queue.SimpleQueue, init=False)
    _outcomes: deque[_Outcome] = field(default_factory=deque, init=False)
    _threads: list[threading.Thread] = field(default_factory=list, init=False)

    def note(self, partition: Partition) -> None:
        """Note that records were appended to a partition."""
        self._dirty[partition.key] = partition

    @property
    def has_new(self) -> bool:
        """Return whether `turn` has work: a finished sync, or an appended partition without a running sync."""
        return bool(self._outcomes) or any(key not in self._in_flight for key in self._dirty)

    def turn(self) -> None:
        """Apply the finished syncs and start the next ones; a new segment is synced in this call. Called between two
        turns of the listener."""
        while self._outcomes:
            outcome = self._outcomes.popleft()
            self._in_flight.discard(outcome.partition.key)
            self._settle(outcome)
        while ready := [partition for key, partition in self._dirty.items() if key not in self._in_flight]:
            for partition in ready:
                del self._dirty[partition.key]
            for partition in ready:
                self._begin(partition)

    def _begin(self, partition: Partition) -> None:
        log = partition.log
        if log.is_closed:  # the partition was deleted in this turn, or its disk has failed
            self.committed(partition)
            return
        try:
            if log.needs_full_flush:
                log.flush(self.clock.wall_ms())
                self._settle(_Outcome(partition, log.log_end_offset, log.truncations, None))
                return
            sync = _Sync(partition, log.log_end_offset, log.truncations, log.active_segment.log.begin_sync())
        except (KafkaStorageError, OSError) as error:
            self._fail(partition, error)
            return
        self._in_flight.add(partition.key)
        if len(self._threads) < min(self.max_threads, len(self._in_flight)):
            self._threads.append(threading.Thread(target=self._run, name="group-commit", daemon=True))
            self._threads[-1].start()
        self._work.put(sync)

    def _run(self) -> None:
        while (sync := self._work.get()) is not None:
            self._outcomes.append(self._sync(sync))
            self.wakeup()

    def run_pending(self) -> None:
        """Run the queued syncs on the caller's thread; the next `turn` applies their results."""
        with contextlib.suppress(queue.Empty):
            while (sync := self._work.get_nowait()) is not None:
                self._outcomes.append(self._sync(sync))

    @staticmethod
    def _sync(sync: _Sync) -> _Outcome:
        error = None
        try:
            sync.file.run()
        except OSError as sync_error:
            error = sync_error
        return _Outcome(sync.partition, sync.offset, sync.truncations, error)

    def _settle(self, outcome: _Outcome) -> None:
        partition = outcome.partition
        if outcome.error is not None:
            self._fail(partition, outcome.error)
            return
        if partition.log.is_closed:
            pass  # a clean close has synced the log; after a failure the next start recovers it
        elif partition.log.truncations != outcome.truncations:
            self.note(partition)  # what was synced is gone, and the offsets may belong to other records
        else:
            partition.log.note_flushed(outcome.offset, self.clock.wall_ms())
            partition.note_durable(outcome.offset)
        self.committed(partition)

    def _fail(self, partition: Partition, error: Exception) -> None:
        if not partition.is_deleted:
            self.failed(partition.log.go_offline(error))
        self.committed(partition)

    def close(self) -> None:
        """Stop the sync threads after the syncs that are queued; their requests stay unanswered. A clean shutdown
        flushes the unsynced records itself."""
        for _ in self._threads:
            self._work.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()
