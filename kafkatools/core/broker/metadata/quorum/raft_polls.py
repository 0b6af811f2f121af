"""The time-outs and requests of a quorum member in each of its states (KafkaRaftClient's poll... methods)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kafkatools.core.broker.metadata.quorum import raft_messages as wire
from kafkatools.core.broker.metadata.quorum import replica_fetches, voter_changes, voter_requests
from kafkatools.core.broker.metadata.quorum.member import Member
from kafkatools.core.broker.metadata.quorum.quorum_states import (
    NEVER,
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Unattached,
    Votes,
)
from kafkatools.core.broker.metadata.quorum.voter_set import Voter

TRIES_TO_REACH_LEADER = 3


def poll(raft: Member) -> None:
    """Handle the time-outs of the present state that have passed, and send the requests that are due in it."""
    state = raft.state
    if isinstance(state, Leader):
        _poll_leader(raft, state)
    elif isinstance(state, Follower):
        _poll_follower(raft, state)
    elif isinstance(state, Candidate):
        _poll_candidate(raft, state)
    elif isinstance(state, Resigned):
        poll_resigned(raft, state)
    elif isinstance(state, Prospective):
        if raft.is_due(state.deadline_ms):
            raft.lose_pre_vote()
        else:
            _request_votes(raft, state.votes, is_pre_vote=True)
    elif raft.is_due(state.deadline_ms):
        raft.become_prospective()
    else:
        _fetch_from_anyone(raft)


def _poll_candidate(raft: Member, state: Candidate) -> None:
    if state.backoff_until_ms is not None:
        if raft.is_due(state.backoff_until_ms):
            raft.become_prospective(state.retries)
    elif raft.is_due(state.deadline_ms):
        raft.back_off(state)
    else:
        _request_votes(raft, state.votes, is_pre_vote=False)


def _request_votes(raft: Member, votes: Votes, *, is_pre_vote: bool) -> None:
    for voter in votes.unrecorded:
        raft.send(voter, wire.VOTE, partial(voter_requests.vote, raft, voter, is_pre_vote=is_pre_vote))


def _poll_follower(raft: Member, state: Follower) -> None:
    leader_id = state.leader_id
    if raft.may_stand:
        is_gone = raft.requests.losses(leader_id) >= TRIES_TO_REACH_LEADER and not raft.is_shutting_down
        if is_gone or raft.is_due(state.deadline_ms):
            raft.become_prospective()
        elif not _asks_for_own_change(raft, state):
            _fetch_from(raft, leader_id)
        return
    if raft.now_ms >= state.deadline_ms or raft.requests.backoff_until_ms(leader_id) > raft.now_ms:
        _fetch_from_anyone(raft)
    else:
        raft.wake_at(state.deadline_ms)
        if not _asks_for_own_change(raft, state):
            _fetch_from(raft, leader_id)


def _asks_for_own_change(raft: Member, state: Follower) -> bool:
    """Once in a fetch time-out, ask the leader for the change of the voters that this node needs. Returns whether the
    next request is for that, and not a Fetch."""
    period_ms = raft.settings.fetch_timeout_ms
    is_static = raft.kraft_version == 0
    if not raft.settings.is_controller or raft.is_shutting_down or (is_static and state.has_reported):
        return False
    if state.voter_change_ms is None:
        state.voter_change_ms = raft.now_ms + period_ms
    if raft.now_ms < state.voter_change_ms:
        raft.wake_at(state.voter_change_ms)
        return False
    request = _own_change(raft)
    if request is not None and not raft.requests.is_ready(state.leader_id, raft.now_ms):
        backoff_until_ms = raft.requests.backoff_until_ms(state.leader_id)
        raft.wake_at(backoff_until_ms if backoff_until_ms > raft.now_ms else NEVER)
        return True  # the response of the pending Fetch comes first
    state.voter_change_ms = raft.now_ms + period_ms
    raft.wake_at(state.voter_change_ms)
    if request is not None:
        raft.send(state.leader_id, *request)
    return request is not None


def _own_change(raft: Member) -> tuple[int, Callable[[], wire.Fields]] | None:
    """Return the request for the change of the voters that this node needs, None without one. A voter sends
    UpdateRaftVoter if its listeners or versions differ from those in the log, and once to the leader of a static
    quorum, which needs them for an upgrade of kraft.version. An observer with controller.quorum.auto.join.enable adds
    itself; if its node id is that of a voter with another directory id, it removes that one first."""
    voter = raft.voter_set.by_id.get(raft.node_id)
    if raft.is_voter:
        own = Voter(*raft.own_key, raft.settings.end_points)
        is_known = not raft.voter_set.needs_update(own) or raft.settings.directory_id is None
        return None if is_known else (wire.UPDATE_RAFT_VOTER, partial(voter_requests.update_voter, raft))
    if not raft.settings.auto_join_enable or raft.kraft_version == 0:
        return None
    if voter is not None:
        return wire.REMOVE_RAFT_VOTER, partial(voter_requests.remove_voter, raft, voter.key)
    return wire.ADD_RAFT_VOTER, partial(voter_requests.add_voter, raft)


def _poll_leader(raft: Member, state: Leader) -> None:
    is_removed = not state.is_voter and (raft.log.voters.last_offset or 0) < state.high_watermark
    if raft.is_shutting_down or is_removed or raft.now_ms >= state.check_quorum_deadline_ms:
        raft.become_resigned()
        return
    voter_changes.poll(raft, state)
    raft.wake_at(state.check_quorum_deadline_ms)
    interval_ms = raft.settings.fetch_timeout_ms // 2
    for voter in raft.other_voters:
        last_fetch_ms = state.voters[voter].last_fetch_ms
        announced_ms = state.announced_ms.get(voter)
        last_contact_ms = max((at for at in (last_fetch_ms, announced_ms) if at is not None), default=None)
        if last_contact_ms is not None and raft.now_ms < last_contact_ms + interval_ms:
            raft.wake_at(last_contact_ms + interval_ms)
            continue
        raft.send(voter, wire.BEGIN_QUORUM_EPOCH, partial(voter_requests.begin_epoch, raft, voter, state))


def poll_resigned(raft: Member, state: Resigned) -> None:
    """Ask the other voters for an election, and begin the next epoch when the election time-out has passed."""
    if raft.is_due(state.deadline_ms):  # the node can neither lead nor win this epoch
        raft.become(Unattached(state.epoch + 1, None, None, raft.now_ms if raft.may_stand else NEVER))
        return
    for voter in sorted(state.unacknowledged):
        raft.send(voter, wire.END_QUORUM_EPOCH, partial(voter_requests.end_epoch, raft, state))


def _fetch_from(raft: Member, node_id: int) -> None:
    state = raft.state
    if node_id >= 0 and raft.requests.is_asking_bootstrap:
        return  # the bootstrap server may be the leader, and the same records must not come twice
    if isinstance(state, Follower) and state.download is not None and node_id == state.leader_id:
        raft.send(node_id, wire.FETCH_SNAPSHOT, partial(replica_fetches.snapshot_request, raft, state.download))
    else:
        raft.send(node_id, wire.FETCH, partial(replica_fetches.fetch_request, raft))


def _fetch_from_anyone(raft: Member) -> None:
    """Send a Fetch to any bootstrap server or voter, whose response names the leader."""
    sources = [*raft.settings.bootstrap_addresses, *raft.other_voters]
    if raft.requests.is_asking or not sources:
        return
    ready = [source for source in sources if raft.requests.backoff_until_ms(source) <= raft.now_ms]
    if ready:
        _fetch_from(raft, raft.random.choice(ready))
    else:
        raft.wake_at(min(map(raft.requests.backoff_until_ms, sources)))
