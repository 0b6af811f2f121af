"""The partitions behind each application instance's endpoint, for interactive queries (Kafka's
EndpointToPartitionsManager)."""

from __future__ import annotations

from collections.abc import Iterable

from kafkatools.core.broker.coordinators.groups.streams.configured import ConfiguredTopology, PartitionCount
from kafkatools.core.broker.coordinators.groups.streams.member import StreamsMember
from kafkatools.core.broker.coordinators.groups.streams.tasks import TaskSet, TasksWithEpochs
from kafkatools.core.java.hash_order import hash_order
from kafkatools.core.protocol.entities import Fields


def endpoint_partitions(
    members: Iterable[StreamsMember], configured: ConfiguredTopology, existing: PartitionCount
) -> list[Fields]:
    """The fields of EndpointToPartitions of each member with an endpoint."""
    return [
        {
            "user_endpoint": {"host": member.endpoint.host, "port": member.endpoint.port},
            "active_partitions": _partitions(member.assigned.active, configured, existing),
            "standby_partitions": _partitions(member.assigned.standby, configured, existing),
        }
        for member in members
        if member.endpoint is not None
    ]


def _partitions(
    tasks: TaskSet | TasksWithEpochs, configured: ConfiguredTopology, existing: PartitionCount
) -> list[Fields]:
    """The partitions of the tasks' input topics. A topic with fewer partitions than the subtopology has tasks gets as
    many as it has, as in Apache Kafka."""
    rows = []
    for key in hash_order(tasks):
        part = configured.subtopologies.get(key)
        for topic in hash_order(part.subtopology.inputs if part is not None else ()):
            partitions = sorted(tasks[key])
            rows.append({"topic": topic, "partitions": partitions[: existing(topic) or 0]})
    return rows
