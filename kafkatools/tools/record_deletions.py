"""Predict what kt delete-records would delete, for --dry-run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.configs import TOPIC, describe_configs
from kafkatools.core.admin.leaders import ELECTION_MS, TopicPartition
from kafkatools.core.admin.offsets import EARLIEST, LATEST, list_offsets
from kafkatools.core.admin.topics import describe_topics
from kafkatools.core.errors import InvalidTopic, KafkaError, OffsetOutOfRange, PolicyViolation


class Deletion(NamedTuple):
    """The log start offset of a partition before and after a deletion."""

    low: int
    new_low: int


def predict_deletions(
    admin: AdminClient, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Deletion | KafkaError]:
    """Predict the deletion or the error of each partition by the rules of ReplicaManager.deleteRecordsOnLocalLog and
    Partition.deleteRecordsOnLeader. Raises KafkaError if the cluster does not respond.

    `offsets`: the first offset to keep, -1 for the high watermark.
    """
    low = list_offsets(admin, dict.fromkeys(offsets, EARLIEST), leaderless_ms=ELECTION_MS)
    online_partitions = [key for key, start in low.items() if start.error is None]
    high = list_offsets(admin, dict.fromkeys(online_partitions, LATEST), leaderless_ms=ELECTION_MS)
    topics = describe_topics(admin, sorted({topic for topic, _ in offsets}))
    internal = {name for name, topic in topics.items() if topic.is_internal}
    undeletable = _topics_without_deletion(admin, {topic for topic, _ in offsets})
    deletions: dict[TopicPartition, Deletion | KafkaError] = {}
    for key, offset in offsets.items():
        error = low[key].error or high[key].error
        end = high[key].offset if error is None else -1
        if key[0] in internal:
            deletions[key] = InvalidTopic()
        elif error is not None:
            deletions[key] = error
        elif key[0] in undeletable:
            deletions[key] = PolicyViolation()
        elif not -1 <= offset <= end:
            deletions[key] = OffsetOutOfRange()
        else:
            deletions[key] = Deletion(low[key].offset, max(low[key].offset, end if offset < 0 else offset))
    return deletions


def _topics_without_deletion(admin: AdminClient, topics: set[str]) -> set[str]:
    """Return the topics whose cleanup.policy is known and does not include delete."""
    configs = describe_configs(admin, [(TOPIC, name) for name in sorted(topics)], names=["cleanup.policy"])
    policies = {name: entry.value for (_, name), config in configs.items() for entry in config.entries}
    return {name for name, value in policies.items() if value and "delete" not in value}
