"""Write the fetched batches of one partition as objects, and finish the objects in other threads.

An object ends at the first batch boundary at or beyond `object_bytes`. It is listed in the manifest only when it is
finished.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from kafkatools.core.log.format.filenames import LOG_SUFFIX
from kafkatools.tools.backup.batch_scan import BatchDamage, BatchScan
from kafkatools.tools.backup.manifest import PartitionBackup, StoredObject
from kafkatools.tools.backup.object_reader import read_pieces
from kafkatools.tools.backup.store import NewObject, Store

_THREADS = 4
_MOST_PENDING = 4


class Finisher:
    """Finishes objects in threads, a few at a time. A context manager: at the end it waits for them, after an error
    without reporting theirs."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="backup")
        self._pending: set[Future[None]] = set()

    def __enter__(self) -> Finisher:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=kind is not None)
        if kind is None:
            self.check(self._pending)

    def submit(self, work: Callable[[], None]) -> Future[None]:
        """Run the work in a thread, once fewer than 4 others are pending. Raises the CommandError of earlier work."""
        done, self._pending = wait(self._pending, 0)
        self.check(done)
        while len(self._pending) >= _MOST_PENDING:
            done, self._pending = wait(self._pending, return_when=FIRST_COMPLETED)
            self.check(done)
        future = self._pool.submit(work)
        self._pending.add(future)
        return future

    def wait(self) -> None:
        """Wait until all work is done. Raises its CommandError."""
        done, self._pending = wait(self._pending)
        self.check(done)

    def check(self, done: set[Future[None]]) -> None:
        """Raise the error of work that failed."""
        for future in done:
            future.result()


class PartitionWriter:
    """Appends batches behind the objects of a partition. `directory`: that of the objects, such as `logs/orders-0`."""

    def __init__(
        self, store: Store, finisher: Finisher, backup: PartitionBackup, directory: str, object_bytes: int
    ) -> None:
        self.backup = backup
        self.written_bytes = 0
        self._store = store
        self._finisher = finisher
        self._directory = directory
        self._object_bytes = object_bytes
        self._scan = BatchScan(backup.next_offset, backup.open)
        self._object: NewObject | None = None
        self._finishing: deque[tuple[Future[None], StoredObject]] = deque()

    @property
    def next_offset(self) -> int:
        """The offset after the last batch."""
        return self._scan.next_offset

    def append(self, records: memoryview) -> None:
        """Check and write whole batches. A partial batch at the end is left out: it will be fetched again. Raises
        BatchDamage after the sound batches before it were written, CommandError."""
        try:
            size = self._scan.scan(records)
        except BatchDamage as damage:
            self._write(records[: damage.position])
            raise
        self._write(records[:size])

    def _write(self, batches: memoryview) -> None:
        if not batches:
            return
        summary = self._scan.summary
        if self._object is None:
            self._object = self._store.new_object(self._name(summary.base_offset or 0))
        self._object.write(batches)
        self.written_bytes += len(batches)
        if summary.bytes >= self._object_bytes:
            self.close()

    def _name(self, base_offset: int) -> str:
        return f"{self._directory}/{base_offset:020d}{LOG_SUFFIX}"

    def close(self) -> None:
        """Finish the object that is being written, if there is one."""
        new = self._object
        if new is None:
            return
        self._object = None
        summary = self._scan.begin_object()
        stored = StoredObject.of(self._name(summary.base_offset or 0), summary, self._scan.open)
        self._finishing.append((self._finisher.submit(new.finish), stored))

    def begin_gap(self) -> dict[int, int]:
        """Finish the object before offsets that were deleted, and return the transactions that were open there: their
        markers may have been among these offsets."""
        self.close()
        opened, self._scan.open = self._scan.open, {}
        return opened

    def list_finished(self) -> None:
        """List stored objects in the manifest, up to the first that is not finished or failed: the next run reads from
        the end of the last one."""
        while self._finishing and self._finishing[0][0].done() and self._finishing[0][0].exception() is None:
            self.backup.objects.append(self._finishing.popleft()[1])

    def discard(self) -> None:
        """Drop the object that is being written."""
        if self._object is not None:
            self._object.discard()
            self._object = None


def adopt(store: Store, directory: str, backup: PartitionBackup) -> int:
    """Add the objects behind the listed ones that a killed run left in a directory, up to the first that is damaged,
    and return their size in bytes. Only objects that continue the log are adopted."""
    listed = {os.path.basename(item.name) for item in backup.objects}
    adopted = 0
    for name in sorted(store.sizes(directory)):
        if name in listed or not name.endswith(LOG_SUFFIX):
            continue
        scan = BatchScan(backup.next_offset, backup.open)
        path = f"{directory}/{name}"
        if not _is_sound(store, path, scan):
            break
        summary = scan.begin_object()
        backup.objects.append(StoredObject.of(path, summary, scan.open))
        backup.end = max(backup.end, summary.next_offset)
        adopted += summary.bytes
    return adopted


def _is_sound(store: Store, name: str, scan: BatchScan) -> bool:
    try:
        for piece in read_pieces(store, name):
            if scan.scan(piece) != len(piece):
                return False
    except BatchDamage:
        return False
    return scan.summary.bytes > 0
