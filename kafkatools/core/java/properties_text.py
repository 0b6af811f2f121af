r"""Parse Java's .properties files like java.util.Properties.load.

Rules: comments start with # or !. Lines are `key=value`, `key:value` or `key value`; white space before the key and
around the separator is ignored, after the value it counts. An odd number of trailing backslashes joins the next line.
Escapes are \t \n \r \f \uXXXX; any other backslash is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_BLANK = " \t\f"
# The key ends at the first unescaped =, : or blank.
_PAIR = re.compile(r"(?P<key>(?:\\.|\\\Z|[^=: \t\f\\])*)[ \t\f]*(?:[=:][ \t\f]*)?(?P<value>.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u.{0,4}|.|\Z)", re.DOTALL)
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class MalformedEscape(ValueError):
    """A \\u escape without four hexadecimal digits; the text is the reason."""


def parse_properties(text: str) -> dict[str, str]:
    """Return a text's settings; a key's last line wins. Raises MalformedEscape."""
    settings: dict[str, str] = {}
    for line in _logical_lines(text):
        match = _PAIR.fullmatch(line)
        assert match is not None  # every part may be empty
        settings[_unescape(match["key"])] = _unescape(match["value"])
    return settings


def _logical_lines(text: str) -> Iterator[str]:
    logical_line = ""
    continues = False
    for raw in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = raw.lstrip(_BLANK)
        if not continues and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        continues = backslashes % 2 == 1
        logical_line += line[:-1] if continues else line
        if not continues:
            yield logical_line
            logical_line = ""
    if logical_line:
        yield logical_line


def _unescape(text: str) -> str:
    def unescape(match: re.Match[str]) -> str:
        code = match[1]
        if not code.startswith("u"):
            return _ESCAPES.get(code, code)
        try:
            return chr(int(code[1:] if len(code) == 5 else "", 16))
        except ValueError:
            raise MalformedEscape(f"malformed \\uxxxx escape '\\{code}'") from None

    unescaped = _ESCAPE.sub(unescape, text)
    return unescaped.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if "\\u" in text else unescaped
