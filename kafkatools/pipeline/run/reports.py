"""What a task tells of its part of a log besides the rows: counts, a checksum, and what could not be read.

A report is a small JSON file below `reportPath`, named after its split: it is written beside and renamed, so that
a task that runs twice, or half, counts once.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

import numpy as np
import numpy.typing as npt

from kafkatools.core import atomic_file
from kafkatools.pipeline import storage
from kafkatools.pipeline.errors import PipelineError

_SUFFIX = ".json"
_MASK = (1 << 64) - 1

# Kinds of damage.
TRUNCATED = "truncated"
SIZE = "size"
CHECKSUM = "checksum"
MAGIC = "magic"
CODEC = "codec"
RECORDS = "records"


@dataclass(frozen=True)
class Damage:
    """A range of a file that could not be read, and why; `kind` is one of this module's."""

    file: str
    position: int
    length: int
    kind: str
    reason: str

    def text(self) -> str:
        return f"{self.file} at byte {self.position}: {self.reason} ({self.length} bytes lost)"


@dataclass
class SplitReport:
    """What was read of one split. `records` are rows; `batches` and `checksum` are of the sound batches within the
    bounds, control batches and aborted ones too, which lie from `start_offset` to before `end_offset`.
    """

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
    damages: list[Damage] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of the report's file: that of the split."""
        place = zlib.crc32(self.file.encode())
        return f"{self.topic}-{self.partition}-{place:08x}-{self.start_position:012d}-{self.end_position:012d}{_SUFFIX}"

    def add_batches(self, base_offsets: npt.NDArray[np.int64], checksums: npt.NDArray[np.int64]) -> None:
        """Counts batches and mixes them into the checksum."""
        self.batches += len(base_offsets)
        self.checksum = (self.checksum + mix_of_batches(base_offsets, checksums)) & _MASK

    def add_range(self, start_offset: int, end_offset: int) -> None:
        """Batches lie within these offsets, too."""
        self.start_offset = start_offset if self.start_offset < 0 else min(self.start_offset, start_offset)
        self.end_offset = max(self.end_offset, end_offset)


def mix_of_batches(base_offsets: npt.NDArray[np.int64], checksums: npt.NDArray[np.int64]) -> int:
    """The sum modulo 2^64 of a mix (SplitMix64's) of each batch's base offset and CRC: it depends neither on the order
    nor on how the batches were split.
    """
    mixed = base_offsets.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= checksums.astype(np.uint64) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return int((mixed ^ (mixed >> np.uint64(31))).sum(dtype=np.uint64))


def write_report(directory: str, report: SplitReport) -> None:
    """Puts a report below a directory, whole or not at all. Raises PipelineError when it cannot be written."""
    text = json.dumps(asdict(report), separators=(",", ":"))
    path = storage.local_path(directory)
    target = storage.join(path or directory, report.name)
    try:
        if path is None:
            _write_remote(target, text)
            return
        os.makedirs(path, exist_ok=True)
        atomic_file.replace_durably(target, text.encode())
    except OSError as error:
        raise PipelineError(f"{target} cannot be written: {error.strerror or error}") from error


def _write_remote(target: str, text: str) -> None:
    """An object appears as a whole when it is put."""
    from fsspec.core import url_to_fs

    system, inner = url_to_fs(target)
    system.pipe_file(inner, text.encode())


def read_reports(directory: str) -> Iterator[SplitReport]:
    """The reports below a directory, by name; none where there is no directory."""
    if storage.kind_of(directory) is None:
        return
    for entry in storage.entries(directory):
        if not entry.name.endswith(_SUFFIX):
            continue
        url = storage.join(directory, entry.name)
        try:
            fields = json.loads(storage.read_bytes(url) or b"")
            damages = [Damage(**each) for each in fields.pop("damages")]
            yield SplitReport(**fields, damages=damages)
        except (ValueError, KeyError, TypeError):
            raise PipelineError(f"{url} is no report of a split") from None
