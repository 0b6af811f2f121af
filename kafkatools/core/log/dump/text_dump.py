"""The dump as text, byte for byte that of Apache Kafka's tool.

Where Kafka's tool would end with an exception, the text up to there is the same, a finding is reported, and the dump
goes on with what can still be read. What Kafka's tool says on stderr after everything is in `summary`.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from kafkatools.core.log.dump import file_kinds, text
from kafkatools.core.log.dump.batch_headers import Header, LegacyHeader
from kafkatools.core.log.dump.control_text import control_text
from kafkatools.core.log.dump.damage import Damage, Finding
from kafkatools.core.log.dump.decoders import Decoder
from kafkatools.core.log.dump.index_checks import (
    CheckedEntry,
    check_offset_index,
    check_time_index,
    slice_end,
)
from kafkatools.core.log.dump.index_files import OffsetIndexFile, TimeIndexFile
from kafkatools.core.log.dump.java_text import optional_long
from kafkatools.core.log.dump.log_walk import LogWalk
from kafkatools.core.log.dump.options import ALL_BYTES, DumpOptions
from kafkatools.core.log.dump.records import DumpedRecord, records_of
from kafkatools.core.log.dump.segment_file import SegmentFile
from kafkatools.core.log.dump.sound_stretch import GapFinder, SoundStretch
from kafkatools.core.log.dump.state_files import read_aborted_transactions, read_producer_snapshot
from kafkatools.core.log.dump.summary import Summary

ABORTED_TRANSACTION_VERSION = 0


class StoppedAtDamage(Exception):
    """With stop_at_damage: Kafka's tool would end here."""


