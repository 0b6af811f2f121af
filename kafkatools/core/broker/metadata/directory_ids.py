"""Reserved log directory ids, and the default directory of a new replica.

Source: DirectoryId and ClusterControlManager.defaultDir of Apache Kafka 4.3 (KIP-858). A zero UUID is None here.
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
    """Return whether an id is reserved, so that no log directory may have it."""
    return directory is None or directory.int < _FIRST_FREE


def is_online(directory: uuid.UUID | None, log_dirs: Collection[uuid.UUID]) -> bool:
    """Return whether a replica in `directory` is online on a broker with these log directories. An unknown directory
    and unknown log directories count as online."""
    if directory in (MIGRATING, UNASSIGNED):
        return True
    return directory != LOST and (not log_dirs or directory in log_dirs)


def default_directory(image: MetadataImage, broker_id: int) -> uuid.UUID | None:
    """Return a new replica's directory id: the broker's only directory, MIGRATING if it has none, else UNASSIGNED."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        return UNASSIGNED
    if not broker.log_dirs:
        return MIGRATING
    return broker.log_dirs[0] if len(broker.log_dirs) == 1 else UNASSIGNED
