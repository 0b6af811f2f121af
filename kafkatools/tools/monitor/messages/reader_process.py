"""The process that reads records for one request: the request as JSON on stdin, replies as lines of JSON on stdout.

A process of its own can be ended at any time: a regular expression may need years for one record, and the client may
be gone. It also keeps large batches out of the monitor's memory. A line has `progress`, and the last one `result`, or
`error` with an HTTP `status`.
"""

from __future__ import annotations

import os
import sys

from kafkatools.core.clock import SystemClock
from kafkatools.core.secrets import redacted, remember, secrets_of
from kafkatools.output import json_line
from kafkatools.tools.monitor.messages.reading import read_messages, status_of
from kafkatools.tools.monitor.messages.request import from_json

_STDOUT = 1
_PROGRESS_MS = 500


def main() -> None:
    """Carry out one request."""
    source, request = from_json(sys.stdin.buffer.read())
    clock = SystemClock()
    remember(*secrets_of(dict(source.settings)))
    reported_ms = clock.now_ms()

    def report(progress: dict[str, object]) -> None:
        nonlocal reported_ms
        if clock.now_ms() - reported_ms >= _PROGRESS_MS:
            reported_ms = clock.now_ms()
            _write({"progress": progress})

    try:
        _write({"result": read_messages(source, request, clock, report)})
    except Exception as error:  # noqa: BLE001 - the boundary of a process
        status, message = status_of(error)
        _write({"error": redacted(message), "status": status})


def _write(line: dict[str, object]) -> None:
    data = memoryview(json_line(line).encode() + b"\n")
    while data:
        data = data[os.write(_STDOUT, data) :]


if __name__ == "__main__":
    main()
