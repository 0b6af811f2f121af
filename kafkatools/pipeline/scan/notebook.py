"""The view of a scan in a notebook: its first rows, and the size of what it reads.

Rules: it reads one record batch at most, and asks brokers with a short time-out. An error becomes a line of the view,
since a notebook shows it for the last line of a cell, whatever that was.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from kafkatools.core.errors import KafkaError
from kafkatools.core.html_tables import html_table
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.scan.ordered import read_in_order
from kafkatools.pipeline.uris import LOG

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkatools.pipeline.scan.plans import ScanPlan

_ROWS = 5
_TIMEOUT_MS = "3000"
_HASTE = {"default.api.timeout.ms": _TIMEOUT_MS, "request.timeout.ms": _TIMEOUT_MS}


def scan_html(plan: ScanPlan) -> str:
    """Return the first rows of a scan as an HTML table, with the size of the topic or of the files."""
    hasty = replace(plan, threads=1, settings=plan.settings if plan.uri.kind == LOG else {**_HASTE, **plan.settings})
    try:
        size = _size_of_files(hasty) if plan.uri.kind == LOG else _size_of_topic(hasty)
        rows, has_more = _first_rows(hasty)
    except (
        KafkaError,
        PipelineError,
        OSError,
        ValueError,
        OverflowError,
    ) as error:  # the last two: a time no datetime has
        return html_table(str(plan.uri), (), (), f"{type(error).__name__}: {error}")
    shown = f"the first {len(rows)} rows" if has_more else f"{len(rows)} row{'' if len(rows) == 1 else 's'}"
    return html_table(str(plan.uri), plan.columns, rows, f"{shown}; {size}")


def _first_rows(plan: ScanPlan) -> tuple[list[tuple[object, ...]], bool]:
    """Return the first rows, and whether there are more."""
    rows: list[tuple[object, ...]] = []
    with closing(_batches(plan)) as batches:
        for batch in batches:
            head = batch.slice(0, _ROWS + 1 - len(rows)).to_pylist()
            rows += [tuple(row.values()) for row in head]
            if len(rows) > _ROWS:
                break
    return rows[:_ROWS], len(rows) > _ROWS


def _batches(plan: ScanPlan) -> Generator[pa.RecordBatch, None, None]:
    yield from read_in_order(plan.tasks(), plan.threads)


def _size_of_topic(plan: ScanPlan) -> str:
    from kafkatools.core.consumer.consumer import Consumer

    topic = plan.uri.target
    with Consumer(dict(plan.settings)) as consumer:
        parts = [(topic, number) for number in consumer.partitions_for(topic)]
        ends, starts = consumer.end_offsets(parts), consumer.beginning_offsets(parts)
    count = sum(ends[part] - starts[part] for part in ends)
    return f"the topic has {_number(count, 'offset')} in {_number(len(parts), 'partition')}"


def _size_of_files(plan: ScanPlan) -> str:
    from kafkatools.pipeline.sources.log.files import find_log_files

    files = find_log_files(plan.uri.target)
    size = sum(file.size_bytes for file in files)
    return f"{_number(size, 'byte')} in {_number(len(files), 'segment')}"


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
