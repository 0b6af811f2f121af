"""Batches of magic 2 made by hand after the protocol's description, and batches read from recorded segments."""

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import crc32c

HEADER = struct.Struct(">qiibIhiqqqhii")
TRANSACTIONAL = 0x10
CONTROL = 0x20
NOW_MS = 1_795_230_000_000


def varint(value: int) -> bytes:
    """A zigzag varint."""
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _bytes(value: bytes | None) -> bytes:
    return varint(-1) if value is None else varint(len(value)) + value


def make_batch(
    values: Sequence[bytes | None] = (b"v",),
    *,
    keys: Sequence[bytes | None] | None = None,
    timestamps: Sequence[int] | None = None,
    base_offset: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    attributes: int = 0,
    leader_epoch: int = -1,
    **header: int,
) -> bytearray:
    """An uncompressed batch; `header` overrides record_count, last_offset_delta, magic, length, crc."""
    keys = [None] * len(values) if keys is None else keys
    times = [NOW_MS] * len(values) if timestamps is None else timestamps
    body = bytearray()
    for number, (key, value, timestamp) in enumerate(zip(keys, values, times, strict=True)):
        record = b"\0" + varint(timestamp - times[0]) + varint(number) + _bytes(key) + _bytes(value) + varint(0)
        body += varint(len(record)) + record
    batch = bytearray(HEADER.size) + body
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        header.get("length", len(batch) - 12),
        leader_epoch,
        header.get("magic", 2),
        0,
        attributes,
        header.get("last_offset_delta", len(values) - 1),
        times[0],
        max(times),
        producer_id,
        producer_epoch,
        base_sequence,
        header.get("record_count", len(values)),
    )
    set_crc(batch)
    if "crc" in header:
        struct.pack_into(">I", batch, 17, header["crc"])
    return batch


def set_crc(batch: bytearray) -> None:
    """Write the checksum of the batch as it is."""
    struct.pack_into(">I", batch, 17, crc32c.crc32c(bytes(batch[21:])))


def make_marker(producer_id: int, producer_epoch: int, *, commit: bool, coordinator_epoch: int = 0) -> bytearray:
    """A control batch that ends a transaction."""
    return make_batch(
        [struct.pack(">hi", 0, coordinator_epoch)],
        keys=[struct.pack(">hh", 0, 1 if commit else 0)],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        attributes=TRANSACTIONAL | CONTROL,
    )


def emptied(batch: bytes | bytearray) -> bytearray:
    """The batch without its records, as the cleaner leaves it."""
    header = bytearray(batch[: HEADER.size])
    struct.pack_into(">i", header, 8, HEADER.size - 12)
    struct.pack_into(">i", header, 57, 0)
    set_crc(header)
    return header


def split_batches(data: bytes) -> Iterator[bytearray]:
    """The batches of a segment."""
    position = 0
    while position < len(data):
        size = struct.unpack_from(">i", data, position + 8)[0] + 12
        yield bytearray(data[position : position + size])
        position += size


def read_log(directory: Path) -> Iterator[bytearray]:
    """All batches of a recorded log in order."""
    for path in sorted(directory.glob("*.log")):
        yield from split_batches(path.read_bytes())


def contents(directory: Path) -> dict[str, bytes]:
    """Every file of a directory by name."""
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}
