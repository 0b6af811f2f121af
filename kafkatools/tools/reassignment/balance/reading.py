"""Read the input of a balance plan from a cluster, with rates from two looks at offsets and log sizes.

Rate of a partition: the growth of the leader's log between the looks. Where retention, compaction or tiering shortened
the log meanwhile, the new records count with the average size of a record in the log. Brokers need no reporter for
this; the bytes that consumers read are not known this way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.log_dirs import describe_log_dirs
from kafkatools.core.admin.offsets import EARLIEST, LATEST, list_offsets
from kafkatools.core.admin.reassignments import TopicPartition
from kafkatools.core.admin.topics import PartitionDescription
from kafkatools.core.errors import KafkaError
from kafkatools.tools.reassignment.balance.model import BalanceInput, Disk
from kafkatools.tools.reassignment.cluster_state import (
    LogDirs,
    Sizes,
    cluster_state,
    read_brokers,
    read_partitions,
    sizes_in,
)


class Look(NamedTuple):
    """The first offset, the end offset and the leader's log size in bytes of a partition at one time."""

    start: int
    end: int
    size_bytes: int


class _Looks(NamedTuple):
    """Looks at all partitions that reported everything, and when they began in ms of the client's clock."""

    at_ms: int
    partitions: Mapping[TopicPartition, Look]


def read_balance_input(admin: AdminClient, sample_ms: int | None, complain: Callable[[str], None]) -> BalanceInput:
    """Read live brokers, partitions, log directories and sizes; with `sample_ms` also rates, which takes that long.
    Raises KafkaError. `complain` gets a message for each broker or log directory that does not report sizes."""
    brokers = read_brokers(admin)
    ids = [broker.id for broker in brokers]
    parts = read_partitions(admin)
    first = None
    if sample_ms is not None:
        first = _look(admin, parts, sizes_in(describe_log_dirs(admin, ids), lambda message: None))
        admin.clock.sleep_ms(sample_ms)
    log_dirs = describe_log_dirs(admin, ids)
    sizes = sizes_in(log_dirs, complain)
    cluster = cluster_state(brokers, parts, sizes)
    rates = None
    if first is not None:
        second = _look(admin, parts, sizes)
        seconds = max(second.at_ms - first.at_ms, 1) / 1000
        rates = [rate_of(first.partitions.get(key), second.partitions.get(key), seconds) for key in parts]
    unknown_sizes = frozenset(index for index, key in enumerate(parts) if key not in sizes)
    return BalanceInput(cluster, _disks(log_dirs, parts), rates, unknown_sizes)


def _look(admin: AdminClient, parts: Mapping[TopicPartition, PartitionDescription], sizes: Sizes) -> _Looks:
    at_ms = admin.clock.now_ms()
    starts = list_offsets(admin, dict.fromkeys(parts, EARLIEST))
    ends = list_offsets(admin, dict.fromkeys(parts, LATEST))
    looks = {}
    for key, part in parts.items():
        size = sizes.get(key, {}).get(part.leader)
        start, end = starts.get(key), ends.get(key)
        if size is None or start is None or end is None or start.error is not None or end.error is not None:
            continue
        looks[key] = Look(start.offset, end.offset, size)
    return _Looks(at_ms, looks)


def rate_of(first: Look | None, second: Look | None, seconds: float) -> float | None:
    """Return the bytes per second that were written to a partition between two looks; None if a look is missing or the
    end offset went back."""
    if first is None or second is None or second.end < first.end:
        return None
    records = second.end - first.end
    if records == 0:
        return 0.0
    growth = second.size_bytes - first.size_bytes
    if second.start == first.start and growth > 0:
        return growth / seconds
    present = second.end - second.start
    return records * second.size_bytes / present / seconds if present > 0 else None


def _disks(log_dirs: LogDirs, parts: Mapping[TopicPartition, PartitionDescription]) -> dict[int, tuple[Disk, ...]]:
    """The online log directories of each broker that reports them."""
    index = {key: number for number, key in enumerate(parts)}
    disks = {}
    for broker, dirs in log_dirs.items():
        if isinstance(dirs, KafkaError):
            continue
        disks[broker] = tuple(
            Disk(
                log_dir.path,
                log_dir.total_bytes,
                log_dir.usable_bytes,
                tuple(
                    index[replica.topic, replica.partition]
                    for replica in log_dir.replicas
                    if not replica.is_future and (replica.topic, replica.partition) in index
                ),
                sum(replica.size_bytes for replica in log_dir.replicas),
            )
            for log_dir in dirs
            if log_dir.error is None
        )
    return disks
