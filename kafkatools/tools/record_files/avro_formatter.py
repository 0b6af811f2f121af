"""console-consumer --output-format avro: records as an Avro object container file, in blocks of bounded size."""

from __future__ import annotations

from typing import IO, Final, cast

from fastavro.write import Writer

from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.tools.lines.formatters import OnError
from kafkatools.tools.record_files.table_formats import Written, runs_with_text_names

_NULLABLE_BYTES: Final = ["null", "bytes"]
_HEADER: Final = {
    "type": "record",
    "name": "Header",
    "fields": [{"name": "name", "type": "string"}, {"name": "value", "type": _NULLABLE_BYTES}],
}
SCHEMA: Final = {
    "type": "record",
    "name": "Record",
    "namespace": "kafkatools",
    "fields": [
        {"name": "topic", "type": "string"},
        {"name": "partition", "type": "int"},
        {"name": "offset", "type": "long"},
        {"name": "timestamp", "type": ["null", "long"], "doc": "Milliseconds since 1970-01-01 UTC."},
        {"name": "timestamp_type", "type": "string"},
        {"name": "key", "type": _NULLABLE_BYTES},
        {"name": "value", "type": _NULLABLE_BYTES},
        {"name": "headers", "type": {"type": "array", "items": _HEADER}},
    ],
}
_BLOCK_BYTES = 1 << 16


class AvroFormatter:
    """Writes the records of a run as one Avro file, compressed with deflate. A header name that is not UTF-8 fails its
    record."""

    def __init__(self) -> None:
        self._stream = Written()
        self._writer = Writer(cast(IO[bytes], self._stream), SCHEMA, codec="deflate", sync_interval=_BLOCK_BYTES)

    def write(self, out: bytearray, fetched: FetchedColumns, on_error: OnError) -> int:
        """Take the records, and append full blocks to `out`. Returns how many were processed."""
        count, runs = runs_with_text_names(fetched.columns, on_error)
        for columns in runs:
            label = columns.timestamp_type.label
            for row in range(columns.count):
                timestamp = columns.timestamps[row]
                self._writer.write(
                    {
                        "topic": fetched.topic,
                        "partition": fetched.partition,
                        "offset": columns.offsets[row],
                        "timestamp": None if timestamp == -1 else timestamp,
                        "timestamp_type": label,
                        "key": columns.key(row),
                        "value": columns.value(row),
                        "headers": [
                            {"name": str(name, "utf-8"), "value": value} for name, value in columns.raw_headers(row)
                        ],
                    }
                )
        self._stream.take(out)
        return count

    def finish(self, out: bytearray) -> None:
        """Append the last block."""
        self._writer.flush()
        self._stream.take(out)
