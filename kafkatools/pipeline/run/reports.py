"""Reports of the reader tasks: counts, a checksum and damaged ranges of each split, which Spark rows cannot carry.

A report is a small JSON file below `reportPath`, named after its split and replaced atomically. A task that runs twice
or fails halfway therefore counts once.
"""

from __future__ import annotations

import json
import logging
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field

import numpy as np
import numpy.typing as npt

from kafkatools.core import atomic_file
from kafkatools.core.json_texts import parse_json
from kafkatools.pipeline import storage
from kafkatools.pipeline.errors import PipelineError

_log = logging.getLogger(__name__)
_SUFFIX = ".json"
_MASK = (1 << 64) - 1

# Values of Damage.kind
TRUNCATED = "truncated"
SIZE = "size"
CHECKSUM = "checksum"
MAGIC = "magic"
CODEC = "codec"
RECORDS = "records"

# Values of Damage.unit
BYTE = "byte"
OFFSET = "offset"


@dataclass(frozen=True)
class Damage:
    """A damaged byte range of a log file: position and length in bytes, the reason, and its kind (a constant of this
    module). For a live topic `file` is the partition, `position` the batch's base offset, and `unit` OFFSET."""

    file: str
    position: int
    length: int
    kind: str
    reason: str
    unit: str = BYTE

    def text(self) -> str:
        """Describe the damage in one line: file or partition, position, reason and number of lost bytes."""
        return f"{self.file} at {self.unit} {self.position}: {self.reason} ({self.length} bytes lost)"


@dataclass
class SplitReport:
    """The report of a task on one split. `records` counts rows, `size_bytes` the bytes read, in files with the damaged
    ones. `batches` and `checksum` cover the valid batches that may hold records within the query's bounds, control and
    aborted batches included. `start_offset` is the first offset
    of these batches, `end_offset` the one after their last; for a live topic, those of the split. Offsets of -1 mean
    none."""

    topic: str
    partition: int
    file: str
    start_position: int
    end_position: int
    first_offset: int = -1
    last_offset: int = -1
    records: int = 0
    batches: int = 0
    checksum: int = 0
    start_offset: int = -1
    end_offset: int = -1
    size_bytes: int = 0
    damages: list[Damage] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The file name of the report, derived from the split's topic, partition, file and byte range."""
        file = zlib.crc32(self.file.encode())
        return f"{self.topic}-{self.partition}-{file:08x}-{self.start_position:012d}-{self.end_position:012d}{_SUFFIX}"

    def add_batches(self, base_offsets: npt.NDArray[np.int64], checksums: npt.NDArray[np.int64]) -> None:
        """Count batches and add them to the checksum."""
        self.batches += len(base_offsets)
        self.checksum = (self.checksum + mix_of_batches(base_offsets, checksums)) & _MASK

    def add_range(self, start_offset: int, end_offset: int) -> None:
        """Extend the offset range to include batches from `start_offset` up to, not including, `end_offset`."""
        self.start_offset = start_offset if self.start_offset < 0 else min(self.start_offset, start_offset)
        self.end_offset = max(self.end_offset, end_offset)


def mix_of_batches(base_offsets: npt.NDArray[np.int64], checksums: npt.NDArray[np.int64]) -> int:
    """Return a checksum of batches: the sum modulo 2^64 of a SplitMix64 mix of each base offset and CRC. The sum
    depends neither on the order of the batches nor on their division into splits."""
    hashes = base_offsets.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    hashes ^= checksums.astype(np.uint64) * np.uint64(0xBF58476D1CE4E5B9)
    hashes = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return int((hashes ^ (hashes >> np.uint64(31))).sum(dtype=np.uint64))


def write_report(directory: str, report: SplitReport) -> None:
    """Write a report atomically below a directory, which may be a URL. Raises PipelineError if it cannot be written."""
    data = json.dumps(asdict(report), separators=(",", ":")).encode()
    path = storage.local_path(directory)
    target = storage.join(path or directory, report.name)
    try:
        if path is not None:
            os.makedirs(path, exist_ok=True)
            atomic_file.replace_durably(target, data)
        else:
            storage.write_bytes(target, data)
    except OSError as error:
        raise PipelineError(f"{target} cannot be written: {error.strerror or error}") from error


@contextmanager
def reporting(*, is_required: bool) -> Iterator[None]:
    """Raise a PipelineError of this context only if the query needs its reports; log it as a warning otherwise."""
    try:
        yield
    except PipelineError as error:
        if is_required:
            raise
        _log.warning("%s", error)


def read_reports(directory: str, seen: set[str] | None = None) -> Iterator[SplitReport]:
    """Yield the reports in a directory, sorted by file name; none if the directory does not exist. Reports whose file
    names are in `seen` are skipped, and the names of the others are added to it. Raises PipelineError for a file
    that is not a report or cannot be read."""
    storage.forget_listings(directory)
    if storage.kind_of(directory) is None:
        return
    names = set() if seen is None else seen
    for entry in storage.entries(directory):
        if not entry.name.endswith(_SUFFIX) or entry.name in names:
            continue
        names.add(entry.name)
        url = storage.join(directory, entry.name)
        try:
            fields = parse_json(storage.read_bytes(url) or b"")
            damages = [Damage(**damage) for damage in fields.pop("damages")]
            yield SplitReport(**fields, damages=damages)
        except (ValueError, KeyError, TypeError):
            raise PipelineError(f"{url} is not a report of a reader task") from None
