"""Replicas that are being moved (KafkaAdminClient.listPartitionReassignments)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from kafkatools.core.admin.client import AdminClient, error_of
from kafkatools.core.errors import ClusterAuthorizationFailed, UnsupportedVersion
from kafkatools.core.protocol.api_versions import ApiKey

TopicPartition = tuple[str, int]


class PartitionReassignment(NamedTuple):
    """The replicas of a partition that is being moved: those it has, gets and loses."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


def list_reassignments(
    admin: AdminClient, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, PartitionReassignment]:
    """What is being moved, of some partitions or of all.

    A broker that does not tell (too old, or not allowed to) has nothing to show, as in Kafka's tools.
    """
    topics: list[dict[str, Any]] | None = None
    if partitions is not None:
        wanted: dict[str, list[int]] = {}
        for topic, partition in partitions:
            wanted.setdefault(topic, []).append(partition)
        topics = [{"name": name, "partition_indexes": tuple(indexes)} for name, indexes in wanted.items()]
    fields = {"timeout": min(admin.timeout_ms, admin.config.request_timeout_ms), "topics": topics}
    try:
        response = admin.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, fields, check=_error)
    except (UnsupportedVersion, ClusterAuthorizationFailed):
        return {}
    return {
        (topic.name, part.partition_index): PartitionReassignment(
            tuple(part.replicas), tuple(part.adding_replicas), tuple(part.removing_replicas)
        )
        for topic in response.topics
        for part in topic.partitions
    }


def _error(response: Any) -> Any:
    return error_of(response.error_code, response.error_message)
