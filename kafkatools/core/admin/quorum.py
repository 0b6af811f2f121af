"""Describe the KRaft controller quorum, add and remove voters (KafkaAdminClient, KIP-836, KIP-853)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient, error_in
from kafkatools.core.admin.results import by_partition
from kafkatools.core.errors import KafkaError
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Entity

_METADATA_TOPIC = "__cluster_metadata"
QUORUM_FIELDS = {"topics": [{"topic_name": _METADATA_TOPIC, "partitions": [{"partition_index": 0}]}]}
"""The fields of a DescribeQuorum request for the metadata partition."""


class QuorumReplica(NamedTuple):
    """A voter or observer of the quorum; `directory_id` None, offset and timestamps (ms) -1 where unknown."""

    id: int
    directory_id: uuid.UUID | None
    log_end_offset: int
    last_fetch_timestamp: int = -1
    last_caught_up_timestamp: int = -1

    @property
    def end(self) -> int | None:
        """The end of its log, None where unknown."""
        return self.log_end_offset if self.log_end_offset >= 0 else None


class Endpoint(NamedTuple):
    """A controller's listener name, host and port."""

    listener: str
    host: str
    port: int


class MetadataQuorum(NamedTuple):
    """The quorum as its leader reports it. `endpoints` of the voters are empty before Kafka 3.9."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    endpoints: Mapping[int, tuple[Endpoint, ...]]

    @property
    def late_voters(self) -> tuple[QuorumReplica, ...]:
        """The voters that have not fetched from this leader since it was elected; none before Kafka 3.3, which reports
        no times."""
        timed = any(voter.id == self.leader_id and voter.last_fetch_timestamp >= 0 for voter in self.voters)
        late = (voter for voter in self.voters if voter.id != self.leader_id and voter.last_fetch_timestamp < 0)
        return tuple(late) if timed else ()

    def lag(self, replica: QuorumReplica) -> int | None:
        """Return the replica's distance to the end of the furthest voter's log, None if its own end is unknown."""
        furthest = max((voter.log_end_offset for voter in self.voters), default=0)
        return None if replica.end is None else max(0, furthest - replica.end)


def describe_metadata_quorum(admin: AdminClient) -> MetadataQuorum:
    """Return the quorum's leader, voters, observers and high watermark. Raises KafkaError."""

    def once(items: list[str], deadline_ms: int) -> dict[str, MetadataQuorum | KafkaError]:
        quorum = read_quorum(admin.send_to_controller(ApiKey.DESCRIBE_QUORUM, QUORUM_FIELDS, deadline_ms))
        return {} if quorum is None else {items[0]: quorum}

    outcome = admin.retry_items([_METADATA_TOPIC], once)[_METADATA_TOPIC]
    if isinstance(outcome, KafkaError):
        raise outcome
    return outcome


def read_quorum(response: Entity) -> MetadataQuorum | KafkaError | None:
    """Return the quorum of a DescribeQuorum response, or its error; None for a response without the metadata log."""
    partition = by_partition(response.topics, lambda part: part, "topic_name").get((_METADATA_TOPIC, 0))
    error = error_in(response) or (None if partition is None else error_in(partition))
    return error or (None if partition is None else _quorum(partition, response))


def _quorum(partition: Entity, response: Entity) -> MetadataQuorum:
    endpoints = {
        node.node_id: tuple(Endpoint(listener.name, listener.host, listener.port) for listener in node.listeners)
        for node in getattr(response, "nodes", ())
    }
    return MetadataQuorum(
        partition.leader_id,
        partition.leader_epoch,
        partition.high_watermark,
        _replicas(partition.current_voters),
        _replicas(partition.observers),
        endpoints,
    )


def _replicas(states: Sequence[Entity]) -> tuple[QuorumReplica, ...]:
    return tuple(
        QuorumReplica(
            state.replica_id,
            getattr(state, "replica_directory_id", None),
            state.log_end_offset,
            getattr(state, "last_fetch_timestamp", -1),
            getattr(state, "last_caught_up_timestamp", -1),
        )
        for state in states
    )


def add_raft_voter(
    admin: AdminClient, voter_id: int, directory_id: uuid.UUID, endpoints: Sequence[Endpoint], cluster_id: str | None
) -> None:
    """Make a controller a voter of the quorum. Raises KafkaError."""
    fields = {
        "cluster_id": cluster_id,
        "timeout": admin.config.request_timeout_ms,
        "voter_id": voter_id,
        "voter_directory_id": directory_id,
        "listeners": [
            {"name": endpoint.listener, "host": endpoint.host, "port": endpoint.port} for endpoint in endpoints
        ],
    }
    admin.change(ApiKey.ADD_RAFT_VOTER, fields)


def remove_raft_voter(admin: AdminClient, voter_id: int, directory_id: uuid.UUID, cluster_id: str | None) -> None:
    """Remove a voter from the quorum; a running controller continues as an observer. Raises KafkaError."""
    fields = {"cluster_id": cluster_id, "voter_id": voter_id, "voter_directory_id": directory_id}
    admin.change(ApiKey.REMOVE_RAFT_VOTER, fields)
