"""The results of OffsetCommit and TxnOffsetCommit in Kafka's order (OffsetCommitResponse.Builder).

KafkaApis refuses partitions before it asks the group coordinator: those of unknown topics, those that do not exist, and
those of topics that the client may not read. They come first, and the coordinator's results follow, each topic once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kafkatools.core.errors import TopicAuthorizationFailed, UnknownTopicId, UnknownTopicOrPartition
from kafkatools.core.protocol.entities import Entity, Fields
from kafkatools.core.protocol.slices import paced

BEFORE_COORDINATOR = frozenset((TopicAuthorizationFailed.code, UnknownTopicId.code, UnknownTopicOrPartition.code))


class TopicResults(NamedTuple):
    """A topic of the request with the error codes of its partitions."""

    topic: Entity
    codes: Sequence[tuple[int, int]]  # partition, error code


def with_error(results: Iterable[TopicResults], code: int) -> list[TopicResults]:
    """The results if the coordinator refuses the whole request: `code` for each partition that it was asked about."""
    return [
        TopicResults(topic, [(index, own if own in BEFORE_COORDINATOR else code) for index, own in codes])
        for topic, codes in paced(list(results))
    ]


def for_all(topics: Iterable[Entity], code: int) -> list[TopicResults]:
    """One error code for each partition of a request."""
    return [
        TopicResults(topic, [(partition.partition_index, code) for partition in paced(topic.partitions)])
        for topic in paced(list(topics))
    ]


def response_topics(results: Sequence[TopicResults]) -> list[Fields]:
    """The `topics` of the response, in Kafka's order."""
    refused = [_part(each, is_refused=True) for each in paced(results)]
    asked = [_part(each, is_refused=False) for each in paced(results)]
    if not any(partitions for _, partitions in refused):
        return [_fields(topic, partitions) for topic, partitions in asked if partitions]
    rows_by_topic: dict[object, tuple[Entity, list[Fields]]] = {}
    for topic, partitions in (*refused, *asked):
        if partitions:
            key = getattr(topic, "topic_id", None) or getattr(topic, "name", None)
            rows_by_topic.setdefault(key, (topic, []))[1].extend(partitions)
    return [_fields(topic, partitions) for topic, partitions in rows_by_topic.values()]


def _part(results: TopicResults, *, is_refused: bool) -> tuple[Entity, list[Fields]]:
    rows = [
        {"partition_index": index, "error_code": code}
        for index, code in paced(results.codes)
        if (code in BEFORE_COORDINATOR) == is_refused
    ]
    return results.topic, rows


def _fields(topic: Entity, partitions: list[Fields]) -> Fields:
    return {
        "name": getattr(topic, "name", None),
        "topic_id": getattr(topic, "topic_id", None),
        "partitions": partitions,
    }
