r"""Split bytes of text into lines, keys, values and headers (Kafka's LineMessageReader, org.apache.kafka.tools).

The caller reads into `room()` and reports the byte count; `rows()` then returns the complete lines as columns over the
reader's memory, found by the kernel. An incomplete line moves to the front; rows are valid until the next `room()`.

Lines end with \n, \r or \r\n as in Kafka. Bytes that are not UTF-8 pass through unchanged (Kafka replaces them). A line
that is still incomplete beyond `max_line_bytes` is skipped and reported in `oversized`. No I/O.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kafkatools.core.errors import ConfigError, KafkaError
from kafkatools.core.java.patterns import java_pattern, java_split
from kafkatools.core.records import kernel
from kafkatools.core.records.columns import RowColumns

CHUNK_BYTES = 1 << 20
_MAX_ROWS = 1 << 16

_EXCLUSIVE = (
    ("headers.delimiter", "headers.separator"),
    ("headers.delimiter", "headers.key.separator"),
    ("headers.separator", "headers.key.separator"),
    ("null.marker", "key.separator"),
    ("null.marker", "headers.separator"),
    ("null.marker", "headers.delimiter"),
    ("null.marker", "headers.key.separator"),
)


class MalformedLine(KafkaError, name="MALFORMED_LINE"):
    """An input line that cannot become a record: it lacks a required part, is invalid JSON, or names a nonexistent
    partition."""


class LineFormat(NamedTuple):
    """The parts of an input line: [headers, delimiter,] [key, separator,] value. `null_marker` stands for null."""

    parse_key: bool = False
    key_separator: bytes = b"\t"
    parse_headers: bool = False
    headers_delimiter: bytes = b"\t"
    headers_separator: re.Pattern[str] = re.compile(",")
    headers_key_separator: bytes = b":"
    null_marker: bytes | None = None
    ignore_error: bool = False

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> LineFormat:
        """Parse --reader-property settings. Raises ConfigError for an unknown property, an empty or contradictory
        separator, a headers.separator that is no regular expression, and a flag other than true or false."""
        texts = {
            "key.separator": "\t",
            "headers.delimiter": "\t",
            "headers.separator": ",",
            "headers.key.separator": ":",
        }
        texts |= {name: text for name, text in properties.items() if name in texts or name == "null.marker"}
        flags = {name: _flag(name, properties) for name in ("parse.key", "parse.headers", "ignore.error")}
        unknown = [name for name in properties if name not in texts and name not in flags]
        if unknown:
            raise ConfigError(
                f"Unknown reader property: {unknown[0]}. Known: {', '.join(sorted({*texts, *flags, 'null.marker'}))}"
            )
        for left, right in _EXCLUSIVE:
            is_used = left == "null.marker" or flags["parse.headers"]
            if is_used and left in texts and texts[left] == texts[right]:
                raise ConfigError(f"{left} and {right} may not be equal")
        for name, text in texts.items():
            if not text and name != "null.marker":
                raise ConfigError(f"{name} may not be empty")
        cells = {name: text.encode("utf-8", "surrogateescape") for name, text in texts.items()}
        return cls(
            flags["parse.key"],
            cells["key.separator"],
            flags["parse.headers"],
            cells["headers.delimiter"],
            _expression("headers.separator", texts["headers.separator"]),
            cells["headers.key.separator"],
            cells.get("null.marker"),
            flags["ignore.error"],
        )


def _flag(name: str, properties: Mapping[str, str]) -> bool:
    text = properties.get(name, "false").strip().lower()
    if text not in ("true", "false"):
        raise ConfigError(f"Reader property {name} must be true or false, not '{properties[name]}'")
    return text == "true"


def _expression(name: str, text: str) -> re.Pattern[str]:
    try:
        return java_pattern(text)
    except (re.error, OverflowError) as error:
        raise ConfigError(f"{name} is not a regular expression: '{text}': {error}") from None


PLAIN_LINES = LineFormat()
"""A line is a value."""


class LineRecord(NamedTuple):
    """Key, value and headers of one input line."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class LineReader:
    """Extracts complete lines from a stream of bytes."""

    def __init__(
        self, line_format: LineFormat = PLAIN_LINES, max_line_bytes: int = 1 << 30, chunk_bytes: int = CHUNK_BYTES
    ) -> None:
        self.format = line_format
        self.line_number = 0
        self.oversized: list[tuple[int, int]] = []
        self.max_line_bytes = max_line_bytes
        self._data = bytearray(chunk_bytes)
        self._start = 0
        self._filled = 0
        self._is_end = False
        self._unread_lines = 0
        self._skipped_bytes = 0
        self._is_skipping = False
        self._positions = kernel.new_ints(_MAX_ROWS)
        self._lengths = kernel.new_ints(_MAX_ROWS)
        self._status = array("q", bytes(8))

    # -- in --

    def room(self) -> memoryview:
        """Return the memory to read the next bytes into; earlier rows become invalid. Drops an incomplete line that is
        longer than `max_line_bytes`."""
        remaining = self._filled - self._start
        if self._start:
            self._data[:remaining] = self._data[self._start : self._filled]
            self._start, self._filled = 0, remaining
        if remaining > self.max_line_bytes:
            self._skipped_bytes += remaining
            self._is_skipping = True
            self._filled = remaining = 0
        if len(self._data) - remaining < len(self._data) // 4:
            self._data = self._data + bytearray(len(self._data))
        return memoryview(self._data)[remaining:]

    def filled(self, count: int) -> None:
        """Record how many bytes were read into `room()`; 0 is the end of the stream."""
        self._filled += count
        self._is_end = count == 0

    # -- out --

    def rows(self) -> Iterator[RowColumns]:
        """Yield the keys and values of the lines that are complete and not yet returned, as columns; headers are not
        split. Raises MalformedLine after the rows before a line without key separator. With ignore.error such a line is
        a value with a null key."""
        for data, count in self._line_runs():
            yield from self._columns(data, count)

    def lines(self) -> Iterator[bytes]:
        """Yield the lines that are complete and not yet returned as bytes, without splitting them. `line_number` is
        that of the last one."""
        for data, count in self._line_runs():
            for row in range(count):
                self.line_number += 1
                self._unread_lines = count - row - 1
                start = self._positions[row]
                yield bytes(data[start : start + self._lengths[row]])

    @property
    def has_unread_lines(self) -> bool:
        """True if `lines` or `records` was left before the last line in memory."""
        return self._unread_lines > 0 or self._start < self._filled

    def records(self) -> Iterator[LineRecord]:
        """Yield the lines that are complete and not yet returned as single records with headers. Raises
        MalformedLine."""
        for line in self.lines():
            yield parse_line(self.format, line, self.line_number)

    def _line_runs(self) -> Iterator[tuple[memoryview, int]]:
        """Yield the reader's memory and the number of lines in it, until only an incomplete line remains."""
        if self._is_skipping and not self._skip_rest():
            return
        while self._start < self._filled:
            data = memoryview(self._data)[: self._filled]
            count = kernel.find_lines(data, self._start, self._is_end, self._positions, self._lengths, self._status)
            self._start = self._status[0]
            if count == 0:
                return
            yield data, count

    def _skip_rest(self) -> bool:
        """Drop the rest of an oversized line. Returns whether its end was found; then the line is added to
        `oversized`."""
        ends = [
            place
            for place in (self._data.find(b"\n", 0, self._filled), self._data.find(b"\r", 0, self._filled))
            if place >= 0
        ]
        if not ends and not self._is_end:
            self._skipped_bytes += self._filled
            self._filled = 0
            return False
        end = min(ends, default=self._filled)
        self.line_number += 1
        self.oversized.append((self.line_number, self._skipped_bytes + end))
        after = end + 2 if self._data[end : end + 2] == b"\r\n" else end + 1
        self._start = min(after, self._filled)
        self._is_skipping = False
        self._skipped_bytes = 0
        return True

    def _columns(self, data: memoryview, count: int) -> Iterator[RowColumns]:
        positions, lengths = self._positions[:count], self._lengths[:count]
        first_line = self.line_number + 1
        if not self.format.parse_key:
            self.line_number += count
            self._mark_nulls(data, positions, lengths)
            yield RowColumns(data, positions, lengths)
            return
        keys = (kernel.new_ints(count), kernel.new_ints(count))
        row = 0
        malformed = -1
        while row < count:
            row = kernel.split_keys(data, self.format.key_separator, (positions, lengths), keys, row, count)
            if row < count:
                if not self.format.ignore_error:
                    malformed = row
                    break
                keys[0][row], keys[1][row] = positions[row], -1
                row += 1
        self.line_number += row
        line = bytes(data[positions[row] : positions[row] + lengths[row]]) if malformed >= 0 else b""
        self._mark_nulls(data, positions, lengths)
        self._mark_nulls(data, keys[0], keys[1])
        if row:
            yield RowColumns(data, positions[:row], lengths[:row], keys[0][:row], keys[1][:row])
        if malformed >= 0:
            raise MalformedLine(f"No key separator found on line number {first_line + malformed}: '{_text(line)}'")

    def _mark_nulls(self, data: memoryview, positions: array[int], lengths: array[int]) -> None:
        marker = self.format.null_marker
        if marker is None:
            return
        size = len(marker)
        for row, length in enumerate(lengths):
            if length == size and data[positions[row] : positions[row] + size] == marker:
                lengths[row] = -1


