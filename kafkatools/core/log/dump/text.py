"""Format the parts of the dump's lines, word for word as Apache Kafka's tool."""

from __future__ import annotations

from kafkatools.core.java.text import java_boolean, java_string, optional_long
from kafkatools.core.log.dump.batch_headers import Header, V2Header, codec_name
from kafkatools.core.log.dump.dumped_record import DumpedRecord


def batch_start(header: Header) -> str:
    """Return the first half of a batch's line, which is printed before the compression type is checked."""
    if not isinstance(header, V2Header):
        return f"offset: {header.offset}"
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.record_count} "
        f"baseSequence: {header.base_sequence} lastSequence: {header.last_sequence} "
        f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
        f"partitionLeaderEpoch: {header.partition_leader_epoch} "
        f"isTransactional: {java_boolean(header.is_transactional)} isControl: {java_boolean(header.is_control)} "
        f"deleteHorizonMs: {optional_long(header.delete_horizon_ms)}"
    )


def batch_end(header: Header) -> str:
    """Return the second half of a batch's line. Raises Damage for an unknown compression type."""
    return (
        f" position: {header.position} {header.timestamp_type}: {header.max_timestamp} size: {header.size_bytes} "
        f"magic: {header.magic} compresscodec: {codec_name(header.codec)} crc: {header.crc} "
        f"isvalid: {java_boolean(header.is_valid)}\n"
    )


def record_metadata(header: Header, record: DumpedRecord) -> str:
    """Return a record's line up to its key and value."""
    shown = (
        f"| offset: {record.offset} {header.timestamp_type}: {record.timestamp} "
        f"keySize: {record.key_size} valueSize: {record.value_size}"
    )
    if isinstance(header, V2Header):
        names = ",".join(java_string(name) for name, _ in record.headers)
        return f"{shown} sequence: {record.sequence} headerKeys: [{names}]"
    return f"{shown} isValid: {java_boolean(bool(record.is_valid))} crc: {record.crc}"


def record_contents(key: str | None, value: str | None, prefix: str) -> str:
    """Return the text of a record's key and value, each only if it is not None."""
    shown = ""
    if key is not None:
        shown = f"{prefix}key: {key}"
        prefix = " "
    if value is not None:
        shown += f"{prefix}payload: {value}"
    return shown
