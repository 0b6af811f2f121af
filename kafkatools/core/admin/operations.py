"""The cluster operations of Admin: replicas, elections, quotas, credentials, delegation tokens, features.

Errors follow the rule in `admin.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Concatenate, ParamSpec, TypeVar

from kafkatools.core import config as tables
from kafkatools.core.admin import (
    cluster,
    delegation_tokens,
    elections,
    features,
    log_dirs,
    quotas,
    reassignments,
    results,
    scram,
    share_groups,
)
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.delegation_tokens import DelegationToken
from kafkatools.core.admin.features import Features
from kafkatools.core.admin.log_dirs import LogDir
from kafkatools.core.admin.quotas import EntityQuotas
from kafkatools.core.admin.reassignments import PartitionReassignment, Replica, ReplicaLogDir
from kafkatools.core.admin.share_groups import ShareOffset
from kafkatools.core.clock import Clock, SystemClock
from kafkatools.core.closing import Closing
from kafkatools.core.config.client_settings import Settings, config_of
from kafkatools.core.errors import ElectionNotNeeded, IllegalState
from kafkatools.core.metrics.registry import MetricValues
from kafkatools.core.topic_partition import TopicPartition

R = TypeVar("R")
Arguments = ParamSpec("Arguments")
P = TypeVar("P", bound=tuple[str, int])
_ELECTIONS = {"preferred": elections.PREFERRED, "unclean": elections.UNCLEAN}


class ClusterOperations(Closing):
    """Base of Admin: its client, and the cluster operations."""

    def __init__(
        self,
        config: Settings | None = None,
        clock: Clock | None = None,
        client: AdminClient | None = None,
        **settings: object,
    ) -> None:
        self.config = config_of(tables.ADMIN, config, settings)
        self._client = client or AdminClient(self.config.bootstrap_servers, self.config, clock or SystemClock())
        self._lock = threading.RLock()
        self._is_closed = False

    def close(self) -> None:
        """Close the connections. May be called again."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._client.close()

    def _call(
        self,
        function: Callable[Concatenate[AdminClient, Arguments], R],
        *args: Arguments.args,
        **options: Arguments.kwargs,
    ) -> R:
        """Call a function of the sibling modules with the client, under the lock. Raises IllegalState after `close`."""
        with self._lock:
            if self._is_closed:
                raise IllegalState("Cannot perform operation after the admin client has been closed")
            return function(self._client, *args, **options)

    def metrics(self) -> MetricValues:
        """Return the values of the client's metrics by MetricName: Kafka's admin-client-metrics and
        admin-client-node-metrics. Also after `close`."""
        return self._client.metrics.values()

    def client_instance_id(self, timeout_ms: int | None = None) -> str | None:
        """Return the id that the brokers' metrics of this client carry (KIP-714), as Kafka writes it. Waits for a
        broker's response up to `timeout_ms` (default.api.timeout.ms). None if none came in time, or if the brokers
        take no metrics. Raises IllegalState unless enable.metrics.push is true, KafkaError without a reachable
        broker."""
        return self._call(AdminClient.instance_id, timeout_ms)

    # -- replicas and leaders --

    def list_reassignments(
        self, partitions: Iterable[tuple[str, int]] | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Return the ongoing partition reassignments, of these partitions or of all."""
        active = self._call(reassignments.active_reassignments, partitions)
        return {TopicPartition(*part): reassignment for part, reassignment in active.items()}

    def alter_reassignments(
        self, replicas: Mapping[P, Sequence[int] | None], *, allow_replication_factor_change: bool = True
    ) -> None:
        """Start moving partitions to these brokers, preferred leader first; None cancels a move. The move continues
        after the call; `list_reassignments` shows its progress. Raises InvalidReplicaAssignment,
        NoReassignmentInProgress, UnknownTopicOrPartition. Without `allow_replication_factor_change`, also
        InvalidReplicationFactor, and UnsupportedVersion before Kafka 4.1."""
        outcomes = self._call(
            reassignments.alter_reassignments,
            {TopicPartition(*part): brokers for part, brokers in replicas.items()},
            allow_replication_factor_change=allow_replication_factor_change,
        )
        results.settled(outcomes)

    def elect_leaders(
        self, partitions: Iterable[tuple[str, int]] | None = None, election_type: str = "preferred"
    ) -> list[TopicPartition]:
        """Elect leaders for partitions, or for all that need one; return the partitions whose leader changed.
        "preferred" elects the first replica. "unclean" elects any live replica of a partition without a leader, which
        may lose records. Raises ValueError for another type, PreferredLeaderNotAvailable,
        EligibleLeadersNotAvailable."""
        if election_type not in _ELECTIONS:
            raise ValueError(f"Unknown kind of election {election_type!r}. Known ones: {', '.join(_ELECTIONS)}")
        requested = None if partitions is None else [TopicPartition(*part) for part in partitions]
        outcomes = self._call(elections.elect_leaders, _ELECTIONS[election_type], requested)
        election_outcomes = {
            TopicPartition(*part): e for part, e in outcomes.items() if not isinstance(e, ElectionNotNeeded)
        }
        return sorted(results.settled(election_outcomes))

    def describe_log_dirs(self, brokers: Iterable[int] | None = None) -> dict[int, tuple[LogDir, ...]]:
        """Return the log directories of brokers (default: all), with replica sizes and free space in bytes. An offline
        directory has its `error` set."""
        requested = self._call(lambda client: client.brokers()) if brokers is None else list(brokers)
        return results.settled(self._call(log_dirs.describe_log_dirs, requested))

    def describe_replica_log_dirs(self, replicas: Iterable[tuple[str, int, int]]) -> dict[Replica, ReplicaLogDir]:
        """Return the current and future log directory of replicas, given as (topic, partition, broker); None for a
        directory that is not there. Raises BrokerNotAvailable for a broker that is down."""
        return results.settled(self._call(reassignments.replica_log_dirs, [Replica(*replica) for replica in replicas]))

    def alter_replica_log_dirs(self, paths: Mapping[tuple[str, int, int], str]) -> None:
        """Start moving replicas, given as (topic, partition, broker), to other log directories of their brokers. Raises
        LogDirNotFound, BrokerNotAvailable. ReplicaNotAvailable means that the broker has no such replica yet and will
        create it there."""
        moves = {Replica(*replica): path for replica, path in paths.items()}
        results.settled(self._call(reassignments.alter_replica_log_dirs, moves))

    def unregister_broker(self, broker_id: int) -> None:
        """Remove a broker that is permanently gone from the cluster metadata. Raises BrokerIdNotRegistered."""
        self._call(cluster.unregister_broker, broker_id)

    # -- share groups --

    def share_group_offsets(self, group_id: str) -> dict[TopicPartition, ShareOffset]:
        """Return a share group's start offsets by partition, with leader epoch and lag; None where there is none yet.
        Empty for a nonexistent group."""
        group = results.settled(self._call(share_groups.list_share_group_offsets, [group_id]))[group_id]
        return results.complete({TopicPartition(*part): at for part, at in group.offsets.items()}, group.errors)

    def alter_share_group_offsets(self, group_id: str, new: Mapping[P, int | None]) -> None:
        """Set start offsets of a share group without members, creating it if needed; None resets to before the first
        fetch. Raises NonEmptyGroup, UnknownTopicOrPartition."""
        offsets: dict[tuple[str, int], int] = {
            TopicPartition(*part): share_groups.NO_START if at is None else at for part, at in new.items()
        }
        results.settle_altered(self._call(share_groups.alter_share_group_offsets, group_id, offsets), offsets)

    def delete_share_group_offsets(self, group_id: str, topics: str | Iterable[str]) -> None:
        """Delete topics' offsets from a share group without members. Raises NonEmptyGroup, GroupIdNotFound."""
        names = [topics] if isinstance(topics, str) else list(topics)
        result = self._call(share_groups.delete_share_group_offsets, group_id, names)
        if result.error is not None:
            raise result.error
        results.settled({topic: result.errors.get(topic) for topic in names})

    # -- quotas and credentials --

    def describe_client_quotas(self, entity: Mapping[str, str | None] | None = None) -> list[EntityQuotas]:
        """Return the quotas of exactly this entity, or of all entities. An entity is {"user": "alice", "client-id":
        "app"} or {"ip": "10.0.0.1"}; the name None is the default entity."""
        parts = [quotas.QuotaComponent(kind, name or "") for kind, name in (entity or {}).items()]
        return self._call(quotas.describe_client_quotas, parts, strict=entity is not None)

    def alter_client_quotas(
        self, entity: Mapping[str, str | None], changes: Mapping[str, float | None], *, validate_only: bool = False
    ) -> None:
        """Set quotas of an entity, given as in `describe_client_quotas`; None removes a quota. Raises InvalidRequest.
        Quotas: producer_byte_rate, consumer_byte_rate, request_percentage, controller_mutation_rate,
        connection_creation_rate."""
        self._call(quotas.alter_client_quotas, tuple(entity.items()), changes, validate_only=validate_only)

    def describe_scram_credentials(self, users: str | Iterable[str] = ()) -> dict[str, dict[str, int]]:
        """Return the iterations by SCRAM mechanism of each user (default: all); a user without credentials is left
        out."""
        names = [users] if isinstance(users, str) else list(users)
        credentials = {entry.user: entry for entry in self._call(scram.describe_user_scram_credentials, names)}
        return {user: entry.iterations for user, entry in results.settled(credentials).items()}

    def alter_scram_credentials(
        self, user: str, passwords: Mapping[str, str | None], *, iterations: int = scram.DEFAULT_ITERATIONS
    ) -> None:
        """Set a user's passwords by mechanism ("SCRAM-SHA-256", "SCRAM-SHA-512"), or delete those with None, deletions
        first. Each is a request of its own: those before a failure stay done. A password is salted locally and never
        sent. Raises ValueError for an unknown mechanism, ResourceNotFound when there is none to delete,
        UnacceptableCredential."""
        unknown = [name for name in passwords if name not in scram.MECHANISMS]
        if unknown:
            raise ValueError(f"Unknown mechanism {unknown[0]!r}. Known ones: {', '.join(scram.MECHANISMS)}")
        new = [scram.ScramUpsertion(name, iterations, word) for name, word in passwords.items() if word is not None]
        deletions = [name for name, word in passwords.items() if word is None]
        self._call(scram.alter_user_scram_credentials, user, new, deletions)

    # -- delegation tokens --

    def create_delegation_token(
        self, renewers: Sequence[str] = (), *, owner: str | None = None, max_lifetime_ms: int = -1
    ) -> DelegationToken:
        """Create a token for this user or for `owner` ("User:bob"); lifetime -1 is the brokers' maximum. Requires a
        connection authenticated without a token. Raises DelegationTokenAuthDisabled, DelegationTokenRequestNotAllowed,
        and ValueError for a principal that is not type:name."""
        return self._call(delegation_tokens.create_delegation_token, renewers, max_lifetime_ms, owner)

    def renew_delegation_token(self, token: DelegationToken | bytes, period_ms: int = -1) -> int:
        """Renew a token (or HMAC) for `period_ms` (-1: the brokers' default); return its expiry time (ms since 1970).
        Raises DelegationTokenNotFound."""
        return self._call(delegation_tokens.renew_delegation_token, _hmac(token), period_ms)

    def expire_delegation_token(self, token: DelegationToken | bytes, period_ms: int = -1) -> int:
        """Make a token (or HMAC) expire in `period_ms` from now, at once with -1; return the time (ms since 1970).
        Raises DelegationTokenNotFound."""
        return self._call(delegation_tokens.expire_delegation_token, _hmac(token), period_ms)

    def describe_delegation_tokens(self, owners: Sequence[str] | None = None) -> list[DelegationToken]:
        """Return the tokens visible to this user, of all owners or of these."""
        return self._call(delegation_tokens.describe_delegation_tokens, owners)

    # -- features --

    def describe_features(self) -> Features:
        """Return a broker's supported feature levels and the cluster's finalized ones (0 = none)."""
        return self._call(features.describe_features)

    def update_features(
        self, levels: Mapping[str, int], *, downgrade: bool = False, unsafe: bool = False, validate_only: bool = False
    ) -> None:
        """Set finalized feature levels; 0 disables a feature. Lower levels need `downgrade`, and `unsafe` too where
        metadata would be lost. With `validate_only`, only check. Raises InvalidUpdateVersion, FeatureUpdateFailed."""
        lower = features.UNSAFE_DOWNGRADE if unsafe else features.SAFE_DOWNGRADE
        upgrade_type = lower if downgrade else features.UPGRADE
        results.settled(self._call(features.update_features, levels, upgrade_type, validate_only=validate_only))


def _hmac(token: DelegationToken | bytes) -> bytes:
    return token.hmac if isinstance(token, DelegationToken) else token
