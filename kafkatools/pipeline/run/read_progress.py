"""How much of its sources a running query has read, from the plans and reports below its report directory.

Workers of a Python data source cannot use Spark's accumulators. So the planner writes the size of its splits there
(`write_plan`), and a reader writes the report of a split at its end. The name of a report has the range of its split,
so the driver only lists names. This works in local sessions, and on clusters whose executors share the report
directory.

Splits that are being read count nothing until they end, so all figures are lower bounds and the times estimates. A
live topic is measured in offsets, since its bytes are known only when they have been fetched.
"""

from __future__ import annotations

import json
import os
import re
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from kafkatools.core import atomic_file
from kafkatools.pipeline import storage
from kafkatools.pipeline.errors import PipelineError

BYTES, OFFSETS = "bytes", "offsets"
_PLAN_SUFFIX = ".plan"
_RANGE = re.compile(r"-(\d{12,})-(\d{12,})\.json$")
_LOCAL_MS, _REMOTE_MS = 400, 5000


class ReadState(NamedTuple):
    """How much of a total the ended splits have read, in BYTES or OFFSETS, and the seconds since the first plan."""

    done: int
    total: int
    unit: str
    seconds: float

    @property
    def rate(self) -> float | None:
        """Units read per second; None while unknown."""
        return self.done / self.seconds if self.done and self.seconds > 0 else None

    @property
    def remaining_s(self) -> float | None:
        """The estimated seconds until all is read; None while unknown."""
        return (self.total - self.done) / self.rate if self.rate else None


def write_plan(directory: str, ranges: Iterable[tuple[int, int]], unit: str) -> None:
    """Write the total of the planned ranges below a report directory, which may be a URL. A plan that is made again
    replaces the former one. Raises PipelineError if it cannot be written."""
    sizes = sorted(ranges)
    name = f"{zlib.crc32(repr(sizes).encode()):08x}{_PLAN_SUFFIX}"
    data = json.dumps({"total": sum(end - start for start, end in sizes), "unit": unit}).encode()
    path = storage.local_path(directory)
    target = storage.join(path or directory, name)
    try:
        if path is None:
            storage.write_bytes(target, data)
            return
        os.makedirs(path, exist_ok=True)
        atomic_file.replace(target, data)
    except OSError as error:
        raise PipelineError(f"{target} cannot be written: {error.strerror or error}") from error


class ReadProgress:
    """Follows the plans and reports below a directory, which may be a URL. `now_ms` is a monotonic clock."""

    def __init__(self, directory: str, now_ms: Callable[[], int]) -> None:
        self._directory = directory
        self._is_remote = storage.local_path(directory) is None
        self._now_ms = now_ms
        self._plans: dict[str, tuple[int, str]] = {}
        self._since_ms = 0
        self._next_ms = 0
        self._done = 0
        self._is_looking = False

    def state(self) -> ReadState | None:
        """Return what has been read; None if nothing is planned, sources have different units, or the directory
        cannot be read. Lists the directory at most each 0.4 s, that of a URL each 5 s on another thread, since the
        caller keeps others from the terminal and a store may hang."""
        now_ms = self._now_ms()
        if now_ms >= self._next_ms and not self._is_looking:
            self._next_ms = now_ms + (_REMOTE_MS if self._is_remote else _LOCAL_MS)
            self._is_looking = True
            if self._is_remote:
                threading.Thread(target=self._look, args=(now_ms,), name="read-progress", daemon=True).start()
            else:
                self._look(now_ms)
        plans, done = self._plans, self._done
        units = {unit for _, unit in plans.values()}
        if len(units) != 1:
            return None
        total = sum(size for size, _ in plans.values())
        if not total:
            return None
        return ReadState(min(done, total), total, units.pop(), (now_ms - self._since_ms) / 1000)

    def _look(self, now_ms: int) -> None:
        try:
            plans, done = self._listed()
        except Exception:  # noqa: BLE001 - boundary to storages: progress must not end a run
            plans, done = {}, 0
        if not self._plans:
            self._since_ms = now_ms
        self._plans, self._done = plans, done
        self._is_looking = False

    def _listed(self) -> tuple[dict[str, tuple[int, str]], int]:
        """Return the plans in the directory, and what ended splits have read. Plans count as long as they are there:
        the directory of a run is deleted at its end."""
        done, plans = 0, dict[str, tuple[int, str]]()
        for path in storage.files_below(self._directory) if self._is_remote else _local_files(self._directory):
            if (match := _RANGE.search(path)) is not None:
                done += int(match[2]) - int(match[1])
            elif path.endswith(_PLAN_SUFFIX):
                plans[path] = self._plans.get(path) or _read_plan(path)
        return plans, done


def _read_plan(path: str) -> tuple[int, str]:
    plan = json.loads(storage.read_bytes(path) or b"{}")
    return int(plan["total"]), str(plan["unit"])


def _local_files(directory: str) -> Iterator[str]:
    for parent, _, names in os.walk(storage.local_path(directory) or directory):
        yield from (os.path.join(parent, name) for name in names)
