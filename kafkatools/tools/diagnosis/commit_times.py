"""Read the times of a group's last commits from the end of its partition of `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkatools.core.admin.client import AdminClient
from kafkatools.tools.diagnosis.observations import CommitTimes, TopicPartition
from kafkatools.tools.timeline.broker_log import BrokerLog
from kafkatools.tools.timeline.events import Commits, TopicNames
from kafkatools.tools.timeline.group_records import Damage, GroupReader, GroupRecord
from kafkatools.tools.timeline.history import History

if TYPE_CHECKING:
    from kafkatools.core.records.batch import AnyBatch

TAIL_OFFSETS = 20_000
"""The number of offsets at the end of the log that are read: about 3 MB."""


def commit_times(admin: AdminClient, group_id: str) -> CommitTimes:
    """Return the times of the commits among the last records of the group's partition. Raises CommandError without
    permission to read it, KafkaError."""
    log = BrokerLog(admin, group_id)
    first = max(log.start, log.end - TAIL_OFFSETS)
    reader, since_ms = GroupReader(group_id), -1

    def tail() -> Iterator[AnyBatch | Damage]:
        nonlocal since_ms
        for item in log.batches(first):
            if since_ms < 0 and not isinstance(item, Damage):
                since_ms = item.max_timestamp
            yield item

    times: dict[TopicPartition, list[int]] = {}
    history = History(TopicNames({}))
    for records in reader.read(tail()):
        _add(times, history, records)
    return CommitTimes({key: tuple(values) for key, values in times.items()}, since_ms if first > 0 else None)


def _add(times: dict[TopicPartition, list[int]], history: History, records: list[GroupRecord]) -> None:
    for event in history.events(records):
        if isinstance(event, Commits):
            times.setdefault((event.topic, event.partition), []).append(event.time_ms)
