"""Decode and encode per core beside the physical limits: memory copy and CRC-32C of the same bytes."""

from __future__ import annotations

import array
import statistics
import time
from collections.abc import Callable

import crc32c

from benchmarks import measure
from kafkatools.core.records import kernel
from kafkatools.core.records.batch import RecordBatch
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.core.records.columns import RowColumns

COUNT = 10_000
SIZE = 100


def main() -> None:
    """Prints records per second and bytes per second of one core."""
    rows = RowColumns(
        buffer=bytes(ord("a") + i % 26 for i in range(COUNT * SIZE)),
        value_positions=array.array("i", range(0, COUNT * SIZE, SIZE)),
        value_lengths=array.array("i", [SIZE] * COUNT),
    )

    def encode() -> bytes:
        builder = BatchBuilder(2 << 20)
        assert builder.append_columns(rows, 0, COUNT, 1_700_000_000_000) == COUNT
        return bytes(builder.close())

    encoded = encode()
    copied = seconds(lambda: bytearray(encoded))
    rate("decode to columns", seconds(lambda: RecordBatch(encoded).columns()), 50e6, copied)
    rate("encode from columns", seconds(encode), None, copied)
    checked = seconds(lambda: crc32c.crc32c(encoded))
    gigabytes = len(encoded) / checked / 1e9
    measure.report("CRC check", gb_per_s=round(gigabytes, 1), target=5.0, reached=gigabytes >= 5)
    measure.report("memory copy", gb_per_s=round(len(encoded) / copied / 1e9, 1))


def seconds(work: Callable[[], object]) -> float:
    """The median time of one call, over at least 0.5 s of calls."""
    times: list[float] = []
    work()
    while sum(times) < 0.5:
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def rate(name: str, elapsed: float, target: float | None, copied: float) -> None:
    """Prints one rate and how many memory copies of the batch it takes."""
    per_second = COUNT / elapsed
    measure.report(
        name,
        million_records_per_s=round(per_second / 1e6, 1),
        target=target and target / 1e6,
        reached=target is None or per_second >= target,
        times_memory_copy=round(elapsed / copied, 2),
        compiled=kernel.COMPILED,
    )


if __name__ == "__main__":
    main()
