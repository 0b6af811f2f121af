"""Requests that go to the leaders of partitions: split by leader, sent at once, tried again where the leader had moved.

What Kafka's PartitionLeaderStrategy and AdminApiDriver do: find leaders with Metadata, one request a leader, partitions that failed with a
retriable error go round again with fresh metadata until default.api.timeout.ms is over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from kafkatools.core.admin.client import AdminClient, failure
from kafkatools.core.errors import KafkaError, LeaderNotAvailable, UnknownTopicOrPartition
from kafkatools.core.protocol.api_versions import ApiKey

TopicPartition = tuple[str, int]
_RETRY_BACKOFF_MS = 100


def call_leaders(
    admin: AdminClient,
    api_key: ApiKey,
    partitions: Sequence[TopicPartition],
    fields: Callable[[Sequence[TopicPartition], int], Mapping[str, Any]],
    *,
    minimum_version: int = 0,
) -> dict[TopicPartition, Any]:
    """The answer's partition entry, or the error, of every partition asked for.

    `fields` makes the request of a version for the partitions of one leader. Answers are those with `topics[].partitions[]`, each with
    `partition_index` and `error_code` (ListOffsets, DeleteRecords, OffsetForLeaderEpoch).
    """
    deadline = admin.clock.now_ms() + admin.api_timeout_ms
    left, done = list(dict.fromkeys(partitions)), dict[TopicPartition, Any]()
    while left:
        by_leader = _by_leader(admin, left, done)
        requests = {leader: partial(fields, group) for leader, group in by_leader.items()}
        answers = admin.call_each(api_key, requests, minimum_version=minimum_version)
        for leader, group in by_leader.items():
            _take(answers[leader], group, done)
        left = [one for one in left if _is_retriable(done[one])]
        if not left or admin.clock.now_ms() + _RETRY_BACKOFF_MS >= deadline:
            break
        admin.clock.sleep_ms(_RETRY_BACKOFF_MS)
    return {one: done[one] for one in partitions}


def _is_retriable(result: Any) -> bool:
    """A missing topic is an answer, not a reason to ask until the time is up as Kafka's tools do."""
    return isinstance(result, KafkaError) and result.retriable and not isinstance(result, UnknownTopicOrPartition)


def _by_leader(
    admin: AdminClient, partitions: Sequence[TopicPartition], done: dict[TopicPartition, Any]
) -> dict[int, list[TopicPartition]]:
    """The partitions by leader; what has none gets its error in `done`."""
    names = sorted({topic for topic, _ in partitions})
    topics = [{"name": name} for name in names]
    answer = admin.call(ApiKey.METADATA, {"topics": topics, "allow_auto_topic_creation": False})
    found = {topic.name: topic for topic in answer.topics}
    groups: dict[int, list[TopicPartition]] = {}
    for key in partitions:
        topic = found.get(key[0])
        error = UnknownTopicOrPartition() if topic is None else failure(topic.error_code)
        entries = {} if topic is None else {one.partition_index: one for one in topic.partitions}
        if error is None and key[1] not in entries:
            error = UnknownTopicOrPartition()
        if error is None and entries[key[1]].leader_id < 0:
            error = failure(entries[key[1]].error_code) or LeaderNotAvailable()
        if error is not None:
            done[key] = error
        else:
            groups.setdefault(entries[key[1]].leader_id, []).append(key)
    return groups


def _take(answer: Any, group: Sequence[TopicPartition], done: dict[TopicPartition, Any]) -> None:
    """One leader's answer into `done`; a partition that the answer leaves out is an error, not a gap."""
    if isinstance(answer, KafkaError):
        done.update(dict.fromkeys(group, answer))
        return
    entries = {(topic.name, one.partition_index): one for topic in answer.topics for one in topic.partitions}
    for key in group:
        entry = entries.get(key)
        if entry is None:
            done[key] = UnknownTopicOrPartition("The broker's answer leaves this partition out.")
        else:
            done[key] = failure(entry.error_code) or entry
