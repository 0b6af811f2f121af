r"""Escapes for characters that control a terminal, reorder a line or are invisible.

Foreign text (names, keys, values, paths, error messages of servers) may contain them. On a terminal they are escaped as
`\x1b` or `\u202e`. In JSON they are escaped as `\u001b` on every stream: a parser reads the same value, and the text
cannot control a terminal.

The escaped characters are C0, DEL and C1, the line and paragraph separators, the bidirectional controls, the invisible
spaces and operators and the tags. U+200C and U+200D stay: Persian and Indic languages and emoji need them, and neither
moves nor hides another character. A byte that is not UTF-8 (a surrogate of Python's `surrogateescape`) is shown as
`\x9b`.
"""

from __future__ import annotations

import re
from functools import cache

_ABOVE_C0 = (
    (0x7F, 0x9F), (0xAD, 0xAD), (0x61C, 0x61C), (0x180E, 0x180E), (0x200B, 0x200B), (0x200E, 0x200F),
    (0x2028, 0x202E), (0x2060, 0x206F), (0xFEFF, 0xFEFF), (0xFFF9, 0xFFFB), (0xE0000, 0xE0FFF),
)  # fmt: skip
_FIRST_BYTES = (b"\xc2", b"\xd8", b"\xe1", b"\xe2", b"\xef", b"\xf3")
"""The first bytes of these characters in UTF-8: a search for single bytes is as fast as memory."""
_BREAKING = {9: "\\t", 10: "\\n", 13: "\\r"}
_SURROGATES = (0xD800, 0xDFFF)
_UNDECODABLE = range(0xDC80, 0xDD00)
_HIGHEST_BYTE, _HIGHEST_UNIT = 0xFF, 0xFFFF


def visible(text: str) -> str:
    """Escape every character listed above in a name or a value, tabs and line ends included."""
    return _all().sub(_escape, text)


def visible_line(text: str) -> str:
    """Escape the control characters of one line, line ends included; tabs stay."""
    return _all_but_tabs().sub(_escape, text)


def visible_text(text: str) -> str:
    """Escape the control characters of several lines; tabs and line feeds stay."""
    return _all_but_layout().sub(_escape, text)


def visible_drawing(text: str) -> str:
    """Escape control characters except those that our own drawing needs: colours, styles, cursor movements, clearing,
    the alternate screen, tabs and line ends. Titles, links, clipboard and terminal queries are escaped."""
    return _all_but_drawing().sub(_escape_undrawn, text)


def json_safe(line: str) -> str:
    r"""Escape control characters above C0 in JSON text as `\uXXXX`; a parser reads the same values.

    JSON encoders escape C0 already; ASCII text without DEL is returned unchanged.
    """
    if line.isascii() and "\x7f" not in line:
        return line
    return _in_json().sub(_escape_json, line)


def may_need_escapes(utf8: bytes) -> bool:
    """Return whether UTF-8 text may contain characters above DEL that `json_safe` escapes; False is certain, True is
    not. A fast check for whole columns: the search of `json_safe` would cost twice as much as the encoder."""
    return any(map(utf8.__contains__, _FIRST_BYTES))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code in _BREAKING:
        return _BREAKING[code]
    if code in _UNDECODABLE:
        return f"\\x{code - 0xDC00:02x}"
    if code <= _HIGHEST_BYTE:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= _HIGHEST_UNIT else f"\\U{code:08x}"


def _escape_undrawn(match: re.Match[str]) -> str:
    return match[0] if match.lastgroup == "drawn" else _escape(match)


def _escape_json(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{high:02x}{low:02x}" for high, low in zip(units[::2], units[1::2], strict=True))


def _class(*ranges: tuple[int, int]) -> str:
    return "[" + "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in (*ranges, *_ABOVE_C0)) + "]"


@cache
def _all() -> re.Pattern[str]:
    return re.compile(_class((0, 31), _SURROGATES))


@cache
def _all_but_tabs() -> re.Pattern[str]:
    return re.compile(_class((0, 8), (10, 31), _SURROGATES))


@cache
def _all_but_layout() -> re.Pattern[str]:
    return re.compile(_class((0, 8), (11, 31), _SURROGATES))


@cache
def _all_but_drawing() -> re.Pattern[str]:
    sequences = r"(?P<drawn>\x1b\[[0-9;]*m|\x1b\[[0-9;]*[ABCDGHJK]|\x1b\[\?(?:25|1049)[hl]|\r)"
    return re.compile(sequences + "|" + _class((0, 8), (11, 31), _SURROGATES))


@cache
def _in_json() -> re.Pattern[str]:
    return re.compile(_class())
