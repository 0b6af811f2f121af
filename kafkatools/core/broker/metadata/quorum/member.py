"""The member of a quorum (`Raft`), for the functions that answer requests, read answers and choose states for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kafkatools.core.broker.metadata.quorum import raft_messages as wire
from kafkatools.core.broker.metadata.quorum.quorum_states import Candidate, Leader, State
from kafkatools.core.broker.metadata.snapshot import Snapshot

if TYPE_CHECKING:
    from kafkatools.core.broker.metadata.quorum.epoch_pace import EpochPace
    from kafkatools.core.broker.metadata.quorum.raft_log import RaftLog
    from kafkatools.core.broker.metadata.quorum.raft_settings import RaftSettings


@dataclass(eq=False)
class ParkedFetch:
    """A fetch: what it asks for, and when it is answered at the latest."""

    replica_id: int
    epoch: int
    offset: int
    last_epoch: int
    high_watermark: int
    max_bytes: int
    deadline_ms: int
    answer: Callable[[wire.Fields], None]


class Member(Protocol):
    """The methods are explained at `Raft`. Times are ms on its clock."""

    node_id: int
    voters: dict[int, tuple[str, int]]
    log: RaftLog
    settings: RaftSettings
    state: State
    now_ms: int
    high_watermark: int
    last_heard: tuple[int, int] | None
    parked: list[ParkedFetch]
    epoch_pace: EpochPace

    @property
    def epoch(self) -> int: ...

    @property
    def leader_id(self) -> int | None: ...

    @property
    def is_voter(self) -> bool: ...

    @property
    def is_shutting_down(self) -> bool: ...

    @property
    def other_voters(self) -> list[int]: ...

    @property
    def position(self) -> wire.Position: ...

    def random_election_timeout(self) -> int: ...

    def become_unattached(self, epoch: int, voted_id: int | None = None) -> None: ...

    def become_candidate(self, retries: int) -> None: ...

    def become_leader(self) -> None: ...

    def become_follower(self, epoch: int, leader_id: int) -> None: ...

    def become_again_resigned(self, epoch: int) -> None: ...

    def lose_pre_vote(self) -> None: ...

    def back_off(self, state: Candidate) -> None: ...

    def note_high_watermark(self, offset: int) -> None: ...

    def note_fetch(self, state: Leader, replica_id: int, offset: int | None) -> None: ...

    def fault(self, error: Exception) -> None: ...


class RaftListener(Protocol):
    """Who hears from a member: what is committed, who leads, that everything begins anew with a snapshot.

    Called on the node's thread, in order, from within `Raft.start`, `tick` and the `handle_` methods; it may call
    `Raft.append` and `Raft.resign`."""

    def on_commit(self, first: int, end: int) -> None:
        """The records from offset `first` to `end` (excluded) are committed: `raft.log.committed(first, end)` reads
        them. Each offset comes once, in order."""
        ...

    def on_leader_change(self, leader_id: int | None, epoch: int) -> None:
        """Another leader or epoch, None while nobody is known. Of itself a node hears when the LeaderChange record of
        its epoch is committed and `on_commit` was called for it: then it has everything that was ever committed."""
        ...

    def on_snapshot_loaded(self, snapshot: Snapshot) -> None:
        """Forget everything: this is what the records up to the snapshot's end come to. The next `on_commit` begins
        there."""
        ...

    def on_fault(self, error: Exception) -> None:
        """What cannot be if all nodes keep the rules, or a disk that failed (then `raft.failure` is set and this member
        does nothing any more)."""
        ...
