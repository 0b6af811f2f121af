"""Every bit of a segment flipped, one at a time, and what `kt dump-log` says: the figure of the flip test.

    PYTHONPATH=tests python -m support.segment_flips [--codec C] [--layout L] [--every N] [--fields N] [--seed N]

A segment of at least 65,536 bytes is written for each codec, in a directory as a broker leaves it. A layout says what
lies beside the segment. Each flip is written to the file, dumped and taken back. A flip that gives no finding must be
one of those that nothing beside the segment can show (`hidden_class`); any other one is an error.

The checksum covers all but the first 21 bytes of a batch. A sweep may take a sample of the bits under a checksum and
another one of the others; of the first and the last batch it takes every bit outside of the checksum.
"""

from __future__ import annotations

import argparse
import collections
import os
import pathlib
import random
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass

from kafkatools.core.log.dump.damage import Finding
from kafkatools.core.log.dump.file_dump import FileDump
from kafkatools.core.log.dump.options import DumpOptions
from kafkatools.core.log.dump.text_lines import TextLines
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.core.records.compression import CompressionType

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
LAYOUTS = ("followed", "stopped", "alone", "compacted")
SEGMENT_BYTES = 65536
FIRST_OFFSET = 500
RECORDS = 20
EPOCHS = ((500, 3), (900, 9))
CHECKSUM_END = 21
OFFSET_END = 8
EPOCH_START, EPOCH_END = 12, 16
LARGEST_RELATIVE = (1 << 31) - 1


@dataclass(frozen=True)
class Batch:
    """The position of a batch and the fields that its checksum does not cover."""

    position: int
    size: int
    offset: int
    epoch: int
    is_at_epoch_change: bool
    is_last: bool
    gap: tuple[int, int]
    """The first offset the batch may begin at, and the first it may not end at."""


@dataclass(frozen=True)
class Segment:
    """A segment in a directory of its own."""

    path: pathlib.Path
    layout: str
    data: bytes
    batches: tuple[Batch, ...]

    def batch_at(self, position: int) -> Batch:
        return next(batch for batch in self.batches if position < batch.position + batch.size)


def write_segment(directory: pathlib.Path, codec: str, layout: str, seed: int = 1) -> Segment:
    """Write a segment of at least SEGMENT_BYTES and what the layout has beside it."""
    chosen = random.Random(seed)
    stride = 3 if layout == "compacted" else 1
    data = b""
    starts = []
    offset = FIRST_OFFSET
    while len(data) < SEGMENT_BYTES:
        epoch = max(epoch for start, epoch in EPOCHS if start <= offset)
        starts.append((len(data), offset, epoch))
        data += _batch(chosen, codec, offset, epoch)
        offset += RECORDS * stride
    end = offset - RECORDS * (stride - 1)
    path = directory / f"{FIRST_OFFSET:020d}.log"
    path.write_bytes(data)
    _write_beside(path, layout, end, starts)
    return Segment(path, layout, data, tuple(_described(starts, len(data), stride, end, layout)))


def _batch(chosen: random.Random, codec: str, offset: int, epoch: int) -> bytes:
    builder = BatchBuilder(
        1 << 20, codec=CompressionType[codec.upper()], base_offset=offset, partition_leader_epoch=epoch
    )
    for number in range(RECORDS):
        builder.append(1_700_000_000_000 + number, chosen.randbytes(8), chosen.randbytes(40) + b"order " * 10)
    return bytes(builder.close())


def _write_beside(path: pathlib.Path, layout: str, end: int, starts: list[tuple[int, int, int]]) -> None:
    if layout == "alone":
        return
    lines = [f"{epoch} {start}" for start, epoch in EPOCHS]
    path.with_name("leader-epoch-checkpoint").write_text("\n".join(["0", str(len(lines)), *lines, ""]))
    entries = starts[3::4]
    entry = struct.Struct(">ii")
    index = b"".join(entry.pack(offset + RECORDS - 1 - FIRST_OFFSET, position) for position, offset, _ in entries)
    path.with_suffix(".index").write_bytes(index)
    if layout == "stopped":
        path.with_name(f"{end:020d}.snapshot").write_bytes(b"")
    else:
        path.with_name(f"{end:020d}.log").write_bytes(_batch(random.Random(0), "none", end, EPOCHS[-1][1]))


def _described(starts: list[tuple[int, int, int]], size: int, stride: int, end: int, layout: str) -> Iterator[Batch]:
    previous_epoch = -1
    for number, (position, offset, epoch) in enumerate(starts):
        is_last = number == len(starts) - 1
        behind = size if is_last else starts[number + 1][0]
        free = RECORDS * (stride - 1)
        earliest = FIRST_OFFSET if number == 0 else offset - free
        latest = end if is_last else offset + RECORDS + free
        if is_last and layout == "alone":
            latest = FIRST_OFFSET + LARGEST_RELATIVE + 1
        changes = is_last or starts[number + 1][2] != epoch
        yield Batch(
            position, behind - position, offset, epoch, epoch != previous_epoch or changes, is_last, (earliest, latest)
        )
        previous_epoch = epoch


