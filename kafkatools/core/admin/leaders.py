"""Requests about partitions, sent to all their leaders in parallel (Kafka's PartitionLeaderStrategy)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

from kafkatools.core.admin.client import AdminClient, error_in
from kafkatools.core.errors import KafkaError, LeaderNotAvailable, UnknownTopicOrPartition
from kafkatools.core.net.requests import BrokerRequest
from kafkatools.core.protocol.api_versions import NEVER
from kafkatools.core.protocol.entities import Entity, Fields

TopicPartition = tuple[str, int]
ELECTION_MS = 5000
"""How long commands wait for a partition without a leader. Apache Kafka waits for default.api.timeout.ms (60 s)."""
R = TypeVar("R")
Result = TypeVar("Result", covariant=True)


class LeaderRequest(NamedTuple, Generic[Result]):
    """Builder of the request for some partitions of one leader, and reader of each partition's result or error."""

    api_key: int
    build: Callable[[list[TopicPartition], int], Fields]
    read: Callable[[Entity], Mapping[TopicPartition, Result | KafkaError]]
    min_version: int = 0
    max_version: int = NEVER


def send_to_leaders(
    admin: AdminClient,
    partitions: Iterable[TopicPartition],
    request: LeaderRequest[R],
    timeout_ms: int | None = None,
    leaderless_ms: int | None = None,
) -> dict[TopicPartition, R | KafkaError]:
    """Return a result or KafkaError for every partition, looking leaders up again for each retry. A nonexistent
    partition fails at once. `leaderless_ms`: how long to wait for a leader's election, if shorter than
    request.timeout.ms. Raises KafkaError when metadata cannot be fetched."""

    def once(items: list[TopicPartition], deadline_ms: int) -> dict[TopicPartition, R | KafkaError]:
        leaders, errors = _find_leaders(admin, items, deadline_ms)
        remaining_ms = admin.remaining_ms(deadline_ms)

        def build(leader: int | None, group: list[TopicPartition]) -> BrokerRequest:
            fields = request.build(group, remaining_ms)
            return BrokerRequest(leader, request.api_key, fields, request.min_version, request.max_version)

        results = admin.send_by_node(leaders, build, lambda response, _: request.read(response.entity), deadline_ms)
        return {**errors, **results}

    return admin.retry_items(partitions, once, timeout_ms, admin.may_move(leaderless_ms))


class NoSuchPartition(UnknownTopicOrPartition):
    """This server does not host this topic-partition."""

    retriable = False


def _find_leaders(
    admin: AdminClient, partitions: list[TopicPartition], deadline_ms: int
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, KafkaError]]:
    """Return the leaders of partitions, and errors for the partitions without one."""
    response = admin.metadata_of(sorted({topic for topic, _ in partitions}), deadline_ms)
    topics = {topic.name: _leaders(topic) for topic in response.topics}
    leaders: dict[TopicPartition, int] = {}
    errors: dict[TopicPartition, KafkaError] = {}
    for name, index in partitions:
        partition_leaders = topics.get(name, {})
        if isinstance(partition_leaders, KafkaError):
            errors[name, index] = partition_leaders
        elif index not in partition_leaders:
            errors[name, index] = NoSuchPartition()
        elif partition_leaders[index] < 0:
            errors[name, index] = LeaderNotAvailable()
        else:
            leaders[name, index] = partition_leaders[index]
    return leaders, errors


def _leaders(topic: Entity) -> dict[int, int] | KafkaError:
    """Return each partition's leader (-1 = none), or the error of the topic."""
    error = error_in(topic)
    if error is not None:
        return NoSuchPartition() if isinstance(error, UnknownTopicOrPartition) else error
    return {part.partition_index: part.leader_id for part in topic.partitions}
