"""Memory for the receive buffers of connections.

A large buffer is mapped once for the largest request and grows without a copy, since copying 64 MiB would block the
broker for 100 ms. The system provides its pages when bytes arrive in them, so memory grows with the bytes that arrived.
"""

from __future__ import annotations

import contextlib
import mmap

MIN_MAPPED_BYTES = 4 * 1024 * 1024
Memory = bytearray | mmap.mmap


def allocated(capacity: int, most_bytes: int) -> Memory:
    """Allocate a buffer of at least `capacity` bytes. A large one is mapped with `most_bytes`, or is a bytearray of
    `capacity` if the system refuses to map it."""
    if MIN_MAPPED_BYTES <= capacity <= most_bytes:
        with contextlib.suppress(OSError, ValueError):  # a limit of the address space (ulimit -v)
            return mmap.mmap(-1, most_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return bytearray(capacity)


def can_grow(memory: Memory, capacity: int) -> bool:
    """Return whether a buffer is mapped, and `capacity` is a size for mapped buffers that fits into it."""
    return isinstance(memory, mmap.mmap) and MIN_MAPPED_BYTES <= capacity <= len(memory)
