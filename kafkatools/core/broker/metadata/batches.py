"""Encodes batches of metadata and control records; the feature levels that this release supports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkatools.core.protocol.entities import Entity
from kafkatools.core.protocol.schemas.metadata import encode_record
from kafkatools.core.records.builder import BatchBuilder

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
