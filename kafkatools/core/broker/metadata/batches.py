"""Encodes batches of metadata and control records; the feature levels that this release supports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kafkatools.core.protocol.entities import Entity
from kafkatools.core.protocol.schemas.metadata import encode_record
from kafkatools.core.protocol.slices import paced
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.core.records.layout import LEADER_EPOCH_STAMP, LOG_OVERHEAD

FIRST_CAPACITY_BYTES = 64 * 1024

SUPPORTED_FEATURES: Mapping[str, tuple[int, int]] = {
    "group.version": (0, 1),
    "kraft.version": (0, 1),
    "metadata.version": (7, 30),
    "share.version": (0, 1),
    "streams.version": (0, 1),
    "transaction.version": (0, 2),
    "eligible.leader.replicas.version": (0, 1),
}


def encode_batch(records: Sequence[Entity], base_offset: int, leader_epoch: int, wall_ms: int) -> bytes:
    """Encode metadata records as one record batch."""
    pairs = [(None, encode_record(record)) for record in records]
    return _encode(pairs, base_offset, leader_epoch, wall_ms, is_control=False)


class EncodedBatch:
    """Metadata records, encoded as one record batch before its offset and leader epoch are known."""

    def __init__(self, records: Iterable[Entity], wall_ms: int) -> None:
        """Encode the records, and call the thread's pause in between (`paced`)."""
        builder = BatchBuilder(FIRST_CAPACITY_BYTES)
        for record in paced(records):
            builder.append(wall_ms, None, encode_record(record))
        self._batch = bytearray(builder.close())

    def at(self, base_offset: int, leader_epoch: int) -> bytearray:
        """Return the batch with this offset of its first record and this leader epoch. The checksum covers neither."""
        LEADER_EPOCH_STAMP.pack_into(self._batch, 0, base_offset, len(self._batch) - LOG_OVERHEAD, leader_epoch)
        return self._batch


def encode_control_batch(
    records: Sequence[tuple[bytes, bytes]], base_offset: int, leader_epoch: int, wall_ms: int
) -> bytes:
    """Encode control records, as (key, value), as one record batch."""
    return _encode(records, base_offset, leader_epoch, wall_ms, is_control=True)


def _encode(
    pairs: Sequence[tuple[bytes | None, bytes]], base_offset: int, leader_epoch: int, wall_ms: int, *, is_control: bool
) -> bytes:
    capacity = 256 + sum(len(key or b"") + len(value) + 64 for key, value in pairs)
    builder = BatchBuilder(
        capacity, base_offset=base_offset, partition_leader_epoch=leader_epoch, is_control=is_control
    )
    for key, value in pairs:
        builder.append(wall_ms, key, value)
    return bytes(builder.close())
