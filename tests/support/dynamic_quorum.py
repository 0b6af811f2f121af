"""A simulated quorum whose voters change: added, removed, with new addresses, and formatted again.

Its log and epochs are checked as those of any quorum (`quorum_simulation.py`): one leader an epoch, and what is
committed is on the disks of a majority of the leader's voters, never lost and never different.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any

from support.faulty_files import FaultyFileSystem
from support.quorum_simulation import NEWEST, Fields, SimulatedNode, Simulation, Violation, _something_happens

from kafkatools.core.broker.metadata.metadata_log import MetadataLog
from kafkatools.core.broker.metadata.quorum.quorum_states import Leader
from kafkatools.core.broker.metadata.quorum.raft_settings import RaftSettings
from kafkatools.core.broker.metadata.quorum.voter_set import EndPoint, Voter, VoterSet
from kafkatools.core.broker.metadata.snapshot import SnapshotId, encode_snapshot
from kafkatools.core.errors import InvalidUpdateVersion

NEWEST.update({18: 4, 80: 1, 81: 0, 82: 0})
NODES = 5
VERSIONS = [{"name": "kraft.version", "min_version": 0, "max_version": 1}]


class DynamicQuorum(Simulation):
    """Five nodes; the first `voters` of them are formatted as voters, the others as observers."""

    def __init__(self, seed: int, voters: int = 1, *, auto_join: tuple[int, ...] = (), is_static: bool = False) -> None:
        """`is_static`: the voters are in the settings, until kraft.version is upgraded."""
        super().__init__(seed, voters, NODES - voters)
        self.static_voters = self.static_voters if is_static else {}
        self.auto_join = auto_join
        self.directories = {node_id: uuid.UUID(int=node_id << 64 | 1) for node_id in self.nodes}
        self.ports = {node_id: 9000 + node_id for node_id in self.nodes}
        self.outcomes: list[int] = []
        if not is_static:
            self.format(VoterSet(1, tuple(self.voter(node_id) for node_id in range(1, voters + 1))))

    def upgrade(self) -> None:
        """Raise kraft.version at the leader, if its voters have reported themselves."""
        leader = self.leader
        if leader is not None and leader.raft is not None and self.now_ms >= leader.paused_until_ms:
            with contextlib.suppress(InvalidUpdateVersion):
                leader.raft.upgrade_kraft_version(1, validate_only=False)
            leader.turn()

    def voter(self, node_id: int) -> Voter:
        """A node as a voter."""
        point = EndPoint("CONTROLLER", "localhost", self.ports[node_id])
        return Voter(node_id, self.directories[node_id], (point,))

    def format(self, voters: VoterSet) -> None:
        """Write the first voters on their disks, as kt storage format does."""
        records = [voters.version_record, voters.voters_record]
        data = encode_snapshot((), 0, last_contained_timestamp=0, wall_ms=self.wall_ms(), quorum_records=records)
        for voter in voters.voters:
            files = self.nodes[voter.node_id].files
            log = MetadataLog(files, "/node", self.rules)
            log.open(self.now_ms, self.wall_ms(), is_clean=False)
            log.snapshots.write(SnapshotId(0, 0), data)
            log.close()
            files.fsync_directory("/node")
            files.fsync_directory("/")

    def wipe(self, node_id: int) -> None:
        """Give a node that is down an empty disk with another directory id."""
        self.nodes[node_id].files = FaultyFileSystem()
        self.nodes[node_id].highest_epoch, self.nodes[node_id].high_watermark = 0, -1
        self.directories[node_id] = uuid.UUID(int=self.directories[node_id].int + 1)

    # -- what the simulation asks ----------------------------------------------------------------------------------
    def node_at(self, node_id: int) -> int:
        return node_id if node_id > 0 else -1 - node_id

    def settings_of(self, node_id: int) -> RaftSettings:
        return replace(
            self.settings,
            directory_id=self.directories[node_id],
            end_points=self.voter(node_id).end_points,
            bootstrap=tuple(("localhost", 9000 + other) for other in self.nodes),
            is_controller=True,
            auto_join_enable=node_id in self.auto_join,
        )

    def handle(self, node: SimulatedNode, api_key: int, entity: Any, respond: Callable[[Fields], None]) -> None:
        assert node.raft is not None
        if api_key == 18:
            respond({"supported_features": VERSIONS, "error_code": 0})
        elif api_key == 80:
            node.raft.handle_add_voter(entity, self.now_ms, respond)
        elif api_key == 81:
            node.raft.handle_remove_voter(entity, self.now_ms, respond)
        elif api_key == 82:
            respond(node.raft.handle_update_voter(entity, self.now_ms))
        else:
            super().handle(node, api_key, entity, respond)

    # -- changes of the voters -------------------------------------------------------------------------------------
    def note_outcome(self, fields: Fields) -> None:
        self.outcomes.append(fields["error_code"])

    def add(self, node_id: int, *, at: SimulatedNode | None = None) -> None:
        """Ask a node, by default the leader, to make a node a voter; the outcome comes later."""
        leader = at or self.leader
        if leader is None or leader.raft is None or self.now_ms < leader.paused_until_ms:
            return
        points = [SimpleNamespace(**point._asdict()) for point in self.voter(node_id).end_points]
        entity: Any = SimpleNamespace(
            cluster_id="cluster",
            timeout=1000,
            voter_id=node_id,
            voter_directory_id=self.directories[node_id],
            listeners=points,
            ack_when_committed=True,
        )
        leader.raft.handle_add_voter(entity, self.now_ms, self.note_outcome)
        leader.turn()

    def remove(self, node_id: int, *, at: SimulatedNode | None = None) -> None:
        """Ask a node, by default the leader, to make a voter an observer; the outcome comes later."""
        leader = at or self.leader
        if leader is None or leader.raft is None or self.now_ms < leader.paused_until_ms:
            return
        directory_id = self.directories[node_id]
        entity: Any = SimpleNamespace(cluster_id="cluster", voter_id=node_id, voter_directory_id=directory_id)
        leader.raft.handle_remove_voter(entity, self.now_ms, self.note_outcome)
        leader.turn()

    @property
    def voter_ids(self) -> list[int]:
        """The voters as the leader has them."""
        assert self.leader is not None
        assert self.leader.raft is not None
        return sorted(self.leader.raft.voter_set.by_id)

    def check(self) -> None:
        super().check()
        for node in self.nodes.values():
            state = None if node.raft is None else node.raft.state
            if not isinstance(state, Leader) or node.raft is None:
                continue
            if set(state.voters) != set(node.raft.voter_set.by_id):
                raise Violation(f"leader {node.node_id} counts {set(state.voters)}")

    def check_voters(self) -> None:
        """All nodes have the same voters."""
        sets = {node.raft.voter_set for node in self.nodes.values() if node.raft is not None}
        if len(sets) != 1:
            raise Violation(f"the nodes have different voters: {sets}")


def random_changes(seed: int, duration_ms: int) -> DynamicQuorum:
    """One random history: writes, changes of the voters, and every second or so something goes wrong."""
    choice = Random(seed)
    auto_join = choice.choice(((), (), (2, 3), (5,)))
    is_static = choice.random() < 0.2
    voters = 3 if is_static else choice.choice((1, 1, 3))
    simulation = DynamicQuorum(seed, voters, auto_join=auto_join, is_static=is_static)
    for node in simulation.nodes.values():
        node.start()
    end_ms = simulation.now_ms + duration_ms
    while simulation.now_ms < end_ms:
        simulation.run_for(choice.randint(1, 400))
        for _ in range(choice.randint(0, 3)):
            simulation.append(choice.randint(1, 4))
        if choice.random() < 0.5:
            _change(simulation, choice)
        if choice.random() < 0.3:
            _something_happens(simulation, choice)
    simulation.settle()
    simulation.check_voters()
    return simulation


def _change(simulation: DynamicQuorum, choice: Random) -> None:
    if simulation.static_voters and choice.random() < 0.3:
        simulation.upgrade()
    node_id = choice.choice(sorted(simulation.nodes))
    # Also a leader of an older epoch, which does not know so yet, gets requests.
    leading = [node for node in simulation.nodes.values() if node.raft is not None and node.raft.is_leader]
    at = choice.choice(leading) if leading else None
    if choice.random() < 0.55:
        simulation.add(node_id, at=at)
    else:
        simulation.remove(node_id, at=at)
