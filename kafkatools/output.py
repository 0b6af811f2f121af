"""Format rows as JSON lines or as an aligned table. Returns text and writes nothing.

JSON rules (docs/json/README.md): one object for each line, keys in the order of the row, no spaces. Bytes that are
UTF-8 become a string, other bytes {"b64": "..."}. null stays null; control characters are escaped.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache


@cache
def _dumps() -> Callable[[object], str]:
    import json  # not for a --help

    from kafkatools.core.control_characters import json_safe

    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode
    return lambda value: json_safe(encode(value))


def json_bytes(data: bytes | memoryview | None) -> str | dict[str, str] | None:
    """The JSON value of bytes: a string if they are UTF-8, else {"b64": base64}; None stays None. Lossless."""
    if data is None:
        return None
    data = bytes(data)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        import binascii

        return {"b64": binascii.b2a_base64(data, newline=False).decode("ascii")}


def json_line(row: Mapping[str, object]) -> str:
    """Format an object as one line of JSON without the newline; bytes in it are converted by json_bytes. Bytes in text
    that are not UTF-8 (surrogates of `surrogateescape`) become U+FFFD."""
    return _dumps()(_plain(row))


def _plain(value: object) -> object:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return json_bytes(bytes(value))
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return value


def json_error(kind: str, message: str, **fields: object) -> str:
    """The JSON line of an error on stderr: {"error": {"kind": ..., "message": ..., **more}}."""
    return json_line({"error": {"kind": kind, "message": message, **fields}})


_BYTE_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")


def bytes_text(count: float) -> str:
    """Return a size such as `1.5 GB`, in decimal units like throttles."""
    size = float(count)
    for unit in _BYTE_UNITS[:-1]:
        if abs(size) < 999.5:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} {_BYTE_UNITS[-1]}"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 group`, `2 groups`."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def visible(text: str) -> str:
    """Escape the control characters of a name or a value, for a terminal."""
    from kafkatools.core.control_characters import visible

    return visible(text)


def table(headers: Sequence[str], rows: Iterable[Sequence[object]], *, terminal: bool = False, width: int = 100) -> str:
    """Format rows as a table with aligned columns and a header line; each row has as many cells as `headers`. On a
    terminal rich draws it with colours and escapes its cells; elsewhere it is plain text with two spaces between
    columns. `width`: of the terminal."""
    texts = [[str(cell) for cell in row] for row in rows]
    if terminal:
        return _rich_table(headers, texts, width)
    widths = [max(map(len, column)) for column in zip(headers, *texts, strict=True)]
    lines = [
        "  ".join(cell.ljust(size) for cell, size in zip(line, widths, strict=True)).rstrip()
        for line in [headers, *texts]
    ]
    return "\n".join(lines) + "\n"


def _rich_table(headers: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> str:
    import io

    from rich.box import SIMPLE_HEAD
    from rich.console import Console as RichConsole
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for header in headers:
        table.add_column(header, overflow="fold")
    for row in rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    out = io.StringIO()
    RichConsole(file=out, force_terminal=True, width=width).print(table)
    return out.getvalue()


def cell_text(value: object) -> str:
    """Return a table cell as text: bytes as UTF-8 where possible, null as `null`, structures as JSON."""
    if value is None:
        return "null"
    plain = plain_value(value)
    if isinstance(plain, bool):
        return "true" if plain else "false"
    if isinstance(plain, (dict, list)):
        return json_line({"": plain})[4:-1]
    return str(plain)


def interval_text(months: int, days: int, nanoseconds: int) -> str:
    """Return an interval of SQL as DuckDB and PostgreSQL print it: `1 year 2 months 3 days -01:30:00.5`."""
    years, months = int(months / 12), int(math.fmod(months, 12))
    units = ((years, "year"), (months, "month"), (days, "day"))
    parts = [f"{number} {unit}{'' if abs(number) == 1 else 's'}" for number, unit in units if number]
    seconds, fraction = divmod(abs(nanoseconds), 1_000_000_000)
    if nanoseconds or not parts:
        time = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:09}".rstrip("0").rstrip(".")
        parts.append(f"{'-' if nanoseconds < 0 else ''}{time}")
    return " ".join(parts)


def plain_value(value: object) -> object:
    """Convert a value of a row for JSON: rows to objects, times to ISO 8601, intervals, decimals and non-finite floats
    to text, bytes by json_bytes. Other types become text."""
    import datetime
    import decimal

    if hasattr(value, "asDict"):
        return {name: plain_value(item) for name, item in value.asDict().items()}
    if isinstance(value, (bytes, bytearray)):
        return json_bytes(bytes(value))
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else cell_text(key): plain_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        arrow = sys.modules.get("pyarrow")  # loaded if there is an interval of Arrow, which is a tuple
        if arrow is not None and isinstance(value, arrow.MonthDayNano):
            return interval_text(*value)
        return [plain_value(item) for item in value]
    if isinstance(value, (datetime.datetime, datetime.date)):
        return value.isoformat()
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
