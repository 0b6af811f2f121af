"""The batches to restore of one partition, in their order, and the offsets of groups as they are in the target.

Rules: the order is fixed, so that the number of records in the target says where a restore stands. With a time as the
cut, a transaction whose marker is beyond the cut counts as open.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator

from kafkatools.core.errors import KafkaError
from kafkatools.core.records import kernel
from kafkatools.core.records.batch import batch_at
from kafkatools.core.records.layout import CONTROL_BIT, TRANSACTIONAL_BIT
from kafkatools.exit_status import CommandError
from kafkatools.tools.backup.batch_scan import (
    ATTRIBUTES,
    BASE_OFFSET,
    MAGIC,
    MAX_TIMESTAMP,
    POSITION,
    PRODUCER_ID,
    SIZE,
    AbortedTransaction,
    BatchDamage,
    BatchScan,
    header_rows,
)
from kafkatools.tools.backup.manifest import PartitionBackup, StoredObject
from kafkatools.tools.backup.object_reader import read_pieces
from kafkatools.tools.backup.restored_batches import RestoredBatch, Selection
from kafkatools.tools.backup.store import Store

_VERIFY = "kt backup verify names all damage."
_ROWS = 1024


class Cut:
    """The end of a restore of a partition, before `offset`, with the transactions that are aborted before it, and
    those that are open there. `bytes`: the size of the stored batches with records before it."""

    def __init__(self, offset: int, aborted: list[AbortedTransaction], opened: dict[int, int], size: int) -> None:
        self.offset, self.aborted, self.open, self.bytes = offset, aborted, opened, size


def find_cut(store: Store, backup: PartitionBackup, until_ms: int | None) -> Cut:
    """Return the cut: the end of the backup, or before the first record with a timestamp of `until_ms` or later. Raises
    CommandError for damage."""
    aborted = backup.undecided
    opened: dict[int, int] = {}
    expected, size = backup.start, 0
    for item in backup.objects:
        if until_ms is not None and item.max_timestamp >= until_ms:
            cut = _cut_within(store, item, until_ms, BatchScan(expected, opened), aborted, size)
            if cut is not None:
                return cut
        aborted += item.aborted
        expected, opened = item.next_offset, backup.open_after(item)
        size += item.bytes
    return Cut(backup.next_offset, aborted, opened, size)


def _cut_within(
    store: Store, item: StoredObject, until_ms: int, scan: BatchScan, aborted: list[AbortedTransaction], size: int
) -> Cut | None:
    """Return the cut in an object; None if only markers of transactions, which have the time of their commit, are that
    late. `size`: that of the objects before it."""
    table, status = array("q", bytes(8 * kernel.HEADER_WIDTH * _ROWS)), array("q", (0, 0))
    with _named(item.name):
        for piece in read_pieces(store, item.name):
            for rows, row in header_rows(piece, table, status):
                if rows[row + MAX_TIMESTAMP] < until_ms and rows[row + MAGIC] >= 2:
                    continue
                columns = batch_at(piece, rows[row + POSITION]).columns()
                late = next((index for index, time in enumerate(columns.timestamps) if time >= until_ms), None)
                if late is None or rows[row + ATTRIBUTES] & CONTROL_BIT:
                    continue
                scan.scan(piece[: rows[row + POSITION]])
                if rows[row + ATTRIBUTES] & TRANSACTIONAL_BIT:
                    scan.open.setdefault(rows[row + PRODUCER_ID], rows[row + BASE_OFFSET])
                begin = rows[row + POSITION] + (rows[row + SIZE] if late else 0)
                return Cut(columns.offsets[late], aborted + scan.summary.aborted, scan.open, size + begin)
            scan.scan(piece)
            size += len(piece)
    return None


class PartitionRestore:
    """A partition to restore: `target_start` is the first offset in the target, `present` the number of records that
    are there already. `group_offsets`: source offsets to map; `mapped` has their target offsets at the end."""

    def __init__(self, store: Store, backup: PartitionBackup, cut: Cut, group_offsets: Iterable[int] = ()) -> None:
        self._store, self._backup, self._cut = store, backup, cut
        self._unmapped = sorted(set(group_offsets))
        self.mapped: dict[int, int] = {}
        self.target_start = 0
        self.present = 0
        self.records = 0
        self.bytes = 0

    def batches(self) -> Iterator[tuple[int, RestoredBatch]]:
        """Yield the batches that the target lacks, each with its expected base offset in the target. Raises
        CommandError for damage, and when the target has more records than the backup."""
        selection = Selection(self._backup.start, self._cut.offset, self._cut.aborted, self._cut.open)
        for item in self._backup.objects:
            if item.base_offset >= self._cut.offset:
                break
            for batch in object_batches(self._store, item, selection):
                self._map(batch)
                before = self.records
                self.records += batch.record_count
                self.bytes += len(batch.data)
                if before + batch.record_count <= self.present:
                    continue
                missing = batch if before >= self.present else batch.without(self.present - before)
                yield self.target_start + max(before, self.present), missing
        for offset in self._unmapped:
            self.mapped[offset] = self.target_start + self.records
        self._unmapped = []

    def _map(self, batch: RestoredBatch) -> None:
        """Map the offsets of groups up to the end of a batch."""
        count = bisect_left(self._unmapped, batch.next_offset)
        for offset in self._unmapped[:count]:
            self.mapped[offset] = self.target_start + self.records + batch.records_before(offset)
        del self._unmapped[:count]


def object_batches(store: Store, item: StoredObject, selection: Selection) -> Iterator[RestoredBatch]:
    """Yield the selected batches of an object. Raises CommandError, which names the object, for damage."""
    size = 0
    with _named(item.name):
        for piece in read_pieces(store, item.name):
            yield from selection.restored(piece)
            size += len(piece)
    if size != item.bytes:
        reason = f"{item.name} has {size} bytes, and the manifest says {item.bytes}"
        raise CommandError(reason, hint=_VERIFY, kind="DAMAGED")


class _named:
    """A context that turns damage into a CommandError with the name of the object."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, CommandError) and error.kind == "MISSING":
            raise CommandError(f"{self._name} is missing in the backup", hint=_VERIFY, kind="DAMAGED") from None
        if isinstance(error, (BatchDamage, KafkaError)):
            place = f" at offset {error.offset}" if isinstance(error, BatchDamage) else ""
            raise CommandError(
                f"{self._name} is damaged{place}: {error}",
                hint=_VERIFY,
                kind="DAMAGED",
            ) from None
