"""Builds the quorum's requests and responses as fields of their newest versions, for the one partition
`__cluster_metadata-0`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kafkatools.core.broker.metadata.controller.topics import METADATA_TOPIC
from kafkatools.core.broker.metadata.quorum.voter_set import ReplicaKey
from kafkatools.core.errors import KafkaError
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Entity
from kafkatools.core.protocol.entities import Fields as Fields
from kafkatools.core.protocol.uuids import METADATA_TOPIC_ID

FETCH, VOTE, FETCH_SNAPSHOT = ApiKey.FETCH, ApiKey.VOTE, ApiKey.FETCH_SNAPSHOT
BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH = ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH
API_VERSIONS, UPDATE_RAFT_VOTER = ApiKey.API_VERSIONS, ApiKey.UPDATE_RAFT_VOTER
ADD_RAFT_VOTER, REMOVE_RAFT_VOTER = ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER
NOBODY = -1
LONG_MAX = 2**63 - 1
_INDEX_FIELDS = ("partition_index", "partition", "index")
Voters = Mapping[int, tuple[str, int]]


class Position(NamedTuple):
    """The epoch of a message and the leader it names."""

    epoch: int
    leader_id: int | None

    @property
    def wire_fields(self) -> Fields:
        """The leader and the epoch as fields of a response; -1 without a leader."""
        return {"leader_id": NOBODY if self.leader_id is None else self.leader_id, "leader_epoch": self.epoch}


def only_partition(topics: Any, name_field: str) -> Entity | None:
    """Return a message's metadata partition, by topic name or id; None for any other or for several partitions."""
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        return None
    topic, partition = topics[0], topics[0].partitions[0]
    if getattr(topic, name_field, None) != METADATA_TOPIC and getattr(topic, "topic_id", None) != METADATA_TOPIC_ID:
        return None
    index = next(getattr(partition, name) for name in _INDEX_FIELDS if hasattr(partition, name))
    return partition if index == 0 else None


def _topics(partition: Fields) -> list[Fields]:
    return [{"topic_name": METADATA_TOPIC, "partitions": [partition]}]


def vote_request(cluster_id: str | None, voter_id: int, candidate: Fields) -> Fields:
    """Build a Vote request; `candidate` has replica_epoch, replica_id, replica_directory_id, last_offset_epoch,
    last_offset and pre_vote."""
    partition = {"partition_index": 0, "replica_directory_id": None, "voter_directory_id": None, **candidate}
    return {"cluster_id": cluster_id, "voter_id": voter_id, "topics": _topics(partition)}


def endpoint(listener_name: str, address: tuple[str, int]) -> Fields:
    """Build the leader's endpoint for BeginQuorumEpoch and EndQuorumEpoch."""
    host, port = address
    return {"name": listener_name, "host": host, "port": port}


def begin_request(
    cluster_id: str | None, voter: ReplicaKey, leader_id: int, epoch: int, leader_endpoints: list[Fields]
) -> Fields:
    """Build a BeginQuorumEpoch request for a voter."""
    partition = {
        "partition_index": 0,
        "voter_directory_id": voter.directory_id,
        "leader_id": leader_id,
        "leader_epoch": epoch,
    }
    return {
        "cluster_id": cluster_id,
        "voter_id": voter.node_id,
        "topics": _topics(partition),
        "leader_endpoints": leader_endpoints,
    }


def end_request(
    cluster_id: str | None, leader_id: int, epoch: int, successors: Sequence[ReplicaKey], leader_endpoints: list[Fields]
) -> Fields:
    """Build an EndQuorumEpoch request."""
    partition = {
        "partition_index": 0,
        "leader_id": leader_id,
        "leader_epoch": epoch,
        "preferred_candidates": [
            {"candidate_id": successor.node_id, "candidate_directory_id": successor.directory_id}
            for successor in successors
        ],
    }
    return {"cluster_id": cluster_id, "topics": _topics(partition), "leader_endpoints": leader_endpoints}


