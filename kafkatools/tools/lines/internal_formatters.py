"""Formatters of Kafka's internal topics, such as OffsetsMessageFormatter, which print records as JSON.

Rules: one object per record, with the key's type and the value's version; a tombstone's value is null. Records without
key, of an unknown type, or of another formatter's type are skipped. An undecodable record is an error in Kafka's words
with the offset. Each object ends with a newline, which Kafka's formatters omit. Source:
CoordinatorRecordMessageFormatter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final

from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.errors import ConfigError, KafkaError, SerializationError
from kafkatools.core.protocol.schemas.errors import RecordFormatError, UnknownRecordType
from kafkatools.core.protocol.schemas.framing import CoordinatorRecords
from kafkatools.core.protocol.schemas.json_form import json_text, to_json

_TOOLS = "org.apache.kafka.tools.consumer."
_ALL_TYPES = range(1 << 15)

INTERNAL_FORMATTERS: Final[Mapping[str, tuple[str, range]]] = {
    _TOOLS + "OffsetsMessageFormatter": ("offsets", range(2)),
    _TOOLS + "GroupMetadataMessageFormatter": ("offsets", range(2, 3)),
    _TOOLS + "ShareGroupMessageFormatter": ("offsets", range(10, 16)),
    _TOOLS + "TransactionLogMessageFormatter": ("transaction_log", _ALL_TYPES),
    _TOOLS + "group.share.ShareGroupStateMessageFormatter": ("share_group_state", _ALL_TYPES),
}
"""Java class -> the module of protocol/schemas that reads the topic, and the record types that are shown."""


def append_lines(
    out: bytearray, count: int, line_of: Callable[[int], bytes | None], on_error: Callable[[KafkaError], bool]
) -> int:
    """Append `line_of(index)` and a newline for each of `count` records unless None; return how many were processed.
    Stops after a record whose KafkaError makes `on_error` return False."""
    for index in range(count):
        try:
            line = line_of(index)
        except KafkaError as error:
            if not on_error(error):
                return index + 1
            continue
        if line is not None:
            out += line
            out += b"\n"
    return count


class InternalTopicFormatter:
    """Prints the records of one internal topic as JSON. `name` is a key of INTERNAL_FORMATTERS. Raises ConfigError for
    any formatter property."""

    def __init__(
        self, name: str, properties: Mapping[str, str], escape: Callable[[bytes], bytes] | None = None
    ) -> None:
        if properties:
            raise ConfigError(f"{name.rpartition('.')[2]} takes no formatter properties: {', '.join(properties)}")
        module, self._types = INTERNAL_FORMATTERS[name]
        self._records = _records(module)
        self._escape = escape

    def write(self, out: bytearray, fetched: FetchedColumns, on_error: Callable[[KafkaError], bool]) -> int:
        """Append a JSON line for each shown record. Returns how many records were processed, skipped and failed ones
        included. `on_error` is called for each undecodable record; False stops after it."""
        columns = fetched.columns

        def line_of(index: int) -> bytes | None:
            line = self.json_line(columns.key(index), columns.value(index), columns.offsets[index])
            if line is None:
                return None
            data = line.encode("utf-8", "surrogatepass")
            return data if self._escape is None else self._escape(data)

        return append_lines(out, columns.count, line_of, on_error)

    def json_line(self, key: bytes | None, value: bytes | None, offset: int) -> str | None:
        """Return the JSON text of one record, None for a skipped one. Raises SerializationError."""
        record = self.json_object(key, value, offset)
        return None if record is None else json_text(record)

    def json_object(self, key: bytes | None, value: bytes | None, offset: int) -> dict[str, object] | None:
        """Return one record as dicts and lists, None for a skipped one. Raises SerializationError."""
        if key is None:
            return None
        try:
            key_entity, value_entity = self._records.decode(key, value)
        except UnknownRecordType:
            return None
        except RecordFormatError as error:
            raise SerializationError(f"Could not read record at offset {offset} due to: {error}") from error
        if key_entity.__api_key__ not in self._types:
            return None
        record: dict[str, object] = {
            "key": {"type": key_entity.__api_key__, "data": to_json(key_entity)},
            "value": None,
        }
        if value_entity is not None:
            record["value"] = {"version": value_entity.__version__, "data": to_json(value_entity)}
        return record


def _records(module: str) -> CoordinatorRecords:
    records: CoordinatorRecords = import_module(f"kafkatools.core.protocol.schemas.{module}").RECORDS
    return records