def hidden_class(segment: Segment, position: int, bit: int) -> str | None:
    """The reason why nothing can show this flip; None when it has to be found."""
    batch = segment.batch_at(position)
    field = position - batch.position
    if field < OFFSET_END:
        offset = batch.offset ^ (1 << (8 * (OFFSET_END - 1 - field) + bit))
        if not batch.gap[0] <= offset <= batch.gap[1] - RECORDS:
            return None
        return (
            "the last batch of the log, moved up" if segment.layout == "alone" else "moved within a gap of compaction"
        )
    if EPOCH_START <= field < EPOCH_END and segment.layout == "alone" and batch.is_at_epoch_change:
        return "the first or last batch of a leader epoch, without leader-epoch-checkpoint"
    return None


def dump_findings(path: pathlib.Path) -> list[Finding]:
    """Return the findings of dump-log in the segment."""
    findings: list[Finding] = []
    options = DumpOptions(judges_by_neighbours=True)
    dump = FileDump(options, TextLines(options, len), findings.append)
    dump.dump(str(path))
    return findings


class _Reported(Exception):  # noqa: N818 - the verdict of a dump, not an error
    """Ends a dump at its first finding, which is its verdict."""


def _end_dump(finding: Finding) -> None:
    raise _Reported


def is_found(path: pathlib.Path) -> bool:
    """Whether dump-log has a finding in the segment: the code of the command, up to the first finding."""
    options = DumpOptions(judges_by_neighbours=True)
    try:
        FileDump(options, TextLines(options, len), _end_dump).dump(str(path))
    except _Reported:
        return True
    return False


@dataclass
class Outcome:
    """The result of a sweep: `hidden` flips by class, and `missed` flips that should have been found."""

    flips: int
    hidden: collections.Counter[str]
    missed: list[tuple[int, int]]


def sweep(segment: Segment, every: int = 1, fields: int = 1, seed: int = 1) -> Outcome:
    """Flip each `every`-th bit under a checksum and each `fields`-th of the others."""
    outcome = Outcome(0, collections.Counter(), [])
    chosen = random.Random(seed)
    phase, field_phase = chosen.randrange(every), chosen.randrange(fields)
    unchecked = {
        batch.position + field: batch.position == 0 or batch.is_last
        for batch in segment.batches
        for field in range(CHECKSUM_END)
    }
    with open(segment.path, "r+b", buffering=0) as file:
        for position, byte in enumerate(segment.data):
            step, start = (every, phase) if position not in unchecked else (fields, field_phase)
            if unchecked.get(position):
                step, start = 1, 0
            bits = [bit for bit in range(8) if (8 * position + bit) % step == start]
            for bit in bits:
                os.pwrite(file.fileno(), bytes([byte ^ 1 << bit]), position)
                outcome.flips += 1
                if not is_found(segment.path):
                    reason = hidden_class(segment, position, bit)
                    if reason is None:
                        outcome.missed.append((position, bit))
                    else:
                        outcome.hidden[reason] += 1
            if bits:
                os.pwrite(file.fileno(), bytes([byte]), position)
    return outcome


def main() -> int:
    """Sweep the codecs and layouts asked for and print a line for each; 1 when a flip was missed."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--codec", action="append", choices=CODECS)
    parser.add_argument("--layout", action="append", choices=LAYOUTS)
    parser.add_argument("--every", type=int, default=1, help="of the bits under a checksum take each n-th")
    parser.add_argument("--fields", type=int, default=1, help="of the bits under no checksum take each n-th")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    has_missed = False
    for layout in options.layout or LAYOUTS:
        for codec in options.codec or CODECS:
            with tempfile.TemporaryDirectory(prefix="flips-") as directory:
                segment = write_segment(pathlib.Path(directory), codec, layout, options.seed)
                before = time.process_time()
                outcome = sweep(segment, options.every, options.fields, options.seed)
                seconds = time.process_time() - before
            hidden = "; ".join(f"{count} {reason}" for reason, count in sorted(outcome.hidden.items())) or "0"
            print(
                f"{layout} {codec}: {len(segment.data)} bytes, {outcome.flips} flips, hidden: {hidden}; "
                f"missed: {outcome.missed[:20]} ({len(outcome.missed)}), {seconds:.0f} s",
                flush=True,
            )
            has_missed |= bool(outcome.missed)
    return int(has_missed)


if __name__ == "__main__":
    sys.exit(main())