def fetch_request(cluster_id: str | None, replica_id: int, limits: tuple[int, int], partition: Fields) -> Fields:
    """Build a Fetch request; `limits` is (max wait ms, max bytes), `partition` has the replica's epochs and offsets."""
    max_wait_ms, max_bytes = limits
    partition_fields = {"partition": 0, "partition_max_bytes": max_bytes, **partition}
    return {
        "cluster_id": cluster_id,
        "replica_state": {"replica_id": replica_id, "replica_epoch": -1},
        "max_wait": max_wait_ms,
        "min_bytes": 0,
        "max_bytes": max_bytes,
        "topics": [{"topic_id": METADATA_TOPIC_ID, "partitions": [partition_fields]}],
        "forgotten_topics_data": [],
    }


def snapshot_request(cluster_id: str | None, replica_id: int, max_bytes: int, partition: Fields) -> Fields:
    """Build a FetchSnapshot request; `partition` has current_leader_epoch, snapshot_id and position."""
    topics = [{"name": METADATA_TOPIC, "partitions": [{"partition": 0, **partition}]}]
    return {"cluster_id": cluster_id, "replica_id": replica_id, "max_bytes": max_bytes, "topics": topics}


def _node_endpoints(position: Position, voters: Voters) -> list[Fields]:
    if position.leader_id is None or position.leader_id not in voters:
        return []
    host, port = voters[position.leader_id]
    return [{"node_id": position.leader_id, "host": host, "port": port}]


def refusal(error: type[KafkaError], topics_field: str = "topics") -> Fields:
    """Build a response with only a top-level error code."""
    return {"error_code": error.code, topics_field: [], "throttle_time": 0}


def election_response(position: Position, voters: Voters, error_code: int, extra: Fields | None = None) -> Fields:
    """Build a Vote, BeginQuorumEpoch or EndQuorumEpoch response; `extra` is added to the partition."""
    partition = {"partition_index": 0, "error_code": error_code, **position.wire_fields, **(extra or {})}
    return {"error_code": 0, "topics": _topics(partition), "node_endpoints": _node_endpoints(position, voters)}


def fetch_response(position: Position, voters: Voters, partition: Fields) -> Fields:
    """Build a Fetch response; `partition` has the fields that differ from the defaults."""
    fields = {
        "partition_index": 0,
        "error_code": 0,
        "high_watermark": -1,
        "last_stable_offset": -1,
        "log_start_offset": -1,
        "aborted_transactions": None,
        "records": b"",
        "current_leader": position.wire_fields,
        **partition,
    }
    return {
        "throttle_time": 0,
        "error_code": 0,
        "session_id": 0,
        "responses": [{"topic": METADATA_TOPIC, "topic_id": METADATA_TOPIC_ID, "partitions": [fields]}],
        "node_endpoints": [{**endpoint, "rack": None} for endpoint in _node_endpoints(position, voters)],
    }


def snapshot_response(position: Position, voters: Voters, partition: Fields) -> Fields:
    """Build a FetchSnapshot response; `partition` has the fields that differ from the defaults."""
    fields = {
        "index": 0,
        "error_code": 0,
        "snapshot_id": {"end_offset": -1, "epoch": -1},
        "current_leader": position.wire_fields,
        "size": 0,
        "position": 0,
        "unaligned_records": b"",
        **partition,
    }
    return {
        "throttle_time": 0,
        "error_code": 0,
        "topics": [{"name": METADATA_TOPIC, "partitions": [fields]}],
        "node_endpoints": _node_endpoints(position, voters),
    }


def update_response(position: Position, voters: Voters, error_code: int) -> Fields:
    """Build an UpdateRaftVoter response."""
    address = {"host": "", "port": 0}
    for endpoint in _node_endpoints(position, voters):
        address = {"host": endpoint["host"], "port": endpoint["port"]}
    leader = {**position.wire_fields, **address}
    return {"throttle_time": 0, "error_code": error_code, "current_leader": leader}
