"""A new log directory as `kafka-storage format` makes it: meta.properties and bootstrap.checkpoint (Kafka's Formatter).

The bootstrap checkpoint is a snapshot of offset 0: a header, the feature levels of the release, a footer. Feature levels are those of Apache Kafka 4.3.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from kafkatools.core.broker.controller.ids import random_id, to_text
from kafkatools.core.log.checkpoints import write_meta_properties
from kafkatools.core.log.filenames import META_PROPERTIES
from kafkatools.core.log.files import FileSystem

METADATA_VERSION = 30
FEATURES: Mapping[str, int] = {
    "metadata.version": METADATA_VERSION,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}
SUPPORTED_FEATURES: Mapping[str, tuple[int, int]] = {
    "group.version": (0, 1),
    "kraft.version": (0, 1),
    "metadata.version": (7, METADATA_VERSION),
    "share.version": (0, 1),
    "streams.version": (0, 1),
    "transaction.version": (0, 2),
    "eligible.leader.replicas.version": (0, 1),
}
BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"


def bootstrap_records() -> list[Any]:
    """The feature levels a new cluster starts from."""
    from kafkatools.core.protocol.schemas.metadata import FeatureLevelRecord

    return [FeatureLevelRecord(name=name, feature_level=level) for name, level in FEATURES.items()]


def encode_batch(records: list[Any], base_offset: int, leader_epoch: int, wall_ms: int) -> bytes:
    """A batch of metadata records."""
    from kafkatools.core.protocol.schemas.metadata import encode_record
    from kafkatools.core.records.builder import BatchBuilder

    values = [encode_record(record) for record in records]
    capacity = sum(map(len, values)) + 64 * len(values) + 256
    builder = BatchBuilder(capacity, base_offset=base_offset, partition_leader_epoch=leader_epoch)
    for value in values:
        builder.append(wall_ms, None, value)
    return bytes(builder.close())


def encode_control_batch(record: Any, base_offset: int, leader_epoch: int, wall_ms: int) -> bytes:
    """A batch of one control record."""
    from kafkatools.core.protocol.schemas.snapshot import encode_record
    from kafkatools.core.records.builder import BatchBuilder

    key, value = encode_record(record)
    builder = BatchBuilder(1024, base_offset=base_offset, partition_leader_epoch=leader_epoch, is_control=True)
    builder.append(wall_ms, key, value)
    return bytes(builder.close())


def encode_snapshot(records: list[Any], leader_epoch: int, wall_ms: int) -> bytes:
    """A snapshot file: header, records, footer, numbered from 0."""
    from kafkatools.core.protocol.schemas.snapshot import SnapshotFooterRecord, SnapshotHeaderRecord

    header = encode_control_batch(SnapshotHeaderRecord(last_contained_log_timestamp=wall_ms), 0, leader_epoch, wall_ms)
    body = encode_batch(records, 1, leader_epoch, wall_ms)
    footer = encode_control_batch(SnapshotFooterRecord(), 1 + len(records), leader_epoch, wall_ms)
    return header + body + footer


def format_directory(files: FileSystem, directory: str, node_id: int, cluster_id: str, wall_ms: int) -> uuid.UUID:
    """Make `directory` ready for a node; gives the directory's id."""
    files.make_directory(directory)
    directory_id = random_id()
    files.write_bytes(f"{directory}/{BOOTSTRAP_CHECKPOINT}", encode_snapshot(bootstrap_records(), 0, wall_ms), sync=False)
    properties = {"node.id": str(node_id), "directory.id": to_text(directory_id), "version": "1", "cluster.id": cluster_id}
    write_meta_properties(files, f"{directory}/{META_PROPERTIES}", properties, wall_ms)
    return directory_id
