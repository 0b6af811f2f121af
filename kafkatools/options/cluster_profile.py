"""A cluster that a file of profiles defines; profiles.py reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Profile(NamedTuple):
    """One cluster: where it is, how clients are set up for it, whether it is protected; `path` is its file.

    `is_default`: nobody asked for it by name.
    """

    name: str
    path: str
    bootstrap_servers: str | None
    settings: Mapping[str, str]
    is_protected: bool
    cluster: str
    is_default: bool
