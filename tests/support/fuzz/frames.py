"""Request frames: headers, bodies by `messages.Maker`, and mutations of the bytes that know nothing of the schema."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from support.fuzz.batches import BatchMaker
from support.fuzz.messages import Maker, Memory
from support.fuzz.stories import step

from kafkatools.core.protocol.api_versions import is_flexible

ODDITIES = (0.0, 0.0, 0.01, 0.05, 0.2, 0.5)
CLIENT_IDS = (b"\0\4fuzz", b"\0\4fuzz", b"\0\4fuzz", b"\xff\xff", b"\0\0", b"\0\16__admin_client")
ODD_CLIENT_IDS = (b"\0\2\xff\xfe", b"\x7f\xff", b"\x80\0", b"\0\4")
ODD_INTS = (b"\x80\0\0\0", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0", b"\0\1\0\0", b"\xff\xff\xff\xff\x0f")
STORIES = 0.15


class FrameMaker:
    """Frames for the APIs of one listener, by key: rows with `lowest`, `highest`."""

    def __init__(self, rng: Random, apis: Mapping[int, Any], memory: Memory | None = None) -> None:
        self.rng = rng
        self.memory = memory or Memory()
        self.batches = BatchMaker(rng)
        self.maker = Maker(rng, self.memory, self.batches.records)
        self.pairs = [(api.key, v) for api in apis.values() for v in range(api.lowest, api.highest + 1)]
        self._keys = list(apis.values())
        self._served = {api.key for api in apis.values()}
        self._last = b""
        self._correlation = 0

    def request(self, api_key: int, version: int, oddity: float = 0.0) -> bytes:
        """A frame without its size prefix."""
        self.maker.oddity = self.batches.oddity = oddity
        body = self.maker.request_body(api_key, version)
        return self.header(api_key, version) + body

    def header(self, api_key: int, version: int) -> bytes:
        """The header of a request."""
        rng = self.rng
        self._correlation = (self._correlation + 1) & 0x7FFFFFFF
        odd = self.maker.is_odd
        client_id = rng.choice(ODD_CLIENT_IDS if odd and rng.random() < 0.3 else CLIENT_IDS)
        flexible = is_flexible(api_key, version) != (odd and rng.random() < 0.3)
        tags = b""
        if flexible:
            tags = b"\1\0\1x" if rng.random() < 0.05 else b"\0"
        return struct.pack(">hhi", api_key, version, self._correlation) + client_id + tags

    def frames(self) -> Sequence[bytes]:
        """The next frames: one of a random API and version, and some of its mutations."""
        rng = self.rng
        if rng.random() < STORIES and (found := step(rng, self.memory, self._served)) is not None:
            self.maker.oddity = 0.0
            return [self.header(*found[:2]) + found[2]]
        if rng.random() < 0.5:
            api_key, version = rng.choice(self.pairs)
        else:
            api = rng.choice(self._keys)
            api_key, version = api.key, rng.randint(api.lowest, api.highest)
        frame = self.request(api_key, version, rng.choice(ODDITIES))
        found = [frame]
        for _ in range(rng.choice((0, 1, 3, 8))):
            found.append(mutated(rng, frame, self._last))
        self._last = frame
        return found


def mutated(rng: Random, frame: bytes, other: bytes) -> bytes:
    """A frame with its bytes changed; the result is a frame of at least 8 bytes."""
    data = bytearray(frame)
    for _ in range(rng.choice((1, 1, 2, 4))):
        _mutate(rng, data, other)
    if len(data) < 8:
        data += bytes(8 - len(data))
    if rng.random() < 0.9:
        data[:4] = frame[:4]  # stay with the API, most times
    return bytes(data)


def _mutate(rng: Random, data: bytearray, other: bytes) -> None:
    kind = rng.randrange(8)
    size = len(data)
    place = rng.randrange(min(8, size), size + 1) if size > 8 else size
    if kind == 0 and place < size:
        data[place] ^= 1 << rng.randrange(8)
    elif kind == 1:
        odd = rng.choice(ODD_INTS)
        data[place : place + len(odd)] = odd
    elif kind == 2:
        del data[place:]
    elif kind == 3:
        data += rng.randbytes(rng.choice((1, 4, 30)))
    elif kind == 4 and other:
        data[place:] = other[rng.randrange(len(other)) :]
    elif kind == 5:
        end = min(size, place + rng.choice((1, 2, 4, 8, 40)))
        data[place:place] = data[place:end]
    elif kind == 6:
        del data[place : place + rng.choice((1, 2, 4, 8))]
    elif place < size:
        data[place] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
