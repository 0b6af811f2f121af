"""The executor's side of `kafka-log`: byte ranges of segments as Arrow batches, with a report for each.

The table `records` has a row for each record, `batches` a row for each batch, from headers alone. The table `errors`
has a row for each damaged range; for it all records are read and decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkatools.core.records.layout import CONTROL_BIT, TRANSACTIONAL_BIT
from kafkatools.pipeline import storage
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run import reports
from kafkatools.pipeline.run.reports import Damage, SplitReport
from kafkatools.pipeline.sources.arrow_rows import ArrowRows, Unread
from kafkatools.pipeline.sources.log import sections as table
from kafkatools.pipeline.sources.log.sections import Section, SectionWalk
from kafkatools.pipeline.sources.log.splits import LogSplit, LogTask
from kafkatools.pipeline.sources.record_bounds import MAX_LONG
from kafkatools.tools.arrow.columns import COMMITTED

RECORDS, BATCHES, ERRORS = "records", "batches", "errors"
TABLES = (RECORDS, BATCHES, ERRORS)
_CODEC = 7
_UNKNOWN_CODEC = "Unknown compression type id"


@dataclass(frozen=True)
class ReadOptions:
    """The options that all tasks of a `kafka-log` query share. `accepts_tail`: a truncated batch at the end of the log
    is no error with `is_strict`. `decodes_records`: decode the records also where the headers of their batches
    determine all rows of the table `records`, to find damage below a valid checksum."""

    table: str = RECORDS
    is_committed_only: bool = False
    is_strict: bool = False
    report_path: str | None = None
    accepts_tail: bool = False
    decodes_records: bool = True
    requires_reports: bool = True


def read_task(
    task: LogTask, schema: pa.Schema, options: ReadOptions, on_report: Callable[[SplitReport], None] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task as pyarrow.RecordBatches. After the rows of each split, pass its report to `on_report`,
    and write it with `report_path`. Raises PipelineError for a file that cannot be read, and for damage if
    `is_strict`."""
    readers: dict[str, Callable[..., Iterator[pa.RecordBatch]]] = {
        RECORDS: _SplitReader.records,
        BATCHES: _SplitReader.batches,
        ERRORS: _SplitReader.errors,
    }
    for split in task.splits:
        reader = _SplitReader(split, schema, options, counts=on_report is not None or options.report_path is not None)
        yield from readers[options.table](reader)
        reader.finish()
        if on_report is not None:
            on_report(reader.report)


