"""The metrics of kafka-lag-exporter, by its names and labels (`Metrics.scala`, version 0.8).

`cluster_name` is the cluster's id. The labels of members are `unknown` for a partition that no member of the group is
assigned, as there for groups without members. `kafka_consumergroup_poll_time_ms` is left out, since a snapshot is more
than groups. Unlike there, a sum or maximum with an unknown part has no sample, and no value is NaN.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkatools.tools.monitor.metrics.families import (
    GAUGE,
    Metric,
    Samples,
    of_group_topics,
    seconds,
)
from kafkatools.tools.monitor.view import ClusterView, GroupPartition, GroupView, Owner, PartitionView

LAG_EXPORTER = "lag-exporter"
_GROUP = ("cluster_name", "group")
_GROUP_PARTITION = (*_GROUP, "topic", "partition", "member_host", "consumer_id", "client_id")
_NO_OWNER = Owner("unknown", "unknown", "unknown")


def _metric(name: str, about: str, labels: tuple[str, ...], samples: Callable[[ClusterView], Samples]) -> Metric:
    """Return a metric whose first label is the cluster's name."""

    def named(view: ClusterView) -> Samples:
        return [((view.cluster_id or "", *values), number) for values, number in samples(view)]

    return Metric(name, GAUGE, about, labels, LAG_EXPORTER, named)


def _of_groups(value: Callable[[GroupView], float | None]) -> Callable[[ClusterView], Samples]:
    return lambda view: [((group.group_id,), n) for group in view.groups if (n := value(group)) is not None]


def _of_partitions(value: Callable[[PartitionView], int | None]) -> Callable[[ClusterView], Samples]:
    return lambda view: [((p.topic, p.partition), n) for p in view.partitions if (n := value(p)) is not None]


def _of_group_partitions(value: Callable[[GroupPartition], float | None]) -> Callable[[ClusterView], Samples]:
    """Return samples by group, partition and the member it is assigned to, where the value is known."""

    def samples(view: ClusterView) -> Samples:
        for group in view.groups:
            owners = group.owners or {}
            for part in group.partitions or ():
                number = value(part)
                if number is not None:
                    owner = owners.get((part.topic, part.partition), _NO_OWNER)
                    labels = (part.topic, part.partition, owner.host, owner.member_id, owner.client_id)
                    yield (group.group_id, *labels), number

    return samples


def _largest_lag(group: GroupView) -> int | None:
    lags = [part.lag for part in group.partitions or ()]
    known = [lag for lag in lags if lag is not None]
    return max(known) if known and len(known) == len(lags) else None


METRICS: tuple[Metric, ...] = (
    _metric(
        "kafka_partition_latest_offset", "Latest offset of a partition.", ("cluster_name", "topic", "partition"),
        _of_partitions(lambda part: part.end_offset),
    ),
    _metric(
        "kafka_partition_earliest_offset", "Earliest offset of a partition.", ("cluster_name", "topic", "partition"),
        _of_partitions(lambda part: part.start_offset),
    ),
    _metric(
        "kafka_consumergroup_group_offset", "Last group consumed offset of a partition.", _GROUP_PARTITION,
        _of_group_partitions(lambda part: part.committed),
    ),
    _metric(
        "kafka_consumergroup_group_lag", "Group offset lag of a partition.", _GROUP_PARTITION,
        _of_group_partitions(lambda part: part.lag),
    ),
    _metric(
        "kafka_consumergroup_group_lag_seconds", "Group time lag of a partition.", _GROUP_PARTITION,
        _of_group_partitions(lambda part: seconds(part.lag_ms)),
    ),
    _metric(
        "kafka_consumergroup_group_max_lag", "Max group offset lag.", _GROUP, _of_groups(_largest_lag),
    ),
    _metric(
        "kafka_consumergroup_group_max_lag_seconds", "Max group time lag.", _GROUP,
        _of_groups(lambda group: seconds(group.lag_ms)),
    ),
    _metric(
        "kafka_consumergroup_group_sum_lag", "Sum of group offset lag.", _GROUP, _of_groups(lambda group: group.lag),
    ),
    _metric(
        "kafka_consumergroup_group_topic_sum_lag", "Sum of group offset lag across topic partitions.",
        (*_GROUP, "topic"), of_group_topics("lag"),
    ),
)  # fmt: skip
"""The families of kafka-lag-exporter."""