def parse_line(line_format: LineFormat, line: bytes, number: int) -> LineRecord:
    """Split a line into headers, key and value. Raises MalformedLine for a missing part, unless ignore_error makes it
    None or empty. A header name equal to the null marker also raises it."""
    headers_cell = _part(
        line_format.parse_headers, line, 0, (line_format.headers_delimiter, "headers delimiter"), line_format, number
    )
    start = 0 if headers_cell is None else len(headers_cell) + len(line_format.headers_delimiter)
    key = _part(line_format.parse_key, line, start, (line_format.key_separator, "key separator"), line_format, number)
    if key is not None:
        value: bytes | None = line[start + len(key) + len(line_format.key_separator) :]
    else:
        value = line[start:]
    marker = line_format.null_marker
    headers: tuple[tuple[str, bytes | None], ...] = ()
    if headers_cell is not None and headers_cell != marker:
        headers = tuple(_split_headers(line_format, headers_cell, number))
    return LineRecord(None if key == marker else key, None if value == marker else value, headers)


def _part(
    enabled: bool, line: bytes, start: int, demarcation: tuple[bytes, str], line_format: LineFormat, number: int
) -> bytes | None:
    if not enabled:
        return None
    separator, name = demarcation
    place = line.find(separator, start)
    if place >= 0:
        return line[start:place]
    if line_format.ignore_error:
        return None
    raise MalformedLine(f"No {name} found on line number {number}: '{_text(line)}'")


def _split_headers(line_format: LineFormat, cell: bytes, number: int) -> Iterator[tuple[str, bytes | None]]:
    """Yield the name and value of each header; headers.separator is a regular expression, as in Kafka. Raises
    MalformedLine for a name equal to the null marker and for a pair without separator. With ignore_error such a pair is
    a name with a null value."""
    for text in java_split(line_format.headers_separator, _text(cell)):
        pair = text.encode("utf-8", "surrogateescape")
        name, separator, value = pair.partition(line_format.headers_key_separator)
        if not separator:
            if not line_format.ignore_error:
                raise MalformedLine(f"No header key separator found in pair '{text}' on line number {number}")
            yield text, None
            continue
        if name == line_format.null_marker:
            raise MalformedLine(
                f"Header keys should not be equal to the null marker '{_text(name)}' as they can't be null"
            )
        yield _text(name), None if value == line_format.null_marker else value


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
