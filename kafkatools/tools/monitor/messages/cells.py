"""Keys, values and headers of records as a page shows them: text, JSON with line breaks, or hexadecimal digits.

Rules: a cell is cut at a number of characters and says its whole size. Text has no control characters, so it cannot
change its surroundings. JSON keeps the text of numbers, equal names and escapes: only the space between tokens changes.
"""

from __future__ import annotations

import re

from kafkatools.core.control_characters import visible_text
from kafkatools.core.json_texts import parse_json

_MOST_JSON_BYTES = 1 << 20
_MOST_DEPTH = 100
_JSON_STARTS = "{[ \t\r\n"
_INDENT = "  "
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_HEX_CHARACTERS = 3


def cell_json(data: bytes | None, most: int) -> dict[str, object] | None:
    """Return a cell with up to `most` characters, None for a null. `bytes` is the whole size; `cut` says that not all
    of it is there."""
    if data is None:
        return None
    form, text = "text", _text(data)
    if text is None:
        form, text = "hex", data[: most // _HEX_CHARACTERS + 2].hex(" ")
    elif len(data) <= _MOST_JSON_BYTES and (pretty := _pretty(text)) is not None:
        form, text = "json", pretty
    shown = visible_text(text[:most])
    return {"form": form, "text": shown, "bytes": len(data), **({"cut": True} if len(text) > most else {})}


def _text(data: bytes) -> str | None:
    """Return the text of UTF-8 bytes; None if they are not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _pretty(text: str) -> str | None:
    """Return a JSON object or list with line breaks; None for any other text, and beyond 100 levels of nesting."""
    if text[:1] not in _JSON_STARTS:
        return None
    try:
        node = parse_json(text, parse_int=str, parse_float=str)
        return _indented(text) if isinstance(node, (dict, list)) else None
    except ValueError:  # versions of Python differ in the nesting that they parse
        return None


def _indented(text: str) -> str:
    """Return valid JSON with a line for each item. Raises ValueError beyond 100 levels of nesting."""
    parts: list[str] = []
    depth = 0
    tokens = _TOKEN.findall(text)
    for number, token in enumerate(tokens):
        if token in "}]":
            depth -= 1
            if tokens[number - 1] not in "{[":
                parts.append(_new_line(depth))
        parts.append(token)
        if token in "{[":
            depth += 1
            if depth > _MOST_DEPTH:
                raise ValueError("nested too deeply")
            if tokens[number + 1] not in "}]":
                parts.append(_new_line(depth))
        elif token == ",":
            parts.append(_new_line(depth))
        elif token == ":":
            parts.append(" ")
    return "".join(parts)


def _new_line(depth: int) -> str:
    return "\n" + _INDENT * depth
