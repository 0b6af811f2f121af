"""The directory of kt's own files, in which the sandbox has its folder."""

from __future__ import annotations

import os
from collections.abc import Mapping


def kt_home(environ: Mapping[str, str]) -> str:
    """Return the absolute path of the directory of kt's own files: KT_HOME, else `kafkatools` in the user's data
    directory (XDG_DATA_HOME). The processes of the sandbox have another working directory."""
    user = environ.get("HOME") or os.path.expanduser("~")
    data = environ.get("XDG_DATA_HOME") or os.path.join(user, ".local", "share")
    return os.path.abspath(environ.get("KT_HOME") or os.path.join(data, "kafkatools"))
