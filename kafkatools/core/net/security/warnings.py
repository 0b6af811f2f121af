"""What a user should know about the security that was asked for: a log of its own, which a program can show always.

`WARNINGS` is a logger below `kafkatools`; the command-line tool writes its lines to stderr, also without KT_DEBUG.
A warning is given once per process.
"""

from __future__ import annotations

import logging

WARNINGS = logging.getLogger("kafkatools.security.warnings")
_told: set[str] = set()


def warn(message: str) -> None:
    """Say it, unless it was said before."""
    if message not in _told:
        _told.add(message)
        WARNINGS.warning("%s", message)
