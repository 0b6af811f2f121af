"""Read the batches of an object in pieces of whole batches."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from kafkatools.core.records.header import whole_batches_bytes
from kafkatools.core.records.layout import LOG_OVERHEAD
from kafkatools.tools.backup.store import Store

_PIECE_BYTES = 4 << 20
_LENGTH = struct.Struct(">i")


def read_pieces(store: Store, name: str) -> Iterator[memoryview]:
    """Yield the content of an object in pieces of whole batches, about 4 MiB or one batch each. The last piece may end
    with a partial batch or other bytes that are none. Raises CommandError."""
    rest = b""
    with store.open(name) as file:
        while data := file.read(max(_PIECE_BYTES, _missing(rest))):
            data = rest + data
            size = whole_batches_bytes(data)
            if size:
                yield memoryview(data)[:size]
            rest = data[size:]
            if not size and not _may_grow(rest):
                break
        else:
            if rest:
                yield memoryview(rest)
            return
        yield memoryview(rest + file.read())


def _missing(rest: bytes) -> int:
    """Return the number of bytes that the batch at the start of `rest` lacks."""
    if len(rest) < LOG_OVERHEAD:
        return 0
    return int(_LENGTH.unpack_from(rest, 8)[0]) + LOG_OVERHEAD - len(rest)


def _may_grow(rest: bytes) -> bool:
    """Return whether more bytes can complete the batch at the start of `rest`."""
    return len(rest) < LOG_OVERHEAD or _missing(rest) > 0
