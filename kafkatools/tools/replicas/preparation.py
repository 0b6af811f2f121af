"""Choose the partitions of kt replica-verification and the offsets between which their replicas are compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.configs import TOPIC, describe_configs
from kafkatools.core.admin.offsets import LATEST, list_offsets
from kafkatools.core.admin.topics import TopicPartition, describe_topics, list_topics
from kafkatools.core.errors import KafkaError
from kafkatools.core.java.hash_order import hash_order
from kafkatools.core.java.hashes import partition_hash
from kafkatools.exit_status import CommandError
from kafkatools.tools.replicas.verification import ReplicaVerifier, Subject

PATIENCE_MS = 30_000


def prepare(
    admin: AdminClient,
    takes: Callable[[str], bool],
    time: int,
    *,
    stops_at_end: bool,
    fetch_size: int,
    max_wait_ms: int,
) -> tuple[ReplicaVerifier, dict[TopicPartition, KafkaError]]:
    """Return a verifier for the topics that `takes` accepts, and the partitions whose offsets are unknown.

    `time`: where to start, -1 the end, -2 the start, or a timestamp in ms since 1970. Raises KafkaError. Raises
    CommandError if no topic matches or all offsets are unknown.
    """
    names = [topic.name for topic in list_topics(admin) if takes(topic.name)]
    if not names:
        raise CommandError(
            "No topics found. [topics-include] if specified, is either filtering out all topics or there is no topic."
        )
    descriptions = describe_topics(admin, names)
    for topic in descriptions.values():
        if topic.error is not None:
            raise topic.error
    assignments = {
        (name, part.partition): part.replicas for name, topic in descriptions.items() for part in topic.partitions
    }
    replicas = {key: assignments[key] for key in hash_order(assignments, hash_of=partition_hash)}
    unknown: dict[TopicPartition, KafkaError] = {}
    ends = _offsets(admin, replicas, LATEST, unknown) if stops_at_end or time >= 0 else None
    starts = _offsets(admin, replicas if ends is None else ends, time, unknown)
    if ends is not None:
        starts = {key: ends[key] if offset < 0 else offset for key, offset in starts.items()}
    if unknown and not starts:
        (name, partition), error = next(iter(unknown.items()))
        raise CommandError(f"partition {name}-{partition}: {error}")
    verifier = ReplicaVerifier(
        admin,
        {key: nodes for key, nodes in replicas.items() if key in starts},
        _subjects(admin, {name: topic.topic_id for name, topic in descriptions.items()}),
        starts,
        ends if stops_at_end else None,
        fetch_size=fetch_size,
        max_wait_ms=max_wait_ms,
        patience_ms=min(PATIENCE_MS, admin.config.request_timeout_ms) if stops_at_end else None,
    )
    return verifier, unknown


def _offsets(
    admin: AdminClient, partitions: Iterable[TopicPartition], time: int, unknown: dict[TopicPartition, KafkaError]
) -> dict[TopicPartition, int]:
    """Return the offsets of partitions at `time`. Errors are added to `unknown`."""
    offsets = list_offsets(admin, dict.fromkeys(partitions, time))
    unknown.update({key: offset.error for key, offset in offsets.items() if offset.error is not None})
    return {key: offset.offset for key, offset in offsets.items() if offset.error is None}


def _subjects(admin: AdminClient, topic_ids: Mapping[str, str | None]) -> dict[str, Subject]:
    """Return the id of each topic and whether it is compacted. A topic whose settings cannot be read counts as not
    compacted."""
    configs = describe_configs(admin, [(TOPIC, name) for name in topic_ids], names=["cleanup.policy"])
    compacted = {
        name
        for (_, name), config in configs.items()
        if config.error is None and any("compact" in (entry.value or "") for entry in config.entries)
    }
    return {name: Subject(topic_id, name in compacted) for name, topic_id in topic_ids.items()}
