"""Limits on the traffic of replicas that are being moved (KIP-73, KIP-113): set, found and taken away again.

A limit has two halves: rates of a broker (bytes per second), and on each topic the list of replicas to which they
apply, `partition:broker` each. A replica that is in no list, or whose broker has no rate, is not limited. Rates without
lists slow down nothing; what is left behind of either is what `find_throttles` shows.
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
    """Where a partition's bytes come from and where they go (PartitionMove): sources are the replicas it has."""

    sources: frozenset[int]
    destinations: frozenset[int]


class Throttles(NamedTuple):
    """What is set: by broker and by topic, setting -> value. `errors`: of those that did not tell."""

    brokers: Mapping[int, Mapping[str, str]]
    topics: Mapping[str, Mapping[str, str]]
    errors: Mapping[int | str, KafkaError]


def partition_moves(
    active: Mapping[TopicPartition, PartitionReassignment],
    wanted: Mapping[TopicPartition, Iterable[int]],
    current: Mapping[TopicPartition, Iterable[int]],
) -> dict[TopicPartition, PartitionMove]:
    """All moves there will be: the active ones and the new ones (ReassignPartitionsCommand.calculateProposedMoveMap).

    A partition that is moving already keeps its sources: the replicas it had before.
    """
    moves = {
        part: PartitionMove(
            frozenset(moving.replicas) - frozenset(moving.adding_replicas), frozenset(moving.adding_replicas)
        )
        for part, moving in active.items()
    }
    for part, replicas in wanted.items():
        sources = moves[part].sources if part in moves else frozenset(current[part])
        moves[part] = PartitionMove(sources, frozenset(replicas) - sources)
    return moves


def brokers_of(moves: Mapping[TopicPartition, PartitionMove]) -> list[int]:
    """All brokers that send or receive."""
    return sorted({broker for move in moves.values() for broker in move.sources | move.destinations})


def set_replica_throttles(
    admin: AdminClient, moves: Mapping[TopicPartition, PartitionMove]
) -> dict[str, KafkaError | None]:
    """Name the replicas to be limited on their topics, in place of those named there; an error for each topic."""
    lists: dict[str, tuple[set[str], set[str]]] = {}
    for (topic, partition), move in moves.items():
        leaders, followers = lists.setdefault(topic, (set(), set()))
        leaders.update(f"{partition}:{broker}" for broker in move.sources)
        followers.update(f"{partition}:{broker}" for broker in move.destinations)
    changes = {
        (TOPIC, topic): [
            ConfigChange(LEADER_REPLICAS, ",".join(sorted(leaders))),
            ConfigChange(FOLLOWER_REPLICAS, ",".join(sorted(followers))),
        ]
        for topic, (leaders, followers) in lists.items()
    }
    return {name: error for (_, name), error in incremental_alter_configs(admin, changes).items()}


def set_broker_throttles(admin: AdminClient, brokers: Collection[int], rate: int) -> dict[int, KafkaError | None]:
    """Limit what these brokers send and receive of throttled replicas, in bytes per second; an error for each."""
    changes = [ConfigChange(LEADER_RATE, str(rate)), ConfigChange(FOLLOWER_RATE, str(rate))]
    return _alter_brokers(admin, dict.fromkeys(brokers, changes))


def set_log_dir_throttles(admin: AdminClient, brokers: Collection[int], rate: int) -> dict[int, KafkaError | None]:
    """Limit what these brokers copy between their directories, in bytes per second; an error for each."""
    return _alter_brokers(admin, dict.fromkeys(brokers, [ConfigChange(LOG_DIR_RATE, str(rate))]))


def clear_broker_throttles(admin: AdminClient, brokers: Collection[int]) -> dict[int, KafkaError | None]:
    """Take all rates of these brokers away; None or an error for each: one that is down keeps what it has."""
    changes = [ConfigChange(name, None, DELETE) for name in BROKER_THROTTLES]
    return _alter_brokers(admin, dict.fromkeys(brokers, changes))


def clear_topic_throttles(admin: AdminClient, topics: Collection[str]) -> dict[str, KafkaError | None]:
    """Take the lists of throttled replicas of these topics away; None or an error for each."""
    changes = [ConfigChange(name, None, DELETE) for name in TOPIC_THROTTLES]
    outcome = incremental_alter_configs(admin, {(TOPIC, topic): changes for topic in topics})
    return {name: error for (_, name), error in outcome.items()}


def _alter_brokers(admin: AdminClient, changes: Mapping[int, list[ConfigChange]]) -> dict[int, KafkaError | None]:
    """A broker takes changes of its own configuration only: one that is not there can be told by controllers only."""
    live = set(changes) if admin.through_controllers else set(admin.brokers())
    outcome = incremental_alter_configs(
        admin, {(BROKER, str(broker)): wanted for broker, wanted in changes.items() if broker in live}
    )
    return {broker: outcome[BROKER, str(broker)] if broker in live else _absent(broker) for broker in changes}


def _absent(broker: int) -> KafkaError:
    return BrokerNotAvailable(f"Broker {broker} is not there")


def find_throttles(admin: AdminClient, topics: Collection[str], brokers: Collection[int] = ()) -> Throttles:
    """The throttles that are set on topics and on brokers themselves (not by their files, nor for all of them)."""
    wanted: list[Resource] = [(TOPIC, topic) for topic in topics] + [(BROKER, str(broker)) for broker in brokers]
    found = describe_configs(admin, wanted, names=BROKER_THROTTLES + TOPIC_THROTTLES)
    result = Throttles({}, {}, {})
    by_broker: dict[int, dict[str, str]] = {}
    by_topic: dict[str, dict[str, str]] = {}
    errors: dict[int | str, KafkaError] = {}
    for (kind, name), resource in found.items():
        if resource.error is not None:
            errors[int(name) if kind == BROKER else name] = resource.error
            continue
        own = DYNAMIC_BROKER_CONFIG if kind == BROKER else TOPIC_CONFIG
        values = {entry.name: entry.value or "" for entry in resource.entries if entry.source == own}
        if values and kind == BROKER:
            by_broker[int(name)] = values
        elif values:
            by_topic[name] = values
    return result._replace(brokers=by_broker, topics=by_topic, errors=errors)
