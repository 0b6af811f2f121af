"""Warn about files with secrets that every user of the machine can read.

Such files are settings, and key stores and private keys that settings name. Trust stores hold certificates only, so
anyone may read them. A value with a reference such as `${env:NAME}` is no secret itself.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

# Also with a listener's prefix: listener.name.x.ssl.keystore.location.
_PRIVATE_KEY_FILES = ("ssl.keystore.location", "ssl.key.location", "sasl.oauthbearer.assertion.private.key.file")


def warn_if_others_can_read(path: str, settings: Mapping[str, str]) -> None:
    """Log a warning when one of the settings is a secret and every user can read the file at `path`. Group access may
    be intended and does not count."""
    from kafkatools.core.secrets import holds_secret

    secret = next(
        (name for name, value in settings.items() if holds_secret(name, value) and not _has_reference(value)), None
    )
    if secret is None or not _is_open(path):
        return
    _warn(path, secret)


def warn_if_others_can_read_keys(settings: Mapping[str, str]) -> None:
    """Log a warning for each private key file in the settings that every user can read."""
    for name, path in settings.items():
        if name.endswith(_PRIVATE_KEY_FILES) and _is_open(path):
            _warn(path, "the private key")


def _has_reference(value: str) -> bool:
    if "${" not in value:
        return False
    from kafkatools.core.config.providers import has_reference

    return has_reference(value)


def _warn(path: str, secret: str) -> None:
    import logging

    logging.getLogger("kafkatools.security").warning(
        "%s: every user of this machine can read %s in it; try: chmod 600 %s", path, secret, path
    )


def _is_open(path: str) -> bool:
    try:
        status = os.stat(path)
    except (OSError, ValueError):  # ValueError: a null character in the path
        return False
    return stat.S_ISREG(status.st_mode) and bool(status.st_mode & stat.S_IROTH)
