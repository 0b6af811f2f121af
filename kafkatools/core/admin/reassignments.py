"""Move replicas to other brokers (KIP-455) and to other log directories.

Sources: KafkaAdminClient's alterPartitionReassignments, listPartitionReassignments, alterReplicaLogDirs and
describeReplicaLogDirs. The controller runs reassignments, which end when the new replicas are in sync; brokers move
replicas between their own directories. Throttles: `replication_throttles`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from kafkatools.core.admin.client import AdminClient, error_in, may_help_again
from kafkatools.core.admin.results import by_partition, refusals
from kafkatools.core.admin.topics import PartitionDescription, describe_topics
from kafkatools.core.errors import (
    BrokerNotAvailable,
    ClusterAuthorizationFailed,
    KafkaError,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from kafkatools.core.net.requests import BrokerRequest, BrokerResponse
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Entity, Fields
from kafkatools.core.topic_partition import numbers_by_topic

TopicPartition = tuple[str, int]
R = TypeVar("R")


class PartitionReassignment(NamedTuple):
    """A partition's ongoing move: current replicas (added ones included), replicas being added and being removed."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


class Replica(NamedTuple):
    """One replica of a partition on a broker (Kafka's TopicPartitionReplica), printed as topic-partition-broker."""

    topic: str
    partition: int
    broker: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.broker}"


class ReplicaLogDir(NamedTuple):
    """A replica's current directory and the directory it is being moved to; None and -1 bytes where there is none."""

    current: str | None = None
    current_bytes: int = -1
    future: str | None = None
    future_bytes: int = -1


def list_reassignments(
    admin: AdminClient, partitions: Iterable[TopicPartition] | None = None, timeout_ms: int | None = None
) -> dict[TopicPartition, PartitionReassignment]:
    """Return the ongoing reassignments of some partitions or of all, for display. Empty when the broker is too old or
    denies access, as in Kafka's tools."""
    try:
        return active_reassignments(admin, partitions, timeout_ms)
    except (UnsupportedVersion, ClusterAuthorizationFailed):
        return {}


def active_reassignments(
    admin: AdminClient, partitions: Iterable[TopicPartition] | None = None, timeout_ms: int | None = None
) -> dict[TopicPartition, PartitionReassignment]:
    """Return the ongoing reassignments of some partitions or of all. Raises KafkaError."""
    topics: list[Fields] | None = None
    if partitions is not None:
        topics = [
            {"name": name, "partition_indexes": tuple(indexes)}
            for name, indexes in numbers_by_topic(partitions).items()
        ]
    limit_ms = admin.timeout_ms if timeout_ms is None else timeout_ms
    fields = {"timeout": min(limit_ms, admin.config.request_timeout_ms), "topics": topics}
    response = admin.send(ApiKey.LIST_PARTITION_REASSIGNMENTS, fields, check=error_in, timeout_ms=limit_ms)
    return by_partition(response.topics, _reassignment)


def _reassignment(part: Entity) -> PartitionReassignment:
    return PartitionReassignment(tuple(part.replicas), tuple(part.adding_replicas), tuple(part.removing_replicas))


def alter_reassignments(
    admin: AdminClient,
    target_replicas: Mapping[TopicPartition, Sequence[int] | None],
    *,
    allow_replication_factor_change: bool = True,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, KafkaError | None]:
    """Start moving partitions to these replicas, or cancel moves (None); return None or the error by partition. Moving
    a partition to the replicas it already has succeeds. Forbidding a changed replication factor needs Kafka 4.1, else
    UnsupportedVersion."""

    def once(items: list[TopicPartition], deadline_ms: int) -> dict[TopicPartition, KafkaError | bool]:
        topics = [
            {
                "name": name,
                "partitions": [
                    {"partition_index": index, "replicas": _ids(target_replicas[name, index])} for index in indexes
                ],
            }
            for name, indexes in numbers_by_topic(items).items()
        ]
        fields = {
            "timeout": min(admin.remaining_ms(deadline_ms), admin.config.request_timeout_ms),
            "allow_replication_factor_change": allow_replication_factor_change,
            "topics": topics,
        }
        try:
            response = admin.send_to_controller(ApiKey.ALTER_PARTITION_REASSIGNMENTS, fields, deadline_ms)
        except KafkaError as error:
            return dict.fromkeys(items, error)
        refusal = error_in(response)
        if refusal is not None:
            return dict.fromkeys(items, refusal)
        return by_partition(response.responses, lambda part: error_in(part) or True)

    return refusals(admin.retry_items(target_replicas, once, timeout_ms))


def _ids(replicas: Sequence[int] | None) -> tuple[int, ...] | None:
    return None if replicas is None else tuple(replicas)


