"""One member of a quorum without the others: what it sends is kept in a list and answered by hand."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, NamedTuple

from support.faulty_files import FaultyFileSystem
from support.quorum_simulation import WALL_MS, as_request, as_response

from kafkatools.core.broker.metadata.metadata_log import METADATA_LOG_CONFIG, MetadataLog, SnapshotRules
from kafkatools.core.broker.metadata.quorum import raft_messages as wire
from kafkatools.core.broker.metadata.quorum.election_store import ElectionStore
from kafkatools.core.broker.metadata.quorum.raft import Raft
from kafkatools.core.broker.metadata.quorum.raft_log import RaftLog
from kafkatools.core.broker.metadata.quorum.raft_settings import RaftSettings
from kafkatools.core.broker.metadata.quorum.voter_set import ReplicaKey
from kafkatools.core.broker.metadata.snapshot import Snapshot
from kafkatools.core.log.partition.log_config import LogConfig
from kafkatools.core.protocol.schemas.metadata import TopicRecord

VOTERS = {1: ("localhost", 9001), 2: ("localhost", 9002), 3: ("localhost", 9003)}
CLUSTER = "cluster-a"
Fields = Mapping[str, Any]


class Sent(NamedTuple):
    """A request that waits for its answer."""

    node_id: int
    api_key: int
    fields: Fields
    on_response: Callable[[Any], None]
    timeout_ms: int | None

    @property
    def partition(self) -> Fields:
        """The one partition of it."""
        found: Fields = self.fields["topics"][0]["partitions"][0]
        return found


class Member:
    """Node `node_id`; its disk outlives `restart`."""

    def __init__(
        self,
        node_id: int = 1,
        voters: Mapping[int, tuple[str, int]] | None = None,
        settings: RaftSettings | None = None,
        files: FaultyFileSystem | None = None,
        log_config: LogConfig = METADATA_LOG_CONFIG,
    ) -> None:
        self.node_id = node_id
        self.voters = VOTERS if voters is None else voters
        self.settings = settings or RaftSettings(CLUSTER)
        self.files = files or FaultyFileSystem()
        self.rules = SnapshotRules(max_retention_bytes=0, log_config=log_config)
        self.now_ms = 0
        self.sent: list[Sent] = []
        self.names: list[str] = []
        self.commits: list[tuple[int, int]] = []
        self.leaders: list[tuple[int | None, int]] = []
        self.faults: list[Exception] = []
        self.snapshots: list[Snapshot] = []
        self.open()

    def open(self) -> None:
        """Start with what is on the disk."""
        log = MetadataLog(self.files, "/node", self.rules)
        log.open(self.now_ms, WALL_MS, is_clean=False)
        self.raft = Raft(
            self.node_id,
            self.voters,
            RaftLog(log, lambda: WALL_MS + self.now_ms),
            ElectionStore(self.files, log.directory, self.voters),
            self,
            self.settings,
            Random(7),
            self,
        )
        self.raft.start(self.now_ms)

    def restart(self, *, loses_power: bool = True) -> None:
        """Stop at once and start again."""
        self.sent.clear()
        if loses_power:
            self.files.crash()
        self.open()

    # -- the channel and the listener ------------------------------------------------------------------------------
    def send(
        self,
        node_id: int,
        api_key: int,
        fields: Fields,
        on_response: Callable[[Any], None],
        *,
        timeout_ms: int | None = None,
    ) -> None:
        as_request(api_key, fields)  # the wire can carry it
        self.sent.append(Sent(node_id, api_key, fields, on_response, timeout_ms))

    def on_commit(self, first: int, end: int) -> None:
        self.commits.append((first, end))
        for batch in self.raft.log.committed(first, end):
            self.names += [record.name for record in batch.records]

    def on_leader_change(self, leader_id: int | None, epoch: int) -> None:
        self.leaders.append((leader_id, epoch))

    def on_snapshot_loaded(self, snapshot: Snapshot) -> None:
        self.names = [record.name for record in snapshot.records]
        self.snapshots.append(snapshot)

    def on_fault(self, error: Exception) -> None:
        self.faults.append(error)

    # -- time ------------------------------------------------------------------------------------------------------
    def tick(self, after_ms: int = 0) -> None:
        """Let time pass, and do what is due."""
        self.now_ms += after_ms
        for _ in range(50):
            if self.raft.next_deadline_ms > self.now_ms:
                return
            self.raft.tick(self.now_ms)
        raise AssertionError(f"never rests: {self.raft.state}")

    def take(self, api_key: int) -> list[Sent]:
        """The requests of a kind that were sent."""
        found = [each for each in self.sent if each.api_key == api_key]
        self.sent = [each for each in self.sent if each.api_key != api_key]
        return found

    def answer(self, sent: Sent, fields: Fields | None) -> None:
        """Answer a request; None: it was lost."""
        sent.on_response(None if fields is None else as_response(sent.api_key, fields))
        self.tick()

    # -- the others ------------------------------------------------------------------------------------------------
    def position(self, epoch: int | None = None, leader_id: int | None = None) -> wire.Position:
        """What another node says of epoch and leader."""
        return wire.Position(self.raft.epoch if epoch is None else epoch, leader_id)

    def answer_votes(self, *, is_granted: bool, voters: tuple[int, ...] = (2, 3)) -> None:
        """Let others answer the vote requests under way."""
        for sent in self.take(wire.VOTE):
            if sent.node_id in voters:
                extra = {"vote_granted": is_granted}
                self.answer(sent, wire.election_response(self.position(), self.voters, 0, extra))

    def be_elected(self) -> None:
        """Wait until an election is wanted, and win it with one vote."""
        self.tick(5000)
        self.answer_votes(is_granted=True, voters=(2,))
        self.answer_votes(is_granted=True, voters=(2,))
        assert self.raft.is_leader

    def follow(self, leader_id: int, epoch: int) -> None:
        """Hear from a leader."""
        fields = wire.begin_request(
            CLUSTER, ReplicaKey(self.node_id), leader_id, epoch, [wire.endpoint("CONTROLLER", ("h", 1))]
        )
        self.begin(fields)
        assert self.raft.leader_id == leader_id

    def begin(self, fields: Fields) -> Any:
        """BeginQuorumEpoch to this node; the answer's partition."""
        return self._ask(wire.BEGIN_QUORUM_EPOCH, fields, self.raft.handle_begin_quorum_epoch)

    def end(self, leader_id: int, epoch: int, successors: tuple[int, ...]) -> Any:
        """EndQuorumEpoch to this node."""
        fields = wire.end_request(
            CLUSTER, leader_id, epoch, [ReplicaKey(i) for i in successors], [wire.endpoint("CONTROLLER", ("h", 1))]
        )
        return self._ask(wire.END_QUORUM_EPOCH, fields, self.raft.handle_end_quorum_epoch)

    def vote(
        self,
        candidate_id: int,
        epoch: int,
        end: tuple[int, int] = (0, 0),
        *,
        is_pre_vote: bool = False,
        cluster_id: str = CLUSTER,
    ) -> Any:
        """Vote to this node, with the candidate's end of log (offset, epoch); the answer's partition, or the answer."""
        candidate = {
            "replica_epoch": epoch,
            "replica_id": candidate_id,
            "last_offset_epoch": end[1],
            "last_offset": end[0],
            "pre_vote": is_pre_vote,
        }
        fields = wire.vote_request(cluster_id, self.node_id, candidate)
        return self._ask(wire.VOTE, fields, self.raft.handle_vote)

    def _ask(self, api_key: int, fields: Fields, handle: Callable[[Any, int], Fields]) -> Any:
        response = as_response(api_key, handle(as_request(api_key, fields), self.now_ms))
        self.tick()
        return response.topics[0].partitions[0] if response.topics else response

    def fetch(
        self,
        replica_id: int,
        end: tuple[int, int],
        *,
        epoch: int | None = None,
        max_wait_ms: int = 0,
        high_watermark: int = -1,
        cluster_id: str = CLUSTER,
        directory_id: uuid.UUID | None = None,
    ) -> list[Any]:
        """Fetch from this node behind (offset, epoch); the list gets the answer's partition, or the answer, when it
        comes."""
        wanted = {
            "current_leader_epoch": self.raft.epoch if epoch is None else epoch,
            "fetch_offset": end[0],
            "last_fetched_epoch": end[1],
            "log_start_offset": 0,
            "high_watermark": high_watermark,
            "replica_directory_id": directory_id,
        }
        fields = wire.fetch_request(cluster_id, replica_id, (max_wait_ms, 1 << 20), wanted)
        answers: list[Any] = []

        def answer(response_fields: Fields) -> None:
            response = as_response(wire.FETCH, response_fields)
            answers.append(response.responses[0].partitions[0] if response.responses else response)

        self.raft.handle_fetch(as_request(wire.FETCH, fields), self.now_ms, answer)
        self.tick()
        return answers

    def append(self, *names: str) -> int:
        """Write a batch of records as the leader."""
        offset = self.raft.append([TopicRecord(name=name) for name in names], WALL_MS)
        self.tick()
        return offset

    def fetched(self, leader_id: int, epoch: int, **partition: Any) -> Fields:
        """The response of a leader's Fetch."""
        return wire.fetch_response(wire.Position(epoch, leader_id), self.voters, partition)
