"""Translate Java's regular expressions to Python's.

Patterns that both languages read alike go through as they are; `\\Q...\\E`, `(?<name>...)` and `\\k<name>` are
translated.
"""

from __future__ import annotations

import re

_JAVA_ONLY = re.compile(r"\\Q(.*?)(?:\\E|$)|\(\?<([A-Za-z][A-Za-z0-9]*)>|\\k<([A-Za-z][A-Za-z0-9]*)>", re.DOTALL)


def java_pattern(text: str) -> re.Pattern[str]:
    """Compile a Java regular expression. Raises re.error if it is invalid."""

    def translate(match: re.Match[str]) -> str:
        quoted, group, reference = match.groups()
        if quoted is not None:
            return re.escape(quoted)
        return f"(?P<{group}>" if group else f"(?P={reference})"

    return re.compile(_JAVA_ONLY.sub(translate, text))
