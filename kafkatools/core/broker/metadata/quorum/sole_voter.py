"""The quorum of a node alone: its only voter leads, and a record is committed when it is written.

Rules: each start begins a leader epoch, which is stored in `quorum-state` before a LeaderChange record begins it. There
are no votes, so an unreadable `quorum-state` stops nothing: the epoch then follows the log's. A disk error fails the
change that met it; the node continues. An upgrade of kraft.version writes the node as the one voter, with its listener
for controllers; a start with another listener writes the new one.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from kafkatools.core.broker.metadata.quorum.election_store import ElectionState, ElectionStore
from kafkatools.core.broker.metadata.quorum.raft_settings import RaftSettings
from kafkatools.core.broker.metadata.quorum.voter_set import (
    EndPoint,
    ReplicaKey,
    Voter,
    VoterSet,
    ensure_sole_voter,
    ensure_upgrade,
    epoch_start_records,
    voter_set,
)
from kafkatools.core.errors import (
    InvalidRequest,
    InvalidUpdateVersion,
    KafkaError,
    KafkaStorageError,
    UnsupportedVersion,
)

if TYPE_CHECKING:
    from kafkatools.core.broker.metadata.quorum.quorum_description import QuorumDescription
    from kafkatools.core.broker.metadata.quorum.raft_log import RaftLog, Records
    from kafkatools.core.protocol.entities import Entity, Fields


class SoleVoter:
    """The `Quorum` and `RecordWriter` of a node alone; clients reach the node at `address`. `end_point` is the listener
    that its log names for controllers."""

    commits_at_once = True

    def __init__(
        self,
        node_id: int,
        address: tuple[str, int],
        log: RaftLog,
        store: ElectionStore,
        directory_id: uuid.UUID | None,
        end_point: EndPoint,
    ) -> None:
        self.node_id = node_id
        self.voters = {node_id: address}
        self.leader_id = node_id
        self.settings = RaftSettings(listener_name=end_point.name, directory_id=directory_id, end_points=(end_point,))
        self._own = Voter(node_id, directory_id, (end_point,))
        self.kraft_version = 0
        self.epoch = 0
        self._log = log
        self._store = store

    def start(self, replay: Callable[[Entity], None]) -> None:
        """Replay the snapshot and all records, and begin a leader epoch, which is written to `quorum-state` and the
        log. The epoch of a dynamic quorum begins with its voter too where the log does not have it, as in Kafka. Raises
        ConfigError for other voters, KafkaStorageError, CorruptRecord, OSError."""
        log = self._log
        log.update_high_watermark(log.end_offset)
        offset = log.start_offset
        snapshot = log.load_snapshot()
        if snapshot is not None:
            offset = max(offset, snapshot.snapshot_id.offset)
            for record in snapshot.records:
                replay(record)
        for batch in log.committed(offset, log.end_offset):
            for record in batch.records:
                replay(record)
        voters = voter_set(log.metadata_log.quorum_records.items())
        ensure_sole_voter(voters, self._own.key, log.metadata_log.directory)
        self.kraft_version = voters.kraft_version
        stored = ElectionState()
        with suppress(KafkaStorageError):
            stored = self._store.read() or stored
        self.epoch = max(stored.epoch, log.last_epoch) + 1
        self._store.write(ElectionState(self.epoch, self.node_id), kraft_version=self.kraft_version)
        records = epoch_start_records(voters, self._own, is_first=log.end_offset == 0)
        log.append_leader_change(self.node_id, self.epoch, self.voters, self.voters, records)
        log.metadata_log.note_quorum_records(records)

    @property
    def end_offset(self) -> int:
        """Offset of the next record."""
        return self._log.end_offset

    def append(self, records: Records, wall_ms: int) -> int:
        """Append and commit records as one batch. Returns the offset of the first. Raises KafkaStorageError."""
        return self._log.append(records, self.epoch, wall_ms)

    def upgrade_kraft_version(self, level: int, *, validate_only: bool) -> None:
        """Raise kraft.version: append it with this node as the voter. With `validate_only` only check it. Raises
        InvalidUpdateVersion, KafkaStorageError."""
        if level == self.kraft_version:
            return
        ensure_upgrade(self.kraft_version, level)
        if self._own.directory_id is None:
            raise InvalidUpdateVersion(
                f"Node {self.node_id} has no directory.id in the meta.properties of its metadata log's directory"
            )
        if not validate_only:
            records = VoterSet(level, (self._own,)).records
            self._log.append_control(records, self.epoch)
            self._log.metadata_log.note_quorum_records(records)
            self.kraft_version = level

    def handle_add_voter(self, entity: Entity, now_ms: int, respond: Callable[[Fields], None]) -> None:
        """Refuse AddRaftVoter: this node is a voter, and has no listener on which another one could reach it."""
        key = ReplicaKey(entity.voter_id, entity.voter_directory_id)
        self._refuse("adding", self._voters.duplicate(key) if key.node_id == self.node_id else None, respond)

    def handle_remove_voter(self, entity: Entity, now_ms: int, respond: Callable[[Fields], None]) -> None:
        """Refuse RemoveRaftVoter: the last voter stays."""
        key = ReplicaKey(entity.voter_id, entity.voter_directory_id)
        self._refuse("removing", self._voters.not_removable(key), respond)

    @property
    def _voters(self) -> VoterSet:
        return VoterSet(self.kraft_version, (self._own,))

    def _refuse(self, doing: str, error: KafkaError | None, respond: Callable[[Fields], None]) -> None:
        if self.kraft_version == 0:
            words = f"Cluster doesn't support {doing} voter because the kraft.version feature is 0"
            error = UnsupportedVersion(words)
        elif error is None:
            setting = "set controller.quorum.bootstrap.servers and start it again"
            error = InvalidRequest(f"Node {self.node_id} serves its quorum alone. To change its voters, {setting}")
        respond({"error_code": error.code, "error_message": str(error)})

    def describe(self, now_ms: int) -> QuorumDescription:
        """Describe the quorum: the only voter leads and has every record."""
        from kafkatools.core.broker.metadata.quorum.quorum_description import QuorumDescription, ReplicaDescription

        wall_ms = self._log.wall_ms()
        directory_id = self.settings.directory_id if self.kraft_version else None
        voter = ReplicaDescription(self.node_id, self.end_offset, wall_ms, wall_ms, directory_id)
        return QuorumDescription(self.node_id, self.epoch, self.end_offset, (voter,), ())
