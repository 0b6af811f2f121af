"""A partition of a fetch: the requested position and the result."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kafkatools.core.broker.replicas.partition import EpochEnd
from kafkatools.core.log.partition.log_results import LogSlice

NONE = 0
INLINE_BYTES = 4096
"""Records up to this size are copied into a response; larger ones go from the file to the socket."""


@dataclass(slots=True)
class FetchPartition:
    """The requested position of one partition, which is named by topic name or topic id."""

    topic: str | None
    topic_id: uuid.UUID | None
    index: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: int = -1


class CopiedRecords:
    """Records that were copied out of the log when they were read."""

    __slots__ = ("_data", "size_bytes")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size_bytes = len(data)

    def read(self) -> bytes:
        """Return the bytes of the record batches."""
        return self._data


@dataclass(slots=True)
class FetchedPartition:
    """The result of reading one partition. Offsets are -1 when unknown; `aborted` has (producer id, first offset)."""

    error_code: int = NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: Sequence[tuple[int, int]] | None = None
    records: LogSlice | CopiedRecords | None = None
    diverging: EpochEnd | None = None
    preferred_read_replica: int = -1
    current_leader: tuple[int, int] | None = None

    @property
    def size_bytes(self) -> int:
        """The size of the records in bytes, 0 without records."""
        return 0 if self.records is None else self.records.size_bytes


class Reader(NamedTuple):
    """The client of a consumer fetch. A client that sends its rack may also read from followers (KIP-392)."""

    isolation_level: int
    rack_id: str = ""
    is_leader_only: bool = False
