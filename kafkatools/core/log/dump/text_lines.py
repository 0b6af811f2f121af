"""The text format of the dump, byte for byte that of Apache Kafka's tool."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkatools.core.java.text import java_boolean, java_string, optional_long
from kafkatools.core.log.dump.batch_headers import Header, LegacyHeader, V2Header, codec_name
from kafkatools.core.log.dump.damage import Damage
from kafkatools.core.log.dump.gaps import GapFinder
from kafkatools.core.log.dump.index_checks import CheckedEntry
from kafkatools.core.log.dump.log_walk import Forward
from kafkatools.core.log.dump.options import DumpOptions, RecordRange
from kafkatools.core.log.dump.records import DumpedRecord, records_of
from kafkatools.core.log.dump.segment_file import SegmentFile
from kafkatools.core.log.dump.segment_limits import SegmentLimits
from kafkatools.core.log.dump.sound_stretch import SoundStretch
from kafkatools.core.log.dump.state_files import ProducerEntry
from kafkatools.core.log.format.transaction_index import CURRENT_VERSION, AbortedTransaction

if TYPE_CHECKING:
    from kafkatools.core.log.dump.decoders import Decoder


class TextLines:
    """The text output of dump-log (see file_dump.Lines). `write` takes UTF-8 bytes. `show` makes a key, a value, a
    header name or a path safe for a terminal; None leaves them unchanged."""

    def __init__(
        self,
        options: DumpOptions,
        write: Callable[[bytes | memoryview], object],
        show: Callable[[str], str] | None = None,
    ) -> None:
        self._options = options
        self._write_bytes = write
        self._show = show
        self.records: RecordRange | None = None  # show only these; None: all

    def _write(self, text: str) -> None:
        self._write_bytes(text.encode("utf-8", "surrogateescape"))

    def _printable(self, text: str) -> str:
        return text if self._show is None else self._show(text)

    def file(self, path: str, kind: str | None) -> None:
        self._write(f"Dumping {self._printable(path)}\n")

    def log(self, path: str, base_offset: int) -> None:
        self._write(f"Log starting offset: {base_offset}\n")

    def snapshot(self, path: str, snapshot_id: tuple[int, int] | None) -> None:
        if snapshot_id is None:
            self._write("KRaft bootstrap snapshot\n")
        else:
            self._write(f"Snapshot end offset: {snapshot_id[0]}, epoch: {snapshot_id[1]}\n")

    def stretch(self, file: SegmentFile, end: int, gaps: GapFinder, limits: SegmentLimits) -> Forward | None:
        if self._options.print_contents and not self._options.is_plain_text:
            return None
        if self._options.deep and self.records is not None and self.records.has_times:
            return None  # each record is compared
        if self._options.deep and self._show is not None:
            return None  # the kernel writes names, keys and values unescaped
        return SoundStretch(file, end, self._options, gaps, self._write_bytes, limits).forward

    def batch(self, header: Header, decoder: Decoder | None, gaps: GapFinder) -> None:
        line = _Line(self._write)
        try:
            line.write(_batch_start(header))
            if isinstance(header, LegacyHeader):
                header.ensure_supported_magic()
            line.write(_batch_end(header))
            if self._options.deep:
                self._records(header, decoder, gaps, line.write)
        except Damage:
            line.finish()
            raise

    def _records(
        self, header: Header, decoder: Decoder | None, gaps: GapFinder, write: Callable[[str], object]
    ) -> None:
        options = self._options
        for record in records_of(header):
            if self.records is not None and not self.records.has(record.offset, record.timestamp):
                continue
            gaps.see(record.offset)
            if not options.skip_metadata:
                write(self._printable(_record_metadata(header, record)))
                if header.is_control:
                    from kafkatools.core.log.dump.control_text import control_text

                    write(self._printable(control_text(record)))
            if options.print_contents and not header.is_control:
                write(self._contents(record, decoder))
            write("\n")

    def _contents(self, record: DumpedRecord, decoder: Decoder | None) -> str:
        if decoder is None:
            return ""
        key, value = decoder(record)
        return self._printable(_record_contents(key, value, "| " if self._options.skip_metadata else " "))

    def trailing(self, path: str, count: int) -> None:
        self._write(f"Found {count} invalid bytes at the end of {self._printable(os.path.basename(path))}\n")

    def empty_index(self, path: str) -> None:
        self._write(f"{self._printable(path)} is empty.\n")

    def sane_index(self, path: str) -> None:
        self._write(f"{self._printable(path)} passed sanity check.\n")

    def offset_entry(self, path: str, entry: CheckedEntry) -> None:
        self._write(f"offset: {entry.first} position: {entry.second}\n")

    def time_entry(self, path: str, entry: CheckedEntry) -> None:
        self._write(f"timestamp: {entry.first} offset: {entry.second}\n")

    def producer(self, path: str, entry: ProducerEntry) -> None:
        first_offset = entry.current_txn_first_offset
        line = (
            f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch} "
            f"coordinatorEpoch: {entry.coordinator_epoch} "
            f"currentTxnFirstOffset: {optional_long(None if first_offset == -1 else first_offset)} "
            f"lastTimestamp: {entry.timestamp}"
        )
        if entry.has_batch:
            line += (
                f" firstSequence: {entry.first_sequence} lastSequence: {entry.last_sequence} "
                f"lastOffset: {entry.last_offset} offsetDelta: {entry.offset_delta} timestamp: {entry.timestamp}"
            )
        self._write(line + "\n")

    def aborted_transaction(self, path: str, entry: AbortedTransaction) -> None:
        self._write(
            f"version: {CURRENT_VERSION} producerId: {entry.producer_id} "
            f"firstOffset: {entry.first_offset} lastOffset: {entry.last_offset} "
            f"lastStableOffset: {entry.last_stable_offset}\n"
        )


class _Line:
    """A line of output that may be complete or not, so that it can be finished after an error."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._is_open = False

    def write(self, text: str) -> None:
        if text:
            self._write(text)
            self._is_open = not text.endswith("\n")

    def finish(self) -> None:
        if self._is_open:
            self._write("\n")
            self._is_open = False


