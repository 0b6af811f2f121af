"""console-consumer --json: records as JSON lines that console-producer can read."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.tools.lines.formatters import OnError, check_properties, formatter_class, named_deserializer
from kafkatools.tools.lines.internal_formatters import INTERNAL_FORMATTERS, InternalTopicFormatter, append_lines


class JsonFormatter:
    """Writes one lossless JSON object per record (docs/json/records.md). With an internal topic's formatter, key and
    value are the decoded objects, and records that formatter does not show are skipped. Raises ConfigError for an
    unknown formatter or property."""

    def __init__(self, formatter: str, properties: Mapping[str, str]) -> None:
        name = formatter_class(formatter)
        self._internal = InternalTopicFormatter(name, properties) if name in INTERNAL_FORMATTERS else None
        check_properties(properties)
        self._key = named_deserializer(properties, "key.deserializer")
        self._value = named_deserializer(properties, "value.deserializer")
        self._header = named_deserializer(properties, "headers.deserializer")

    def write(self, out: bytearray, fetched: FetchedColumns, on_error: OnError) -> int:
        """Append a JSON line for each shown record. Returns how many were processed, skipped and failed ones included.
        `on_error` is called for each failed record; False stops after it."""
        is_plain = self._internal is None and (self._key, self._value, self._header) == (None, None, None)
        if is_plain and fetched.delivery_count is None:
            from kafkatools.core.records.json_cells import fetched_lines

            out += fetched_lines(fetched.topic, fetched.partition, fetched.columns).encode()
            return fetched.columns.count
        return self._write_singly(out, fetched, on_error)

    def _write_singly(self, out: bytearray, fetched: FetchedColumns, on_error: OnError) -> int:
        from kafkatools.output import json_line

        def line_of(index: int) -> bytes | None:
            row = self._row(fetched, index)
            return None if row is None else json_line(row).encode()

        return append_lines(out, fetched.columns.count, line_of, on_error)

    def _row(self, fetched: FetchedColumns, index: int) -> dict[str, object] | None:
        columns = fetched.columns
        key, value = columns.key(index), columns.value(index)
        if self._internal is None:
            content: dict[str, object] = {"key": _text(key, self._key), "value": _text(value, self._value)}
        else:
            record = self._internal.json_object(key, value, columns.offsets[index])
            if record is None:
                return None
            content = record
        return {
            "topic": fetched.topic,
            "partition": fetched.partition,
            "offset": columns.offsets[index],
            "timestamp": columns.timestamps[index],
            "timestamp_type": columns.timestamp_type.label,
            **content,
            "headers": [[name, _text(value, self._header)] for name, value in columns.raw_headers(index)],
            **({} if fetched.delivery_count is None else {"delivery_count": fetched.delivery_count}),
        }


def _text(data: bytes | None, deserialize: Callable[[bytes], bytes] | None) -> bytes | None:
    return data if data is None or deserialize is None else deserialize(data)
