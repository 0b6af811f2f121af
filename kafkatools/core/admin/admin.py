"""Admin, the admin client for Python programs; the modules beside it do the work.

The error rule: a call about several items processes all of them and returns when all succeeded. When one failed, a call
about one item raises that item's error. Any other call raises PartialFailure, with the failed items' `errors` and the
remaining `results`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from kafkatools.core.admin import acls, cluster, configs, group_offsets, groups, offsets, results, topics, transactions
from kafkatools.core.admin.acls import Acl, AclFilter
from kafkatools.core.admin.cluster import ClusterDescription
from kafkatools.core.admin.configs import ConfigChange, ConfigEntry
from kafkatools.core.admin.groups import GroupDescription, GroupListing
from kafkatools.core.admin.offsets import PartitionOffset
from kafkatools.core.admin.operations import ClusterOperations
from kafkatools.core.admin.prepared_transactions import end_transactions
from kafkatools.core.admin.topics import CreatedTopic, NewPartitions, NewTopic, TopicDescription, TopicListing
from kafkatools.core.admin.transactions import (
    OpenTransaction,
    ProducerState,
    TransactionDescription,
    TransactionListing,
)
from kafkatools.core.group.metadata import OffsetAndMetadata, offsets_to_commit
from kafkatools.core.prepared_transaction import PreparedTransaction
from kafkatools.core.topic_partition import TopicPartition

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


class Admin(ClusterOperations):
    """Queries and changes a cluster: topics, configurations, offsets, groups, transactions, ACLs, reassignments,
    elections, quotas, credentials, tokens. A context manager.

    `config`: a Config, or a dict with Kafka's setting names, `{"bootstrap.servers": "localhost:9092"}`. `settings`: the
    same as keyword arguments, `bootstrap_servers="localhost:9092"`. All settings: docs/config/admin.md. Creating an
    Admin opens no connection. Raises ConfigError.

    A call about several items returns when all succeeded; if some failed it raises PartialFailure with their `errors`
    and the other `results`. Calls raise KafkaError when the cluster is unreachable: ConnectionFailed within seconds
    when no broker ever answered, Timeout after default.api.timeout.ms (60 s). After `close` they raise IllegalState.
    Times are int milliseconds, partitions are pairs (topic, number), group offsets are those of the next record to
    read. Thread-safe: one call at a time.
    """

    # -- topics --

    def list_topics(self, *, include_internal: bool = False) -> list[TopicListing]:
        """Return the topics (name, topic_id, is_internal), internal ones such as __consumer_offsets only with
        `include_internal`."""
        return [topic for topic in self._call(topics.list_topics) if include_internal or not topic.is_internal]

    def describe_topics(self, names: str | Iterable[str]) -> dict[str, TopicDescription]:
        """Return topics by name, with ids and partitions (leader, replicas, isr, ...). Raises
        UnknownTopicOrPartition."""
        return results.settled(self._call(topics.describe_topics, _names(names)))

    def create_topics(
        self, new_topics: NewTopic | str | Iterable[NewTopic | str], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic]:
        """Create topics from names or NewTopic(name, num_partitions, replication_factor, configs=...); return their ids
        and numbers. Omitted values are the broker's defaults. With `validate_only`, only check. Raises
        TopicAlreadyExists, InvalidTopic, InvalidReplicationFactor, PolicyViolation."""
        items = [new_topics] if isinstance(new_topics, (str, topics.NewTopic)) else list(new_topics)
        requested = [topics.NewTopic(topic) if isinstance(topic, str) else topic for topic in items]
        return results.settled(self._call(topics.create_topics, requested, validate_only=validate_only))

    def delete_topics(self, names: str | Iterable[str]) -> None:
        """Delete topics. Raises UnknownTopicOrPartition, TopicDeletionDisabled."""
        results.settled(self._call(topics.delete_topics, _names(names)))

    def create_partitions(
        self, totals: Mapping[str, int] | Iterable[NewPartitions], *, validate_only: bool = False
    ) -> None:
        """Raise topics' total partition counts to these; with `validate_only`, only check. Raises InvalidPartitions
        when a topic already has that many or more, and UnknownTopicOrPartition."""
        changes = (
            [topics.NewPartitions(name, total) for name, total in totals.items()]
            if isinstance(totals, Mapping)
            else list(totals)
        )
        results.settled(self._call(topics.create_partitions, changes, validate_only=validate_only))

    def delete_records(self, before: Mapping[P, int]) -> dict[TopicPartition, int]:
        """Delete each partition's records before an offset (-1: the high watermark); return the new log start offsets.
        Raises OffsetOutOfRange, UnknownTopicOrPartition, and PolicyViolation for a compacted topic."""
        outcome = results.settled(
            self._call(topics.delete_records, {(topic, index): at for (topic, index), at in before.items()})
        )
        return {TopicPartition(*part): result.low_watermark for part, result in outcome.items()}

    # -- configurations --

    def describe_configs(
        self,
        resources: Resource | Iterable[Resource],
        names: Sequence[str] | None = None,
        *,
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> dict[Resource, dict[str, ConfigEntry]]:
        """Return the settings of resources by name, all or those in `names`: value (None if sensitive), source, ... A
        resource is ("topic", name), ("broker", id, or "" for the cluster-wide default), ("broker_logger", id),
        ("group", name) or ("client_metrics", name). Raises ValueError for another kind or a broker id that is not a
        number, and UnknownTopicOrPartition."""
        resource_configs = self._call(
            configs.describe_configs,
            [_resource(resource) for resource in _several(resources)],
            names=names,
            include_synonyms=include_synonyms,
            include_documentation=include_documentation,
        )
        settled = results.settled({_public_resource(key): config for key, config in resource_configs.items()})
        return {key: {entry.name: entry for entry in config.entries} for key, config in settled.items()}

    def alter_configs(
        self, changes: Mapping[Resource, Mapping[str, object] | Sequence[ConfigChange]], *, validate_only: bool = False
    ) -> None:
        """Change settings of resources and keep their other settings (IncrementalAlterConfigs). For each resource: new
        values by name, None to restore the default, or ConfigChange objects to append to or subtract from lists. All
        changes of a resource are made, or none; with `validate_only`, none. Raises InvalidConfig,
        UnknownTopicOrPartition, and ValueError for an unknown kind of resource."""
        requested = {_resource(key): _changes(settings) for key, settings in changes.items()}
        errors = self._call(configs.incremental_alter_configs, requested, validate_only=validate_only)
        results.settled({_public_resource(key): error for key, error in errors.items()})

    # -- offsets --

    def list_offsets(
        self, partitions: Mapping[P, int | str] | Iterable[tuple[str, int]], *, read_committed: bool = False
    ) -> dict[TopicPartition, PartitionOffset]:
        """Return an offset of each partition by name or timestamp, such as {("t", 0): "earliest"}. Names: "latest" (the
        default), "earliest", "max_timestamp" (the newest record), "earliest_local", "latest_tiered". A timestamp in ms
        gives the first record at or after it, offset -1 without one. With `read_committed`, "latest" is the last stable
        offset. Raises UnknownTopicOrPartition, ValueError for another name, and UnsupportedVersion for a name that the
        broker does not know."""
        requested = partitions.items() if isinstance(partitions, Mapping) else ((part, "latest") for part in partitions)
        outcomes = self._call(
            offsets.list_offsets,
            {tuple(part): _timestamp(spec) for part, spec in requested},
            isolation_level=offsets.READ_COMMITTED if read_committed else offsets.READ_UNCOMMITTED,
        )
        return {TopicPartition(*part): offset for part, offset in results.settled(outcomes).items()}

    # -- groups --

    def list_groups(self, *, states: Collection[str] = (), types: Collection[str] = ()) -> list[GroupListing]:
        """Return the groups of all brokers; empty filters match all. States and types are Kafka's names: "Stable",
        "Empty", ...; "Classic", "Consumer", "Share", "Streams". A PartialFailure has `errors` by broker id."""
        listing = self._call(groups.list_groups, states=states, types=types)
        return results.complete(listing.groups, listing.errors)

    def describe_groups(self, group_ids: str | Iterable[str]) -> dict[str, GroupDescription]:
        """Return classic and consumer groups by id, with state, assignor and members. Raises GroupIdNotFound, and
        NotConsumers for a classic group of another protocol type, such as Kafka Connect's."""
        return results.settled(self._call(groups.describe_groups, _names(group_ids)))

    def describe_share_groups(self, group_ids: str | Iterable[str]) -> dict[str, GroupDescription]:
        """Return share groups by id. Raises GroupIdNotFound, also for a group of another type."""
        return results.settled(self._call(groups.describe_share_groups, _names(group_ids)))

    def delete_groups(self, group_ids: str | Iterable[str]) -> None:
        """Delete groups without members, and their offsets. Raises NonEmptyGroup, GroupIdNotFound."""
        results.settled(self._call(groups.delete_groups, _names(group_ids)))

    def group_offsets(self, group_id: str, *, require_stable: bool = False) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return a group's committed offsets; empty for a nonexistent group. With `require_stable`, partitions with
        offsets in open transactions fail with UnstableOffsetCommit instead of returning the previous offsets."""
        groups = self._call(group_offsets.fetch_offsets, [group_id], require_stable=require_stable)
        group = results.settled(groups)[group_id]
        offsets_of = {TopicPartition(*part): offset for part, offset in group.offsets.items()}
        return results.complete(offsets_of, group.errors)

    def alter_group_offsets(self, group_id: str, new: Mapping[P, OffsetAndMetadata | int]) -> None:
        """Set committed offsets of a group without members; the offsets of other partitions stay. Raises
        UnknownMemberId when it has members, ValueError for a negative offset, and InvalidTopic for the name of a topic
        that no request can hold."""
        offsets_of: dict[tuple[str, int], OffsetAndMetadata] = dict(offsets_to_commit(new).items())
        outcomes = self._call(group_offsets.alter_offsets, {group_id: offsets_of})
        results.settle_altered(outcomes[group_id], offsets_of)

    def reset_group_offsets(self, group_id: str, to: Mapping[P, int | str]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Set a memberless group's committed offsets by name or timestamp, as in `list_offsets`; return the new
        offsets. A partition without a record at or after the timestamp is reset to its end. Raises UnknownMemberId when
        the group has members, UnknownTopicOrPartition, and ValueError for an unknown name."""
        targets = self.list_offsets(to)
        past_end = [part for part, at in targets.items() if at.offset < 0]
        ends = self.list_offsets(past_end) if past_end else {}
        new = {part: OffsetAndMetadata((ends.get(part) or at).offset) for part, at in targets.items()}
        self.alter_group_offsets(group_id, new)
        return new

    def delete_group_offsets(self, group_id: str, partitions: Iterable[tuple[str, int]]) -> None:
        """Delete a group's committed offsets of partitions. Raises GroupSubscribedToTopic for subscribed topics, and
        GroupIdNotFound."""
        requested = [TopicPartition(*part) for part in partitions]
        results.settle_altered(self._call(group_offsets.delete_offsets, group_id, requested), requested)

    # -- transactions --

    def list_transactions(
        self,
        *,
        states: Collection[str] = (),
        producer_ids: Collection[int] = (),
        duration_ms: int = -1,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """Return the transactional ids of all coordinators; empty filters match all. `duration_ms`: only transactions
        running longer (-1: all); `pattern`: only ids matching this RE2 expression. A PartialFailure has `errors` by
        broker id."""
        listing = self._call(
            transactions.list_transactions,
            states=states,
            producer_ids=producer_ids,
            duration_ms=duration_ms,
            pattern=pattern,
        )
        return results.complete(listing.transactions, listing.errors)

    def describe_transactions(self, transactional_ids: str | Iterable[str]) -> dict[str, TransactionDescription]:
        """Return transactional ids with state, producer, partitions and start time. Raises TransactionalIdNotFound."""
        return results.settled(self._call(transactions.describe_transactions, _names(transactional_ids)))

    def describe_producers(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, list[ProducerState]]:
        """Return the active producers of partitions, with the start offsets of their open transactions."""
        producers = self._call(transactions.describe_producers, [(topic, index) for topic, index in partitions])
        return {TopicPartition(*part): states for part, states in results.settled(producers).items()}

    def abort_transaction(self, transaction: OpenTransaction) -> None:
        """Abort a hanging transaction (`find_hanging_transactions`) by writing an abort marker into its partition.
        Raises KafkaError."""
        producer = transaction.producer
        error = self._call(
            transactions.abort_transaction,
            (transaction.topic, transaction.partition),
            producer.producer_id,
            producer.producer_epoch,
            max(0, producer.coordinator_epoch),
        )
        if error is not None:
            raise error

    def fence_producer(self, transactional_id: str) -> None:
        """Abort a transactional id's open transaction and fence its producer. Raises TransactionalIdNotFound."""
        error = self._call(transactions.force_terminate, transactional_id)
        if error is not None:
            raise error

    def end_transaction(self, prepared: PreparedTransaction, *, commit: bool) -> None:
        """Commit or abort a transaction that `Producer.prepare_transaction` left open, from any process (KIP-939). Ends
        no later transaction of the id. Repeating the call is harmless. Raises InvalidTxnState or ProducerFenced if it
        was ended otherwise, as by its time-out."""
        errors = self._call(end_transactions, [prepared], commit=commit)
        if errors:
            raise errors[prepared.transactional_id]

    def find_hanging_transactions(
        self, partitions: Iterable[tuple[str, int]], max_timeout_ms: int = 900_000
    ) -> list[OpenTransaction]:
        """Return transactions open in partitions, without a record for more than `max_timeout_ms`, that no coordinator
        will end. Raises KafkaError when a coordinator cannot be asked."""
        hanging = self._call(transactions.find_hanging, [(topic, index) for topic, index in partitions], max_timeout_ms)
        return results.complete(hanging.transactions, hanging.errors)

    # -- ACLs --

    def describe_acls(self, wanted: AclFilter | None = None) -> list[Acl]:
        """Return the ACLs that match a filter (None: all). Raises SecurityDisabled when the brokers have no authorizer,
        and ValueError for a name in the filter that Kafka does not have."""
        return self._call(acls.describe_acls, wanted or acls.AclFilter())

    def create_acls(self, new: Acl | Iterable[Acl]) -> None:
        """Create ACLs; an existing ACL stays unchanged. Raises InvalidRequest, SecurityDisabled, and ValueError for a
        name that Kafka does not have."""
        results.settled(self._call(acls.create_acls, [new] if isinstance(new, acls.Acl) else list(new)))

    def delete_acls(self, wanted: AclFilter | Acl | Iterable[AclFilter | Acl]) -> list[Acl]:
        """Delete the given ACLs and those matching filters; return the deleted ones, empty when nothing matches. Raises
        SecurityDisabled, and ValueError for a name that Kafka does not have."""
        items = [wanted] if isinstance(wanted, (acls.Acl, acls.AclFilter)) else list(wanted)
        filters = [acls.filter_of(item) if isinstance(item, acls.Acl) else item for item in items]
        deletions = results.settled(self._call(acls.delete_acls, filters))
        deleted_acls = list(dict.fromkeys(acl for deletion in deletions.values() for acl in deletion.acls))
        return results.complete(
            deleted_acls, {acl: error for deletion in deletions.values() for acl, error in deletion.errors.items()}
        )

    # -- the cluster --

    def describe_cluster(self, *, include_fenced_brokers: bool = False) -> ClusterDescription:
        """Return the cluster's id, controller and brokers (id, host, port, rack). With `include_fenced_brokers`, fenced
        brokers too; raises UnsupportedVersion at brokers too old for that."""
        return self._call(cluster.describe_cluster, include_fenced_brokers=include_fenced_brokers)


def _names(names: str | Iterable[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _several(resources: Resource | Iterable[Resource]) -> list[Resource]:
    if isinstance(resources, tuple) and len(resources) == 2 and isinstance(resources[0], str):
        return [(resources[0], str(resources[1]))]
    return [(kind, str(name)) for kind, name in resources]


def _resource(resource: Resource) -> configs.Resource:
    kind = _RESOURCES.get(resource[0])
    if kind is None:
        raise ValueError(f"Unknown kind of resource {resource[0]!r}. Known ones: {', '.join(_RESOURCES)}")
    return kind, str(resource[1])


def _public_resource(resource: configs.Resource) -> Resource:
    return _RESOURCE_NAMES[resource[0]], resource[1]


def _changes(settings: Mapping[str, object] | Sequence[ConfigChange]) -> list[ConfigChange]:
    if not isinstance(settings, Mapping):
        return list(settings)
    return [
        configs.ConfigChange(name, None, configs.DELETE)
        if value is None
        else configs.ConfigChange(name, _config_text(value))
        for name, value in settings.items()
    ]


def _config_text(value: object) -> str:
    """Return a setting's value as brokers expect it: true/false, comma-separated lists."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, (list, tuple)) else str(value)


def _timestamp(spec: int | str) -> int:
    if isinstance(spec, int):
        return spec
    timestamp = _OFFSETS.get(spec)
    if timestamp is None:
        raise ValueError(f"Unknown offset {spec!r}: a timestamp in ms, or one of {', '.join(_OFFSETS)}")
    return timestamp
