"""The interfaces of `Raft` for the functions that handle its requests, responses and states, and for its listener."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from kafkatools.core.broker.metadata.quorum import raft_messages as wire
from kafkatools.core.broker.metadata.quorum.peer_requests import PeerRequests
from kafkatools.core.broker.metadata.quorum.quorum_addresses import QuorumAddresses
from kafkatools.core.broker.metadata.quorum.quorum_states import Candidate, Leader, State
from kafkatools.core.broker.metadata.quorum.raft_log import RaftLog
from kafkatools.core.broker.metadata.quorum.raft_settings import RaftSettings
from kafkatools.core.broker.metadata.quorum.voter_set import Address, ReplicaKey, VoterSet
from kafkatools.core.broker.metadata.snapshot import ControlRecord, Snapshot


@dataclass(eq=False)
class ParkedFetch:
    """A Fetch request that waits for records, up to `deadline_ms`; `respond` sends the response."""

    replica: ReplicaKey
    epoch: int
    offset: int
    last_epoch: int
    high_watermark: int
    max_bytes: int
    deadline_ms: int
    respond: Callable[[wire.Fields], None]


class Member(Protocol):
    """A quorum member as its handlers see it; `Raft` documents the methods. Times are ms of its clock."""

    node_id: int
    own_key: ReplicaKey
    addresses: QuorumAddresses
    log: RaftLog
    settings: RaftSettings
    state: State
    now_ms: int
    high_watermark: int
    last_leader_contact: tuple[int, int] | None
    parked: list[ParkedFetch]
    epoch_pace: EpochPace
    is_shutting_down: bool
    requests: PeerRequests
    random: Random

    @property
    def voter_set(self) -> VoterSet: ...
    @property
    def voters(self) -> Mapping[int, Address]: ...
    @property
    def leader_address(self) -> Mapping[int, Address]: ...
    @property
    def is_dynamic(self) -> bool: ...
    @property
    def kraft_version(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    @property
    def leader_id(self) -> int | None: ...
    @property
    def may_stand(self) -> bool: ...
    @property
    def is_voter(self) -> bool: ...
    @property
    def other_voters(self) -> list[int]: ...
    @property
    def position(self) -> wire.Position: ...
    def random_election_timeout(self) -> int: ...
    def become(self, state: State) -> None: ...
    def become_prospective(self, retries: int = 0) -> None: ...
    def become_resigned(self) -> None: ...
    def is_due(self, deadline_ms: int) -> bool: ...
    def wake_at(self, at_ms: int) -> None: ...
    def send(self, node_id: int, api_key: int, fields: Callable[[], wire.Fields]) -> None: ...
    def become_unattached(self, epoch: int, voted: ReplicaKey | None = None) -> None: ...
    def become_candidate(self, retries: int) -> None: ...
    def become_leader(self) -> None: ...
    def append_voters(self, records: Sequence[ControlRecord]) -> int: ...
    def become_follower(self, epoch: int, leader_id: int) -> None: ...
    def become_again_resigned(self, epoch: int) -> None: ...
    def lose_pre_vote(self) -> None: ...
    def back_off(self, state: Candidate) -> None: ...
    def note_high_watermark(self, offset: int) -> None: ...
    def note_fetch(self, state: Leader, replica: ReplicaKey, offset: int | None) -> None: ...
    def fault(self, error: Exception) -> None: ...


class RaftListener(Protocol):
    """Receives a quorum member's commits, leader changes and snapshots. Its methods are called on the node's thread, in
    order, from within `Raft.start`, `tick` and the `handle_` methods. They may call `Raft.append` and `Raft.resign`."""

    def on_commit(self, first: int, end: int) -> None:
        """The records from offset `first` up to `end` (excluded) are committed; `raft.log.committed(first, end)` reads
        them. Each offset is reported once, in order."""

    def on_leader_change(self, leader_id: int | None, epoch: int) -> None:
        """The leader or the epoch changed; None while no leader is known. A new leader gets this call after `on_commit`
        for its epoch's LeaderChange record, when it has applied every committed record."""

    def on_snapshot_loaded(self, snapshot: Snapshot) -> None:
        """Replace all state by the snapshot's. The next `on_commit` starts at the snapshot's end offset."""

    def on_fault(self, error: Exception) -> None:
        """Report a protocol violation or a disk failure; the latter sets `raft.failure` and stops the member."""


BURST = 1000
EPOCHS_PER_ELECTION_TIMEOUT = 10


class EpochPace:
    """A bound on the epochs that requests may raise a member to.

    Every epoch belongs to one election, and a voter begins an election at most every few hundred milliseconds. So
    requests of other voters may raise the epoch by `BURST` at once and by one for each tenth of an election time-out
    that has passed. Without that bound one forged Vote could take the quorum to the largest epoch, after which no
    election is possible.

    A member that was away for longer than the bound allows still catches up: answers to its own requests, which come
    from the addresses of the voters, may move it to any epoch.
    """

    def __init__(self, election_timeout_ms: int) -> None:
        self._interval_ms = max(1, election_timeout_ms // EPOCHS_PER_ELECTION_TIMEOUT)
        self._allowed_epochs = BURST
        self._since_ms: int | None = None

    def allows(self, leap: int, now_ms: int) -> bool:
        """Return whether a request may raise the epoch by `leap`. If so, the leap is subtracted from the bound."""
        if self._since_ms is None:
            self._since_ms = now_ms
        earned = (now_ms - self._since_ms) // self._interval_ms
        self._allowed_epochs += earned
        self._since_ms += earned * self._interval_ms
        if leap > self._allowed_epochs:
            return False
        self._allowed_epochs -= max(leap, 0)
        return True