def _batch_start(header: Header) -> str:
    """Return the first half of a batch's line, which is printed before the compression type is checked."""
    if not isinstance(header, V2Header):
        return f"offset: {header.offset}"
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.record_count} "
        f"baseSequence: {header.base_sequence} lastSequence: {header.last_sequence} "
        f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
        f"partitionLeaderEpoch: {header.partition_leader_epoch} "
        f"isTransactional: {java_boolean(header.is_transactional)} isControl: {java_boolean(header.is_control)} "
        f"deleteHorizonMs: {optional_long(header.delete_horizon_ms)}"
    )


def _batch_end(header: Header) -> str:
    """Return the second half of a batch's line. Raises Damage for an unknown compression type."""
    return (
        f" position: {header.position} {header.timestamp_type}: {header.max_timestamp} size: {header.size_bytes} "
        f"magic: {header.magic} compresscodec: {codec_name(header.codec)} crc: {header.crc} "
        f"isvalid: {java_boolean(header.is_valid)}\n"
    )


def _record_metadata(header: Header, record: DumpedRecord) -> str:
    """Return a record's line up to its key and value: offset, timestamp, sizes; then sequence and header names, or
    validity and CRC for magic 0 and 1."""
    metadata = (
        f"| offset: {record.offset} {header.timestamp_type}: {record.timestamp} "
        f"keySize: {record.key_size} valueSize: {record.value_size}"
    )
    if isinstance(header, V2Header):
        names = ",".join(java_string(name) for name, _ in record.headers)
        return f"{metadata} sequence: {record.sequence} headerKeys: [{names}]"
    return f"{metadata} isValid: {java_boolean(bool(record.is_valid))} crc: {record.crc}"


def _record_contents(key: str | None, value: str | None, prefix: str) -> str:
    """Return the text of a record's key and value, each only if it is not None."""
    contents = ""
    if key is not None:
        contents = f"{prefix}key: {key}"
        prefix = " "
    if value is not None:
        contents += f"{prefix}payload: {value}"
    return contents
