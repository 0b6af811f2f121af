"""A streaming query from `kt` to `kt` whose driver is killed again and again, and what must hold afterwards."""

from __future__ import annotations

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

from support.kt import run_kt

DRIVER = pathlib.Path(__file__).with_name("sink_driver.py")
PARTITIONS = 3
_PATIENCE_S = 600
_BUSY_MACHINE = "Python worker failed to connect back"  # Spark gives a worker ten seconds to start
_STARTS = 5


class KilledQuery:
    """The query, started, killed and started again; `seed` decides when."""

    def __init__(self, bootstrap: str, directory: pathlib.Path, seed: int) -> None:
        self.bootstrap = bootstrap
        self._directory = directory
        self._random = random.Random(seed)
        self._starts = 0
        self._running: subprocess.Popen[bytes] | None = None
        self.source, self.sink = f"source{seed}", f"sink{seed}"
        for topic in (self.source, self.sink):
            self._kt("topics", "--create", "--topic", topic, "--partitions", str(PARTITIONS))

    def _kt(self, command: str, *options: str, stdin: bytes = b"") -> str:
        ran = run_kt(command, "--bootstrap-server", self.bootstrap, *options, stdin=stdin)
        assert ran.status == 0, ran.err
        return ran.out

    def fill(self, count: int) -> list[str]:
        """Records for the source; what must be in the sink at the end."""
        rows = [f"{number:07d}" for number in range(count)]
        lines = "\n".join(f"k{number % 97}\t{row}" for number, row in enumerate(rows)).encode()
        options = ("--property", "parse.key=true")
        self._kt("console-producer", "--topic", self.source, *options, stdin=lines)
        return rows

    def start(self, records: int, how: str = "forever") -> subprocess.Popen[bytes]:
        self._starts += 1
        checkpoint = str(self._directory / "checkpoint")
        told = self._directory / f"driver{self._starts}.txt"
        arguments = (self.bootstrap, self.source, self.sink, checkpoint, str(records), how)
        with told.open("wb") as errors:
            self._running = subprocess.Popen(
                [sys.executable, str(DRIVER), *arguments],
                env={**os.environ, "PYSPARK_PYTHON": sys.executable},
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )
        return self._running

    def __enter__(self) -> KilledQuery:
        return self

    def __exit__(self, *error: object) -> None:
        """No driver outlives the test."""
        if self._running is not None and self._running.poll() is None:
            os.killpg(self._running.pid, signal.SIGKILL)
            self._running.wait()

    def said(self) -> str:
        """What the last driver said on stderr."""
        return (self._directory / f"driver{self._starts}.txt").read_text(errors="replace")[-4000:]

    def run_and_kill(self, records: int, longest_s: float) -> None:
        """Starts it and kills it at some moment of its work: its JVM, or JVM and Python at once. Its workers live on
        for as long as it takes them to see it."""
        for _ in range(_STARTS):
            driver = self.start(records)
            if self._is_at_work(driver):
                break
        time.sleep(self._random.uniform(0, longest_s))
        java = children_of(driver.pid, "java")
        assert driver.poll() is None, self.said()
        assert java
        if self._random.random() < 0.5:
            for pid in java:
                os.kill(pid, signal.SIGKILL)
        else:
            os.killpg(driver.pid, signal.SIGKILL)
        driver.kill()
        driver.wait()
        _wait_for_the_end(java)

    def _is_at_work(self, driver: subprocess.Popen[bytes]) -> bool:
        """Whether it has committed an epoch: from then on its work goes round. A driver that could not start its
        workers on a busy machine has crashed by itself, which is welcome."""
        before, deadline = self.epochs("commits"), time.monotonic() + _PATIENCE_S
        while self.epochs("commits") <= before:
            if driver.poll() is not None and _BUSY_MACHINE in self.said():
                return False
            assert driver.poll() is None, self.said()
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.02)
        return True

    def finish(self, records: int) -> None:
        """Runs it to the end of the source."""
        for _ in range(_STARTS):
            driver = self.start(records, "once")
            driver.wait(_PATIENCE_S)
            if driver.returncode == 0 or _BUSY_MACHINE not in self.said():
                break
        assert driver.returncode == 0, self.said()

    def epochs(self, log: str = "offsets") -> int:
        """How many epochs Spark has planned, or committed."""
        directory = self._directory / "checkpoint" / log
        return sum(one.name.isdigit() for one in directory.iterdir()) if directory.exists() else 0

    def committed(self) -> list[str]:
        """The values that a reader of committed records sees, sorted."""
        level = ("--isolation-level", "read_committed")
        return sorted(
            self._kt("console-consumer", "--topic", self.sink, "--from-beginning", "--exit-at-end", *level).split()
        )

    def open_transactions(self) -> list[str]:
        """Transactions of the sink that hold readers back."""
        listed = self._kt("transactions", "list", "--json").splitlines()
        found = [json.loads(line) for line in listed]
        return [str(one) for one in found if "Ongoing" in str(one) and "kt-sink-" in str(one)]


def children_of(pid: int, name: str) -> list[int]:
    """The processes of a name below a process."""
    found: list[int] = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            head, _, rest = stat.read_text().rpartition(")")
        except OSError:
            continue
        if int(rest.split()[1]) == pid:
            child = int(head.split(" ", 1)[0])
            found += [child] if name in head else []
            found += children_of(child, name)
    return found


def _wait_for_the_end(pids: list[int]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while any(pathlib.Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
