r"""Translate Java's regular expressions to Python's.

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
