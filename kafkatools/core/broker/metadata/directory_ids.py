"""Ids of log directories that stand for something else than a directory, and where a replica is by default.

Source: DirectoryId, ClusterControlManager.defaultDir of Apache Kafka 4.3 (KIP-858). A zero uuid is None here.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection

from kafkatools.core.broker.metadata.image import MetadataImage

MIGRATING: uuid.UUID | None = None
UNASSIGNED = uuid.UUID(int=1)
LOST = uuid.UUID(int=2)
_FIRST_FREE = 100


def is_reserved(directory: uuid.UUID | None) -> bool:
    """Whether no directory may have this id."""
    return directory is None or directory.int < _FIRST_FREE


def is_online(directory: uuid.UUID | None, log_dirs: Collection[uuid.UUID]) -> bool:
    """Whether a replica there can be used, when a broker has these directories: also when nobody knows yet where it
    is, or which directories the broker has."""
    if directory in (MIGRATING, UNASSIGNED):
        return True
    return directory != LOST and (not log_dirs or directory in log_dirs)


def default_directory(image: MetadataImage, broker_id: int) -> uuid.UUID | None:
    """Where a new replica of a broker is: in its only directory, or it will say where."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        return UNASSIGNED
    if not broker.log_dirs:
        return MIGRATING
    return broker.log_dirs[0] if len(broker.log_dirs) == 1 else UNASSIGNED
