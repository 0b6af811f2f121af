"""The states of a quorum member: values without a clock or a disk (Kafka's EpochState and subclasses, KIP-595,
KIP-996)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kafkatools.core.broker.metadata.quorum.voter_set import ReplicaKey, Voter, VoterSet
from kafkatools.core.broker.metadata.snapshot import SnapshotDownload
from kafkatools.core.protocol.entities import Fields

NEVER = 2**63 - 1
OBSERVER_SESSION_TIMEOUT_MS = 300_000


class Votes:
    """The votes of one election (EpochElection); the candidate's own vote is counted from the start."""

    def __init__(self, voters: Iterable[int], own_id: int) -> None:
        self.voters = frozenset(voters)
        self.granted = {own_id} & self.voters
        self.rejected: set[int] = set()

    @property
    def majority(self) -> int:
        """The number of votes that wins the election."""
        return len(self.voters) // 2 + 1

    @property
    def is_granted(self) -> bool:
        """Return whether the election is won."""
        return len(self.granted) >= self.majority

    @property
    def is_rejected(self) -> bool:
        """Return whether the election can no longer be won."""
        return len(self.voters) - len(self.rejected) < self.majority

    @property
    def unrecorded(self) -> list[int]:
        """The voters that have not responded yet."""
        return sorted(self.voters - self.granted - self.rejected)

    def record(self, voter_id: int, *, is_granted: bool) -> None:
        """Count a voter's response; a granted vote stays granted."""
        if voter_id not in self.voters:
            return
        if is_granted:
            self.granted.add(voter_id)
            self.rejected.discard(voter_id)
        elif voter_id not in self.granted:
            self.rejected.add(voter_id)


@dataclass
class Unattached:
    """No leader is known in this epoch; the member may have voted."""

    epoch: int
    leader_id: int | None
    voted_id: int | None
    deadline_ms: int
    voted_directory_id: uuid.UUID | None = None


@dataclass
class Prospective:
    """The member asks in its current epoch whether it would win an election (PreVote, KIP-996)."""

    epoch: int
    leader_id: int | None
    voted_id: int | None
    deadline_ms: int
    votes: Votes
    retries: int = 0
    voted_directory_id: uuid.UUID | None = None


@dataclass
class Candidate:
    """The member asks for votes in a new epoch; `backoff_until_ms` is set when it has lost."""

    epoch: int
    voted_id: int
    deadline_ms: int
    votes: Votes
    retries: int
    backoff_until_ms: int | None = None
    leader_id: None = None
    voted_directory_id: uuid.UUID | None = None


@dataclass
class Follower:
    """The member fetches from the leader of its epoch. At `voter_change_ms` it next compares itself with the voters of
    the log, and asks the leader to add or update it if need be."""

    epoch: int
    leader_id: int
    voted_id: int | None
    deadline_ms: int
    has_updated_leader: bool = False
    download: SnapshotDownload | None = None
    voter_change_ms: int | None = None
    has_reported: bool = False
    voted_directory_id: uuid.UUID | None = None


@dataclass
class ReplicaProgress:
    """A leader's view of a voter or observer (LeaderState.ReplicaState); times are ms of `now_ms`."""

    replica_id: int
    end_offset: int = -1
    last_fetch_ms: int | None = None
    last_caught_up_ms: int | None = None
    directory_id: uuid.UUID | None = None
    leader_end_at_last_fetch: int = -1

    def note_fetch(self, offset: int, leader_end: int, now_ms: int) -> None:
        """Record a fetch: the replica has everything below `offset`. It is caught up if it has the leader's current
        end, or was at its last fetch if it has the end of that time."""
        if offset >= leader_end:
            self.last_caught_up_ms = now_ms
        elif 0 < self.leader_end_at_last_fetch <= offset:
            self.last_caught_up_ms = self.last_fetch_ms
        self.leader_end_at_last_fetch = leader_end
        self.last_fetch_ms = now_ms
        self.end_offset = offset


@dataclass
class VoterChange:
    """A change of the voters that the leader has begun: an added `voter`, or a removal. `offset` is that of its record
    once that is appended; without `is_acknowledged_late` the response was sent then."""

    respond: Callable[[Fields], None]
    deadline_ms: int
    voter: Voter | None = None
    offset: int | None = None
    is_acknowledged_late: bool = True


