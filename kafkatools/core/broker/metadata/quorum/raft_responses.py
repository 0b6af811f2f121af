"""Handlers of the responses of other quorum members (KafkaRaftClient's handle...Response).

A handler returns True when the response settles its request, False when the request must be repeated after a back-off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkatools.core.broker.metadata.quorum import raft_messages as wire
from kafkatools.core.broker.metadata.quorum import voter_changes
from kafkatools.core.broker.metadata.quorum.leadership import note_leader
from kafkatools.core.broker.metadata.quorum.member import Member
from kafkatools.core.broker.metadata.quorum.quorum_states import (
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Unattached,
)
from kafkatools.core.broker.metadata.quorum.raft_log import whole_batches_until
from kafkatools.core.broker.metadata.snapshot import SnapshotId
from kafkatools.core.errors import (
    BrokerNotAvailable,
    CorruptRecord,
    DuplicateVoter,
    FencedLeaderEpoch,
    InvalidVoterKey,
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollower,
    RequestTimedOut,
    SnapshotNotFound,
    UnknownLeaderEpoch,
    VoterNotFound,
    error_from_code,
)
from kafkatools.core.protocol.entities import Entity


def handle(raft: Member, node_id: int, api_key: int, entity: Entity) -> bool:
    """Handle a response: apply its epoch and leader, then its result. Returns whether it settles the request; else it
    must be repeated. An unexpected error is reported to the listener."""
    if api_key in _OF_VOTER_CHANGES:
        return _OF_VOTER_CHANGES[api_key](raft, node_id, entity)
    if entity.error_code:
        return _unexpected(raft, node_id, int(entity.error_code))
    for point in getattr(entity, "node_endpoints", None) or ():
        raft.addresses.note(point.node_id, (point.host, point.port))
    if api_key in _HANDLERS:
        return _HANDLERS[api_key](raft, node_id, entity)
    partition = wire.only_partition(entity.topics, "topic_name")
    if partition is None:
        return False
    settled = _settle(raft, node_id, int(partition.error_code), partition.leader_epoch, partition.leader_id)
    if settled is not None:
        return settled
    if partition.error_code:
        return _unexpected(raft, node_id, int(partition.error_code))
    _note_election(raft, node_id, api_key, partition)
    return True


def _note_election(raft: Member, node_id: int, api_key: int, partition: Entity) -> None:
    """Note a voter's vote, or that it knows of this leader's election or resignation."""
    if api_key == wire.VOTE:
        _voted(raft, node_id, is_granted=bool(partition.vote_granted))
    elif api_key == wire.BEGIN_QUORUM_EPOCH and isinstance(raft.state, Leader):
        raft.state.announced_ms[node_id] = raft.now_ms
    elif api_key == wire.END_QUORUM_EPOCH and isinstance(raft.state, Resigned):
        raft.state.unacknowledged.discard(node_id)


def _unexpected(raft: Member, node_id: int, error_code: int) -> bool:
    # A voter with a new disk has another directory id, until the voters are changed.
    if error_code not in (BrokerNotAvailable.code, InvalidVoterKey.code):
        message = f"Quorum member {node_id} responded with error code {error_code}"
        raft.fault(error_from_code(error_code, message) or KafkaError(message))
    return False


def _settle(raft: Member, node_id: int, error_code: int, epoch: int, wire_leader_id: int) -> bool | None:
    """Apply a response's epoch and leader (maybeHandleCommonResponse). Returns None if its other fields must be
    handled, else whether it settles the request."""
    leader_id = None if wire_leader_id < 0 else wire_leader_id
    if error_code == UnknownLeaderEpoch.code:
        return False
    if epoch < raft.epoch:  # a member adopts a request's newer epoch, unless it rejects the request
        return _unexpected(raft, node_id, error_code) if error_code else False
    if epoch > raft.epoch or error_code in (FencedLeaderEpoch.code, NotLeaderOrFollower.code):
        if not note_leader(raft, epoch, leader_id):
            _contradiction(raft, epoch, leader_id)
            return False
        # a member that knows no more than this node is asked again only after a back-off
        return not isinstance(raft.state, Unattached | Follower)
    if leader_id not in (None, raft.node_id) and raft.leader_id is None:
        if not note_leader(raft, epoch, leader_id):
            _contradiction(raft, epoch, leader_id)
            return False
        return None if isinstance(raft.state, Follower) and not error_code else True
    return False if error_code == BrokerNotAvailable.code else None


def _contradiction(raft: Member, epoch: int, leader_id: int | None) -> None:
    own = f"this node knows {raft.leader_id} as the leader of epoch {raft.epoch}"
    raft.fault(KafkaError(f"A response names {leader_id} as the leader of epoch {epoch}, but {own}"))


def _voted(raft: Member, node_id: int, *, is_granted: bool) -> None:
    state = raft.state
    if not isinstance(state, Prospective | Candidate):
        return
    state.votes.record(node_id, is_granted=is_granted)
    if isinstance(state, Prospective):
        if state.votes.is_granted:
            raft.become_candidate(state.retries)
        elif state.votes.is_rejected:
            raft.lose_pre_vote()
    elif state.votes.is_granted:
        raft.become_leader()
    elif state.votes.is_rejected and state.backoff_until_ms is None:
        raft.back_off(state)


def _unsettled_partition(raft: Member, node_id: int, topics: Any, name: str) -> Entity | bool:
    """The metadata partition of a Fetch or FetchSnapshot response, after its epoch and leader are applied. If nothing
    else of it counts, whether the response settles its request."""
    partition = wire.only_partition(topics, name)
    if partition is None:
        return False
    leader = partition.current_leader
    settled = _settle(raft, node_id, int(partition.error_code), leader.leader_epoch, leader.leader_id)
    return partition if settled is None else settled


def _fetched(raft: Member, node_id: int, entity: Entity) -> bool:
    partition = _unsettled_partition(raft, node_id, entity.responses, "topic")
    if isinstance(partition, bool):
        return partition
    if partition.error_code:
        return _unexpected(raft, node_id, int(partition.error_code))
    state = raft.state
    if not isinstance(state, Follower) or not _is_leader(state, node_id):
        return True
    diverging, snapshot_id = partition.diverging_epoch, partition.snapshot_id
    if diverging.epoch >= 0:
        is_done = _truncate(raft, SnapshotId(diverging.end_offset, diverging.epoch))
    elif snapshot_id.epoch >= 0 or snapshot_id.end_offset >= 0:
        is_done = _begin_snapshot(raft, state, SnapshotId(snapshot_id.end_offset, snapshot_id.epoch))
    else:
        is_done = _take_records(raft, state, partition.records or b"")
        if is_done and partition.high_watermark >= 0:
            raft.note_high_watermark(min(raft.log.end_offset, partition.high_watermark))
    if is_done:
        _note_leader_contact(raft, state)
    return is_done


def _is_leader(state: Follower, node_id: int) -> bool:
    """Return whether a response without an error is the leader's: also that of a bootstrap server, whose node id is not
    known, since only the leader responds so."""
    return node_id == state.leader_id or node_id < 0


def _note_leader_contact(raft: Member, state: Follower) -> None:
    state.has_updated_leader = True
    raft.last_leader_contact = (state.leader_id, raft.now_ms)
    state.deadline_ms = raft.now_ms + raft.settings.fetch_timeout_ms


def _truncate(raft: Member, end: SnapshotId) -> bool:
    if end.offset < raft.high_watermark:
        raft.fault(
            KafkaStorageError(
                f"The leader requested truncation to offset {end.offset}, which is below the current high watermark "
                f"{raft.high_watermark}"
            )
        )
        return False
    raft.log.truncate_to_end(end)
    return True


def _take_records(raft: Member, state: Follower, data: bytes) -> bool:
    """Append fetched records and sync them before the next fetch reports their offsets. Returns False if they are
    invalid, which is reported; True also without records. Raises KafkaStorageError, OSError."""
    if not data:
        return True
    batches = whole_batches_until(data, state.epoch)
    if not batches:
        raft.fault(CorruptRecord(f"The leader of epoch {state.epoch} sent no complete batch of its epoch or below"))
        return False
    try:
        raft.log.take_over(batches)
    except KafkaStorageError:
        raise
    except KafkaError as error:
        raft.fault(error)
        return False
    finally:
        raft.log.flush()
    return True


def _begin_snapshot(raft: Member, state: Follower, snapshot_id: SnapshotId) -> bool:
    if snapshot_id.epoch < 0 or snapshot_id.offset < 0:
        raft.fault(KafkaError(f"The leader of epoch {state.epoch} named an invalid snapshot id: {snapshot_id}"))
        return False
    state.download = raft.log.begin_download(snapshot_id)
    if state.download is None:
        raft.log.begin_at(snapshot_id)
    return True


def _snapshot_fetched(raft: Member, node_id: int, entity: Entity) -> bool:
    partition = _unsettled_partition(raft, node_id, entity.topics, "name")
    if isinstance(partition, bool):
        return partition
    state = raft.state
    if not isinstance(state, Follower) or not _is_leader(state, node_id) or state.download is None:
        return True
    sent_id = SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
    if partition.error_code or sent_id != state.download.snapshot_id or partition.position != state.download.size_bytes:
        state.download.abandon()  # the leader no longer has this snapshot: fetch again
        state.download = None
        if int(partition.error_code) == SnapshotNotFound.code:
            _note_leader_contact(raft, state)
            return True
        return False
    state.download.append(partition.unaligned_records or b"")
    if state.download.size_bytes >= partition.size:
        return _finish_snapshot(raft, state)
    _note_leader_contact(raft, state)
    return True


def _finish_snapshot(raft: Member, state: Follower) -> bool:
    assert state.download is not None
    download, state.download = state.download, None
    try:
        download.finish()
    except CorruptRecord as error:
        raft.fault(error)
        return False
    raft.log.begin_at(download.snapshot_id)
    raft.note_high_watermark(download.snapshot_id.offset)
    _note_leader_contact(raft, state)
    return True


def _voter_updated(raft: Member, node_id: int, entity: Entity) -> bool:
    """Apply the epoch and leader of an UpdateRaftVoter response. The request is sent again after a fetch time-out if
    the log has no such change by then."""
    leader = entity.current_leader
    if leader.leader_id >= 0:
        raft.addresses.note(leader.leader_id, (leader.host, leader.port))
        if leader.leader_epoch >= raft.epoch:
            note_leader(raft, leader.leader_epoch, leader.leader_id)
    if entity.error_code == 0 and isinstance(raft.state, Follower):
        raft.state.has_reported = True
    return True


def _voter_asked(raft: Member, node_id: int, entity: Entity) -> bool:
    """Report why the leader did not add or remove this node as a voter; it is asked again after a fetch time-out. A
    change that an earlier request has made is no error: this node has not fetched its record yet."""
    expected = (RequestTimedOut.code, NotLeaderOrFollower.code, DuplicateVoter.code, VoterNotFound.code)
    if entity.error_code not in (0, *expected):
        message = f"The leader {node_id} did not change the voters: {entity.error_message or ''}"
        raft.fault(error_from_code(int(entity.error_code), message) or KafkaError(message))
    return True


_OF_VOTER_CHANGES: dict[int, Callable[[Member, int, Entity], bool]] = {
    wire.API_VERSIONS: voter_changes.versions_received,
    wire.UPDATE_RAFT_VOTER: _voter_updated,
    wire.ADD_RAFT_VOTER: _voter_asked,
    wire.REMOVE_RAFT_VOTER: _voter_asked,
}
_HANDLERS: dict[int, Callable[[Member, int, Entity], bool]] = {
    wire.FETCH: _fetched,
    wire.FETCH_SNAPSHOT: _snapshot_fetched,
}
