"""The directory of kt's own files, in which the sandbox has its folder."""

from __future__ import annotations

import os
from collections.abc import Mapping


def kt_home(environ: Mapping[str, str]) -> str:
    """Return the directory of kt's own files: KT_HOME, else `kafkatools` in the user's data directory
    (XDG_DATA_HOME)."""
    configured = environ.get("KT_HOME")
    if configured:
        return configured
    user = environ.get("HOME") or os.path.expanduser("~")
    return os.path.join(environ.get("XDG_DATA_HOME") or os.path.join(user, ".local", "share"), "kafkatools")