@dataclass
class Leader:
    """The member appends records and tracks replicas. The record at `start_offset` is the epoch's LeaderChange. A
    leader that removes itself from the voters leads until this is committed, as an observer: `own` is its progress."""

    epoch: int
    leader_id: int
    voted_id: int | None
    start_offset: int
    own: ReplicaProgress
    granting_voters: tuple[int, ...]
    check_quorum_deadline_ms: int
    voters: dict[int, ReplicaProgress] = field(default_factory=dict)
    observers: dict[ReplicaKey, ReplicaProgress] = field(default_factory=dict)
    fetched_voters: set[int] = field(default_factory=set)
    announced_ms: dict[int, int] = field(default_factory=dict)
    high_watermark: int = -1
    change: VoterChange | None = None
    reported: dict[int, Voter] = field(default_factory=dict)
    """The voters of a static quorum as they have reported themselves in this epoch."""

    def update_voters(self, voter_set: VoterSet, own_key: ReplicaKey) -> None:
        """Track the voters of another voter set: new ones were observers or are unknown, removed ones are observers."""
        before, own = self.voters, self.own
        self.voters = {}
        self.observers.pop(own_key, None)
        for voter in voter_set.voters:
            progress = before.get(voter.node_id)
            if progress is not None and progress.directory_id in (None, voter.directory_id):
                del before[voter.node_id]
            elif voter.is_replica(own_key):
                progress = own
            else:
                progress = self.observers.pop(voter.key, None) or ReplicaProgress(voter.node_id)
            progress.directory_id = voter.directory_id
            self.voters[voter.node_id] = progress
        for progress in before.values():
            self.observers[ReplicaKey(progress.replica_id, progress.directory_id)] = progress
        if not self.is_voter:
            self.observers[own_key] = own
        self.fetched_voters &= set(self.voters)

    @property
    def is_voter(self) -> bool:
        """Return whether this leader is a voter."""
        return self.voters.get(self.leader_id) is self.own

    def progress(self, replica: ReplicaKey) -> ReplicaProgress:
        """Return the progress of a voter or observer; an unknown replica becomes an observer. A static voter matches by
        its node id and has no directory id, as in Kafka; dynamic voters and observers differ by both."""
        voter = self.voters.get(replica.node_id)
        if voter is not None and voter.directory_id in (None, replica.directory_id):
            return voter
        observer = ReplicaProgress(replica.node_id, directory_id=replica.directory_id)
        return self.observers.setdefault(replica, observer)

    def hears(self, replica: ReplicaKey) -> bool:
        """Note a fetch of another voter; observers do not count. Returns whether a majority has fetched since this was
        last true (check quorum). The leader counts if it is a voter."""
        voter = self.voters.get(replica.node_id)
        if voter is not None and voter is not self.own and voter.directory_id in (None, replica.directory_id):
            self.fetched_voters.add(replica.node_id)
        if len(self.fetched_voters) + int(self.is_voter) < len(self.voters) // 2 + 1:
            return False
        self.fetched_voters.clear()
        return True

    def advance_high_watermark(self) -> bool:
        """Advance the high watermark to the largest offset that a majority has. Returns whether it moved. It moves only
        beyond the first record of this epoch: only then is everything below it on every later leader."""
        ends = sorted((voter.end_offset for voter in self.voters.values()), reverse=True)
        offset = ends[len(ends) // 2]
        if offset <= self.start_offset or offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        return True

    def successors(self) -> tuple[int, ...]:
        """Return the other voters, those with the largest end offset first."""
        other_voters = [voter for voter in self.voters.values() if voter is not self.own]
        other_voters.sort(key=lambda voter: (-voter.end_offset, voter.replica_id))
        return tuple(voter.replica_id for voter in other_voters)

    def forget_observers(self, now_ms: int) -> None:
        """Remove the observers that have not fetched for five minutes, but not this leader."""
        for replica, observer in list(self.observers.items()):
            if observer is self.own:
                continue
            if observer.last_fetch_ms is None or now_ms - observer.last_fetch_ms >= OBSERVER_SESSION_TIMEOUT_MS:
                del self.observers[replica]


@dataclass
class Resigned:
    """The member led this epoch, grants no votes in it and asks the other voters to elect a new leader."""

    epoch: int
    deadline_ms: int
    unacknowledged: set[int]
    successors: tuple[int, ...]
    leader_id: None = None
    voted_id: None = None


State = Unattached | Prospective | Candidate | Follower | Leader | Resigned


def may_grant(state: State, candidate: ReplicaKey, *, is_up_to_date: bool, is_pre_vote: bool) -> bool:
    """Return whether a voter in this state votes for a candidate of its epoch (EpochState.canGrantVote). A vote without
    a directory id, of a static quorum, is for the node id."""
    if isinstance(state, Leader):
        return False
    if is_pre_vote:  # a follower that reaches its leader grants none
        return is_up_to_date and not (isinstance(state, Follower) and state.has_updated_leader)
    if not isinstance(state, Unattached | Prospective):
        return False
    if state.voted_id is not None:
        is_same_directory = state.voted_directory_id in (None, candidate.directory_id)
        return state.voted_id == candidate.node_id and is_same_directory
    return state.leader_id is None and is_up_to_date
