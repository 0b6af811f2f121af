"""log.durability=fsync: produce is answered, and readers see records, only after they are on the disk.

Apache Kafka has no such mode: it answers when the page cache has the records, and trusts in replicas.

Rules:
- What one turn of the listener appended is synced together, once a partition, on a thread of its own. Requests that
  arrive meanwhile are handled, and what they append shares the next sync: the slower the disk, the larger the group.
- The high watermark stays where the disk is. So delayed produce requests and fetches wait as they do for followers.
- A segment that began since the last sync is synced by the listener's thread, with its directory and its predecessor.
- After a sync that failed nobody knows what the disk has: the log goes offline until the next start recovers it.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable
from typing import NamedTuple

from kafkatools.core.broker.partition import Partition
from kafkatools.core.clock import Clock
from kafkatools.core.errors import KafkaStorageError


class _Sync(NamedTuple):
    """One file to sync: what is durable afterwards, and a descriptor of our own."""

    partition: Partition
    offset: int
    descriptor: int


class _Outcome(NamedTuple):
    partition: Partition
    offset: int
    error: OSError | None


class GroupCommit:
    """The partitions that were appended to and not synced yet, and the thread that syncs them."""

    def __init__(
        self,
        clock: Clock,
        wakeup: Callable[[], None],
        committed: Callable[[Partition], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """`wakeup` is called on the other thread when a group is done; the others on the caller's."""
        self._clock = clock
        self._wakeup = wakeup
        self._committed = committed
        self._failed = failed
        self._dirty: dict[object, Partition] = {}
        self._work: queue.SimpleQueue[list[_Sync] | None] = queue.SimpleQueue()
        self._done: list[_Outcome] | None = None
        self._is_busy = False
        self._thread: threading.Thread | None = None

    def note(self, partition: Partition) -> None:
        """This partition was appended to."""
        self._dirty[partition.key] = partition

    def turn(self) -> None:
        """Answer for the group that is done, begin the next one; between two turns of the listener."""
        done = self._done
        if done is not None:
            self._done = None
            self._is_busy = False
            for outcome in done:
                self._settle(outcome)
        while self._dirty and not self._is_busy:
            self._begin()

    def _begin(self) -> None:
        dirty, self._dirty = self._dirty, {}
        syncs = []
        for partition in dirty.values():
            log = partition.log
            try:
                if log.needs_full_flush:
                    log.flush(self._clock.wall_ms())
                    self._settle(_Outcome(partition, log.log_end_offset, None))
                else:
                    syncs.append(_Sync(partition, log.log_end_offset, os.dup(log.active_segment.log.fileno())))
            except (KafkaStorageError, OSError) as error:
                self._fail(partition, error)
        if syncs:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="group-commit", daemon=True)
                self._thread.start()
            self._is_busy = True
            self._work.put(syncs)

    def _run(self) -> None:
        while (syncs := self._work.get()) is not None:
            self._done = [self._sync(sync) for sync in syncs]
            self._wakeup()

    @staticmethod
    def _sync(sync: _Sync) -> _Outcome:
        error = None
        try:
            os.fdatasync(sync.descriptor)
        except OSError as caught:
            error = caught
        with contextlib.suppress(OSError):
            os.close(sync.descriptor)
        return _Outcome(sync.partition, sync.offset, error)

    def _settle(self, outcome: _Outcome) -> None:
        partition = outcome.partition
        if outcome.error is not None:
            self._fail(partition, outcome.error)
            return
        if not partition.log.is_closed:
            partition.log.note_flushed(outcome.offset, self._clock.wall_ms())
            partition.log.maybe_increment_high_watermark(outcome.offset)
        self._committed(partition)

    def _fail(self, partition: Partition, error: Exception) -> None:
        if not partition.is_deleted:
            self._failed(partition.log.go_offline(error))
        self._committed(partition)

    def close(self) -> None:
        """End the thread; nobody is answered any more. What is not synced is the clean stop's to flush."""
        if self._thread is not None:
            self._work.put(None)
            self._thread.join()
            self._thread = None
