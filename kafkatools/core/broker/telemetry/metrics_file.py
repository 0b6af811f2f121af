"""The file that gets the metrics that clients push (client.metrics.file): one JSON object a line, one line a push.

Rules: the file is opened for each push, so it can be moved away. Above MAX_BYTES it becomes `<path>.1`, which replaces
an older one. `read_pushes` reads both. Nodes share the file, in one process or several: a node renames it only under an
exclusive lock, and only if it is still the file at the path.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import suppress
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
        if written_bytes < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        if os.fstat(descriptor).st_size > MAX_BYTES:
            _rotate(path, descriptor)
    finally:
        os.close(descriptor)


def _rotate(path: str, descriptor: int) -> None:
    """Rename the open file to `<path>.1`, unless another node renames it or has done so.

    Two nodes open the file, and both writes exceed MAX_BYTES. The first node renames the file and creates a new one. If
    the second one renamed what is at the path, the new file, almost empty, would replace `<path>.1`. The lock, of the
    open file and not of its name, is not waited for: its owner may be a paused node.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    with suppress(FileNotFoundError):
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):
            os.replace(path, f"{path}.1")


def read_pushes(path: str) -> Iterator[Push]:
    """Yield the pushes of a file, the oldest first, without a line that is not complete yet. Nothing without a file.
    Leaves out lines that a full disk cut off: the next push continues such a line. Raises OSError."""
    for part in (f"{path}.1", path):
        if os.path.exists(part):
            with open(part, encoding="utf-8") as file:
                for line in file:
                    if not line.endswith("\n"):
                        break
                    with suppress(json.JSONDecodeError):
                        push: Push = json.loads(line)
                        yield push
