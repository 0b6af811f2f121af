"""The dump as rows for JSON lines: one mapping per file, batch, record, index entry, producer or aborted transaction.

Keys, values and headers of records stay bytes; the writer of the rows turns them into JSON. A decoder's output is added
as `decoded_key` and `decoded_value`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import repeat
from typing import TYPE_CHECKING

from kafkatools.core.errors import KafkaError
from kafkatools.core.json_texts import parse_json
from kafkatools.core.log.dump.batch_headers import Header, LegacyHeader, V2Header, codec_name
from kafkatools.core.log.dump.control_text import control_text
from kafkatools.core.log.dump.damage import Damage, Finding
from kafkatools.core.log.dump.gaps import GapFinder
from kafkatools.core.log.dump.index_checks import CheckedEntry
from kafkatools.core.log.dump.log_walk import Forward
from kafkatools.core.log.dump.options import DumpOptions, RecordRange
from kafkatools.core.log.dump.records import DumpedRecord, records_of
from kafkatools.core.log.dump.segment_file import SegmentFile
from kafkatools.core.log.dump.segment_limits import SegmentLimits
from kafkatools.core.log.dump.state_files import ProducerEntry
from kafkatools.core.log.format.transaction_index import AbortedTransaction
from kafkatools.core.records.batch import RecordBatch
from kafkatools.core.records.header import increment_sequence
from kafkatools.core.records.json_cells import cells, header_lists, quoted

if TYPE_CHECKING:
    from kafkatools.core.json_values import JsonValue
    from kafkatools.core.log.dump.decoders import Decoder

Row = Mapping[str, object]


def finding_row(finding: Finding) -> Row:
    """Return a finding as a row of the dump."""
    return {
        "type": "finding",
        "file": finding.file,
        "position": finding.position if finding.position >= 0 else None,
        "problem": finding.problem,
        "lost": finding.loss or None,
    }


class JsonLines:
    """The JSON output of dump-log (see file_dump.Lines). `write` takes one row. `write_lines` takes the finished lines
    of a batch's records; without it each record is passed to `write`."""

    def __init__(
        self,
        options: DumpOptions,
        write: Callable[[Row], object],
        write_lines: Callable[[str], object] | None = None,
    ) -> None:
        self._options = options
        self._write = write
        self._write_lines = write_lines
        self._path = ""
        self.records: RecordRange | None = None  # show only these; None: all

    def file(self, path: str, kind: str | None) -> None:
        self._path = path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")

    def log(self, path: str, base_offset: int) -> None:
        self._write({"type": "log", "file": path, "base_offset": base_offset})

    def snapshot(self, path: str, snapshot_id: tuple[int, int] | None) -> None:
        end_offset, epoch = snapshot_id if snapshot_id is not None else (None, None)
        self._write({"type": "snapshot", "file": path, "end_offset": end_offset, "epoch": epoch})

    def stretch(self, file: SegmentFile, end: int, gaps: GapFinder, limits: SegmentLimits) -> Forward | None:
        return None

    def batch(self, header: Header, decoder: Decoder | None, gaps: GapFinder) -> None:
        if isinstance(header, LegacyHeader):
            header.ensure_supported_magic()
        self._write(_batch_row(self._path, header))
        if not self._options.deep:
            codec_name(header.codec)
            return
        is_whole = self.records is None or (
            isinstance(header, V2Header) and self.records.has_all(header.base_offset, header.last_offset)
        )
        if self._write_lines is not None and isinstance(header, V2Header) and is_whole:
            lines = _record_lines(self._path, header, self._options, gaps)
            if lines is not None:
                self._write_lines(lines)
                return
        for record in records_of(header):
            if self.records is not None and not self.records.has(record.offset, record.timestamp):
                continue
            gaps.see(record.offset)
            self._write(self._record_row(header, record, decoder))

    def _record_row(self, header: Header, record: DumpedRecord, decoder: Decoder | None) -> Row:
        row: dict[str, object] = {"type": "record", "file": self._path, "offset": record.offset}
        row |= {"timestamp": record.timestamp, "timestamp_type": header.timestamp_type}
        if isinstance(header, V2Header):
            row["sequence"] = record.sequence
        else:
            row |= {"crc": record.crc, "is_valid": record.is_valid}
        if header.is_control:
            return row | {"control": control_text(record).strip()}
        row |= {"key_size": record.key_size, "value_size": record.value_size}
        if self._options.print_contents:
            row |= {"key": record.key, "value": record.value, "headers": [list(pair) for pair in record.headers]}
            if not self._options.is_plain_text and decoder is not None:
                key, value = decoder(record)
                row |= {"decoded_key": _parsed(key), "decoded_value": _parsed(value)}
        return row

    def trailing(self, path: str, count: int) -> None:
        self._write({"type": "trailing_bytes", "file": path, "count": count})

    def empty_index(self, path: str) -> None:
        self._write({"type": "index", "file": path, "is_empty": True})

    def sane_index(self, path: str) -> None:
        self._write({"type": "index", "file": path, "is_sane": True})

    def offset_entry(self, path: str, entry: CheckedEntry) -> None:
        row = {"type": "offset_index_entry", "file": path, "offset": entry.first, "position": entry.second}
        self._write(row | {"batch_last_offset": entry.log_offset, "matches": entry.log_offset == entry.first})

    def time_entry(self, path: str, entry: CheckedEntry) -> None:
        row = {"type": "time_index_entry", "file": path, "timestamp": entry.first, "offset": entry.second}
        row |= {"batch_last_offset": entry.log_offset, "batch_timestamp": entry.largest_timestamp}
        matches = entry.log_offset == entry.second and entry.largest_timestamp == entry.first
        self._write(row | {"matches": matches})

    def producer(self, path: str, entry: ProducerEntry) -> None:
        first_offset = entry.current_txn_first_offset
        row: dict[str, object] = {
            "type": "producer",
            "file": path,
            "producer_id": entry.producer_id,
            "producer_epoch": entry.producer_epoch,
            "coordinator_epoch": entry.coordinator_epoch,
            "current_transaction_first_offset": None if first_offset == -1 else first_offset,
            "last_timestamp": entry.timestamp,
        }
        if entry.has_batch:
            row |= {"first_sequence": entry.first_sequence, "last_sequence": entry.last_sequence}
            row |= {"last_offset": entry.last_offset, "offset_delta": entry.offset_delta}
        self._write(row)

    def aborted_transaction(self, path: str, entry: AbortedTransaction) -> None:
        self._write({"type": "aborted_transaction", "file": path, **entry._asdict()})


