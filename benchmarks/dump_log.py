"""dump-log against the real tool on segments of 1 GiB: headers of 16 KiB batches, --print-data-log of 1 M records."""

from __future__ import annotations

import array
import pathlib

from benchmarks import measure, peers
from kafkatools.core.records.batch import stamp_batch
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.core.records.columns import RowColumns

GIB = 1 << 30
NAME = "00000000000000000000.log"


def main() -> None:
    """Prints both ratios and the memory of the headers run."""
    with peers.scratch() as directory:
        headers = segment(directory / "headers", total_bytes=GIB)
        measure.compare("dump-log 1 GiB headers", *works("--files", str(headers)), "kafka-dump-log", target=5.0)
        records = segment(directory / "records", total_bytes=109_000_000)
        arguments = ("--print-data-log", "--files", str(records))
        measure.compare("dump-log --print-data-log 1 M records", *works(*arguments), "kafka-dump-log", target=5.0)


def works(*arguments: str) -> tuple[measure.Work, measure.Work]:
    """The same command line for both tools."""
    return measure.Work([*peers.KT, "dump-log", *arguments]), measure.Work(peers.java("dump-log", *arguments))


def segment(directory: pathlib.Path, total_bytes: int) -> pathlib.Path:
    """A segment of batches of about 16 KiB: 150 records of 100 B values each."""
    directory.mkdir()
    path = directory / NAME
    batch = memoryview(bytearray(one_batch()))
    count, offset = 150, 0
    with path.open("wb") as out:
        while out.tell() < total_bytes:
            stamp_batch(batch, 0, base_offset=offset, leader_epoch=0)
            out.write(batch)
            offset += count
    return path


def one_batch() -> bytes:
    """One batch of 150 records, values of 100 B."""
    count, size = 150, 100
    rows = RowColumns(
        buffer=bytes(ord("a") + i % 26 for i in range(count * size)),
        value_positions=array.array("i", range(0, count * size, size)),
        value_lengths=array.array("i", [size] * count),
    )
    builder = BatchBuilder(32 * 1024)
    assert builder.append_columns(rows, 0, count, 1_700_000_000_000) == count
    return bytes(builder.close())


if __name__ == "__main__":
    main()
