"""`kt monitor` with keys on a large cluster: the time of a snapshot, and the time until the screen follows a key, with
10,000 partitions and 1,000 groups of a hundred partitions each.

The broker is the embedded one. The monitor runs on a pseudo-terminal of 80 columns and 24 lines, and a new snapshot
begins every two seconds, so that keys are pressed while snapshots are taken too. A key is answered with the first byte
that the screen gets after it.
"""

from __future__ import annotations

import fcntl
import os
import pathlib
import pty
import re
import select
import statistics
import struct
import subprocess
import termios
import time
from collections.abc import Mapping

from benchmarks import admin, groups, measure, peers

MOVES = 200
PAUSE_S = 0.05
LIMITS_S = {"snapshot": 1.5, "key": 0.1}


def main() -> None:
    """Prints seconds."""
    with peers.scratch() as directory, peers.embedded_broker(directory) as bootstrap:
        admin.make_topics(bootstrap)
        peers.create_topic(bootstrap, "words", partitions=groups.PARTITIONS)
        groups.commit_all(bootstrap)
        _measure(bootstrap)


def _measure(bootstrap: str) -> None:
    screen = Screen(bootstrap)
    screen.wait_for(b"Controller")
    keys = {
        "down in the partitions": ["6", *["j"] * MOVES],
        "sort of the partitions": ["s"] * 10,
        "a letter of a filter": ["/", *"topic"],
        "another view": ["\r", *"3467" * 3],
    }
    for name, pressed in keys.items():
        seconds = [screen.press(key.encode()) for key in pressed]
        _report(f"kt monitor: {name}", seconds, LIMITS_S["key"])
    snapshots = [int(ms) / 1000 for ms in re.findall(rb"in (\d+) ms", screen.seen)]
    _report("kt monitor: a snapshot", snapshots, LIMITS_S["snapshot"])
    measure.report("kt monitor: memory with 100,000 committed offsets", peak_mib=screen.peak_mib())
    screen.end()


def _report(name: str, seconds: list[float], limit_s: float) -> None:
    median, largest = statistics.median(seconds), max(seconds)
    measure.report(
        name, seconds=round(median, 4), largest_s=round(largest, 4), limit_s=limit_s, reached=median <= limit_s
    )


class Screen:
    """`kt monitor` on a terminal."""

    def __init__(self, bootstrap: str) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        environment: Mapping[str, str] = {**os.environ, "TERM": "xterm-256color"}
        self._process = subprocess.Popen(
            [*peers.KT, "monitor", "--bootstrap-server", bootstrap],
            stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        self.seen = b""

    def wait_for(self, text: bytes) -> None:
        """Reads until a text is drawn."""
        while text not in self.seen:
            self._read(60)

    def press(self, key: bytes) -> float:
        """Presses a key when the screen is quiet; the seconds until it changes."""
        while self._read(PAUSE_S):
            pass
        started = time.perf_counter()
        os.write(self._ours, key)
        self._read(60)
        return time.perf_counter() - started

    def peak_mib(self) -> int:
        """The most memory that the process had so far."""
        status = pathlib.Path(f"/proc/{self._process.pid}/status").read_text()
        return next(int(line.split()[1]) >> 10 for line in status.splitlines() if line.startswith("VmHWM"))

    def end(self) -> None:
        """Presses q."""
        os.write(self._ours, b"q")
        while self._process.poll() is None:
            self._read(PAUSE_S)

    def _read(self, timeout_s: float) -> bool:
        if not select.select([self._ours], [], [], timeout_s)[0]:
            return False
        try:
            self.seen += os.read(self._ours, 1 << 16)
        except OSError:  # the end of a terminal
            return False
        return True


if __name__ == "__main__":
    main()
