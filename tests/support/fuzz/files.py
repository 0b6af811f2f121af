"""Files of a broker's directory with bytes changed: what `kt dump-log` and the start of a broker make of them.

`kt dump-log` ends with a documented status and no traceback; a broker starts, or says in an error why it does
not. Neither takes more than `SLOW_MS` of processor time, whatever sizes and counts the bytes claim.
"""

from __future__ import annotations

import pathlib
import time
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from support.crash.broker import WALL_MS, Broker
from support.crash.course import Course
from support.crash.disk import EVERYTHING, PowerDisk
from support.fuzz.answers import Finding
from support.fuzz.batches import BatchMaker, legacy
from support.fuzz.frames import mutated
from support.kt import run_kt
from support.manual_clock import ManualClock

from kafkatools.core.errors import KafkaError
from kafkatools.exit_status import ExitStatus

SLOW_MS = 2_000
DIRECTORY = "/kt-fuzz"
DOCUMENTED = (ExitStatus.OK, ExitStatus.FAILED, ExitStatus.FINDINGS)
OPTIONS = (
    (),
    ("--print-data-log",),
    ("--deep-iteration",),
    ("--json",),
    ("--json", "--print-data-log"),
    ("--offsets-decoder",),
    ("--transaction-log-decoder",),
    ("--cluster-metadata-decoder",),
    ("--share-group-state-decoder", "--json"),
    ("--salvage",),
    ("--stop-at-damage",),
    ("--verify-index-only",),
    ("--index-sanity-check",),
    ("--value-decoder-class", "IntegerDecoder", "--print-data-log"),
)
SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint")


class Case(NamedTuple):
    """A file and how it is looked at."""

    name: str
    data: bytes
    options: tuple[str, ...]


def disk_of_a_course(seed: str, directory: str) -> PowerDisk:
    """The disk of a broker that was stopped."""
    course = Course(seed, "none", directory)
    course.run(50, lambda kind, path: None)
    course.broker.stop()
    return course.disk.after_power_loss(EVERYTHING, Random(0))


def all_files(disk: PowerDisk, directory: str) -> Iterator[str]:
    """The paths of all files below a directory."""
    for entry in disk.list_directory(directory):
        path = f"{directory}/{entry.name}"
        if entry.is_directory:
            yield from all_files(disk, path)
        else:
            yield path


class FileMaker:
    """Files for dump-log: those of a broker and made ones, changed."""

    def __init__(self, rng: Random, disk: PowerDisk, directory: str) -> None:
        self.rng = rng
        self.batches = BatchMaker(rng)
        self.known = [
            (path.rsplit("/", 1)[1], disk.read_bytes(path))
            for path in all_files(disk, directory)
            if path.endswith(SUFFIXES)
        ]

    def case(self) -> Case:
        """The next file."""
        rng = self.rng
        name, data = self._made() if rng.random() < 0.5 else rng.choice(self.known)
        if rng.random() < 0.9:
            head = rng.randrange(8) if rng.random() < 0.3 else 8  # mutations leave the first 8 bytes alone
            data = data[:0] + mutated(rng, bytes(8) + data[8 - head :], rng.choice(self.known)[1])[8:]
        return Case(name, data, rng.choice(OPTIONS))

    def _made(self) -> tuple[str, bytes]:
        rng = self.rng
        self.batches.oddity = rng.choice((0.0, 0.05, 0.3))
        parts = [legacy(rng) if rng.random() < 0.2 else self.batches.batch() for _ in range(rng.choice((1, 2, 5)))]
        return f"{rng.choice((0, 0, 5, 2**31)):020d}.log", b"".join(parts)


def dump(case: Case, directory: pathlib.Path) -> None:
    """Look at a file. Raises Finding."""
    path = directory / case.name
    path.write_bytes(case.data)
    begun = time.process_time()
    try:
        ran = run_kt("dump-log", "--files", str(path), *case.options)
    except Exception as error:
        raise Finding(f"dump-log {' '.join(case.options)} raised {type(error).__name__}: {error}") from error
    finally:
        path.unlink()
    took_ms = (time.process_time() - begun) * 1000
    if ran.status not in DOCUMENTED or any(word in ran.err for word in ("Traceback", "internal error", '"INTERNAL"')):
        raise Finding(f"dump-log {' '.join(case.options)} ended with {ran.status}: {ran.err[-400:]}")
    if took_ms > SLOW_MS:
        raise Finding(f"dump-log {' '.join(case.options)} took {took_ms:.0f} ms for {len(case.data)} bytes")


class Opened(NamedTuple):
    """The outcome of a broker's start."""

    path: str
    data: bytes
    refusal: str | None


def open_changed(disk: PowerDisk, directory: str, rng: Random) -> Opened:
    """Change one file of a stopped broker and start it. Raises Finding."""
    copy = disk.after_power_loss(EVERYTHING, rng)
    path = rng.choice(sorted(all_files(copy, directory)))
    before = copy.read_bytes(path)
    changed = mutated(rng, bytes(8) + before, before)[8:]
    copy.write_bytes(path, changed, sync=True)
    if rng.random() < 0.3:
        copy.remove(f"{directory}/.kafka_cleanshutdown")
    begun = time.process_time()
    refusal: str | None = None
    try:
        broker = Broker(copy, directory, "none", rng, ManualClock(wall_ms=WALL_MS + 1000))
        broker.settle()
        broker.abandon()
    except (KafkaError, OSError) as error:
        refusal = f"{type(error).__name__}: {error}"
    except Exception as error:
        raise Finding(f"with {path} changed the broker raised {type(error).__name__}: {error}") from error
    took_ms = (time.process_time() - begun) * 1000
    if took_ms > SLOW_MS:
        raise Finding(f"with {path} changed the start took {took_ms:.0f} ms")
    return Opened(path, changed, refusal)
