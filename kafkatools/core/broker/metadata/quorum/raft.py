"""One member of the controller quorum: elections, and the replication of the metadata log (Kafka's KafkaRaftClient and
QuorumState; KIP-595, KIP-996, KIP-630).

No I/O here: time comes with the calls, requests go through a `PeerChannel`, and responses are handled in the next
`tick`, which the owner calls when `next_deadline_ms` has come. The voters are those that the log names last, committed
or not (`voter_set.py`), else those of controller.quorum.voters; any other node is an observer.

Rules:
- Epoch, leader and vote are on disk before they take effect.
- A leader counts its own records when they are on disk; one sync covers everything appended between two ticks.
- A majority that has a record of the leader's own epoch commits that record and all before it.
- A leader without fetches from a majority for one and a half fetch time-outs resigns.
- A follower that repeatedly cannot reach its leader starts an election before its fetch time-out, unlike in Kafka. With
  PreVote this disturbs no working quorum.
- A change of state drops the requests of the old state.
- A leader that removed itself from the voters resigns when that is committed; until then it counts for no majority.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from kafkatools.core.broker.metadata.quorum import (
    failed_member,
    raft_polls,
    raft_requests,
    raft_responses,
    voter_changes,
)
from kafkatools.core.broker.metadata.quorum import raft_messages as wire
from kafkatools.core.broker.metadata.quorum.election_store import ElectionState, ElectionStore
from kafkatools.core.broker.metadata.quorum.leadership import initial_state
from kafkatools.core.broker.metadata.quorum.member import EpochPace, Member, ParkedFetch, RaftListener
from kafkatools.core.broker.metadata.quorum.peer_requests import PeerRequests
from kafkatools.core.broker.metadata.quorum.quorum_addresses import QuorumAddresses
from kafkatools.core.broker.metadata.quorum.quorum_description import QuorumDescription, quorum_description
from kafkatools.core.broker.metadata.quorum.quorum_states import (
    NEVER,
    Candidate,
    Follower,
    Leader,
    Prospective,
    ReplicaProgress,
    Resigned,
    State,
    Unattached,
    Votes,
)
from kafkatools.core.broker.metadata.quorum.raft_log import RaftLog, Records
from kafkatools.core.broker.metadata.quorum.raft_settings import RaftSettings
from kafkatools.core.broker.metadata.quorum.voter_set import Address, ReplicaKey, Voter, VoterSet, epoch_start_records
from kafkatools.core.broker.server.channels import PeerChannel
from kafkatools.core.errors import KafkaError, KafkaStorageError, NotController, NotLeaderOrFollower
from kafkatools.core.protocol.entities import Entity

if TYPE_CHECKING:
    import uuid

    from kafkatools.core.broker.metadata.snapshot import ControlRecord

CHECK_QUORUM_FACTOR = 1.5
RETRY_BACKOFF_BASE_MS = 100
MAX_STATES_A_TICK = 10
_Result = TypeVar("_Result")


@dataclass(eq=False, repr=False)
class Raft:
    """The state machine of one quorum member: voter or observer, leader or follower."""

    node_id: int
    static_voters: Mapping[int, Address]
    log: RaftLog
    store: ElectionStore
    channel: PeerChannel
    settings: RaftSettings
    random: Random
    listener: RaftListener
    state: State = field(default_factory=lambda: Unattached(0, None, None, NEVER), init=False)
    now_ms: int = field(default=0, init=False)
    failure: Exception | None = field(default=None, init=False)
    high_watermark: int = field(default=-1, init=False)
    last_leader_contact: tuple[int, int] | None = field(default=None, init=False)
    """Leader id and time in ms of the last Fetch response."""
    parked: list[ParkedFetch] = field(default_factory=list, init=False)
    is_shutting_down: bool = field(default=False, init=False)
    _applied: int = field(default=0, init=False)
    _announced: tuple[int | None, int] = field(default=(None, -1), init=False)
    _is_notifying: bool = field(default=False, init=False)
    _has_unflushed: bool = field(default=False, init=False)
    _must_tick: bool = field(default=True, init=False)
    _wake_ms: int = field(default=NEVER, init=False)

    def __post_init__(self) -> None:
        self.epoch_pace = EpochPace(self.settings.election_timeout_ms)
        self.requests = PeerRequests(self.channel, self.settings)
        self.addresses = QuorumAddresses(self.static_voters, self.log.voters, self.settings)
        self.own_key = ReplicaKey(self.node_id, self.settings.directory_id)

    # -- state ---------------------------------------------------------------------------------------------------------
    @property
    def epoch(self) -> int:
        """The leader epoch of this member's state."""
        return self.state.epoch

    @property
    def leader_id(self) -> int | None:
        """The leader of the epoch, None while it is unknown."""
        return self.state.leader_id

    @property
    def is_leader(self) -> bool:
        """Return whether this node leads the quorum."""
        return isinstance(self.state, Leader)

    @property
    def voter_set(self) -> VoterSet:
        """The voters of the log, committed or not; without any those of controller.quorum.voters."""
        return self.addresses.voter_set

    @property
    def voters(self) -> Mapping[int, Address]:
        """The address of each voter by node id."""
        return self.addresses.of_voters

    @property
    def leader_address(self) -> Mapping[int, Address]:
        """The address of the leader by its node id, for responses; empty if it is unknown."""
        return self.addresses.of_leader(self.leader_id, self.node_id)

    @property
    def is_dynamic(self) -> bool:
        """Return whether the quorum is, or may be, one whose voters are in its log."""
        return self.addresses.is_dynamic

    @property
    def is_voter(self) -> bool:
        """Return whether this node is a voter; otherwise it is an observer."""
        return self.voter_set.has(self.own_key)

    @property
    def may_stand(self) -> bool:
        """Return whether this node may stand for election: a voter, or one whose removal may not be committed. Then no
        other voter has a log as long as this one's, perhaps, so only this node can win an election."""
        history = self.log.voters
        if self.is_voter or history.last_offset is None or history.last_offset < self.high_watermark:
            return self.is_voter
        return history.at(history.last_offset).has(self.own_key)

    @property
    def kraft_version(self) -> int:
        """The kraft.version of the log; 0 for a static quorum."""
        return self.log.voters.last.kraft_version

    @property
    def other_voters(self) -> list[int]:
        """The ids of the voters except this node, sorted."""
        return [voter for voter in sorted(self.voter_set.by_id) if voter != self.node_id]

    @property
    def end_offset(self) -> int:
        """The offset of the next record in the metadata log."""
        return self.log.end_offset

    @property
    def position(self) -> wire.Position:
        """The epoch and leader for a message."""
        return wire.Position(self.epoch, self.leader_id)

    @property
    def is_shut_down(self) -> bool:
        """Return whether the owner may stop this member: its disk has failed, or after `shut_down` another voter leads.
        An observer or the only voter has to wait for no one."""
        has_left = not self.may_stand or not self.other_voters or self.leader_id not in (None, self.node_id)
        return self.failure is not None or (self.is_shutting_down and has_left)

    @property
    def next_deadline_ms(self) -> int:
        """Time in ms at which `tick` must run next; 0 for at once."""
        has_unflushed = self._has_unflushed and self.failure is None
        return 0 if self._must_tick or self.requests.has_responses or has_unflushed else self._wake_ms

    # -- calls of the owner --------------------------------------------------------------------------------------------
    def start(self, now_ms: int) -> None:
        """Load the snapshot and the election state, enter a state and notify the listener; the only voter becomes the
        leader. Raises KafkaStorageError, CorruptRecord, OSError."""
        self.now_ms = now_ms
        snapshot = self.log.load_snapshot()
        if snapshot is not None:
            self._applied = self.high_watermark = snapshot.snapshot_id.offset
            self.listener.on_snapshot_loaded(snapshot)
        stored = self.store.read() or ElectionState()
        if self.log.last_epoch > stored.epoch:
            stored = ElectionState(self.log.last_epoch)
        self.state = initial_state(self, stored)
        if not self.other_voters and self.is_voter:
            self.become_candidate(0)
        self._notify_listener()

    def tick(self, now_ms: int) -> None:
        """Handle responses, time-outs and syncs that are due, and notify the listener. Does nothing before
        `next_deadline_ms`. A disk error is not raised: it sets `failure`."""
        if now_ms < self.next_deadline_ms:
            return
        self.now_ms = max(self.now_ms, now_ms)
        self._must_tick = False
        if self.failure is not None:
            self._wake_ms = NEVER
            failed_member.take_responses(self, self.requests)
            if isinstance(self.state, Resigned):
                raft_polls.poll_resigned(self, self.state)
            self._notify_listener()
            return
        try:
            self._take_answers()
            self._settle_leader()
            raft_requests.complete_parked(self)
            for _ in range(MAX_STATES_A_TICK):
                state = self.state
                self._wake_ms = NEVER
                raft_polls.poll(self)
                if self.state is state:
                    break
            self._settle_leader()
            self.wake_at(min((fetch.deadline_ms for fetch in self.parked), default=NEVER))
        except (KafkaStorageError, OSError) as error:
            self._fail(error)
        self._notify_listener()

    def append(self, records: Records, wall_ms: int) -> int:
        """Append records as one batch, which is committed later. Returns the offset of the first. Raises NotController
        if this node does not lead, or resigns because its disk fails."""
        if not isinstance(self.state, Leader) or self.failure is not None:
            raise NotController()
        try:
            first = self.log.append(records, self.epoch, wall_ms)
        except (KafkaStorageError, OSError) as error:
            self._fail(error)
            raise NotController(str(error)) from error
        self._has_unflushed = True
        return first

    def upgrade_kraft_version(self, level: int, *, validate_only: bool) -> None:
        """Raise kraft.version as the leader; with `validate_only` only check it. Raises InvalidUpdateVersion,
        NotController."""
        try:
            voter_changes.upgrade(self, level, validate_only=validate_only)
        except (KafkaStorageError, OSError) as error:
            self._fail(error)
            raise NotController(str(error)) from error

    def resign(self, now_ms: int) -> None:
        """Give up the leadership and ask the other voters to elect a new leader; a member that does not lead changes
        nothing."""
        if isinstance(self.state, Leader):
            self.now_ms = max(self.now_ms, now_ms)
            self.become_resigned()
        self._notify_listener()

    def shut_down(self, now_ms: int) -> None:
        """Start leaving the quorum: a leader resigns, and the member starts no election. `is_shut_down` tells when this
        is complete; the owner decides how long to wait."""
        self.is_shutting_down = True
        self.resign(now_ms)
        self._must_tick = True

    def describe(self, now_ms: int) -> QuorumDescription:
        """Describe the quorum from the leader's state. Raises NotController."""
        state = self.state
        if not isinstance(state, Leader):
            raise NotController()
        self.now_ms = max(self.now_ms, now_ms)
        return quorum_description(state, self.now_ms, self.log.wall_ms())

    # -- requests of other members -------------------------------------------------------------------------------------
    def handle_vote(self, entity: Entity, now_ms: int) -> wire.Fields:
        """Handle a Vote request; return the response's fields. Raises `failure` from a disk error on."""
        return self._handle(raft_requests.vote, entity, now_ms)

    def handle_begin_quorum_epoch(self, entity: Entity, now_ms: int) -> wire.Fields:
        """Handle a BeginQuorumEpoch request; return the response's fields. Raises `failure` from a disk error on."""
        if self.failure is not None and (following := failed_member.elected(self, entity)) is not None:
            self._enter(following)
            self._notify_listener()
        return self._handle(raft_requests.begin_quorum_epoch, entity, now_ms)

    def handle_end_quorum_epoch(self, entity: Entity, now_ms: int) -> wire.Fields:
        """Handle an EndQuorumEpoch request; return the response's fields. Raises `failure` from a disk error on."""
        return self._handle(raft_requests.end_quorum_epoch, entity, now_ms)

    def handle_fetch_snapshot(self, entity: Entity, now_ms: int) -> wire.Fields:
        """Handle a FetchSnapshot request; return the response's fields. Raises `failure` from a disk error on."""
        return self._handle(raft_requests.fetch_snapshot, entity, now_ms)

    def handle_fetch(self, entity: Entity, now_ms: int, respond: Callable[[wire.Fields], None]) -> None:
        """Handle a Fetch request. `respond` gets the response's fields: at once, or when there are records, a new high
        watermark or another leader, or the max wait has passed. Raises `failure` at and after a disk error."""
        self._handle(lambda raft, request: raft_requests.fetch(raft, request, respond), entity, now_ms)

    def handle_add_voter(self, entity: Entity, now_ms: int, respond: Callable[[wire.Fields], None]) -> None:
        """Handle AddRaftVoter. `respond` gets the response's fields, at once or when the change is committed. Raises
        `failure` from a disk error on."""
        self._handle(lambda raft, request: voter_changes.add_voter(raft, request, respond), entity, now_ms)

    def handle_remove_voter(self, entity: Entity, now_ms: int, respond: Callable[[wire.Fields], None]) -> None:
        """Handle RemoveRaftVoter, as `handle_add_voter` does AddRaftVoter."""
        self._handle(lambda raft, request: voter_changes.remove_voter(raft, request, respond), entity, now_ms)

    def handle_update_voter(self, entity: Entity, now_ms: int) -> wire.Fields:
        """Handle an UpdateRaftVoter request; return the response's fields. Raises `failure` from a disk error on."""
        return self._handle(voter_changes.update_voter, entity, now_ms)

    def _handle(self, handler: Callable[[Member, Any], _Result], entity: Entity, now_ms: int) -> _Result:
        """Run the handler of a request and return its result. Raises `failure`, which a disk error sets."""
        if self.failure is not None:
            raise self.failure
        self.now_ms = max(self.now_ms, now_ms)
        try:
            result = handler(self, entity)
        except (KafkaStorageError, OSError) as error:
            raise self._fail(error) from error
        self._must_tick = True
        self._notify_listener()
        return result

    # -- transitions ---------------------------------------------------------------------------------------------------
    def random_election_timeout(self) -> int:
        """Return a random time in ms between one and two election time-outs."""
        timeout_ms = self.settings.election_timeout_ms
        return timeout_ms + (self.random.randrange(timeout_ms) if timeout_ms > 0 else 0)

    def become(self, state: State) -> None:
        """Write the election state to disk, then enter the state."""
        directory_id = getattr(state, "voted_directory_id", None)
        if isinstance(state, Leader) and self.is_dynamic:
            directory_id = self.settings.directory_id
        self._store(ElectionState(state.epoch, state.leader_id, state.voted_id, directory_id))
        self._enter(state)

    def _store(self, state: ElectionState) -> None:
        self.store.write(state, kraft_version=self.kraft_version)

    def _enter(self, state: State) -> None:
        if isinstance(self.state, Follower) and self.state.download is not None:
            self.state.download.abandon()
        if isinstance(self.state, Leader):
            voter_changes.end_change(self.state, NotLeaderOrFollower)
        self.state = state
        self.requests.forget()
        self._must_tick = True

    def become_unattached(self, epoch: int, voted: ReplicaKey | None = None) -> None:
        """Enter an epoch without a leader; `voted` has this member's vote in it. An Unattached, Prospective or
        Candidate member keeps its election deadline unless it votes here. An observer has none."""
        state = self.state
        deadline_ms = NEVER
        if self.may_stand:
            deadline_ms = self.now_ms + self.random_election_timeout()
            if isinstance(state, Unattached | Prospective | Candidate) and voted is None:
                deadline_ms = state.deadline_ms
        voted_id, directory_id = voted or (None, None)
        self.become(Unattached(epoch, None, voted_id, deadline_ms, directory_id if self.is_dynamic else None))

    def become_prospective(self, retries: int = 0) -> None:
        """Ask the voters whether an election would be won (PreVote). If this node's own vote is a majority, start the
        election."""
        state = self.state
        votes = Votes(self.voter_set.by_id, self.node_id)
        deadline_ms = self.now_ms + self.random_election_timeout()
        directory_id = self._voted_directory_id
        self._enter(
            Prospective(state.epoch, state.leader_id, state.voted_id, deadline_ms, votes, retries, directory_id)
        )
        if votes.is_granted:
            self.become_candidate(retries)

    @property
    def _voted_directory_id(self) -> uuid.UUID | None:
        return getattr(self.state, "voted_directory_id", None)

    def lose_pre_vote(self) -> None:
        """Follow the known leader again after a lost PreVote; without one become Unattached."""
        state = self.state
        if state.leader_id is not None:
            fetch_deadline_ms = self.now_ms + self.settings.fetch_timeout_ms
            following = Follower(state.epoch, state.leader_id, state.voted_id, fetch_deadline_ms)
            following.voted_directory_id = self._voted_directory_id
            self._enter(following)
        else:
            deadline_ms = self.now_ms + self.random_election_timeout()
            self._enter(Unattached(state.epoch, None, state.voted_id, deadline_ms, self._voted_directory_id))

    def become_candidate(self, retries: int) -> None:
        """Start an election: begin a new epoch and vote for this node. If its own vote is a majority, it leads at
        once."""
        votes = Votes(self.voter_set.by_id, self.node_id)
        deadline_ms = self.now_ms + self.random_election_timeout()
        directory_id = self.settings.directory_id if self.is_dynamic else None
        self.become(
            Candidate(self.epoch + 1, self.node_id, deadline_ms, votes, retries + 1, voted_directory_id=directory_id)
        )
        if votes.is_granted:
            self.become_leader()

    def become_leader(self) -> None:
        """Lead the epoch after a won election, and append its LeaderChange record."""
        state = self.state
        assert isinstance(state, Candidate)
        granting = tuple(sorted(state.votes.granted))
        start, deadline_ms = self.log.end_offset, self._check_quorum_deadline()
        leader = Leader(
            state.epoch, self.node_id, self.node_id, start, ReplicaProgress(self.node_id), granting, deadline_ms
        )
        leader.update_voters(self.voter_set, self.own_key)
        self.become(leader)
        own = Voter(*self.own_key, self.settings.end_points)
        voters = epoch_start_records(self.voter_set, own, is_first=self.log.voters.last_offset == -1)
        self.log.append_leader_change(self.node_id, state.epoch, sorted(self.voter_set.by_id), granting, voters)
        self._has_unflushed = True

    def append_voters(self, records: Sequence[ControlRecord]) -> int:
        """Append the records of another voter set as the leader. Returns the offset of the last record. From now on the
        quorum decides by these voters."""
        state = self.state
        assert isinstance(state, Leader)
        first = self.log.append_control(records, state.epoch)
        self._has_unflushed = self._must_tick = True
        state.update_voters(self.voter_set, self.own_key)
        state.check_quorum_deadline_ms = self._check_quorum_deadline()
        return first + len(records) - 1

    def become_follower(self, epoch: int, leader_id: int) -> None:
        """Follow the leader of an epoch."""
        is_same = self.state.epoch == epoch
        voted_id, directory_id = (self.state.voted_id, self._voted_directory_id) if is_same else (None, None)
        deadline_ms = self.now_ms + self.settings.fetch_timeout_ms
        self.become(Follower(epoch, leader_id, voted_id, deadline_ms, voted_directory_id=directory_id))

    def become_resigned(self) -> None:
        """Stop leading and start asking the other voters for an election. The election state on disk stays, so this
        node votes for no other leader in this epoch."""
        state = self.state
        assert isinstance(state, Leader)
        deadline_ms = self.now_ms + self.random_election_timeout()
        self._enter(Resigned(state.epoch, deadline_ms, set(self.other_voters), state.successors()))

    def _check_quorum_deadline(self) -> int:
        if not self.other_voters:
            return NEVER
        return self.now_ms + int(self.settings.fetch_timeout_ms * CHECK_QUORUM_FACTOR)

    def become_again_resigned(self, epoch: int) -> None:
        """Enter an epoch that this node led, as other nodes report, but that its disk does not have. As after any
        restart of a leader, the node must not lead or vote in that epoch again."""
        self._store(ElectionState(epoch, self.node_id, None))
        deadline_ms = self.now_ms + self.random_election_timeout()
        self._enter(Resigned(epoch, deadline_ms, set(self.other_voters), ()))

    # -- time-outs and requests ----------------------------------------------------------------------------------------
    def wake_at(self, at_ms: int) -> None:
        """Have `tick` run at this time, in ms, or earlier."""
        self._wake_ms = min(self._wake_ms, at_ms)

    def is_due(self, deadline_ms: int) -> bool:
        """Return whether the deadline of the present state has passed; never during a shutdown. Also has `tick` run at
        this deadline."""
        if self.is_shutting_down:
            return False
        self.wake_at(deadline_ms)
        return self.now_ms >= deadline_ms

    def back_off(self, state: Candidate) -> None:
        """Wait a random time after a lost election. Its bound doubles with every loss, up to
        controller.quorum.election.backoff.max.ms."""
        spread = 2 << min(20, max(0, state.retries - 1))
        wait_ms = min(RETRY_BACKOFF_BASE_MS * self.random.randrange(spread), self.settings.election_backoff_max_ms)
        state.backoff_until_ms = self.now_ms + wait_ms
        self.wake_at(state.backoff_until_ms)

    def send(self, node_id: int, api_key: int, fields: Callable[[], wire.Fields]) -> None:
        """Send a request to a node unless one is under way or backed off."""
        self.wake_at(self.requests.send(node_id, api_key, fields, self.now_ms))

    def _take_answers(self) -> None:
        for response in self.requests.take_responses():
            entity = response.entity
            if entity is None and response.api_key == wire.API_VERSIONS:
                voter_changes.versions_received(self, response.node_id, None)
            is_settled = entity is not None and raft_responses.handle(self, response.node_id, response.api_key, entity)
            self.requests.settle(response, self.now_ms, is_settled=is_settled)

    # -- the leader's log ----------------------------------------------------------------------------------------------
    def _settle_leader(self) -> None:
        """Send appended records to waiting followers, sync them, then count them as this node's."""
        if not self._has_unflushed:
            return
        raft_requests.complete_parked(self)
        self.log.flush()
        self._has_unflushed = False
        state = self.state
        if isinstance(state, Leader):
            state.own.end_offset = self.log.end_offset
            self.advance(state)

    def advance(self, state: Leader) -> None:
        """Advance the leader's high watermark if a majority has more, and answer the waiting fetches."""
        if state.advance_high_watermark():
            self.note_high_watermark(state.high_watermark)
            voter_changes.note_high_watermark(state)
            raft_requests.complete_parked(self)

    def note_high_watermark(self, offset: int) -> None:
        """Advance this node's high watermark; a smaller offset is ignored."""
        if offset > self.high_watermark:
            self.high_watermark = offset
            self.log.update_high_watermark(offset)

    def note_fetch(self, state: Leader, replica: ReplicaKey, offset: int | None) -> None:
        """Record a replica's fetch from `offset`, or (None) its FetchSnapshot."""
        if state.hears(replica):
            state.check_quorum_deadline_ms = self._check_quorum_deadline()
        if offset is not None:
            state.progress(replica).note_fetch(offset, self.log.end_offset, self.now_ms)
            self.advance(state)

    # -- notifications -------------------------------------------------------------------------------------------------
    def fault(self, error: Exception) -> None:
        """Report a violation of the protocol to the listener."""
        self.listener.on_fault(error)

    def _fail(self, error: Exception) -> Exception:
        """Note a disk failure and return `failure`. The disk is uncertain, so this member writes nothing more: a leader
        resigns, waiting fetches get KAFKA_STORAGE_ERROR, and the listener's `on_fault` is called."""
        if self.failure is not None:
            return self.failure
        self.failure = error if isinstance(error, KafkaError) else KafkaStorageError(str(error))
        resigned = failed_member.resign(self)
        if resigned is not None:
            self._enter(resigned)
        parked, self.parked = self.parked, []
        for fetch in parked:
            fetch.respond(
                wire.fetch_response(self.position, self.leader_address, {"error_code": KafkaStorageError.code})
            )
        self.listener.on_fault(self.failure)
        return self.failure

    def _notify_listener(self) -> None:
        """Notify the listener of leader changes, snapshots and commits; of this node's own leadership last. Does
        nothing when the listener itself caused the call."""
        if self._is_notifying:
            return
        self._is_notifying = True
        try:
            self._notify_all()
        finally:
            self._is_notifying = False

    def _notify_all(self) -> None:
        while True:
            current = (self.leader_id, self.epoch)
            if current != self._announced and not isinstance(self.state, Leader):
                self._announced = current
                self.listener.on_leader_change(*current)
            elif self.failure is not None:
                return
            elif self._applied < self.log.start_offset:
                self._load_snapshot()
            elif self._applied < self.high_watermark:
                first, self._applied = self._applied, self.high_watermark
                self.listener.on_commit(first, self._applied)
            elif current != self._announced and self._applied > getattr(self.state, "start_offset", NEVER):
                self._announced = current
                self.listener.on_leader_change(*current)
            else:
                return

    def _load_snapshot(self) -> None:
        snapshot = self.log.load_snapshot()
        assert snapshot is not None, "a log that does not begin at 0 has a snapshot"
        self._applied = snapshot.snapshot_id.offset
        self.note_high_watermark(self._applied)
        self.listener.on_snapshot_loaded(snapshot)
