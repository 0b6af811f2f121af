"""Who hears from a quorum's member: what is committed, who leads, that everything begins anew with a snapshot."""

from __future__ import annotations

from typing import Protocol

from kafkatools.core.broker.metadata.snapshot import Snapshot


class RaftListener(Protocol):
    """Called on the node's thread, in order, from within `Raft.start`, `tick` and the `handle_` methods; it may call
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
