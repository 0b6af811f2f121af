"""Values as Java prints them."""

from __future__ import annotations

import codecs


def _replace_like_java(error: UnicodeError) -> tuple[str, int]:
    """Java replaces an encoded surrogate by one U+FFFD, Python by one for each of its bytes; all else is alike."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    data, start = error.object, error.start
    tail = data[start : start + 3]
    if len(tail) > 1 and tail[0] == 0xED and 0xA0 <= tail[1] <= 0xBF:
        is_whole = len(tail) < 3 or 0x80 <= tail[2] <= 0xBF
        return "\ufffd", start + (len(tail) if is_whole else 2)
    return "\ufffd", error.end


codecs.register_error("java_replace", _replace_like_java)


def java_string(data: bytes | memoryview) -> str:
    """`new String(bytes, UTF_8)`."""
    return str(data, "utf-8", "java_replace")


def java_boolean(value: bool) -> str:
    return "true" if value else "false"


def optional_long(value: int | None) -> str:
    """An OptionalLong's text."""
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"
