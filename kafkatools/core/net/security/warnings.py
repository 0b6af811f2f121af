"""Warnings about insecure settings, on a logger of their own that a program can always show.

`kt` writes them to stderr even without KT_DEBUG, each once.
"""

from __future__ import annotations

import logging

_log = logging.getLogger("kafkatools.security")


def warn(message: str) -> None:
    """Log a warning on the logger `kafkatools.security`."""
    _log.warning("%s", message)
