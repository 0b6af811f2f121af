"""Throttles of replication traffic during reassignments (KIP-73, KIP-113): set, find and remove them.

A throttle has two parts: rates of a broker in bytes per second, and a list of throttled replicas on each topic
(`partition:broker`). A replica is throttled only when it is in such a list and its broker has a rate.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.configs import (
    BROKER,
    DELETE,
    DYNAMIC_BROKER_CONFIG,
    TOPIC,
    TOPIC_CONFIG,
    ConfigChange,
    Resource,
    describe_configs,
    incremental_alter_configs,
)
from kafkatools.core.admin.reassignments import PartitionReassignment, TopicPartition
from kafkatools.core.errors import BrokerNotAvailable, KafkaError

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LOG_DIR_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"

BROKER_THROTTLES = (LEADER_RATE, FOLLOWER_RATE, LOG_DIR_RATE)
TOPIC_THROTTLES = (LEADER_REPLICAS, FOLLOWER_REPLICAS)


class PartitionMove(NamedTuple):
    """The source and destination brokers of a partition's move (Kafka's PartitionMove)."""

    sources: frozenset[int]
    destinations: frozenset[int]


class Throttles(NamedTuple):
    """Throttle settings by broker and by topic, and the errors of brokers and topics that could not be read."""

    brokers: Mapping[int, Mapping[str, str]]
    topics: Mapping[str, Mapping[str, str]]
    errors: Mapping[int | str, KafkaError]


def partition_moves(
    active: Mapping[TopicPartition, PartitionReassignment],
    target_replicas: Mapping[TopicPartition, Iterable[int]],
    current: Mapping[TopicPartition, Iterable[int]],
) -> dict[TopicPartition, PartitionMove]:
    """Return all moves: active ones and those to `target_replicas`
    (ReassignPartitionsCommand.calculateProposedMoveMap). A partition already being moved keeps its original replicas as
    sources; for others they are its `current` replicas."""
    moves = {
        part: PartitionMove(
            frozenset(moving.replicas) - frozenset(moving.adding_replicas), frozenset(moving.adding_replicas)
        )
        for part, moving in active.items()
    }
    for part, replicas in target_replicas.items():
        sources = moves[part].sources if part in moves else frozenset(current[part])
        moves[part] = PartitionMove(sources, frozenset(replicas) - sources)
    return moves


def brokers_of(moves: Mapping[TopicPartition, PartitionMove]) -> list[int]:
    """Return the sorted ids of all source and destination brokers."""
    return sorted({broker for move in moves.values() for broker in move.sources | move.destinations})


def throttled_replicas(moves: Mapping[TopicPartition, PartitionMove]) -> dict[str, dict[str, str]]:
    """Return, by topic, the values of the settings that name the throttled replicas of these moves."""
    replicas: dict[str, dict[str, set[str]]] = {}
    for (topic, partition), move in moves.items():
        of_topic = replicas.setdefault(topic, {LEADER_REPLICAS: set(), FOLLOWER_REPLICAS: set()})
        of_topic[LEADER_REPLICAS].update(f"{partition}:{broker}" for broker in move.sources)
        of_topic[FOLLOWER_REPLICAS].update(f"{partition}:{broker}" for broker in move.destinations)
    return {
        topic: {name: ",".join(sorted(names)) for name, names in of_topic.items()}
        for topic, of_topic in replicas.items()
    }


def set_replica_throttles(
    admin: AdminClient, moves: Mapping[TopicPartition, PartitionMove]
) -> dict[str, KafkaError | None]:
    """Set the throttled replicas of each moved topic, replacing earlier lists; return None or the error by topic."""
    changes = {
        (TOPIC, topic): [ConfigChange(name, value) for name, value in values.items()]
        for topic, values in throttled_replicas(moves).items()
    }
    return {name: error for (_, name), error in incremental_alter_configs(admin, changes).items()}


def set_broker_throttles(admin: AdminClient, brokers: Collection[int], rate: int) -> dict[int, KafkaError | None]:
    """Limit the brokers' throttled replication to `rate` bytes per second; return None or the error by broker."""
    changes = [ConfigChange(LEADER_RATE, str(rate)), ConfigChange(FOLLOWER_RATE, str(rate))]
    return _alter_brokers(admin, dict.fromkeys(brokers, changes))


def set_log_dir_throttles(admin: AdminClient, brokers: Collection[int], rate: int) -> dict[int, KafkaError | None]:
    """Limit moves between log directories to `rate` bytes per second; return None or the error by broker."""
    return _alter_brokers(admin, dict.fromkeys(brokers, [ConfigChange(LOG_DIR_RATE, str(rate))]))


def clear_broker_throttles(admin: AdminClient, brokers: Collection[int]) -> dict[int, KafkaError | None]:
    """Remove all throttle rates of the brokers; return None or the error by broker."""
    changes = [ConfigChange(name, None, DELETE) for name in BROKER_THROTTLES]
    return _alter_brokers(admin, dict.fromkeys(brokers, changes))


def clear_topic_throttles(admin: AdminClient, topics: Collection[str]) -> dict[str, KafkaError | None]:
    """Remove the throttled-replica lists of the topics; return None or the error by topic."""
    changes = [ConfigChange(name, None, DELETE) for name in TOPIC_THROTTLES]
    outcome = incremental_alter_configs(admin, {(TOPIC, topic): changes for topic in topics})
    return {name: error for (_, name), error in outcome.items()}


def _alter_brokers(admin: AdminClient, changes: Mapping[int, list[ConfigChange]]) -> dict[int, KafkaError | None]:
    """Change settings of brokers; return the error or None by broker. A broker that is down gets BrokerNotAvailable,
    except if `admin` is connected to controllers: they change its settings, too."""
    live = set(changes) if admin.through_controllers else set(admin.brokers())
    outcome = incremental_alter_configs(
        admin, {(BROKER, str(broker)): broker_changes for broker, broker_changes in changes.items() if broker in live}
    )
    absent = {broker: BrokerNotAvailable(f"Broker {broker} is not there") for broker in changes if broker not in live}
    return {broker: absent.get(broker) or outcome[BROKER, str(broker)] for broker in changes}


def find_throttles(admin: AdminClient, topics: Collection[str], brokers: Collection[int] = ()) -> Throttles:
    """Return the throttles set dynamically on topics and brokers, without static and cluster-wide ones."""
    resources: list[Resource] = [(TOPIC, topic) for topic in topics] + [(BROKER, str(broker)) for broker in brokers]
    configs = describe_configs(admin, resources, names=BROKER_THROTTLES + TOPIC_THROTTLES)
    by_broker: dict[int, dict[str, str]] = {}
    by_topic: dict[str, dict[str, str]] = {}
    errors: dict[int | str, KafkaError] = {}
    for (kind, name), resource in configs.items():
        if resource.error is not None:
            errors[int(name) if kind == BROKER else name] = resource.error
            continue
        dynamic_source = DYNAMIC_BROKER_CONFIG if kind == BROKER else TOPIC_CONFIG
        values = {entry.name: entry.value or "" for entry in resource.entries if entry.source == dynamic_source}
        if values and kind == BROKER:
            by_broker[int(name)] = values
        elif values:
            by_topic[name] = values
    return Throttles(by_broker, by_topic, errors)
