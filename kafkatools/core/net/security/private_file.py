"""A file for a TLS library that reads only files."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator


@contextlib.contextmanager
def private_file(data: bytes) -> Iterator[str]:
    """The path of a file with this content that no other user can read: in memory if possible, else a temporary
    file."""
    if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
        descriptor = os.memfd_create("kafkatools-key")
        try:
            os.write(descriptor, data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    import tempfile  # imported late: it takes 10 ms

    descriptor, path = tempfile.mkstemp(prefix="kafkatools-key-")
    try:
        os.write(descriptor, data)
        yield path
    finally:
        os.close(descriptor)
        os.unlink(path)
