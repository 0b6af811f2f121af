r"""Translate Java's regular expressions to Python's, and split text by them.

`\Q...\E`, `(?<name>...)` and `\k<name>` are translated. Everything else stays as it is, so an element that only Java
has may be refused or mean something else.
"""

from __future__ import annotations

import re

_JAVA_ONLY = re.compile(r"\\Q(.*?)(?:\\E|$)|\(\?<([A-Za-z][A-Za-z0-9]*)>|\\k<([A-Za-z][A-Za-z0-9]*)>", re.DOTALL)


def java_pattern(text: str) -> re.Pattern[str]:
    """Compile a Java regular expression. Raises re.error if Python refuses the translation."""

    def translate(match: re.Match[str]) -> str:
        quoted, group, reference = match.groups()
        if quoted is not None:
            return re.escape(quoted)
        return f"(?P<{group}>" if group else f"(?P={reference})"

    return re.compile(_JAVA_ONLY.sub(translate, text))


def java_split(pattern: re.Pattern[str], text: str) -> list[str]:
    """Split text as Java's Pattern.split does. Groups of the pattern add no parts, an empty match at the start makes no
    part, and empty parts at the end are left out."""
    parts, start = [], 0
    for match in pattern.finditer(text):
        if match.end() > 0:
            parts.append(text[start : match.start()])
            start = match.end()
    if not start:
        return [text]
    parts.append(text[start:])
    while parts and not parts[-1]:
        parts.pop()
    return parts
