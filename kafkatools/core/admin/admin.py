"""Admin: the face of the admin client for Python programs; the work is done by the modules beside it.

The rule of errors, here and nowhere else: a call that is about several things does what it can for all of them and
returns when all succeeded. When one failed it raises: that thing's own error when the call was about one thing only,
else PartialFailure with `errors` (the error of each thing that failed, by the thing) and `results` (what the call would
have returned, of the others). So nothing fails unseen, and nothing that was done is lost sight of.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Concatenate, ParamSpec, TypeVar

from kafkatools.core import config as tables
from kafkatools.core.admin import (
    acls,
    cluster,
    configs,
    group_offsets,
    groups,
    offsets,
    results,
    topics,
    transactions,
)
from kafkatools.core.admin.acls import Acl, AclFilter
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.cluster import ClusterDescription
from kafkatools.core.admin.configs import ConfigChange, ConfigEntry
from kafkatools.core.admin.groups import GroupDescription, GroupListing
from kafkatools.core.admin.offsets import PartitionOffset
from kafkatools.core.admin.operations import ClusterOperations
from kafkatools.core.admin.topics import CreatedTopic, NewPartitions, NewTopic, TopicDescription, TopicListing
from kafkatools.core.admin.transactions import (
    OpenTransaction,
    ProducerState,
    TransactionDescription,
    TransactionListing,
)
from kafkatools.core.clock import Clock, SystemClock
from kafkatools.core.closing import Closing
from kafkatools.core.config.given import Settings, config_of
from kafkatools.core.errors import IllegalState
from kafkatools.core.group.metadata import OffsetAndMetadata
from kafkatools.core.topic_partition import TopicPartition

R = TypeVar("R")
Arguments = ParamSpec("Arguments")
P = TypeVar("P", bound=tuple[str, int])
Resource = tuple[str, str]

_RESOURCES = {
    "topic": configs.TOPIC,
    "broker": configs.BROKER,
    "broker_logger": configs.BROKER_LOGGER,
    "client_metrics": configs.CLIENT_METRICS,
    "group": configs.GROUP,
}
_RESOURCE_NAMES = {number: name for name, number in _RESOURCES.items()}
_OFFSETS = {
    "latest": offsets.LATEST,
    "earliest": offsets.EARLIEST,
    "max_timestamp": offsets.MAX_TIMESTAMP,
    "earliest_local": offsets.EARLIEST_LOCAL,
    "latest_tiered": offsets.LATEST_TIERED,
}


class Admin(ClusterOperations, Closing):
    """Asks and changes a cluster: topics, configurations, offsets, groups, transactions, ACLs, and what those need who
    run it: reassignments, elections, quotas, credentials, tokens. A context manager.

    `config`: settings by Kafka's names, `{"bootstrap.servers": "localhost:9092"}`, or a Config; `settings`: the same as
    keyword arguments, `bootstrap_servers="localhost:9092"` (all of them: docs/config/admin.md). No connection is made
    yet. Raises ConfigError.

    A call about several things returns when all succeeded, else it raises (PartialFailure, see the module). Every call
    raises KafkaError when the cluster cannot be asked: ConnectionFailed or another one that says why, within seconds
    when no broker ever answered, Timeout after default.api.timeout.ms (60 s). Times are milliseconds (int), partitions
    are pairs (topic, number), offsets of groups are those of the next record to read. Thread-safe: one call at a time.
    """

    def __init__(self, config: Settings | None = None, clock: Clock | None = None, **settings: object) -> None:
        chosen = config_of(tables.ADMIN, config, settings)
        self.config = chosen
        self._client = AdminClient(chosen.bootstrap_servers, chosen, clock or SystemClock())
        self._lock = threading.RLock()
        self._closed = False

    def close(self) -> None:
        """Closes the connections. Safe to call again."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._client.close()

    def _ask(
        self,
        function: Callable[Concatenate[AdminClient, Arguments], R],
        *args: Arguments.args,
        **options: Arguments.kwargs,
    ) -> R:
        """Calls a function of the modules beside this one with the client."""
        with self._lock:
            if self._closed:
                raise IllegalState("Cannot perform operation after the admin client has been closed")
            return function(self._client, *args, **options)

    # -- topics --

    def list_topics(self, *, include_internal: bool = False) -> list[TopicListing]:
        """All topics: name, topic_id, is_internal."""
        return [topic for topic in self._ask(topics.list_topics) if include_internal or not topic.is_internal]

    def describe_topics(self, names: str | Iterable[str]) -> dict[str, TopicDescription]:
        """Topics by name: their id and `partitions` (leader, replicas, isr, ...). UnknownTopicOrPartition for one that
        does not exist."""
        return results.settled(self._ask(topics.describe_topics, _names(names)))

    def create_topics(
        self, new_topics: NewTopic | str | Iterable[NewTopic | str], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic]:
        """Creates topics: names, or NewTopic(name, num_partitions, replication_factor, configs=...); the broker's
        defaults for what is left out. TopicAlreadyExists, InvalidTopic, InvalidReplicationFactor, PolicyViolation."""
        given = [new_topics] if isinstance(new_topics, (str, topics.NewTopic)) else list(new_topics)
        wanted = [topics.NewTopic(each) if isinstance(each, str) else each for each in given]
        return results.settled(self._ask(topics.create_topics, wanted, validate_only=validate_only))

    def delete_topics(self, names: str | Iterable[str]) -> None:
        """Deletes topics. UnknownTopicOrPartition, TopicDeletionDisabled."""
        results.settled(self._ask(topics.delete_topics, _names(names)))

    def create_partitions(
        self, totals: Mapping[str, int] | Iterable[NewPartitions], *, validate_only: bool = False
    ) -> None:
        """Gives topics more partitions: how many each shall have in all. InvalidPartitions when it has so many."""
        wanted = (
            [topics.NewPartitions(name, total) for name, total in totals.items()]
            if isinstance(totals, Mapping)
            else list(totals)
        )
        results.settled(self._ask(topics.create_partitions, wanted, validate_only=validate_only))

    def delete_records(self, before: Mapping[P, int]) -> dict[TopicPartition, int]:
        """Deletes the records of each partition before an offset (-1: all there are now); the offsets at which the
        partitions begin now. OffsetOutOfRange, PolicyViolation for a compacted topic."""
        outcome = results.settled(
            self._ask(topics.delete_records, {(topic, index): at for (topic, index), at in before.items()})
        )
        return {TopicPartition(*part): found.low_watermark for part, found in outcome.items()}

    # -- configurations --

    def describe_configs(
        self,
        resources: Resource | Iterable[Resource],
        names: Sequence[str] | None = None,
        *,
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> dict[Resource, dict[str, ConfigEntry]]:
        """The settings of resources, all or those named, by name: value (None when sensitive), where it comes from.

        A resource is ("topic", name), ("broker", id, or "" for the default of all), ("broker_logger", id), ("group",
        name) or ("client_metrics", name).
        """
        found = self._ask(
            configs.describe_configs,
            [_resource(each) for each in _several(resources)],
            names=names,
            include_synonyms=include_synonyms,
            include_documentation=include_documentation,
        )
        settled = results.settled({_as_given(key): one for key, one in found.items()})
        return {key: {entry.name: entry for entry in one.entries} for key, one in settled.items()}

    def alter_configs(
        self,
        changes: Mapping[Resource, Mapping[str, object] | Sequence[ConfigChange]],
        *,
        validate_only: bool = False,
    ) -> None:
        """Changes settings of resources and leaves the others alone (IncrementalAlterConfigs): for each resource the
        new values by name, None to go back to the default, or ConfigChange objects to append to lists or subtract from
        them. All changes of a resource are made, or none. InvalidConfig, UnknownTopicOrPartition."""
        wanted = {_resource(key): _changes(given) for key, given in changes.items()}
        found = self._ask(configs.incremental_alter_configs, wanted, validate_only=validate_only)
        results.settled({_as_given(key): error for key, error in found.items()})

    # -- offsets --

    def list_offsets(
        self,
        partitions: Mapping[P, int | str] | Iterable[tuple[str, int]],
        *,
        read_committed: bool = False,
    ) -> dict[TopicPartition, PartitionOffset]:
        """An offset of each partition, by a time or in words: {("t", 0): "earliest"}, "latest" (also when partitions
        come without), "max_timestamp" (the newest record), "earliest_local", "latest_tiered", or a timestamp in ms (the
        first record that is not older; offset -1 when there is none). `read_committed`: "latest" is the last stable
        offset. UnknownTopicOrPartition."""
        wanted = partitions.items() if isinstance(partitions, Mapping) else ((part, "latest") for part in partitions)
        found = self._ask(
            offsets.list_offsets,
            {tuple(part): _timestamp(when) for part, when in wanted},
            isolation_level=offsets.READ_COMMITTED if read_committed else offsets.READ_UNCOMMITTED,
        )
        return {TopicPartition(*part): one for part, one in results.settled(found).items()}

    # -- groups --

    def list_groups(self, *, states: Collection[str] = (), types: Collection[str] = ()) -> list[GroupListing]:
        """Groups of all brokers; empty filters take all. States and types are Kafka's words: "Stable", "Empty", ...;
        "Classic", "Consumer", "Share", "Streams". `errors` of a PartialFailure are by the broker's id."""
        found = self._ask(groups.list_groups, states=states, types=types)
        return results.complete(found.groups, found.errors)

    def describe_groups(self, group_ids: str | Iterable[str]) -> dict[str, GroupDescription]:
        """Groups of consumers, of the classic and the new protocol: state, assignor, coordinator, and members with
        their partitions. GroupIdNotFound."""
        return results.settled(self._ask(groups.describe_groups, _names(group_ids)))

    def describe_share_groups(self, group_ids: str | Iterable[str]) -> dict[str, GroupDescription]:
        """Share groups likewise. GroupIdNotFound, also for a group of another kind."""
        return results.settled(self._ask(groups.describe_share_groups, _names(group_ids)))

    def delete_groups(self, group_ids: str | Iterable[str]) -> None:
        """Deletes groups without members, and their offsets. NonEmptyGroup, GroupIdNotFound."""
        results.settled(self._ask(groups.delete_groups, _names(group_ids)))

    def group_offsets(self, group_id: str, *, require_stable: bool = False) -> dict[TopicPartition, OffsetAndMetadata]:
        """What a group has committed; nothing for a group that does not exist. `require_stable`: offsets of open
        transactions are an error (UnstableOffsetCommit) instead of those before."""
        found = self._ask(group_offsets.fetch_offsets, [group_id], require_stable=require_stable)[group_id]
        if found.error is not None:
            raise found.error
        offsets_of = {TopicPartition(*part): one for part, one in found.offsets.items()}
        return results.complete(offsets_of, found.errors)

    def alter_group_offsets(self, group_id: str, new: Mapping[P, OffsetAndMetadata | int]) -> None:
        """Sets committed offsets of a group without members. UnknownMemberId when it has some."""
        wanted: dict[tuple[str, int], OffsetAndMetadata] = {
            TopicPartition(*part): at if isinstance(at, OffsetAndMetadata) else OffsetAndMetadata(at)
            for part, at in new.items()
        }
        found = self._ask(group_offsets.alter_offsets, {group_id: wanted})
        results.settle_altered(found[group_id], wanted)

    def reset_group_offsets(self, group_id: str, to: Mapping[P, int | str]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Sets committed offsets of a group without members to the start, the end or a time: values as of
        `list_offsets`; where no record is as new as a time, to the end. What was committed then."""
        found = self.list_offsets(to)
        beyond = [part for part, at in found.items() if at.offset < 0]
        ends = self.list_offsets(beyond) if beyond else {}
        new = {part: OffsetAndMetadata((ends.get(part) or at).offset) for part, at in found.items()}
        self.alter_group_offsets(group_id, new)
        return new

    def delete_group_offsets(self, group_id: str, partitions: Iterable[tuple[str, int]]) -> None:
        """Forgets what a group committed of partitions. GroupSubscribedToTopic for those that it reads now."""
        wanted = [TopicPartition(*part) for part in partitions]
        results.settle_altered(self._ask(group_offsets.delete_offsets, group_id, wanted), wanted)

    # -- transactions --

    def list_transactions(
        self,
        *,
        states: Collection[str] = (),
        producer_ids: Collection[int] = (),
        duration_ms: int = -1,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """The transactional ids that the coordinators know. `duration_ms`: only those running longer; `pattern`: only
        ids that it (RE2) matches. `errors` of a PartialFailure are by the broker's id."""
        found = self._ask(
            transactions.list_transactions,
            states=states,
            producer_ids=producer_ids,
            duration_ms=duration_ms,
            pattern=pattern,
        )
        return results.complete(found.transactions, found.errors)

    def describe_transactions(self, transactional_ids: str | Iterable[str]) -> dict[str, TransactionDescription]:
        """Transactional ids: state, producer, partitions, when it began. TransactionalIdNotFound."""
        return results.settled(self._ask(transactions.describe_transactions, _names(transactional_ids)))

    def describe_producers(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, list[ProducerState]]:
        """The active producers of partitions, and where an open transaction of theirs begins."""
        found = self._ask(transactions.describe_producers, [(topic, index) for topic, index in partitions])
        return {TopicPartition(*part): one for part, one in results.settled(found).items()}

    def abort_transaction(self, transaction: OpenTransaction) -> None:
        """Aborts a transaction that hangs in a partition (`find_hanging_transactions`) by a marker."""
        producer = transaction.producer
        error = self._ask(
            transactions.abort_transaction,
            (transaction.topic, transaction.partition),
            producer.producer_id,
            producer.producer_epoch,
            max(0, producer.coordinator_epoch),
        )
        if error is not None:
            raise error

    def fence_producer(self, transactional_id: str) -> None:
        """Ends what a transactional id has open and fences its producer. TransactionalIdNotFound."""
        error = self._ask(transactions.force_terminate, transactional_id)
        if error is not None:
            raise error

    def find_hanging_transactions(
        self, partitions: Iterable[tuple[str, int]], max_timeout_ms: int = 900_000
    ) -> list[OpenTransaction]:
        """Transactions open in partitions for longer than `max_timeout_ms` that no coordinator will end."""
        found = self._ask(transactions.find_hanging, [(topic, index) for topic, index in partitions], max_timeout_ms)
        return results.complete(found.transactions, found.errors)

    # -- ACLs --

    def describe_acls(self, wanted: AclFilter | None = None) -> list[Acl]:
        """The ACLs that a filter means, all without one. SecurityDisabled when the brokers have no authorizer."""
        return self._ask(acls.describe_acls, wanted or acls.AclFilter())

    def create_acls(self, new: Acl | Iterable[Acl]) -> None:
        """Makes ACLs; one that is there already is left as it is. InvalidRequest, SecurityDisabled."""
        results.settled(self._ask(acls.create_acls, [new] if isinstance(new, acls.Acl) else list(new)))

    def delete_acls(self, wanted: AclFilter | Acl | Iterable[AclFilter | Acl]) -> list[Acl]:
        """Removes ACLs, those given or those that filters mean; the ACLs that were removed. SecurityDisabled."""
        given = [wanted] if isinstance(wanted, (acls.Acl, acls.AclFilter)) else list(wanted)
        filters = [acls.filter_of(each) if isinstance(each, acls.Acl) else each for each in given]
        found = results.settled(self._ask(acls.delete_acls, filters))
        removed = list(dict.fromkeys(acl for one in found.values() for acl in one.acls))
        return results.complete(removed, {acl: error for one in found.values() for acl, error in one.errors.items()})

    # -- the cluster --

    def describe_cluster(self, *, include_fenced_brokers: bool = False) -> ClusterDescription:
        """Its id, its controller and its brokers (id, host, port, rack)."""
        return self._ask(cluster.describe_cluster, include_fenced_brokers=include_fenced_brokers)


def _names(given: str | Iterable[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def _several(given: Resource | Iterable[Resource]) -> list[Resource]:
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str):
        return [(given[0], str(given[1]))]
    return [(kind, str(name)) for kind, name in given]


def _resource(given: Resource) -> configs.Resource:
    kind = _RESOURCES.get(given[0])
    if kind is None:
        raise ValueError(f"Unknown kind of resource {given[0]!r}. Known ones: {', '.join(_RESOURCES)}")
    return kind, str(given[1])


def _as_given(resource: configs.Resource) -> Resource:
    return _RESOURCE_NAMES[resource[0]], resource[1]


def _changes(given: Mapping[str, object] | Sequence[ConfigChange]) -> list[ConfigChange]:
    if not isinstance(given, Mapping):
        return list(given)
    return [
        configs.ConfigChange(name, None, configs.DELETE)
        if value is None
        else configs.ConfigChange(name, _config_text(value))
        for name, value in given.items()
    ]


def _config_text(value: object) -> str:
    """A value as brokers read it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, (list, tuple)) else str(value)


def _timestamp(when: int | str) -> int:
    if isinstance(when, int):
        return when
    found = _OFFSETS.get(when)
    if found is None:
        raise ValueError(f"Unknown offset {when!r}: a timestamp in ms, or one of {', '.join(_OFFSETS)}")
    return found
