"""Compute the time lag of groups (--lag-time).

A partition's time lag is now minus the timestamp of the first unconsumed record, 0 when everything is consumed. The
distance to the newest record is the partition's newest timestamp minus that timestamp. Both are read from the log, so
groups without members have them too. A record without timestamp gives neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.group_offsets import TopicPartition
from kafkatools.core.admin.offsets import MAX_TIMESTAMP, PartitionOffset, list_offsets
from kafkatools.core.errors import KafkaError
from kafkatools.tools.groups.record_times import record_times
from kafkatools.tools.groups.view import GroupView, PartitionRow


def with_times(
    admin: AdminClient, views: Sequence[GroupView], now_ms: int
) -> tuple[list[GroupView], dict[TopicPartition, KafkaError]]:
    """Return the groups with time lags in ms at `now_ms` (since 1970), and the errors by partition. A row without lag
    in records, or whose record has no timestamp, stays without times."""
    lagging_rows = [row for view in views for row in view.rows if row.lag is not None and row.lag > 0]
    times = record_times(admin, {_place(row) for row in lagging_rows})
    partitions = {(row.topic, row.partition): MAX_TIMESTAMP for row in lagging_rows}
    newest = list_offsets(admin, partitions) if partitions else {}
    problems: dict[TopicPartition, KafkaError] = {}
    for (topic, partition, _), time in times.items():
        if isinstance(time, KafkaError):
            problems[topic, partition] = time
    timed = [view._replace(rows=[_with_times(row, times, newest, now_ms) for row in view.rows]) for view in views]
    return timed, dict(sorted(problems.items()))


def _place(row: PartitionRow) -> tuple[str, int, int]:
    return row.topic, row.partition, row.offset or 0


def _with_times(
    row: PartitionRow,
    times: Mapping[tuple[str, int, int], object],
    newest: Mapping[TopicPartition, PartitionOffset],
    now_ms: int,
) -> PartitionRow:
    if row.lag is None:
        return row
    record = times.get(_place(row)) if row.lag > 0 else None
    if row.lag <= 0 or getattr(record, "offset", 0) < 0:
        return row._replace(lag_ms=0, behind_newest_ms=0)
    timestamp = getattr(record, "timestamp", -1)
    if timestamp < 0:
        return row
    latest = newest[row.topic, row.partition].timestamp
    behind = max(0, latest - timestamp) if latest >= 0 else None
    return row._replace(lag_ms=max(0, now_ms - timestamp), behind_newest_ms=behind)
