"""Read the present state of a cluster, as far as files can declare it.

Of topics only overrides count: values that the topic itself has, no defaults of brokers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkatools.core.admin import configs as topic_configs
from kafkatools.core.admin.acls import Acl, describe_acls
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.configs import ResourceConfig, describe_configs
from kafkatools.core.admin.quotas import Entity, describe_client_quotas
from kafkatools.core.admin.reassignments import PartitionReassignment, list_reassignments
from kafkatools.core.admin.replication_throttles import FOLLOWER_REPLICAS, LEADER_REPLICAS
from kafkatools.core.admin.scram import describe_user_scram_credentials
from kafkatools.core.admin.topics import TopicDescription, describe_all_topics, describe_topics
from kafkatools.core.errors import RequestTimedOut, Timeout, TopicAuthorizationFailed, UnknownTopicOrPartition
from kafkatools.tools.declared.model import ACLS, QUOTAS, TOPICS, USERS, Credential, ordered_entity
from kafkatools.tools.rights import READ_ACLS, READ_QUOTAS, READ_USERS, TOPIC, Right, naming, needs

_CONFIGS_AT_A_TIME = 500
_MOVES_WITHIN_MS = 5000
TRANSIENT_CONFIGS = (LEADER_REPLICAS, FOLLOWER_REPLICAS)
"""Overrides that a reassignment sets and removes: never written to a file, never pruned."""


class PresentTopic(NamedTuple):
    """A topic. `replication`: the numbers of replicas that its partitions have, or will have when the reassignments in
    progress are complete; empty if these are unknown. `overrides`: its own config values; `values`: all config values,
    None for a sensitive one. Both are empty if the configs were not read."""

    name: str
    partitions: int
    replication: frozenset[int]
    is_internal: bool
    overrides: Mapping[str, str] = {}
    values: Mapping[str, str | None] = {}


@dataclass
class Present:
    """The state of a cluster: the kinds that were read, the others are empty. `config_names`: those that the brokers
    have for topics, as far as topics were described. `is_replication_known`: False if no broker listed the
    reassignments in time."""

    topics: dict[str, PresentTopic] = field(default_factory=dict)
    acls: list[Acl] = field(default_factory=list)
    quotas: dict[Entity, Mapping[str, float]] = field(default_factory=dict)
    users: dict[Credential, int] = field(default_factory=dict)
    config_names: frozenset[str] = frozenset()
    is_replication_known: bool = True


def read_present(admin: AdminClient, kinds: Collection[str], with_configs: Collection[str] | None = None) -> Present:
    """Read these kinds. `with_configs`: the topics whose configs are read (None: all that are not internal). Raises
    KafkaError, also that of a single topic or user."""
    present = Present()
    if TOPICS in kinds:
        _read_topics(admin, present, with_configs)
    if ACLS in kinds:
        with needs(READ_ACLS):
            present.acls = describe_acls(admin)
    if QUOTAS in kinds:
        with needs(READ_QUOTAS):
            entities = describe_client_quotas(admin, [], strict=False)
        present.quotas = {ordered_entity(entity): values for entity, values in entities}
    if USERS in kinds:
        with needs(READ_USERS):
            described = describe_user_scram_credentials(admin, [])
        for credentials in described:
            if credentials.error is not None:
                raise credentials.error
            for mechanism, iterations in credentials.iterations.items():
                present.users[credentials.user, mechanism] = iterations
    return present


def _read_topics(admin: AdminClient, present: Present, with_configs: Collection[str] | None) -> None:
    moves = _moves(admin)
    present.is_replication_known = moves is not None
    for name, description in sorted(describe_all_topics(admin).items()):
        if isinstance(description.error, UnknownTopicOrPartition):
            continue  # deleted between two pages of the listing
        if description.error is not None:
            raise description.error
        present.topics[name] = _topic(description, moves)
    _ensure_missing(admin, sorted(set(with_configs or ()) - present.topics.keys()))
    names = [
        name
        for name, topic in present.topics.items()
        if (not topic.is_internal if with_configs is None else name in with_configs)
    ]
    for at in range(0, len(names), _CONFIGS_AT_A_TIME):
        resources = [(topic_configs.TOPIC, name) for name in names[at : at + _CONFIGS_AT_A_TIME]]
        for (_, name), config in describe_configs(admin, resources).items():
            present.topics[name] = _with_configs(present.topics[name], config)
    described = (present.topics[name].values for name in names)
    present.config_names = frozenset().union(*{id(values): values for values in described}.values())


def _ensure_missing(admin: AdminClient, names: Sequence[str]) -> None:
    """Raise TopicAuthorizationFailed for a topic that is not listed since the user may not describe it."""
    for name, description in describe_topics(admin, names).items() if names else ():
        if isinstance(description.error, TopicAuthorizationFailed):
            raise naming(description.error, Right("DESCRIBE", TOPIC, name))


def _moves(admin: AdminClient) -> Mapping[tuple[str, int], PartitionReassignment] | None:
    """Return the reassignments in progress: none if the user may not see them; None after a timeout, such as without a
    controller. Raises other KafkaErrors."""
    try:
        return list_reassignments(admin, timeout_ms=min(_MOVES_WITHIN_MS, admin.timeout_ms))
    except (RequestTimedOut, Timeout):
        return None


def _topic(
    description: TopicDescription, moves: Mapping[tuple[str, int], PartitionReassignment] | None
) -> PresentTopic:
    is_internal = description.is_internal or description.name.startswith("__")
    replication = frozenset() if moves is None else _replication(description, moves)
    return PresentTopic(description.name, len(description.partitions), replication, is_internal)


def _replication(
    description: TopicDescription, moves: Mapping[tuple[str, int], PartitionReassignment]
) -> frozenset[int]:
    replication = set()
    for partition in description.partitions:
        move = moves.get((description.name, partition.partition))
        replicas = partition.replicas if move is None else set(move.replicas) - set(move.removing_replicas)
        replication.add(len(replicas))
    return frozenset(replication)


def _with_configs(topic: PresentTopic, config: ResourceConfig) -> PresentTopic:
    if config.error is not None:
        raise naming(config.error, Right("DESCRIBE_CONFIGS", TOPIC, topic.name))
    overrides = {
        entry.name: entry.value
        for entry in config.entries
        if entry.source == topic_configs.TOPIC_CONFIG and entry.value is not None
    }
    return topic._replace(overrides=overrides, values={entry.name: entry.value for entry in config.entries})
