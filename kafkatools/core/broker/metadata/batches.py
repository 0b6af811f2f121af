"""Encodes batches of metadata and control records; the feature levels that this release supports."""

from __future__ import annotations

from collections.abc import Mapping

from kafkatools.core.protocol.entities import Entity

SUPPORTED_FEATURES: Mapping[str, tuple[int, int]] = {
    "group.version": (0, 1),
    "kraft.version": (0, 1),
    "metadata.version": (7, 30),
    "share.version": (0, 1),
    "streams.version": (0, 1),
    "transaction.version": (0, 2),
    "eligible.leader.replicas.version": (0, 1),
}


def encode_batch(records: list[Entity], base_offset: int, leader_epoch: int, wall_ms: int) -> bytes:
    """Encode metadata records as one record batch."""
    from kafkatools.core.protocol.schemas.metadata import encode_record
    from kafkatools.core.records.builder import BatchBuilder

    values = [encode_record(record) for record in records]
    capacity = sum(map(len, values)) + 64 * len(values) + 256
    builder = BatchBuilder(capacity, base_offset=base_offset, partition_leader_epoch=leader_epoch)
    for value in values:
        builder.append(wall_ms, None, value)
    return bytes(builder.close())


def encode_control_batch(record: Entity, base_offset: int, leader_epoch: int, wall_ms: int) -> bytes:
    """Encode a control record as a record batch."""
    from kafkatools.core.protocol.schemas.snapshot import encode_record
    from kafkatools.core.records.builder import BatchBuilder

    key, value = encode_record(record)
    builder = BatchBuilder(1024, base_offset=base_offset, partition_leader_epoch=leader_epoch, is_control=True)
    builder.append(wall_ms, key, value)
    return bytes(builder.close())