def _batch_row(path: str, header: Header) -> Row:
    row: dict[str, object] = {"type": "batch", "file": path, "position": header.position, "size": header.size_bytes}
    row |= {"magic": header.magic, "codec": _codec_or_number(header.codec)}
    row |= {"crc": header.crc, "is_valid": header.is_valid, "last_offset": header.last_offset}
    row |= {"timestamp_type": header.timestamp_type, "max_timestamp": header.max_timestamp}
    if isinstance(header, LegacyHeader):
        return row
    return row | {
        "base_offset": header.base_offset,
        "count": header.record_count,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "partition_leader_epoch": header.partition_leader_epoch,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "delete_horizon_ms": header.delete_horizon_ms,
    }


def _codec_or_number(codec: int) -> str | int:
    try:
        return codec_name(codec)
    except Damage:
        return codec


def _parsed(text: str | None) -> JsonValue:
    """Return a decoder's JSON text as a value, other text unchanged."""
    if text is not None and text.startswith("{"):
        try:
            value: JsonValue = parse_json(text)
            return value
        except ValueError:
            return text
    return text


def _record_lines(path: str, header: V2Header, options: DumpOptions, gaps: GapFinder) -> str | None:
    """Return the JSON lines of a batch's records, without the last newline, and add their offsets to `gaps`. None for a
    batch that must be shown record by record: damaged, empty, of control records, with a decoder, or with header names
    that are not UTF-8."""
    is_decoded = options.print_contents and not options.is_plain_text
    if is_decoded or header.is_control or not header.is_valid or header.record_count <= 0:
        return None
    try:
        columns = RecordBatch(header.view).columns()
    except (KafkaError, ValueError):
        return None
    headers = header_lists(columns) if options.print_contents else []
    if headers is None:
        return None
    gaps.see_column(columns.offsets)
    start = f'{{"type":"record","file":{quoted(path)},"offset":'
    middle = f',"timestamp_type":{quoted(header.timestamp_type)},"sequence":'
    sequences: Iterable[object] = repeat("", columns.count)
    if header.base_sequence < 0:
        middle += "-1"
    else:
        first = header.base_offset
        sequences = [increment_sequence(header.base_sequence, offset - first) for offset in columns.offsets]
    times = repeat(header.max_timestamp, columns.count) if header.attributes & 8 else columns.timestamps
    sizes = columns.key_lengths, columns.value_lengths
    if not options.print_contents:
        return "\n".join(
            [
                f'{start}{offset},"timestamp":{time}{middle}{sequence},"key_size":{key_size},"value_size":{value_size}}}'
                for offset, time, sequence, key_size, value_size in zip(
                    columns.offsets, times, sequences, *sizes, strict=True
                )
            ]
        )
    keys = cells(columns.buffer, columns.key_positions, columns.key_lengths)
    values = cells(columns.buffer, columns.value_positions, columns.value_lengths)
    return "\n".join(
        [
            f'{start}{offset},"timestamp":{time}{middle}{sequence},"key_size":{key_size},"value_size":{value_size}'
            f',"key":{key},"value":{value},"headers":{header_list}}}'
            for offset, time, sequence, key_size, value_size, key, value, header_list in zip(
                columns.offsets, times, sequences, *sizes, keys, values, headers, strict=True
            )
        ]
    )
