"""Changes of the voters by the leader (Kafka's AddVoterHandler, RemoveVoterHandler, UpdateVoterHandler; KIP-853).

Rules: one change at a time, and none before the high watermark has reached a record of the leader's epoch or while the
last change is not committed. So a leader never begins a change beside one of an earlier leader. Voters change only with
kraft.version 1. A new voter must support that version, as it says itself (ApiVersions), and must have caught up in the
last hour, or the quorum would wait for it. A change counts from its append on. Whoever asked gets the response when it
is committed; after controller.quorum.request.timeout.ms it gets REQUEST_TIMED_OUT, and the change may still be made.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from kafkatools.core.broker.metadata.quorum import raft_messages as wire
from kafkatools.core.broker.metadata.quorum.quorum_states import Leader, VoterChange
from kafkatools.core.broker.metadata.quorum.voter_set import EndPoint, ReplicaKey, Voter, VoterSet, ensure_upgrade
from kafkatools.core.errors import (
    BrokerNotAvailable,
    DuplicateVoter,
    FencedLeaderEpoch,
    InconsistentClusterId,
    InvalidRequest,
    InvalidUpdateVersion,
    KafkaError,
    NotController,
    NotLeaderOrFollower,
    RequestTimedOut,
    UnknownLeaderEpoch,
    UnsupportedVersion,
    VoterNotFound,
    error_from_code,
)
from kafkatools.version import __version__

if TYPE_CHECKING:
    from kafkatools.core.broker.metadata.quorum.member import Member
    from kafkatools.core.protocol.entities import Entity

HOUR_MS = 3_600_000
KRAFT_VERSION = "kraft.version"
Respond = Callable[[wire.Fields], None]


def _refuse(respond: Respond, error: type[KafkaError], message: str | None = None) -> None:
    respond({"error_code": error.code, "error_message": message})


def _is_refused(raft: Member, entity: Entity, action: str, respond: Respond) -> bool:
    """Refuse a request of an administrator that this member cannot serve now, and return whether it was refused."""
    own_id = raft.settings.cluster_id
    if None not in (entity.cluster_id, own_id) and entity.cluster_id != own_id:
        message = f'The given id "{entity.cluster_id}" doesn\'t match the cluster id "{own_id}"'
        _refuse(respond, InconsistentClusterId, message)
    elif not isinstance(raft.state, Leader):
        _refuse(respond, NotLeaderOrFollower)
    elif raft.is_shutting_down:
        _refuse(respond, BrokerNotAvailable)
    elif entity.voter_id < 0 or entity.voter_directory_id is None:
        _refuse(respond, InvalidRequest, f"{action} voter request didn't include a valid voter")
    else:
        return False
    return True


def _obstacle(raft: Member, state: Leader, doing: str) -> tuple[type[KafkaError], str] | None:
    """Return the error that no voter can be added or removed now, None without one."""
    if state.change is not None:
        return RequestTimedOut, "Request timed out waiting for leader to handle previous voter change request"
    if state.high_watermark < 0:
        words = "Request timed out waiting for leader to establish HWM and fence previous voter changes"
        return RequestTimedOut, words
    if raft.kraft_version == 0:
        return UnsupportedVersion, f"Cluster doesn't support {doing} voter because the {KRAFT_VERSION} feature is 0"
    offset = raft.log.voters.last_offset
    if offset is None or offset >= state.high_watermark:
        waited = f"commit the latest voter change at Optional[{offset}] with HWM {state.high_watermark}"
        return RequestTimedOut, f"Request timed out waiting for voters to {waited}"
    return None


def add_voter(raft: Member, entity: Entity, respond: Respond) -> None:
    """Handle AddRaftVoter: ask the new voter for its versions; `versions_received` adds it."""
    if _is_refused(raft, entity, "Add", respond):
        return
    state = raft.state
    assert isinstance(state, Leader)
    key = ReplicaKey(entity.voter_id, entity.voter_directory_id)
    voter = Voter(*key, tuple(EndPoint(point.name, point.host, point.port) for point in entity.listeners))
    address = voter.address(raft.settings.listener_name)
    if address is None:
        points = ", ".join(f"{point.name}={point.host}:{point.port}" for point in voter.end_points)
        words = f"Add voter request didn't include the endpoint (Endpoints(endpoints={{{points}}})) for the default"
        _refuse(respond, InvalidRequest, f"{words} listener {raft.settings.listener_name}")
        return
    obstacle = _obstacle(raft, state, "adding")
    if obstacle is not None:
        _refuse(respond, *obstacle)
        return
    voters = raft.voter_set
    if key.node_id in voters.by_id:
        _refuse(respond, DuplicateVoter, str(voters.duplicate(key)))
        return
    raft.addresses.note(key.node_id, address)
    if not raft.requests.is_ready(key.node_id, raft.now_ms):
        _refuse(respond, RequestTimedOut, f"New voter {key} is not ready to receive requests")
        return
    is_acknowledged_late = bool(getattr(entity, "ack_when_committed", True))
    deadline_ms = raft.now_ms + raft.settings.request_timeout_ms
    state.change = VoterChange(respond, deadline_ms, voter, is_acknowledged_late=is_acknowledged_late)
    fields = {"client_software_name": "kafkatools", "client_software_version": __version__}
    raft.send(key.node_id, wire.API_VERSIONS, partial(dict, fields))


def versions_received(raft: Member, node_id: int, entity: Entity | None) -> bool:
    """Handle the new voter's ApiVersions response, None without one: add the voter to the voters. Returns True, since
    the request is not repeated."""
    state = raft.state
    change = state.change if isinstance(state, Leader) else None
    if not isinstance(state, Leader) or change is None or change.voter is None or change.offset is not None:
        return True
    voter, level = change.voter, raft.kraft_version
    if voter.node_id != node_id:
        return True
    code = BrokerNotAvailable.code if entity is None else int(entity.error_code)
    if entity is None or code:
        error = error_from_code(code)
        name = "UNKNOWN_SERVER_ERROR" if error is None else error.name
        words = f"Aborted add voter operation for since API_VERSIONS returned an error {name}"
        end_change(state, RequestTimedOut, words)
        return True
    versions = next(
        ((row.min_version, row.max_version) for row in entity.supported_features if row.name == KRAFT_VERSION), None
    )
    if versions is None or not versions[0] <= level <= versions[1]:
        found = "(min: 0, max: 0)" if versions is None else f"(min: {versions[0]}, max: {versions[1]}"
        words = f"Aborted add voter operation for {voter.key} since the {KRAFT_VERSION} range {found} doesn't support"
        end_change(state, InvalidRequest, f"{words} the finalized version {level}")
    elif not _has_caught_up(raft, state, voter.key):
        words = f"Aborted add voter operation for {voter.key} since it is lagging behind"
        end_change(state, RequestTimedOut, words)
    else:
        voters = raft.voter_set.with_voter(voter._replace(versions=versions))
        change.offset = raft.append_voters([voters.voters_record])
        if not change.is_acknowledged_late:
            end_change(state, None)
    return True


def _has_caught_up(raft: Member, state: Leader, key: ReplicaKey) -> bool:
    observer = state.observers.get(key)
    if observer is None or observer.last_caught_up_ms is None or observer.last_fetch_ms is None:
        return False
    return observer.last_fetch_ms > raft.now_ms - HOUR_MS


def remove_voter(raft: Member, entity: Entity, respond: Respond) -> None:
    """Handle RemoveRaftVoter: append the voters without one of them. A leader may remove itself."""
    if _is_refused(raft, entity, "Remove", respond):
        return
    state = raft.state
    assert isinstance(state, Leader)
    obstacle = _obstacle(raft, state, "removing")
    if obstacle is not None:
        _refuse(respond, *obstacle)
        return
    key, voters = ReplicaKey(entity.voter_id, entity.voter_directory_id), raft.voter_set
    remaining = voters.without(key)
    if remaining is None:
        _refuse(respond, VoterNotFound, str(voters.not_removable(key)))
    else:
        offset = raft.append_voters([remaining.voters_record])
        state.change = VoterChange(respond, raft.now_ms + raft.settings.request_timeout_ms, offset=offset)


def update_voter(raft: Member, entity: Entity) -> wire.Fields:
    """Handle UpdateRaftVoter: a voter reports its listeners and versions. Returns the response's fields at once, before
    the new record is committed. The leader of a static quorum keeps the report for `upgrade`."""
    error = _update_error(raft, entity)
    if error is None:
        versions = entity.k_raft_version_feature
        voter = Voter(
            entity.voter_id,
            entity.voter_directory_id,
            tuple(EndPoint(point.name, point.host, point.port) for point in entity.listeners),
            (versions.min_supported_version, versions.max_supported_version),
        )
        state = raft.state
        if raft.kraft_version == 0 and isinstance(state, Leader) and voter.node_id in raft.voter_set.by_id:
            state.reported[voter.node_id] = voter
        elif raft.voter_set.has(voter.key) and raft.kraft_version > 0:
            raft.append_voters([raft.voter_set.with_voter(voter).voters_record])
        else:
            error = VoterNotFound
    return wire.update_response(raft.position, raft.leader_address, 0 if error is None else error.code)


def _update_error(raft: Member, entity: Entity) -> type[KafkaError] | None:  # noqa: C901 - a list of checks
    state, own_id, epoch = raft.state, raft.settings.cluster_id, entity.current_leader_epoch
    if None not in (entity.cluster_id, own_id) and entity.cluster_id != own_id:
        return InconsistentClusterId
    if epoch != raft.epoch:
        return FencedLeaderEpoch if epoch < raft.epoch else UnknownLeaderEpoch
    if not isinstance(state, Leader):
        return NotLeaderOrFollower
    if raft.is_shutting_down:
        return BrokerNotAvailable
    versions = entity.k_raft_version_feature
    lowest, highest = versions.min_supported_version, versions.max_supported_version
    names = [point.name for point in entity.listeners]
    is_incomplete = entity.voter_id < 0 or entity.voter_directory_id is None
    if is_incomplete or raft.settings.listener_name not in names or not 0 <= lowest <= highest:
        return InvalidRequest
    obstacle = _obstacle(raft, state, "updating")
    if obstacle is not None and obstacle[0] is not UnsupportedVersion:
        return obstacle[0]
    return None if lowest <= raft.kraft_version <= highest else InvalidRequest


def upgrade(raft: Member, level: int, *, validate_only: bool) -> None:
    """Raise kraft.version: append it with the voters of the static quorum as they have reported themselves, so that
    they can be changed. With `validate_only` only check it. Raises InvalidUpdateVersion, NotController."""
    state, current = raft.state, raft.kraft_version
    if not isinstance(state, Leader):
        raise NotController()
    if level == current:
        return
    ensure_upgrade(current, level)
    own = Voter(*raft.own_key, raft.settings.end_points)
    reported = {**state.reported, raft.node_id: own} if own.directory_id and own.end_points else state.reported
    voters = [reported[node_id] for node_id in sorted(raft.voter_set.by_id) if node_id in reported]
    supporting = [voter for voter in voters if voter.versions[0] <= level <= voter.versions[1]]
    if len(supporting) < len(raft.voter_set.by_id):
        reason = "because not all of the voters support it"
        raise InvalidUpdateVersion(f"Invalid upgrade of {KRAFT_VERSION} to KRAFT_VERSION_{level} {reason}")
    if not validate_only:
        upgraded = VoterSet(level, tuple(voters))
        raft.append_voters(upgraded.records)


def end_change(state: Leader, error: type[KafkaError] | None, message: str | None = None) -> None:
    """End the pending change, if any, and respond to its request."""
    change, state.change = state.change, None
    if change is not None:
        change.respond({"error_code": 0 if error is None else error.code, "error_message": message})


def note_high_watermark(state: Leader) -> None:
    """End the pending change when its record is committed."""
    change = state.change
    if change is not None and change.offset is not None and state.high_watermark > change.offset:
        end_change(state, None)


def poll(raft: Member, state: Leader) -> None:
    """End the pending change when its time-out has passed."""
    change = state.change
    if change is None:
        return
    raft.wake_at(change.deadline_ms)
    if raft.now_ms >= change.deadline_ms:
        end_change(state, RequestTimedOut)
