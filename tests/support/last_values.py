"""The last value of each key in a partition, read as a coordinator loads it."""

from __future__ import annotations

from collections.abc import Callable

from kafkatools.core.broker.coordinators.groups.offsets_topic import OpenTransactions, read_last_values
from kafkatools.core.broker.replicas.partition import Partition


def last_values(partition: Partition, note_failure: Callable[[Exception], None]) -> dict[bytes, bytes]:
    """The last value of each key, without deleted keys."""
    values: dict[bytes, bytes | None] = {}
    for _ in read_last_values(partition, note_failure, values, OpenTransactions()):
        pass
    return {key: value for key, value in values.items() if value is not None}
