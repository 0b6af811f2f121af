"""JSON lines as producer input: parse the lines read so far, and check a whole file in advance.

Rules: a line for a nonexistent partition is found before any record is sent. A file is checked completely first; lines
of a pipe that are read together are checked together. Any other malformed line ends the run after the records before it
were sent. With `ignore.error`, a bad line counts as one failure and the remaining lines are sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO

from kafkatools.core.producer.producer_record import ProducerRecord
from kafkatools.tools.lines.existing_partitions import ExistingPartitions
from kafkatools.tools.lines.json_records import read_json_record
from kafkatools.tools.lines.line_reader import LineReader, MalformedLine

_BYTES_PER_RECORD_BYTE = 6  # JSON may write any character as an escape such as \u0041
_LONGEST_LINE_BYTES = 1 << 30

_PARTITION = re.compile(rb'(?<!\\)"partition"\s*:\s*(\d{1,10})')
_ESCAPE = b"\\u"  # a JSON key may contain escapes


def longest_line(max_record_bytes: int) -> int:
    """Return how long a JSON line may be whose record has `max_record_bytes`: an escape takes six bytes for one."""
    return max(max_record_bytes, min(max_record_bytes * _BYTES_PER_RECORD_BYTE, _LONGEST_LINE_BYTES))


class JsonInput:
    """Turns a LineReader's JSON lines into producer records. `partitions()` returns the topic's partitions, none when
    it does not exist. With ignore.error, `on_bad_line(error)` is called for each skipped line."""

    def __init__(
        self,
        topic: str,
        reader: LineReader,
        partitions: Callable[[], Sequence[int]],
        on_bad_line: Callable[[MalformedLine], None],
    ) -> None:
        self.topic = topic
        self.reader = reader
        self.on_bad_line = on_bad_line
        self._partitions = ExistingPartitions(topic, partitions)

    def records(self) -> Iterator[tuple[int, ProducerRecord]]:
        """Yield the line number and record of each complete line that is not blank.

        Raises MalformedLine after the records before a bad line, or before the first record when a partition does not
        exist. With ignore.error, bad lines go to `on_bad_line` and are skipped.
        """
        ignores_errors = self.reader.format.ignore_error
        numbered_records: list[tuple[int, ProducerRecord]] = []
        malformed: MalformedLine | None = None
        for line in self.reader.lines():
            if not line.strip():
                continue
            number = self.reader.line_number
            try:
                record = read_json_record(self.topic, line, number)
                if ignores_errors:
                    self._ensure_partition(record.partition, number)
            except MalformedLine as error:
                if not ignores_errors:
                    malformed = error
                    break
                self.on_bad_line(error)
                continue
            numbered_records.append((number, record))
        if not ignores_errors:
            for number, record in numbered_records:
                self._ensure_partition(record.partition, number)
        yield from numbered_records
        if malformed is not None:
            raise malformed

    def check_partitions(self, file: BinaryIO) -> None:
        """Check the partitions in the rest of a seekable file, up to its first malformed line, then seek back. Raises
        MalformedLine for a nonexistent partition."""
        start = file.tell()
        try:
            for number, partition in self._rising_partitions(file):
                self._ensure_partition(partition, number)
        finally:
            file.seek(start)

    def _rising_partitions(self, file: BinaryIO) -> Iterator[tuple[int, int]]:
        """Yield (line number, partition) for each line whose partition exceeds those of all earlier lines, since only
        these can be the first nonexistent one. Ends at a malformed line."""
        reader = LineReader(max_line_bytes=self.reader.max_line_bytes)
        highest = -1
        count = 1
        while count:
            count = file.readinto(reader.room())  # type: ignore[attr-defined]
            reader.filled(count)
            for line in reader.lines():
                partitions = [int(text) for text in _PARTITION.findall(line)]
                if max(partitions, default=-1) <= highest and (partitions or _ESCAPE not in line):
                    continue
                try:
                    partition = read_json_record(self.topic, line, reader.line_number).partition
                except MalformedLine:
                    return
                if partition is not None and partition > highest:
                    highest = partition
                    yield reader.line_number, partition

    def _ensure_partition(self, partition: int | None, number: int) -> None:
        self._partitions.ensure(partition, f"Line {number}")