def partitions_of(admin: AdminClient, topics: Collection[str]) -> dict[TopicPartition, PartitionDescription]:
    """Return all partitions of topics. Raises KafkaError; UnknownTopicOrPartition names the first missing topic."""
    partitions: dict[TopicPartition, PartitionDescription] = {}
    if not topics:
        return partitions
    for name, topic in describe_topics(admin, names=list(topics)).items():
        if isinstance(topic.error, UnknownTopicOrPartition):
            raise UnknownTopicOrPartition(f"Topic {name} not found.")
        if topic.error is not None:
            raise topic.error
        partitions.update({(name, part.partition): part for part in topic.partitions})
    return partitions


def alter_replica_log_dirs(admin: AdminClient, paths: Mapping[Replica, str]) -> dict[Replica, KafkaError | None]:
    """Start moving replicas to other directories of their brokers, without retries; return None or the error by
    replica. ReplicaNotAvailable means the broker does not have the replica yet; it will create it in that directory.
    Raises KafkaError when the brokers cannot be listed."""

    def build(broker: int | None, group: list[Replica]) -> BrokerRequest:
        return BrokerRequest(broker, ApiKey.ALTER_REPLICA_LOG_DIRS, {"dirs": _dirs(paths, group)})

    def read(response: BrokerResponse, group: list[Replica]) -> dict[Replica, KafkaError | bool]:
        return {
            Replica(topic.topic_name, part.partition_index, response.node): error_in(part) or True
            for topic in response.entity.results
            for part in topic.partitions
        }

    return refusals(_send_to_live_brokers(admin, paths, build, read, lambda error: False))


def _dirs(paths: Mapping[Replica, str], replicas: Iterable[Replica]) -> list[Fields]:
    by_path: dict[str, list[TopicPartition]] = {}
    for replica in replicas:
        by_path.setdefault(paths[replica], []).append((replica.topic, replica.partition))
    return [
        {
            "path": path,
            "topics": [
                {"name": name, "partitions": tuple(numbers)} for name, numbers in numbers_by_topic(partitions).items()
            ],
        }
        for path, partitions in by_path.items()
    ]


def replica_log_dirs(admin: AdminClient, replicas: Collection[Replica]) -> dict[Replica, ReplicaLogDir | KafkaError]:
    """Return the log directories of replicas, or the error of their broker. An empty ReplicaLogDir means that no online
    directory has the replica. Raises KafkaError when the brokers cannot be listed."""

    def build(broker: int | None, group: list[Replica]) -> BrokerRequest:
        return BrokerRequest(broker, ApiKey.DESCRIBE_LOG_DIRS, {"topics": _described(group)})

    def read(response: BrokerResponse, group: list[Replica]) -> dict[Replica, ReplicaLogDir | KafkaError]:
        error = error_in(response.entity)
        log_dirs: dict[Replica, ReplicaLogDir | KafkaError] = dict.fromkeys(group, error or ReplicaLogDir())
        if error is None:
            _read_log_dirs(response.node, response.entity, log_dirs)
        return log_dirs

    return _send_to_live_brokers(admin, replicas, build, read, may_help_again)


def _send_to_live_brokers(
    admin: AdminClient,
    replicas: Iterable[Replica],
    build: Callable[[int | None, list[Replica]], BrokerRequest],
    read: Callable[[BrokerResponse, list[Replica]], Mapping[Replica, R | KafkaError]],
    may_retry: Callable[[KafkaError], bool],
) -> dict[Replica, R | KafkaError]:
    """Send requests about replicas to their brokers, with retries; replicas of dead brokers get BrokerNotAvailable."""

    def once(items: list[Replica], deadline_ms: int) -> dict[Replica, R | KafkaError]:
        return admin.send_by_node({replica: replica.broker for replica in items}, build, read, deadline_ms)

    live = set(admin.brokers())
    reachable = [replica for replica in replicas if replica.broker in live]
    results: dict[Replica, R | KafkaError] = {
        replica: BrokerNotAvailable(f"Broker {replica.broker} is not there")
        for replica in replicas
        if replica.broker not in live
    }
    results.update(admin.retry_items(reachable, once, may_retry=may_retry))
    return {replica: results[replica] for replica in replicas}


def _described(replicas: Iterable[Replica]) -> list[Fields]:
    topics = numbers_by_topic((replica.topic, replica.partition) for replica in replicas)
    return [{"topic": name, "partitions": tuple(indexes)} for name, indexes in topics.items()]


def _read_log_dirs(broker: int, entity: Entity, log_dirs: dict[Replica, ReplicaLogDir | KafkaError]) -> None:
    for directory in entity.results:
        if error_in(directory) is not None:
            continue
        for topic in directory.topics:
            for part in topic.partitions:
                key = Replica(topic.name, part.partition_index, broker)
                log_dir = log_dirs.get(key)
                if not isinstance(log_dir, ReplicaLogDir):
                    continue
                path, size = directory.log_dir, part.partition_size
                log_dirs[key] = (
                    log_dir._replace(future=path, future_bytes=size)
                    if part.is_future_key
                    else log_dir._replace(current=path, current_bytes=size)
                )
