"""The step that decodes keys and values by the schemas of a registry: columns in, columns with JSON text out.

Rules: each cell names its schema by ID, so a column may mix schemas and plain bytes. A schema is requested and parsed
once. What cannot be decoded stays as it is, and is counted; it never ends the run. Keys without a schema ID are not
failures, since many topics have plain keys. A failed request is repeated after 30 s at the earliest.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.records import _avro_kernel as kernel
from kafkatools.core.records.columns import RecordColumns
from kafkatools.core.records.kernel import new_ints, read_varint
from kafkatools.tools.schemas.avro_program import AvroProgram
from kafkatools.tools.schemas.errors import RegistryFailed, SchemaError
from kafkatools.tools.schemas.registry import AVRO, JSON, PROTOBUF, SchemaRegistry
from kafkatools.tools.schemas.row_decoders import JsonRows, ProtobufRows
from kafkatools.tools.schemas.wire_format import schema_id

if TYPE_CHECKING:
    from kafkatools.core.clock import Clock

RETRY_MS = 30_000
_MOST_UNKNOWN = 100
_MOST_NAMED = 5
_LONGEST_TEXT = 256 << 20
_SPARE_BYTES = 4096


class RowDecoder(Protocol):
    """Decodes one value at a time."""

    def text(self, data: bytes) -> bytes:
        """Return the JSON text of a value with its header. Raises ValueError."""


class _Failed(NamedTuple):
    """A schema that cannot be used, until it is requested again."""

    reason: str
    until_ms: int


Decoder = AvroProgram | RowDecoder | _Failed
Cells = tuple["array[int]", "array[int]"]


class SchemaDecoders:
    """The decoders of a registry's schemas, by ID. `report` gets a line when the registry fails, and when stored
    schemas are used instead."""

    def __init__(self, registry: SchemaRegistry, clock: Clock, report: Callable[[str], None]) -> None:
        self._registry = registry
        self._clock = clock
        self._report = report
        self._decoders: dict[int, Decoder] = {}
        self._reported: set[str] = set()
        self._unknown: set[int] = set()

    def get(self, number: int) -> Decoder:
        """Return the decoder of a schema, or why there is none."""
        decoder = self._decoders.get(number)
        if decoder is None or (isinstance(decoder, _Failed) and decoder.until_ms <= self._clock.now_ms()):
            if decoder is not None:
                self._registry.forget_missing()  # the schema may have been registered meanwhile
            decoder = self._decoders[number] = self._find(number)
        return decoder

    def _find(self, number: int) -> Decoder:
        until_ms = self._clock.now_ms() + RETRY_MS
        if len(self._unknown) >= _MOST_UNKNOWN and number not in self._unknown:
            return _Failed(f"it is not requested after {_MOST_UNKNOWN} other schema IDs that are unknown", until_ms)
        try:
            registered = self._registry.by_id(number)
            if registered is None:
                self._unknown.add(number)
                return _Failed(f"the registry has no schema {number}", until_ms)
            self._unknown.discard(number)
            decoder = self._make(number, registered.kind)
        except SchemaError as error:
            records = "Records" if isinstance(error, RegistryFailed) else f"Records of schema {number}"
            self._report_once(f"{records} are not decoded: {error}")
            if error.hint:
                self._report_once(error.hint)
            return _Failed(str(error), until_ms)
        if self._registry.used_cache is not None:
            self._report_once(f"Schemas are read from the cache: {self._registry.used_cache}")
        return decoder

    def _make(self, number: int, kind: str) -> Decoder:
        registered = self._registry.by_id(number, "serialized") if kind == PROTOBUF else self._registry.by_id(number)
        assert registered is not None
        origin = f"schema {number}"
        if kind == AVRO:
            return AvroProgram(registered, origin)
        if kind == PROTOBUF:
            return ProtobufRows(registered, origin)
        if kind == JSON:
            return JsonRows()
        raise SchemaError(f"{origin} has the type {kind}, which kt does not decode")

    def _report_once(self, line: str) -> None:
        if line not in self._reported:
            self._reported.add(line)
            self._report(line)


class FailedCells:
    """Counts the keys and values that were not decoded, and keeps the first few with their places and reasons."""

    def __init__(self) -> None:
        self._count = 0
        self._named: list[str] = []

    def add(self, place: str, part: str, reason: str) -> None:
        """Count a key or value (`part`)."""
        self._count += 1
        if len(self._named) < _MOST_NAMED:
            self._named.append(f"{place}: {part} not decoded: {reason}")

    def lines(self) -> Sequence[str]:
        """Return the count and the first few; nothing without any."""
        if not self._count:
            return ()
        is_one = self._count == 1
        subject = "1 key or value was" if is_one else f"{self._count} keys or values were"
        more = self._count - len(self._named)
        lines = [f"{subject} not decoded and stayed as {'it was' if is_one else 'they were'}:", *self._named]
        return (*lines, f"and {more} more") if more else lines


OnNotDecoded = Callable[[int, str, str], None]


class DecodingStep:
    """Decodes the keys, the values or both of fetched records. `on_not_decoded` gets the offset, the part ("key" or
    "value") and the reason of each cell that stays as it is."""

    def __init__(
        self, decoders: SchemaDecoders, *, keys: bool, values: bool, on_not_decoded: OnNotDecoded | None = None
    ) -> None:
        self._decoders = decoders
        self._on_not_decoded = on_not_decoded
        self._decodes_keys = keys
        self._decodes_values = values
        self._failed = FailedCells()

    def failures(self) -> Sequence[str]:
        """Return the number of keys and values that were not decoded, and the first few with their reasons."""
        return self._failed.lines()

    def apply(self, fetched: FetchedColumns) -> FetchedColumns:
        """Return the records with JSON text in place of the encoded keys and values."""
        columns = fetched.columns
        out, shift = _copied_cells(columns, keys=not self._decodes_keys, values=not self._decodes_values)
        keys: Cells = columns.key_positions, columns.key_lengths
        values: Cells = columns.value_positions, columns.value_lengths
        writer = CellWriter(self._decoders, columns.buffer, out)
        texts: dict[str, Cells] = {}
        for part, cells, is_decoded in (("key", keys, self._decodes_keys), ("value", values, self._decodes_values)):
            texts[part] = writer.write(cells, part) if is_decoded else (_shifted(cells[0], shift), cells[1])
        for part, row, reason in writer.failures:
            self._failed.add(f"{fetched.topic}-{fetched.partition} offset {columns.offsets[row]}", part, reason)
            if self._on_not_decoded is not None:
                self._on_not_decoded(columns.offsets[row], part, reason)
        ints = (*texts["key"], *texts["value"], _shifted(columns.header_positions, shift), columns.header_counts)
        longs = columns.offsets, columns.timestamps
        decoded = RecordColumns(writer.buffer(), longs, ints, columns.timestamp_type)
        return fetched._replace(columns=decoded)


def _copied_cells(columns: RecordColumns, *, keys: bool, values: bool) -> tuple[bytearray, int]:
    """Copy the range of the buffer that has the headers and, if requested, the keys and values. Return it and the
    position at which it begins."""
    starts, ends = [], []
    for is_copied, positions, lengths in (
        (keys, columns.key_positions, columns.key_lengths),
        (values, columns.value_positions, columns.value_lengths),
    ):
        if is_copied:
            rows = [row for row in range(columns.count) if lengths[row] >= 0]
            starts += [positions[row] for row in rows]
            ends += [positions[row] + lengths[row] for row in rows]
    if any(columns.header_counts):
        rows = [row for row in range(columns.count) if columns.header_counts[row]]
        starts += [columns.header_positions[row] for row in rows]
        last = max(rows, key=columns.header_positions.__getitem__)
        ends.append(_headers_end(columns, last))
    if not starts:
        return bytearray(), 0
    return bytearray(memoryview(columns.buffer)[min(starts) : max(ends)]), min(starts)


def _headers_end(columns: RecordColumns, row: int) -> int:
    position = columns.header_positions[row]
    for _ in range(2 * columns.header_counts[row]):  # names and values
        size, position = read_varint(columns.buffer, position)
        position += max(size, 0)
    return position


def _shifted(positions: array[int], shift: int) -> array[int]:
    return array("i", [max(position - shift, 0) for position in positions]) if shift else positions


class CellWriter:
    """Appends the cells of columns to one buffer, decoded if possible. `failures` are the part, the row and the reason
    of each cell that was not decoded."""

    def __init__(self, decoders: SchemaDecoders, data: bytes | bytearray | memoryview, out: bytearray) -> None:
        self._decoders = decoders
        self._data = data
        self._out = out
        self._state = array("q", bytes(8 * kernel.STATE_SIZE))
        self._state[kernel.STATE_OUT] = len(out)
        self.failures: list[tuple[str, int, str]] = []

    def buffer(self) -> bytearray:
        """Return the written bytes."""
        del self._out[self._state[kernel.STATE_OUT] :]
        return self._out

    def write(self, cells: Cells, part: str) -> Cells:
        """Write all cells of a column; return their new positions and lengths."""
        count = len(cells[0])
        if max(cells[1], default=-1) < 0:
            return new_ints(count), cells[1]
        texts = new_ints(count), new_ints(count)
        self._grow(2 * sum(length for length in cells[1] if length > 0) + 32 * count + _SPARE_BYTES)
        row = 0
        while row < count:
            length = cells[1][row]
            if length < 0:
                texts[0][row], texts[1][row] = 0, -1
                row += 1
                continue
            place = cells[0][row]
            cell = bytes(self._data[place : place + length])
            number = schema_id(cell)
            if not number or number >> 31:
                reason = "" if part == "key" else "it does not begin with byte 0 and a schema ID"
                self._put_raw(texts, row, cell, part, reason)
                row += 1
                continue
            decoder = self._decoders.get(number)
            if isinstance(decoder, AvroProgram):
                row = self._write_avro(decoder, number, cells, texts, row, part)
                continue
            self._write_row(decoder, texts, row, cell, part)
            row += 1
        return texts

    def _write_avro(self, program: AvroProgram, number: int, cells: Cells, texts: Cells, row: int, part: str) -> int:
        """Write the rows from `row` on that have this schema; return the first row that is not written."""
        state = self._state
        state[kernel.STATE_ROW], state[kernel.STATE_STOP] = row, len(cells[0])
        while True:
            row = kernel.write_rows(self._data, cells, program.program, number, self._out, texts, state)
            reason = state[kernel.STATE_REASON]
            if reason == kernel.ROW_FULL and len(self._out) - state[kernel.STATE_OUT] < _LONGEST_TEXT:
                self._grow(len(self._out) + _SPARE_BYTES)
                continue
            if reason not in (kernel.ROW_BAD, kernel.ROW_FULL):
                return row
            place = cells[0][row]
            cell = bytes(self._data[place : place + cells[1][row]])
            cause = "its JSON text would be too long" if reason == kernel.ROW_FULL else f"it is not of schema {number}"
            self._put_raw(texts, row, cell, part, cause)
            state[kernel.STATE_ROW] = row + 1

    def _write_row(self, decoder: RowDecoder | _Failed, texts: Cells, row: int, cell: bytes, part: str) -> None:
        if isinstance(decoder, _Failed):
            self._put_raw(texts, row, cell, part, decoder.reason)
            return
        try:
            self._put(texts, row, decoder.text(cell))
        except ValueError as error:
            self._put_raw(texts, row, cell, part, " ".join(str(error).split()))

    def _put_raw(self, texts: Cells, row: int, cell: bytes, part: str, reason: str) -> None:
        if reason:
            self.failures.append((part, row, reason))
        self._put(texts, row, cell)

    def _put(self, texts: Cells, row: int, text: bytes) -> None:
        out = self._state[kernel.STATE_OUT]
        if len(text) > len(self._out) - out:
            self._grow(len(text) + _SPARE_BYTES)
        self._out[out : out + len(text)] = text
        texts[0][row], texts[1][row] = out, len(text)
        self._state[kernel.STATE_OUT] = out + len(text)

    def _grow(self, size: int) -> None:
        self._out += bytes(size)