class TextDump:
    """Dumps files one after the other; `write` takes UTF-8 bytes, `report` findings."""

    def __init__(
        self, options: DumpOptions, write: Callable[[bytes], object], report: Callable[[Finding], None]
    ) -> None:
        self._options = options
        self._write_bytes = write
        self._report = report
        self._decoder: Decoder | None = None
        self.summary = Summary()

    def _write(self, shown: str) -> None:
        self._write_bytes(shown.encode("utf-8", "surrogateescape"))

    def dump(self, path: str) -> bool:
        """Dump one file; False when it is of no known kind. Raises OSError for a file that cannot be opened."""
        self._write(f"Dumping {path}\n")
        kind = file_kinds.kind_of(path)
        readers = {
            file_kinds.LOG: self._dump_log,
            file_kinds.SNAPSHOT: self._dump_log,
            file_kinds.OFFSET_INDEX: self._dump_offset_index,
            file_kinds.TIME_INDEX: self._dump_time_index,
            file_kinds.PRODUCER_SNAPSHOT: self._dump_producer_snapshot,
            file_kinds.TRANSACTION_INDEX: self._dump_transaction_index,
        }
        if kind is None:
            return False
        readers[kind](path)
        return True

    def _found(self, path: str, damage: Damage, lost: str = "", *, stops: bool = True) -> None:
        self._report(Finding(path, damage.position, damage.reason, lost))
        if stops and self._options.stop_at_damage:
            raise StoppedAtDamage

    # -- logs and KRaft snapshots --

    def _dump_log(self, path: str) -> None:
        base_offset = -1
        if self._decoder is None and self._options.decoder is not None:
            self._decoder = self._options.decoder()
        if file_kinds.kind_of(path) == file_kinds.LOG:
            base_offset = file_kinds.base_offset_of(path)
            self._write(f"Log starting offset: {base_offset}\n")
        else:
            snapshot = file_kinds.snapshot_id_of(path)
            title = (
                "KRaft bootstrap snapshot"
                if snapshot is None
                else "Snapshot end offset: {}, epoch: {}".format(*snapshot)
            )
            self._write(title + "\n")
        with SegmentFile(path) as file:
            end = slice_end(file, 0, self._options.max_bytes, path)
            walk = LogWalk(
                file,
                end,
                path,
                self._report,
                base_offset=base_offset,
                stop_at_damage=self._options.stop_at_damage,
            )
            gaps = GapFinder(self.summary.gaps.setdefault(os.path.abspath(path), {}))
            stretch = SoundStretch(file, end, self._options, gaps, self._write_bytes)
            self._dump_batches(walk, stretch, gaps, path)

    def _dump_batches(self, walk: LogWalk, stretch: SoundStretch, gaps: GapFinder, path: str) -> None:
        for header in walk.batches(stretch.forward if stretch.can_show else None):
            self._dump_batch(walk, header, gaps)
        if walk.has_stopped and self._options.stop_at_damage:
            raise StoppedAtDamage
        if walk.trailing_bytes > 0 and self._options.max_bytes == ALL_BYTES:
            self._write(f"Found {walk.trailing_bytes} invalid bytes at the end of {os.path.basename(path)}\n")
        if self._options.salvage:
            for header in walk.salvage():
                self._dump_batch(walk, header, gaps)

    def _dump_batch(self, walk: LogWalk, header: Header, gaps: GapFinder) -> None:
        unfinished = LineGuard(self._write)
        try:
            unfinished.write(text.batch_start(header))
            if isinstance(header, LegacyHeader):
                header.ensure_known_magic()
            unfinished.write(text.batch_end(header))
            if self._options.deep:
                self._dump_records(header, gaps, unfinished.write)
        except Damage as damage:
            unfinished.finish()
            walk.give_up(header, damage)

    def _dump_records(self, header: Header, gaps: GapFinder, write: Callable[[str], object]) -> None:
        options = self._options
        for record in records_of(header):
            gaps.see(record.offset)
            if not options.skip_metadata:
                write(text.record_metadata(header, record))
                if header.is_control:
                    write(control_text(record))
            if options.print_contents and not header.is_control:
                write(self._contents(record))
            write("\n")

    def _contents(self, record: DumpedRecord) -> str:
        if self._decoder is None:
            return ""
        key, value = self._decoder(record)
        return text.record_contents(key, value, "| " if self._options.skip_metadata else " ")

    # -- indexes --

    def _dump_offset_index(self, path: str) -> None:
        base_offset = file_kinds.base_offset_of(path)
        log_path = beside(path, file_kinds.LOG)
        with SegmentFile(log_path) as log:
            index = OffsetIndexFile.parse(read_whole(path), base_offset)
            if not index.entries:
                self._write(f"{path} is empty.\n")
                self._check_size(path, index, log)
                return
            if self._options.sanity_check_only:
                self._sanity_check(path, index)
                return
            self._check_size(path, index, log)
            for entry in check_offset_index(index, log, log_path, self._options.max_message_size):
                if entry.problem is not None:
                    self._found(path, entry.problem, f"entry of offset {entry.first} cannot be checked")
                elif entry.found != entry.first:
                    self.summary.mismatches.setdefault(os.path.abspath(path), []).append(entry)
                if not self._options.verify_index_only:
                    self._write(f"offset: {entry.first} position: {entry.second}\n")

    def _check_size(self, path: str, index: OffsetIndexFile | TimeIndexFile, log: SegmentFile) -> None:
        odd = index.size % (8 if isinstance(index, OffsetIndexFile) else 12)
        if odd:
            self._found(path, Damage("the size is not a whole number of entries", index.size - odd), stops=False)

    def _sanity_check(self, path: str, index: OffsetIndexFile | TimeIndexFile) -> None:
        try:
            index.sanity_check(os.path.abspath(path))
        except Damage as damage:
            self._found(path, damage, "the broker would rebuild it")
            return
        self._write(f"{path} passed sanity check.\n")

    def _dump_time_index(self, path: str) -> None:
        base_offset = file_kinds.base_offset_of(path)
        log_path = beside(path, file_kinds.LOG)
        with SegmentFile(log_path) as log:
            offsets = OffsetIndexFile.parse(read_whole(beside(path, file_kinds.OFFSET_INDEX)), base_offset)
            times = TimeIndexFile.parse(read_whole(path), base_offset)
            if self._options.sanity_check_only:
                self._sanity_check(path, times)
                return
            self._check_size(path, times, log)
            previous = -1
            for entry in check_time_index(times, offsets, log, log_path):
                self._judge_time(path, entry, previous)
                if not self._options.verify_index_only:
                    self._write(f"timestamp: {entry.first} offset: {entry.second}\n")
                previous = entry.first

    def _judge_time(self, path: str, entry: CheckedEntry, previous: int) -> None:
        shown = os.path.abspath(path)
        if entry.problem is not None:
            self._found(path, entry.problem, f"entry of offset {entry.second} cannot be checked")
        elif entry.found != entry.second:
            self.summary.offsets_not_found.setdefault(shown, []).append(entry)
        else:
            if entry.largest_timestamp != entry.first:
                self.summary.wrong_times.setdefault(shown, []).append(entry)
            if previous >= entry.first:
                self.summary.times_out_of_order.setdefault(shown, []).append((entry.first, previous))

    # -- producer snapshots and transaction indexes --

    def _dump_producer_snapshot(self, path: str) -> None:
        try:
            entries = read_producer_snapshot(read_whole(path))
        except Damage as damage:
            self._found(path, damage, "nothing of it is shown", stops=False)
            return
        for entry in entries:
            first_offset = entry.current_transaction_first_offset
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

    def _dump_transaction_index(self, path: str) -> None:
        data = read_whole(path)
        last_offset = -1
        for entry in read_aborted_transactions(data):
            self._write(
                f"version: {ABORTED_TRANSACTION_VERSION} producerId: {entry.producer_id} "
                f"firstOffset: {entry.first_offset} lastOffset: {entry.last_offset} "
                f"lastStableOffset: {entry.last_stable_offset}\n"
            )
            if entry.version != ABORTED_TRANSACTION_VERSION:
                problem = (
                    f"an aborted transaction of version {entry.version}, higher than {ABORTED_TRANSACTION_VERSION}"
                )
                self._found(path, Damage(problem, entry.position), stops=False)
            if entry.last_offset <= last_offset:
                problem = f"last offset {entry.last_offset} is not above the {last_offset} before it"
                self._found(path, Damage(problem, entry.position), stops=False)
            last_offset = entry.last_offset
        if len(data) % 34:
            position = len(data) - len(data) % 34
            self._found(path, Damage("half an entry at the end", position), f"{len(data) % 34} bytes", stops=False)

class LineGuard:
    """Remembers whether the last line that was written is unfinished."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._is_open = False

    def write(self, shown: str) -> None:
        if shown:
            self._write(shown)
            self._is_open = not shown.endswith("\n")

    def finish(self) -> None:
        if self._is_open:
            self._write("\n")
            self._is_open = False


def beside(path: str, suffix: str) -> str:
    """The file of the same segment with another suffix; absolute, as Kafka's messages show it."""
    absolute = os.path.abspath(path)
    return os.path.join(os.path.dirname(absolute), os.path.basename(path).split(".")[0] + suffix)


def read_whole(path: str) -> bytes:
    """A small file's bytes."""
    with open(path, "rb") as file:
        return file.read()
