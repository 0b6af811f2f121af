"""The warning about a file of settings with a secret that other users of the machine can read."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping


def warn_if_others_can_read(path: str, settings: Mapping[str, str]) -> None:
    """Log a warning when a setting is a secret and all users can read the file. Group access may be intended."""
    from kafkatools.core.secrets import holds_secret

    secret = next((name for name, value in settings.items() if holds_secret(name, value)), None)
    if secret is None or not _is_open(path):
        return
    import logging

    logging.getLogger("kafkatools.security").warning(
        "%s: every user of this machine can read %s in it; try: chmod 600 %s", path, secret, path
    )


def _is_open(path: str) -> bool:
    try:
        found = os.stat(path)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and bool(found.st_mode & stat.S_IROTH)
