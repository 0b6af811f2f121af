"""A record as the dump of a segment shows it, whatever its format, and the decompression before it is read."""

from __future__ import annotations

from dataclasses import dataclass

from kafkatools.core.errors import KafkaError
from kafkatools.core.log.dump.damage import Damage


@dataclass(slots=True)
class DumpedRecord:
    """One record as it is shown; `crc` and `is_valid` only for messages of magic 0 and 1."""

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
    """The uncompressed record area; raises Damage."""
    from kafkatools.core.log.dump.batch_headers import codec_name
    from kafkatools.core.records.compression import CompressionType, decompress

    name = codec_name(codec)
    try:
        return memoryview(decompress(CompressionType(codec), data, magic=magic))
    except KafkaError as problem:
        raise Damage(f"the {name} data cannot be decompressed: {problem}") from problem
