"""Handlers of the quorum's requests (KafkaRaftClient's handle...Request).

A response has the epoch and leader after the request, unless the whole request is refused, such as for another cluster
id. A newer epoch in a valid Vote, BeginQuorumEpoch or EndQuorumEpoch moves this node on. An older one gets
FENCED_LEADER_EPOCH, and Fetch and FetchSnapshot with a newer one UNKNOWN_LEADER_EPOCH.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkatools.core.broker.metadata.quorum import raft_messages as wire
from kafkatools.core.broker.metadata.quorum.leadership import note_leader
from kafkatools.core.broker.metadata.quorum.member import Member, ParkedFetch
from kafkatools.core.broker.metadata.quorum.quorum_states import (
    Follower,
    Leader,
    Prospective,
    Unattached,
    may_grant,
)
from kafkatools.core.broker.metadata.quorum.voter_set import ReplicaKey
from kafkatools.core.broker.metadata.snapshot import SnapshotId
from kafkatools.core.errors import (
    BrokerNotAvailable,
    FencedLeaderEpoch,
    InconsistentClusterId,
    InconsistentVoterSet,
    InvalidRequest,
    InvalidVoterKey,
    KafkaError,
    NotLeaderOrFollower,
    PositionOutOfRange,
    SnapshotNotFound,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
)
from kafkatools.core.protocol.entities import Entity

INT_MAX = 2**31 - 1


def _has_other_cluster(raft: Member, entity: Entity) -> bool:
    return None not in (entity.cluster_id, raft.settings.cluster_id) and entity.cluster_id != raft.settings.cluster_id


def _voter_error(raft: Member, entity: Entity, partition: Entity, sender_id: int, epoch: int) -> int:
    """Return the error code of a request that only voters send to this voter (validateVoterOnlyRequest); 0 if valid. In
    a dynamic quorum the log of either may be older than a change of the voters, so any node may send it to any."""
    if epoch < raft.epoch:
        return FencedLeaderEpoch.code
    if sender_id < 0:
        return InvalidRequest.code
    is_known = raft.is_dynamic or (raft.is_voter and sender_id in raft.voters)
    if not is_known or sender_id == raft.node_id:
        return InconsistentVoterSet.code
    if _is_for_another(raft, entity, partition):
        return InvalidVoterKey.code
    return InvalidRequest.code if _leaps(raft, sender_id, epoch) else 0


def _leader_error(raft: Member, epoch: int) -> int:
    """Return the error code of a request that only the leader serves (validateLeaderOnlyRequest); 0 if valid."""
    if epoch < raft.epoch:
        return FencedLeaderEpoch.code
    if epoch > raft.epoch:
        return UnknownLeaderEpoch.code
    if not isinstance(raft.state, Leader):
        return NotLeaderOrFollower.code
    return BrokerNotAvailable.code if raft.is_shutting_down else 0


def _is_for_another(raft: Member, entity: Entity, partition: Entity) -> bool:
    """Return whether a request names another voter, or this one with another directory id."""
    voter_id = getattr(entity, "voter_id", -1)
    directory_id, own = getattr(partition, "voter_directory_id", None), raft.settings.directory_id
    is_other_directory = directory_id is not None and own is not None and directory_id != own
    return bool(voter_id >= 0 and voter_id != raft.node_id) or is_other_directory


def _leaps(raft: Member, sender_id: int, epoch: int) -> bool:
    """Return whether a request would raise the epoch further than elections can have raised it; reports such a
    request."""
    leap = epoch - raft.epoch
    if leap <= 0 or raft.epoch_pace.allows(leap, raft.now_ms):
        return False
    limit = f"elections cannot have raised this node's epoch {raft.epoch} so far"
    raft.fault(InvalidRequest(f"Rejected a request of voter {sender_id} with epoch {epoch}: {limit}"))
    return True


def vote(raft: Member, entity: Entity) -> wire.Fields:
    """Handle Vote and PreVote and return the response's fields. A vote is on disk before the response; a PreVote
    changes no vote."""
    if _has_other_cluster(raft, entity):
        return wire.refusal(InconsistentClusterId)
    partition = wire.only_partition(entity.topics, "topic_name")
    if partition is None:
        return wire.refusal(InvalidRequest)

    def response(error_code: int, *, is_granted: bool = False) -> wire.Fields:
        return wire.election_response(raft.position, raft.leader_address, error_code, {"vote_granted": is_granted})

    is_pre_vote = bool(getattr(partition, "pre_vote", False))
    epoch, candidate_id, last_epoch = partition.replica_epoch, partition.replica_id, partition.last_offset_epoch
    newest_possible = epoch if is_pre_vote else epoch - 1
    if partition.last_offset < 0 or not 0 <= last_epoch <= newest_possible:
        return response(InvalidRequest.code)
    error_code = _voter_error(raft, entity, partition, candidate_id, epoch)
    if error_code:
        return response(error_code)
    if epoch > raft.epoch:
        raft.become_unattached(epoch)
    end = raft.log.end
    is_up_to_date = (last_epoch, partition.last_offset) >= (end.epoch, end.offset)
    candidate = ReplicaKey(candidate_id, getattr(partition, "replica_directory_id", None))
    is_granted = may_grant(raft.state, candidate, is_up_to_date=is_up_to_date, is_pre_vote=is_pre_vote)
    if is_granted and not is_pre_vote:
        state = raft.state
        if isinstance(state, Prospective) or (isinstance(state, Unattached) and state.voted_id is None):
            raft.become_unattached(epoch, candidate)
    return response(0, is_granted=is_granted)


def begin_quorum_epoch(raft: Member, entity: Entity) -> wire.Fields:
    """Handle BeginQuorumEpoch: follow the elected leader if the request is valid. Returns the response's fields, with
    an error code otherwise."""
    fields, _ = _apply_leader(raft, entity)
    return fields


def end_quorum_epoch(raft: Member, entity: Entity) -> wire.Fields:
    """Handle EndQuorumEpoch and return the response's fields. A follower of the leader that resigned starts an election
    after a delay given by its place among the successors."""
    fields, partition = _apply_leader(raft, entity)
    state = raft.state
    if partition is not None and isinstance(state, Follower) and state.leader_id == partition.leader_id:
        wait_ms = _successor_wait_ms(raft, partition)
        state.deadline_ms = min(state.deadline_ms, raft.now_ms + wait_ms)
        state.has_updated_leader = False  # this follower may grant PreVotes now
    return fields


def _apply_leader(raft: Member, entity: Entity) -> tuple[wire.Fields, Any | None]:
    """Apply the leader and epoch of a request. Returns the response, and the request's partition if the request is
    valid, else None."""
    if _has_other_cluster(raft, entity):
        return wire.refusal(InconsistentClusterId), None
    partition = wire.only_partition(entity.topics, "topic_name")
    if partition is None:
        return wire.refusal(InvalidRequest), None
    error_code = _voter_error(raft, entity, partition, partition.leader_id, partition.leader_epoch)
    points = list(getattr(entity, "leader_endpoints", None) or ())
    for point in points[:1] if not error_code and partition.leader_epoch >= raft.epoch else ():
        named = next((other for other in points if other.name == raft.settings.listener_name), point)
        raft.addresses.note(partition.leader_id, (named.host, named.port))
    if not error_code and not note_leader(raft, partition.leader_epoch, partition.leader_id):
        error_code = InvalidRequest.code
        claim = f"Node {partition.leader_id} claims to lead epoch {partition.leader_epoch}"
        raft.fault(InvalidRequest(f"{claim}, but this node knows {raft.leader_id} as its leader"))
    fields = wire.election_response(raft.position, raft.leader_address, error_code)
    return fields, None if error_code else partition


def _successor_wait_ms(raft: Member, partition: Entity) -> int:
    """Return the election delay in ms: 0 for the first successor and for a voter that is not among them, then growing
    (endEpochElectionBackoff)."""
    candidates = [candidate.candidate_id for candidate in partition.preferred_candidates]
    ids = candidates or list(getattr(partition, "preferred_successors", ()))
    place = ids.index(raft.node_id) if raft.node_id in ids else 0
    longest_ms = raft.settings.election_backoff_max_ms
    return 0 if place <= 0 else min(longest_ms, (longest_ms >> (len(ids) - 1)) << (place - 1))


def fetch(raft: Member, entity: Entity, respond: Callable[[wire.Fields], None]) -> None:
    """Handle Fetch: answer with an error, records, a diverging epoch or a snapshot id. A fetch without any waits in
    `raft.parked` for records, a new high watermark or its max wait."""
    if _has_other_cluster(raft, entity):
        respond(wire.refusal(InconsistentClusterId, "responses"))
        return
    partition = wire.only_partition(entity.topics, "topic")
    if partition is None:
        respond(wire.refusal(InvalidRequest, "responses"))
        return
    state = getattr(entity, "replica_state", None)
    replica_id = entity.replica_id if state is None else state.replica_id
    max_wait_ms = entity.max_wait
    last_epoch = getattr(partition, "last_fetched_epoch", -1)
    is_wrong = min(max_wait_ms, partition.fetch_offset, last_epoch) < 0 or last_epoch > partition.current_leader_epoch
    if is_wrong or replica_id == raft.node_id:
        respond(wire.fetch_response(raft.position, raft.leader_address, {"error_code": InvalidRequest.code}))
        return
    parked = ParkedFetch(
        ReplicaKey(replica_id, getattr(partition, "replica_directory_id", None)),
        partition.current_leader_epoch,
        partition.fetch_offset,
        last_epoch,
        getattr(partition, "high_watermark", wire.LONG_MAX),
        min(partition.partition_max_bytes or INT_MAX, entity.max_bytes or INT_MAX, raft.settings.fetch_max_bytes),
        raft.now_ms + max_wait_ms,
        respond,
    )
    fields, is_news = _fetched(raft, parked)
    if is_news or max_wait_ms == 0:
        respond(fields)
    else:
        raft.parked.append(parked)


def _fetched(raft: Member, parked: ParkedFetch) -> tuple[wire.Fields, bool]:
    """Record the replica's fetch, which may advance the high watermark. Returns the current Fetch response, and whether
    it has records, a new high watermark, an error, a diverging epoch or a snapshot id."""
    error_code = _leader_error(raft, parked.epoch)
    state = raft.state
    if error_code or not isinstance(state, Leader):
        return wire.fetch_response(raft.position, raft.leader_address, {"error_code": error_code}), True
    validity = raft.log.validate(parked.offset, parked.last_epoch)
    fields: wire.Fields = {"log_start_offset": raft.log.start_offset, "high_watermark": state.high_watermark}
    is_news = True
    if validity.snapshot is not None:
        fields["snapshot_id"] = {"end_offset": validity.snapshot.offset, "epoch": validity.snapshot.epoch}
    elif validity.diverging is not None:
        fields["diverging_epoch"] = {"epoch": validity.diverging.epoch, "end_offset": validity.diverging.offset}
    else:
        if parked.replica.node_id >= 0:
            raft.note_fetch(state, parked.replica, parked.offset)
        fields["records"] = raft.log.read(parked.offset, parked.max_bytes)
        fields["high_watermark"] = state.high_watermark
        is_news = bool(fields["records"]) or state.high_watermark > parked.high_watermark
    return wire.fetch_response(raft.position, raft.leader_address, fields), is_news


def _has_news(raft: Member, parked: ParkedFetch) -> bool:
    state = raft.state
    if not isinstance(state, Leader) or state.epoch != parked.epoch or raft.now_ms >= parked.deadline_ms:
        return True
    return raft.log.end_offset > parked.offset or state.high_watermark > parked.high_watermark


def complete_parked(raft: Member) -> None:
    """Answer the waiting fetches for which there are records or a new high watermark, whose max wait has passed, or
    whose leader or epoch has changed."""
    if not raft.parked or not any(_has_news(raft, fetch) for fetch in raft.parked):
        return
    parked, raft.parked = raft.parked, []
    ready = [fetch for fetch in parked if _has_news(raft, fetch)]
    raft.parked += [fetch for fetch in parked if fetch not in ready]
    for fetch in ready:
        fetch.respond(_fetched(raft, fetch)[0])


def fetch_snapshot(raft: Member, entity: Entity) -> wire.Fields:
    """Handle FetchSnapshot: return the response's fields with a part of a snapshot, or an error code."""
    if _has_other_cluster(raft, entity):
        return wire.refusal(InconsistentClusterId)
    if len(entity.topics) != 1 or len(entity.topics[0].partitions) != 1:
        return wire.refusal(InvalidRequest)
    partition = wire.only_partition(entity.topics, "name")

    def response(error: type[KafkaError] | None, extra: wire.Fields | None = None) -> wire.Fields:
        fields = {"error_code": 0 if error is None else error.code, **(extra or {})}
        return wire.snapshot_response(raft.position, raft.leader_address, fields)

    if partition is None:
        return response(UnknownTopicOrPartition)
    error_code = _leader_error(raft, partition.current_leader_epoch)
    if error_code or not isinstance(raft.state, Leader):
        return response(None, {"error_code": error_code})
    snapshot_id = SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
    max_bytes = min(entity.max_bytes, raft.settings.fetch_snapshot_max_bytes)
    try:
        size, data = raft.log.read_snapshot_part(snapshot_id, partition.position, max_bytes)
    except (SnapshotNotFound, FileNotFoundError):
        return response(SnapshotNotFound)
    if not 0 <= partition.position < size:
        return response(PositionOutOfRange)
    if entity.replica_id >= 0:
        replica = ReplicaKey(entity.replica_id, getattr(partition, "replica_directory_id", None))
        raft.note_fetch(raft.state, replica, None)
    part = {
        "snapshot_id": {"end_offset": snapshot_id.offset, "epoch": snapshot_id.epoch},
        "size": size,
        "position": partition.position,
        "unaligned_records": data,
    }
    return response(None, part)
