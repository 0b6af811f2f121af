"""The profile of a cluster, as defined in a profile file; `profiles.py` reads the files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

JOURNAL_ON, JOURNAL_OFF, JOURNAL_REQUIRED = JOURNAL_MODES = ("on", "off", "required")


class Profile(NamedTuple):
    """A named cluster with client settings; `path` is its file. `is_default`: selected without being named.
    `journal`: one of JOURNAL_MODES."""

    name: str
    path: str
    bootstrap_servers: str | None
    settings: Mapping[str, str]
    is_protected: bool
    cluster: str
    is_default: bool
    journal: str = JOURNAL_ON
