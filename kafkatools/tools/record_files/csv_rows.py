"""Records from CSV, the format of `kt console-consumer --output-format csv`."""

from __future__ import annotations

import base64
import binascii
import csv
from collections.abc import Iterator
from typing import BinaryIO

from kafkatools.core.json_texts import parse_json
from kafkatools.tools.lines.json_records import headers_of_json
from kafkatools.tools.lines.line_reader import MalformedLine
from kafkatools.tools.record_files.csv_formatter import BASE64
from kafkatools.tools.record_files.record_rows import Rows, check_columns, record_of

_LONGEST_CELL = (1 << 31) - 1


def read_csv(topic: str, name: str, file: BinaryIO) -> Rows:
    """Yield the row number and record of each line after the one with the names of the columns. Raises MalformedLine
    with the line and column."""
    csv.field_size_limit(_LONGEST_CELL)
    reader = csv.reader(_text_lines(name, file), strict=True)
    try:
        columns = next(reader, None)
        if not columns:
            raise MalformedLine(f"{name} has no header line with column names")
        check_columns(name, columns)
        if len(set(columns)) < len(columns):
            raise MalformedLine(f"{name} has two columns with the same name")
        for number, cells in enumerate(reader, 1):
            place = f"{name}, line {reader.line_num}"
            if not cells and len(columns) > 1:
                raise MalformedLine(f"{place} is empty")
            cells = cells or [""]
            if len(cells) != len(columns):
                raise MalformedLine(f"{place}: {len(columns)} cells expected, but there are {len(cells)}")
            yield number, record_of(topic, place, _values(place, dict(zip(columns, cells, strict=True))))
    except csv.Error as error:
        raise MalformedLine(f"{name}, line {reader.line_num}: {error}") from None


def _text_lines(name: str, file: BinaryIO) -> Iterator[str]:
    """Yield the lines with their ends, each of LF, CR LF and CR. Raises MalformedLine for one that is not UTF-8."""
    pieces = (piece for line in file for piece in line.splitlines(keepends=True))
    for number, piece in enumerate(pieces, 1):
        try:
            yield piece.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            place = f"{name}, line {number}, byte {error.start + 1}"
            raise MalformedLine(f"{place}: {piece[error.start]:#04x} is not UTF-8; convert the file to UTF-8") from None


def _values(place: str, cells: dict[str, str]) -> dict[str, object]:
    values: dict[str, object] = {name: cells[name] or None for name in ("partition", "timestamp") if name in cells}
    for name in ("key", "value"):
        if name in cells:
            values[name] = _cell_bytes(place, name, cells[name])
    if cells.get("headers"):
        try:
            values["headers"] = list(headers_of_json(parse_json(cells["headers"])))
        except ValueError as error:
            raise MalformedLine(f"{place}, headers: {error}") from None
    return values


def _cell_bytes(place: str, name: str, cell: str) -> bytes | None:
    if not cell:
        return None
    if not cell.startswith(BASE64):
        return cell.encode()
    try:
        return base64.b64decode(cell[len(BASE64) :], validate=True)
    except (binascii.Error, ValueError) as error:
        raise MalformedLine(f"{place}, {name}: the text after {BASE64} is not Base64: {error}") from None
