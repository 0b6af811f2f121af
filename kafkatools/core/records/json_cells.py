"""Format keys, values and headers of records as JSON text, whole columns at a time.

The format is that of every `--json` (docs/json/README.md): UTF-8 bytes become a string, other bytes {"b64": ...}, null
is null. `kafkatools/output.py` does the same for single values.
"""

from __future__ import annotations

from collections.abc import Sequence
from json.encoder import JSONEncoder

from kafkatools.core.control_characters import json_safe, may_need_escapes
from kafkatools.core.records.columns import Buffer, RecordColumns

_encoded = JSONEncoder(ensure_ascii=False).encode

_BETWEEN = "\x7f"
_BETWEEN_BYTES = b"\x7f"
_COPIED_A_ROW = 1024


def quoted(text: str) -> str:
    """Return a string as JSON, with all control characters escaped."""
    return json_safe(_encoded(text))


def cell(data: bytes | memoryview | None) -> str:
    """Return one key or value as JSON."""
    if data is None:
        return "null"
    try:
        return quoted(str(data, "utf-8"))
    except UnicodeDecodeError:
        import binascii

        return '{"b64":"' + binascii.b2a_base64(data, newline=False).decode("ascii") + '"}'


def cells(buffer: Buffer, positions: Sequence[int], lengths: Sequence[int]) -> list[str]:
    """Return a column of keys or values as JSON; length -1 is null. The cells are decoded and escaped as one text,
    joined by a character that JSON does not escape."""
    if max(lengths, default=-1) < 0:
        return ["null"] * len(lengths)
    # slices of bytes are cheaper than those of a view, unless the copy is much larger than the cells
    source = bytes(buffer) if len(buffer) <= _COPIED_A_ROW * len(lengths) else memoryview(buffer)
    places = zip(positions, lengths, strict=True)
    slices = [source[start : start + size] if size > 0 else b"" for start, size in places]
    joined = _BETWEEN_BYTES.join(slices)
    try:
        text = joined.decode()
    except UnicodeDecodeError:
        return _singly(slices, lengths)
    if text.count(_BETWEEN) != len(slices) - 1:
        return _singly(slices, lengths)
    texts = _encoded(text).replace(_BETWEEN, f'"{_BETWEEN}"').split(_BETWEEN)
    if not text.isascii() and may_need_escapes(joined):
        texts = list(map(json_safe, texts))
    if min(lengths) < 0:
        return [text if size >= 0 else "null" for text, size in zip(texts, lengths, strict=True)]
    return texts


def _singly(slices: Sequence[bytes | memoryview], lengths: Sequence[int]) -> list[str]:
    return [cell(data if size >= 0 else None) for data, size in zip(slices, lengths, strict=True)]


def header_lists(columns: RecordColumns) -> list[str] | None:
    """Return the headers of each record as a JSON list of [name, value]. None when a name is not UTF-8 or contains
    U+FFFD."""
    if not any(columns.header_counts):
        return ["[]"] * columns.count
    lists = []
    for row, count in enumerate(columns.header_counts):
        if not count:
            lists.append("[]")
            continue
        headers = columns.headers(row)
        if any("\ufffd" in name for name, _ in headers):
            return None
        lists.append("[" + ",".join(f"[{quoted(name)},{cell(value)}]" for name, value in headers) + "]")
    return lists


def lossless_header_lists(columns: RecordColumns) -> list[str]:
    """Return the headers of each record as a JSON list of [name, value]. A name that is not UTF-8 is {"b64": ...}."""
    if not any(columns.header_counts):
        return ["[]"] * columns.count
    return [
        "[" + ",".join([f"[{cell(name)},{cell(value)}]" for name, value in columns.raw_headers(row)]) + "]"
        for row in range(columns.count)
    ]


def fetched_lines(topic: str, partition: int, columns: RecordColumns) -> str:
    """Return records as console-consumer's JSON lines (docs/json/records.md)."""
    headers = lossless_header_lists(columns)
    start = f'{{"topic":{quoted(topic)},"partition":{partition},"offset":'
    middle = f',"timestamp_type":{quoted(columns.timestamp_type.label)},"key":'
    keys = cells(columns.buffer, columns.key_positions, columns.key_lengths)
    values = cells(columns.buffer, columns.value_positions, columns.value_lengths)
    return "".join(
        [
            f'{start}{offset},"timestamp":{timestamp}{middle}{key},"value":{value},"headers":{header_list}}}\n'
            for offset, timestamp, key, value, header_list in zip(
                columns.offsets, columns.timestamps, keys, values, headers, strict=True
            )
        ]
    )
