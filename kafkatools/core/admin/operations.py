"""The part of Admin for those who run a cluster: where replicas lie and who leads, quotas, credentials, tokens,
features.

`Admin` has these methods too; the rule of errors is its own (`admin.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Concatenate, ParamSpec, TypeVar

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
from kafkatools.core.errors import ElectionNotNeeded
from kafkatools.core.topic_partition import TopicPartition

R = TypeVar("R")
Arguments = ParamSpec("Arguments")
P = TypeVar("P", bound=tuple[str, int])
_ELECTIONS = {"preferred": elections.PREFERRED, "unclean": elections.UNCLEAN}


class ClusterOperations:
    """Methods over `_ask`, which the class that takes them in has."""

    def _ask(
        self,
        function: Callable[Concatenate[AdminClient, Arguments], R],
        *args: Arguments.args,
        **options: Arguments.kwargs,
    ) -> R:
        raise TypeError(f"{type(self).__name__} asks nobody")

    # -- replicas and leaders --

    def list_reassignments(
        self, partitions: Iterable[tuple[str, int]] | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """The partitions whose replicas are being moved, of those given or of all."""
        found = self._ask(reassignments.active_reassignments, partitions)
        return {TopicPartition(*part): moved for part, moved in found.items()}

    def alter_reassignments(
        self, replicas: Mapping[P, Sequence[int] | None], *, allow_replication_factor_change: bool = True
    ) -> None:
        """Begins to move partitions to these brokers, the preferred leader first; None stops a move. It goes on after
        this call: `list_reassignments` tells how far. InvalidReplicaAssignment, NoReassignmentInProgress,
        UnknownTopicOrPartition."""
        found = self._ask(
            reassignments.alter_reassignments,
            {TopicPartition(*part): brokers for part, brokers in replicas.items()},
            allow_replication_factor_change=allow_replication_factor_change,
        )
        results.settled(found)

    def elect_leaders(
        self, partitions: Iterable[tuple[str, int]] | None = None, election_type: str = "preferred"
    ) -> list[TopicPartition]:
        """Holds elections of leaders for partitions, or for all that need one; those that have another leader now.
        "preferred": the first replica; "unclean": any that lives, where there is no leader, and records may be lost.
        PreferredLeaderNotAvailable, EligibleLeadersNotAvailable."""
        if election_type not in _ELECTIONS:
            raise ValueError(f"Unknown kind of election {election_type!r}. Known ones: {', '.join(_ELECTIONS)}")
        wanted = None if partitions is None else [TopicPartition(*part) for part in partitions]
        found = self._ask(elections.elect_leaders, _ELECTIONS[election_type], wanted)
        held = {TopicPartition(*part): e for part, e in found.items() if not isinstance(e, ElectionNotNeeded)}
        return sorted(results.settled(held))

    def describe_log_dirs(self, brokers: Iterable[int] | None = None) -> dict[int, tuple[LogDir, ...]]:
        """The log directories of brokers, or of all: their replicas with sizes, and the room that is left. One that is
        offline has an `error`."""
        wanted = self._ask(lambda client: client.brokers()) if brokers is None else list(brokers)
        return results.settled(self._ask(log_dirs.describe_log_dirs, wanted))

    def describe_replica_log_dirs(self, replicas: Iterable[tuple[str, int, int]]) -> dict[Replica, ReplicaLogDir]:
        """In which directory replicas, (topic, partition, broker), lie, and to which they are being moved."""
        return results.settled(self._ask(reassignments.replica_log_dirs, [Replica(*each) for each in replicas]))

    def alter_replica_log_dirs(self, paths: Mapping[tuple[str, int, int], str]) -> None:
        """Begins to move replicas, (topic, partition, broker), to other directories of their brokers. LogDirNotFound,
        ReplicaNotAvailable."""
        wanted = {Replica(*each): path for each, path in paths.items()}
        results.settled(self._ask(reassignments.alter_replica_log_dirs, wanted))

    def unregister_broker(self, broker_id: int) -> None:
        """Forgets a broker that is gone for good. BrokerIdNotRegistered."""
        self._ask(cluster.unregister_broker, broker_id)

    # -- share groups --

    def share_group_offsets(self, group_id: str) -> dict[TopicPartition, ShareOffset]:
        """Where a share group begins to read in the partitions it knows; nothing for a group that does not exist."""
        found = self._ask(share_groups.list_share_group_offsets, [group_id])[group_id]
        if found.error is not None:
            raise found.error
        return results.complete({TopicPartition(*part): at for part, at in found.offsets.items()}, found.errors)

    def alter_share_group_offsets(self, group_id: str, new: Mapping[P, int | None]) -> None:
        """Sets where a share group without members begins, and makes it when it is not there; None: as before its first
        fetch. NonEmptyGroup, UnknownTopicOrPartition."""
        wanted: dict[tuple[str, int], int] = {
            TopicPartition(*part): share_groups.NO_START if at is None else at for part, at in new.items()
        }
        results.settle_altered(self._ask(share_groups.alter_share_group_offsets, group_id, wanted), wanted)

    def delete_share_group_offsets(self, group_id: str, topics: str | Iterable[str]) -> None:
        """A share group without members forgets topics. NonEmptyGroup, GroupIdNotFound."""
        wanted = [topics] if isinstance(topics, str) else list(topics)
        found = self._ask(share_groups.delete_share_group_offsets, group_id, wanted)
        if found.error is not None:
            raise found.error
        results.settled({topic: found.errors.get(topic) for topic in wanted})

    # -- quotas and credentials --

    def describe_client_quotas(self, entity: Mapping[str, str | None] | None = None) -> list[EntityQuotas]:
        """The quotas of an entity, or of all: {"user": "alice", "client-id": "app"} or {"ip": "10.0.0.1"}; the name
        None is the default of the kind."""
        parts = [quotas.QuotaComponent(kind, name or "") for kind, name in (entity or {}).items()]
        return self._ask(quotas.describe_client_quotas, parts, strict=entity is not None)

    def alter_client_quotas(
        self,
        entity: Mapping[str, str | None],
        changes: Mapping[str, float | None],
        *,
        validate_only: bool = False,
    ) -> None:
        """Sets quotas of an entity (as for `describe_client_quotas`): producer_byte_rate, consumer_byte_rate,
        request_percentage, controller_mutation_rate, connection_creation_rate; None removes one. InvalidRequest."""
        self._ask(quotas.alter_client_quotas, tuple(entity.items()), changes, validate_only=validate_only)

    def describe_scram_credentials(self, users: str | Iterable[str] = ()) -> dict[str, dict[str, int]]:
        """The SCRAM mechanisms that users have credentials for, with their iterations; of all users when none is named.
        A user without any is left out."""
        wanted = [users] if isinstance(users, str) else list(users)
        found = self._ask(scram.describe_user_scram_credentials, wanted)
        return {each.user: each.iterations for each in results.settled({one.user: one for one in found}).values()}

    def alter_scram_credentials(
        self, user: str, passwords: Mapping[str, str | None], *, iterations: int = scram.DEFAULT_ITERATIONS
    ) -> None:
        """Sets passwords of a user by mechanism ("SCRAM-SHA-256", "SCRAM-SHA-512"), or removes those with None. A
        password is salted here and never sent. ResourceNotFound when there is none to remove, UnacceptableCredential.
        """
        unknown = [name for name in passwords if name not in scram.MECHANISMS]
        if unknown:
            raise ValueError(f"Unknown mechanism {unknown[0]!r}. Known ones: {', '.join(scram.MECHANISMS)}")
        new = [scram.ScramUpsertion(name, iterations, word) for name, word in passwords.items() if word is not None]
        gone = [name for name, word in passwords.items() if word is None]
        self._ask(scram.alter_user_scram_credentials, user, new, gone)

    # -- delegation tokens --

    def create_delegation_token(
        self, renewers: Sequence[str] = (), *, owner: str | None = None, max_lifetime_ms: int = -1
    ) -> DelegationToken:
        """A new token of this user or, with `owner` ("User:bob"), of another one; -1: as long as brokers allow. Asked
        over a connection that was authenticated without a token. DelegationTokenAuthDisabled,
        DelegationTokenRequestNotAllowed."""
        return self._ask(delegation_tokens.create_delegation_token, renewers, max_lifetime_ms, owner)

    def renew_delegation_token(self, token: DelegationToken | bytes, period_ms: int = -1) -> int:
        """Puts off when a token, or the token of this HMAC, expires; when it does now. DelegationTokenNotFound."""
        return self._ask(delegation_tokens.renew_delegation_token, _hmac(token), period_ms)

    def expire_delegation_token(self, token: DelegationToken | bytes, period_ms: int = -1) -> int:
        """Says when a token expires, -1: at once; when it does now. DelegationTokenNotFound."""
        return self._ask(delegation_tokens.expire_delegation_token, _hmac(token), period_ms)

    def describe_delegation_tokens(self, owners: Sequence[str] | None = None) -> list[DelegationToken]:
        """The tokens that this user may see, all or those of some owners."""
        return self._ask(delegation_tokens.describe_delegation_tokens, owners)

    # -- features --

    def describe_features(self) -> Features:
        """The features that a broker knows: the levels it supports, and the one that holds (0: none)."""
        return self._ask(features.describe_features)

    def update_features(
        self,
        levels: Mapping[str, int],
        *,
        downgrade: bool = False,
        unsafe: bool = False,
        validate_only: bool = False,
    ) -> None:
        """Sets levels of features, all or none of them; 0 disables one. Lower levels need `downgrade`, and `unsafe`
        where metadata would be lost. InvalidUpdateVersion, FeatureUpdateFailed."""
        lower = features.UNSAFE_DOWNGRADE if unsafe else features.SAFE_DOWNGRADE
        how = lower if downgrade else features.UPGRADE
        results.settled(self._ask(features.update_features, levels, how, validate_only=validate_only))


def _hmac(token: DelegationToken | bytes) -> bytes:
    return token.hmac if isinstance(token, DelegationToken) else token
