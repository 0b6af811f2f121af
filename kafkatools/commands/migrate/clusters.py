"""The two clusters of kt migrate."""

from __future__ import annotations

from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient


class Clusters(NamedTuple):
    """The clients of source and target, and the id of the source."""

    source: AdminClient
    target: AdminClient
    source_id: str
