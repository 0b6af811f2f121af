"""Record batches for produce requests and segments: right ones, and those with one thing or more wrong."""

from __future__ import annotations

import struct
from random import Random

import crc32c

from kafkatools.core.records.compression import compress
from tests.support.log_batches import HEADER, NOW_MS, varint

CODECS = 5
_FIELDS = (
    (0, ">q", (0, 1, -1, 2**63 - 1, -(2**63), 2**62)),
    (8, ">i", (0, -1, 13, 49, 48, 2**31 - 1, -(2**31))),
    (12, ">i", (0, -1, 5, 2**31 - 1)),
    (16, ">b", (0, 1, 2, 3, -1, 127)),
    (17, ">I", (0, 2**32 - 1)),
    (21, ">h", (0, 5, 6, 7, 8, 0x10, 0x20, 0x30, 0x40, 0x78, 0x7FFF, -1)),
    (23, ">i", (0, 1, -1, 2**31 - 1, -(2**31))),
    (27, ">q", (0, -1, 2**63 - 1, -(2**63), 253402300800000)),
    (35, ">q", (0, -1, 2**63 - 1, -(2**63), 253402300800000)),
    (43, ">q", (0, -1, 1, 2**63 - 1, -(2**63))),
    (51, ">h", (0, -1, 1, 32767, -32768)),
    (53, ">i", (0, -1, 1, 2**31 - 1, -(2**31))),
    (57, ">i", (0, -1, 1, 2, 1000, 2**31 - 1, -(2**31))),
)
_ODD_VARINTS = (
    b"\xff\xff\xff\xff\x0f",
    b"\xfe\xff\xff\xff\x0f",
    b"\xff" * 9 + b"\1",
    b"\xff" * 10,
    b"\x80\x80\x80\x80\x80\x01",
    b"\x01",
    b"\x03",
    b"\x7f",
    b"\xfe\x01",
)


class BatchMaker:
    """Batches of magic 2. `oddity` is the probability that a place is wrong."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.oddity = 0.0
        self.producer_ids: list[tuple[int, int]] = [(1, 0)]
        self._sequences: dict[tuple[int, int], int] = {}

    def records(self) -> bytes | None:
        """The content of a records field: nothing, one batch, several, or bytes that are none."""
        rng = self.rng
        kind = rng.random()
        if kind < 0.02:
            return None
        if kind < 0.04:
            return rng.randbytes(rng.choice((0, 1, 12, 17, 61, 100)))
        if kind < 0.06:
            return legacy(rng)
        batch = self.batch()
        return batch + self.batch() if kind < 0.09 else batch

    def _varint(self, value: int) -> bytes:
        if self.rng.random() < self.oddity / 3:
            return self.rng.choice(_ODD_VARINTS)
        return varint(value)

    def _bytes(self, value: bytes | None) -> bytes:
        return self._varint(-1) if value is None else self._varint(len(value)) + value

    def _record(self, number: int) -> bytes:
        rng = self.rng
        headers = b"".join(
            self._bytes(b"h" * rng.randrange(4)) + self._bytes(None) for _ in range(rng.choice((0, 0, 2)))
        )
        body = bytearray(b"\0")
        body += self._varint(rng.choice((0, 1, -1, number)))
        body += self._varint(number)
        body += self._bytes(rng.choice((None, b"", b"key-%d" % rng.randrange(5))))
        body += self._bytes(rng.choice((None, b"value", b"v" * rng.choice((10, 300)))))
        body += self._varint(len(headers) // 2 if headers and self.oddity else (2 if headers else 0)) + headers
        return self._varint(len(body)) + bytes(body)

    def _attributes(self) -> int:
        rng = self.rng
        attributes = rng.randrange(CODECS)
        for flag in (0x08, 0x10, 0x20, 0x40):
            if rng.random() < (0.08 if flag == 0x10 else self.oddity / 4):
                attributes |= flag
        return attributes

    def _producer(self, count: int) -> tuple[int, int, int]:
        rng = self.rng
        if rng.random() < 0.6:
            return -1, -1, -1
        producer = rng.choice(self.producer_ids)
        sequence = self._sequences.get(producer, 0)
        if rng.random() < 0.2:
            sequence = rng.choice((0, max(0, sequence - count), sequence + 1, 2**31 - 1))
        else:
            self._sequences[producer] = sequence + count
        return *producer, sequence & 0x7FFFFFFF

    def batch(self) -> bytes:
        """One batch."""
        rng = self.rng
        count = rng.choice((1, 1, 2, 5))
        body = b"".join(self._record(number) for number in range(count))
        attributes = self._attributes()
        if attributes & 7 < CODECS:
            body = compress(attributes & 7, body)
        if rng.random() < self.oddity:
            body = self._damaged(body)
        producer_id, epoch, sequence = self._producer(count)
        batch = bytearray(HEADER.size) + body
        HEADER.pack_into(
            batch,
            0,
            0,
            len(batch) - 12,
            -1,
            2,
            0,
            attributes,
            count - 1,
            NOW_MS,
            NOW_MS,
            producer_id,
            epoch,
            sequence,
            count,
        )
        odd_crc = False
        while rng.random() < self.oddity:
            position, layout, values = rng.choice(_FIELDS)
            struct.pack_into(layout, batch, position, rng.choice(values))
            odd_crc = odd_crc or position == 17
        if not odd_crc:
            struct.pack_into(">I", batch, 17, crc32c.crc32c(bytes(batch[21:])))
        return bytes(batch)

    def _damaged(self, body: bytes) -> bytes:
        rng = self.rng
        data = bytearray(body)
        for _ in range(rng.choice((1, 1, 3))):
            kind = rng.randrange(4)
            if kind == 0 and data:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            elif kind == 1:
                del data[rng.randrange(len(data) + 1) :]
            elif kind == 2:
                data += rng.randbytes(rng.choice((1, 4, 20)))
            elif data:
                data[rng.randrange(len(data)) :][:1] = b"\xff"
        return bytes(data)


def legacy(rng: Random) -> bytes:
    """A message of magic 0 or 1."""
    magic = rng.randrange(2)
    body = struct.pack(">bb", magic, rng.choice((0, 0, 1, 2, 3, 4, 7)))
    if magic:
        body += struct.pack(">q", NOW_MS)
    body += struct.pack(">i", -1) + struct.pack(">i", 5) + b"value"
    import zlib

    message = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", 0, len(message)) + message
