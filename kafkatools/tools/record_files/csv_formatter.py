"""console-consumer --output-format csv: records as CSV (RFC 4180) that console-producer reads back without loss.

A cell is the text of the bytes. Null is an empty cell. Empty bytes, bytes that are not UTF-8, and text that starts like
such a cell are `base64:` and their Base64. `headers` is a JSON list of [name, value], as in docs/json/records.md.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.records.columns import RecordColumns
from kafkatools.tools.lines.formatters import OnError

COLUMNS = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers")
BASE64 = "base64:"


class CsvFormatter:
    """Writes a line with the names of the columns, then one for each record. Lines end with CR LF."""

    def __init__(self) -> None:
        self._has_names = False

    def write(self, out: bytearray, fetched: FetchedColumns, on_error: OnError) -> int:
        """Append a line for each record; return how many there were. Every record can be written."""
        columns, count = fetched.columns, fetched.columns.count
        rows = zip(
            [fetched.topic] * count,
            [fetched.partition] * count,
            columns.offsets,
            columns.timestamps,
            [columns.timestamp_type.label] * count,
            [_text(columns.key(index)) for index in range(count)],
            [_text(columns.value(index)) for index in range(count)],
            _headers(columns),
            strict=True,
        )
        self._write(out, rows)
        return count

    def finish(self, out: bytearray) -> None:
        """Append the line of names if there was no record."""
        self._write(out, ())

    def _write(self, out: bytearray, rows: object) -> None:
        lines = io.StringIO(newline="")
        writer = csv.writer(lines)
        if not self._has_names:
            self._has_names = True
            writer.writerow(COLUMNS)
        writer.writerows(rows)  # type: ignore[arg-type]
        out += lines.getvalue().encode()


def _text(data: bytes | None) -> str:
    if data is None:
        return ""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = ""
    if text and not text.startswith(BASE64):
        return text
    import binascii

    return BASE64 + binascii.b2a_base64(data, newline=False).decode("ascii")


def _headers(columns: RecordColumns) -> Sequence[str]:
    if not any(columns.header_counts):
        return [""] * columns.count
    from kafkatools.core.records.json_cells import lossless_header_lists

    return ["" if text == "[]" else text for text in lossless_header_lists(columns)]
