"""The time-outs and requests of a quorum member in each of its states (KafkaRaftClient's poll... methods)."""

from __future__ import annotations

from functools import partial

from kafkatools.core.broker.metadata.quorum import raft_messages as wire
from kafkatools.core.broker.metadata.quorum import replica_fetches, voter_requests
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
    if raft.is_voter:
        is_gone = raft.requests.losses(leader_id) >= TRIES_TO_REACH_LEADER and not raft.is_shutting_down
        if is_gone or raft.is_due(state.deadline_ms):
            raft.become_prospective()
        else:
            _fetch_from(raft, leader_id)
        return
    if raft.now_ms >= state.deadline_ms or raft.requests.backoff_until_ms(leader_id) > raft.now_ms:
        _fetch_from_anyone(raft)
    else:
        raft.wake_at(state.deadline_ms)
        _fetch_from(raft, leader_id)


def _poll_leader(raft: Member, state: Leader) -> None:
    is_removed = not state.is_voter and (raft.log.voters.last_offset or 0) < state.high_watermark
    if raft.is_shutting_down or is_removed or raft.now_ms >= state.check_quorum_deadline_ms:
        raft.become_resigned()
        return
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
        raft.become(Unattached(state.epoch + 1, None, None, raft.now_ms if raft.is_voter else NEVER))
        return
    for voter in sorted(state.unacknowledged):
        raft.send(voter, wire.END_QUORUM_EPOCH, partial(voter_requests.end_epoch, raft, state))


def _fetch_from(raft: Member, node_id: int) -> None:
    state = raft.state
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
