"""The tasks of a query over log segments: which byte ranges to read, with the bounds and transactions of each."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from kafkatools.core.topic_partition import TopicPartition
from kafkatools.pipeline.sources.log.aborted import PartitionTransactions, find_all_transactions
from kafkatools.pipeline.sources.log.files import LogFile, find_log_files
from kafkatools.pipeline.sources.log.offsets import partition_bounds
from kafkatools.pipeline.sources.log.options import LogOptions
from kafkatools.pipeline.sources.log.splits import LogTask, make_tasks
from kafkatools.pipeline.sources.record_bounds import RecordBounds


def selected_files(options: LogOptions) -> list[LogFile]:
    """Return the segments that the options select, sorted; with wholeSegments without a log start offset. Raises
    PipelineError."""
    files = find_log_files(options.paths, options.selection)
    return [replace(file, log_start_offset=0) for file in files] if options.has_whole_segments else files


def plan_tasks(options: LogOptions, columns: Collection[str], pushed: RecordBounds) -> list[LogTask]:
    """Find the segments and return the tasks that read `columns` (names in any case) within the bounds `pushed`; empty
    if no record can be within them. Raises PipelineError."""
    files = selected_files(options)
    transactions: Mapping[TopicPartition, PartitionTransactions] = {}
    if options.reading.is_committed_only or any(name.lower() == "transaction" for name in columns):
        transactions = find_all_transactions(file for file in files if pushed.takes(file.topic, file.partition))
    bounds = _bounds(files, options, pushed, transactions)
    tasks = make_tasks(
        files, bounds, split_bytes=options.split_bytes, min_partitions=options.min_partitions or 1,
        first_bytes=options.first_bytes,
    )  # fmt: skip
    return [_with_transactions(task, transactions) for task in tasks]


def _bounds(
    files: list[LogFile],
    options: LogOptions,
    pushed: RecordBounds,
    transactions: Mapping[TopicPartition, PartitionTransactions],
) -> dict[TopicPartition, RecordBounds]:
    """Return the bounds of each partition to read, up to the last stable offset under read_committed."""
    result = {}
    for partition, bounds in partition_bounds(files, options, pushed).items():
        if options.reading.is_committed_only and partition in transactions:
            end = min(bounds.end_offset, transactions[partition].last_stable_offset)
            bounds = replace(bounds, end_offset=end)
        result[partition] = bounds
    return result


def _with_transactions(task: LogTask, transactions: Mapping[TopicPartition, PartitionTransactions]) -> LogTask:
    if not transactions:
        return task
    splits = tuple(
        replace(split, transactions=transactions[split.file.topic_partition].within(split.file))
        for split in task.splits
    )
    return replace(task, splits=splits)
