"""What a user should know about the security that was asked for: a log of its own, which a program can show always.

The command-line tool writes its lines to stderr, also without KT_DEBUG, each once a run.
"""

from __future__ import annotations

import logging

LOGGER = "kafkatools.security"
_log = logging.getLogger(LOGGER)


def warn(message: str) -> None:
    _log.warning("%s", message)