class _SplitReader:
    """Reads one split. `counts`: somebody uses the numbers of the report; its damage is always noted."""

    def __init__(self, split: LogSplit, schema: pa.Schema, options: ReadOptions, *, counts: bool) -> None:
        file = split.file
        self._split = split
        self._schema = schema
        self._options = options
        self._counts = counts
        self._needs_states = any(name.lower() == "transaction" for name in schema.names)
        self.report = SplitReport(file.topic, file.partition, file.url, split.start_position, split.end_position)

    def finish(self) -> None:
        """Close files and, with reportPath, write the report, after all rows have been consumed. Raises PipelineError
        if the report cannot be written, unless requireReports is false."""
        if self._split.transactions is not None:
            self._split.transactions.close()
        self.report.size_bytes = self._split.size_bytes
        if self._options.report_path is not None:
            with reports.reporting(is_required=self._options.requires_reports):
                reports.write_report(self._options.report_path, self.report)

    # -- tables --

    def records(self) -> Iterator[pa.RecordBatch]:
        split = self._split
        rows = ArrowRows(self._schema, split.file.topic, split.file.partition, split.bounds)
        for section in self._sections(checks=True):
            states: list[str | None] | None = None
            for first, stop, is_known in self._runs(section, rows):
                if self._needs_states and states is None:
                    states = self._states(section)
                if is_known:
                    run = section.headers[first:stop]
                    yield from rows.add_headers(
                        run, run[:, table.POSITION] + section.origin, None if states is None else states[first:stop]
                    )
                    continue
                for unread in rows.add_batches(
                    section.window, section.table, first, stop, origin=section.origin, transactions=states
                ):
                    self._unread(section, unread)
                if rows.is_full:
                    yield rows.take()
            if rows.is_full:
                yield rows.take()
        if len(rows):
            yield rows.take()
        self.report.records = rows.records
        self.report.first_offset, self.report.last_offset = rows.first_offset, rows.last_offset

    def errors(self) -> Iterator[pa.RecordBatch]:
        from kafkatools.pipeline.sources.log.tables import damage_rows

        schema, self._schema, self._needs_states = self._schema, pa.schema([]), False
        for _ in self.records():
            pass
        self._schema = schema
        file = self._split.file
        if self.report.damages:
            yield damage_rows(schema, file.topic, file.partition, self.report.damages)

    def batches(self) -> Iterator[pa.RecordBatch]:
        from kafkatools.pipeline.sources.log.tables import BatchRows

        rows = BatchRows(self._schema, self._split.file)
        for section in self._sections(checks=False):
            mask = self._overlap_mask(section.headers)
            if mask.any():
                rows.add(section, mask, self._states(section) if self._needs_states else None)
            if rows.is_full:
                yield rows.take()
        if len(rows):
            yield rows.take()

    # -- parts --

    def _sections(self, checks: bool) -> Iterator[Section]:
        split = self._split
        try:
            with storage.open_segment(split.file.url) as file:
                walk = SectionWalk(
                    file, split.start_position, split.end_position, self._note_damage,
                    is_relevant=self._overlap_mask if self._has_bounds else None, checks=checks,
                )  # fmt: skip
                for section in walk.sections():
                    if self._counts:
                        self._count(section)
                    yield section
        except OSError as error:
            raise storage.unreadable(split.file.url, error) from error

    @property
    def _has_bounds(self) -> bool:
        bounds = self._split.bounds
        return bounds.start_offset > 0 or bounds.end_offset < MAX_LONG or bounds.has_timestamps

    def _overlap_mask(self, headers: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return a mask of the batches that may hold records within the bounds. Headers of magic 0 and 1 have only the
        last offset, so those batches are left out only if they end before the first offset."""
        bounds = self._split.bounds
        bases = headers[:, table.BASE_OFFSET]
        is_new = headers[:, table.MAGIC] >= 2
        mask = ~is_new | (bases < bounds.end_offset)
        mask &= bases + headers[:, table.LAST_DELTA] >= bounds.start_offset
        if bounds.has_timestamps:
            mask &= ~is_new | (headers[:, table.MAX_TIMESTAMP] >= bounds.start_timestamp_ms)
        return mask

    def _count(self, section: Section) -> None:
        headers = section.headers
        if self._has_bounds:
            headers = headers[self._overlap_mask(headers)]
        checksums = headers[:, table.CRC]
        if len(headers) and headers[:, table.MAGIC].min() < 2:
            checksums = np.array(
                [
                    int.from_bytes(section.window[at + 12 : at + 16], "big") if magic < 2 else crc
                    for at, magic, crc in headers[:, (table.POSITION, table.MAGIC, table.CRC)].tolist()
                ]
            )
        self.report.add_batches(headers[:, table.BASE_OFFSET], checksums)
        if len(headers):
            last = int(headers[-1, table.BASE_OFFSET] + headers[-1, table.LAST_DELTA])
            self.report.add_range(int(headers[0, table.BASE_OFFSET]), last + 1)

    def _runs(self, section: Section, rows: ArrowRows) -> Iterator[tuple[int, int, bool]]:
        """Yield the batches first..stop to read, and whether `rows` knows their rows by their headers: without control
        batches, batches outside the bounds and, under read_committed, uncommitted ones. Compressed batches to decode
        are separate runs, since their size grows."""
        headers = section.headers
        mask = self._mask(section)
        if self._options.decodes_records or self._options.table != RECORDS:
            is_known = np.zeros(section.rows, np.bool_)
        else:
            is_known = rows.known_by_headers(headers, mask)
        is_packed = (headers[:, table.ATTRIBUTES] & _CODEC != 0) | (headers[:, table.MAGIC] < 2)
        is_packed &= ~is_known
        breaks = np.diff(mask) | np.diff(is_known) | is_packed[1:] | is_packed[:-1]
        edges = [0, *(np.flatnonzero(breaks) + 1).tolist(), section.rows]
        for first, stop in zip(edges[:-1], edges[1:], strict=True):
            if mask[first]:
                yield first, stop, bool(is_known[first])

    def _mask(self, section: Section) -> npt.NDArray[np.bool_]:
        """Return a mask of the batches to read."""
        headers = section.headers
        mask: npt.NDArray[np.bool_] = headers[:, table.ATTRIBUTES] & CONTROL_BIT == 0
        if self._has_bounds:
            mask &= self._overlap_mask(headers)
        if self._options.is_committed_only and self._split.transactions is not None:
            mask &= np.array([state in (None, COMMITTED) for state in self._states(section, mask)])
        return mask

    def _states(self, section: Section, rows: npt.NDArray[np.bool_] | None = None) -> list[str | None]:
        """Return OPEN, COMMITTED or ABORTED for each transactional batch of a section, None for others. With `rows`,
        only the selected batches are looked up. All are None for a split without transactions."""
        transactions = self._split.transactions
        states: list[str | None] = [None] * section.rows
        if transactions is None:
            return states
        is_transactional = section.headers[:, table.ATTRIBUTES] & TRANSACTIONAL_BIT != 0
        for row in np.flatnonzero(is_transactional if rows is None else rows & is_transactional).tolist():
            batch = section.headers[row]
            states[row] = transactions.state(
                int(batch[table.PRODUCER_ID]), int(batch[table.BASE_OFFSET]), section.origin + int(batch[0])
            )
        return states

    def _unread(self, section: Section, unread: Unread) -> None:
        """Report records that cannot be decoded although the batch's checksum is valid; with `is_strict` raise
        PipelineError."""
        start = section.table[unread.row * table.WIDTH]
        end = start + section.table[unread.row * table.WIDTH + table.SIZE]
        kind = reports.CODEC if unread.reason.startswith(_UNKNOWN_CODEC) else reports.RECORDS
        position = section.origin + unread.position
        self._note_damage(Damage(self._split.file.url, position, section.origin + end - position, kind, unread.reason))

    def _note_damage(self, damage: Damage) -> None:
        if self._options.is_strict and not self._is_accepted_tail(damage):
            raise PipelineError(damage.text())
        self.report.damages.append(damage)

    def _is_accepted_tail(self, damage: Damage) -> bool:
        """Return whether damage is an incomplete batch at the end of the log and `accepts_tail` is set: a broker is
        writing it, or was killed while it did."""
        is_end = (
            self._split.file.next_base_offset is None and damage.position + damage.length >= self._split.file.size_bytes
        )
        return self._options.accepts_tail and is_end and damage.kind == reports.TRUNCATED
