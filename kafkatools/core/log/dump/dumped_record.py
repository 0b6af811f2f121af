"""The record type of the segment dump, for all message formats, and decompression with the dump's errors."""

from __future__ import annotations

from dataclasses import dataclass

from kafkatools.core.errors import KafkaError
from kafkatools.core.log.dump.damage import Damage


@dataclass(slots=True)
class DumpedRecord:
    """A record of any message format in the dump. `crc` and `is_valid` are set for magic 0 and 1 only."""

    offset: int
    timestamp: int
    sequence: int
    key: bytes | memoryview | None
    value: bytes | memoryview | None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    crc: int | None = None
    is_valid: bool | None = None
    key_size: int = -1
    value_size: int = -1


def decompressed(codec: int, data: memoryview, magic: int) -> memoryview:
    """Decompress the records of a batch. Raises Damage."""
    from kafkatools.core.log.dump.batch_headers import codec_name
    from kafkatools.core.records.compression import CompressionType, decompress

    name = codec_name(codec)
    try:
        return memoryview(decompress(CompressionType(codec), data, magic=magic))
    except KafkaError as problem:
        raise Damage(f"the {name} data cannot be decompressed: {problem}") from problem
