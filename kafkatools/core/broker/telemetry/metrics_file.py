"""The file that gets the metrics that clients push (client.metrics.file): one JSON object a line, one line a push.

Rules: the file is opened for each push, so it can be moved away. Above MAX_BYTES it becomes `<path>.1`, which replaces
an older one. `read_pushes` reads both.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from typing import TypedDict

from kafkatools.core.broker.telemetry.otlp import Attributes, Metric

MAX_BYTES = 64 << 20


class Push(TypedDict):
    """The metrics of one push, and its client."""

    time_ms: int
    client_instance_id: str
    client_id: str
    software: str
    principal: str
    address: str
    terminating: bool
    resource: Attributes
    metrics: list[Metric]


def append_push(path: str, push: Push) -> None:
    """Append a push by one write, as nodes of a cluster may share the file. Raises OSError."""
    line = (json.dumps(push) + "\n").encode()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        written_bytes = os.write(descriptor, line)
        size_bytes = os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)
    if written_bytes < len(line):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
    if size_bytes > MAX_BYTES:
        os.replace(path, f"{path}.1")


def read_pushes(path: str) -> Iterator[Push]:
    """Yield the pushes of a file, the oldest first; a line that is not complete yet ends them. Nothing without a file.
    Raises OSError."""
    for part in (f"{path}.1", path):
        if os.path.exists(part):
            with open(part, encoding="utf-8") as file:
                for line in file:
                    if not line.endswith("\n"):
                        return
                    push: Push = json.loads(line)
                    yield push
