"""Reassignments of partitions that are under way (KIP-455)."""

from __future__ import annotations

from dataclasses import dataclass

from kafkatools.core.admin.client import AdminClient, failure
from kafkatools.core.errors import UnsupportedVersion
from kafkatools.core.protocol.api_versions import ApiKey


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A partition that is moving: all replicas, those being added, those being removed."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


def list_reassignments(admin: AdminClient) -> dict[tuple[str, int], Reassignment]:
    """Every partition that is being reassigned; none on a broker that cannot reassign this way."""
    fields = {"timeout": admin.request_timeout_ms, "topics": None}
    try:
        answer = admin.call(ApiKey.LIST_PARTITION_REASSIGNMENTS, fields, to_controller=True)
    except UnsupportedVersion:
        return {}
    error = failure(answer.error_code, answer.error_message)
    if error is not None:
        raise error
    return {
        (topic.name, one.partition_index): Reassignment(
            tuple(one.replicas), tuple(one.adding_replicas), tuple(one.removing_replicas)
        )
        for topic in answer.topics
        for one in topic.partitions
    }
