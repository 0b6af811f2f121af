"""The voters of a dynamic quorum (KIP-853), from the KRaftVersion and KRaftVoters records of its log and snapshots.

A quorum decides by the newest voters of its log, committed or not: so two majorities of successive voter sets have a
member in common. `VoterHistory` has them by offset and forgets those that are truncated with the log (Kafka's
VoterSetHistory and KRaftControlRecordStateMachine). Without such records the voters are those of
controller.quorum.voters.

A node alone serves a dynamic quorum only as its one voter. If it took the lead although the records name other voters,
it would be a second leader beside theirs, so its start is refused before it writes anything.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from kafkatools.core.broker.metadata.snapshot import QUORUM_KINDS, ControlRecord
from kafkatools.core.errors import ConfigError, DuplicateVoter, InvalidUpdateVersion, VoterNotFound
from kafkatools.core.protocol.entities import Entity, Fields
from kafkatools.core.protocol.schemas.snapshot import KRaftVersionRecord, VotersRecord, decode_record, encode_record
from kafkatools.core.protocol.uuids import uuid_text
from kafkatools.core.records.batch import RecordBatch, read_batches
from kafkatools.core.records.control import ControlRecordType, parse_control_type
from kafkatools.core.records.header import read_header, whole_batches

Address = tuple[str, int]
SUPPORTED_VERSIONS = (0, 1)
"""The levels of kraft.version that this node supports."""


class ReplicaKey(NamedTuple):
    """A replica of the metadata log: the node's id and its log directory's, which is None where unknown (KIP-853)."""

    node_id: int
    directory_id: uuid.UUID | None = None

    def __str__(self) -> str:
        """Return Kafka's text form, for error messages."""
        directory = "<undefined>" if self.directory_id is None else uuid_text(self.directory_id)
        return f"ReplicaKey(id={self.node_id}, directoryId={directory})"


class EndPoint(NamedTuple):
    """A controller's listener: name, host and port."""

    name: str
    host: str
    port: int

    @property
    def address(self) -> Address:
        """Host and port."""
        return self.host, self.port


class Voter(NamedTuple):
    """A voter: node id, directory id of its metadata log (None in a static quorum), listeners, and the lowest and
    highest kraft.version that it supports."""

    node_id: int
    directory_id: uuid.UUID | None
    end_points: tuple[EndPoint, ...] = ()
    versions: tuple[int, int] = SUPPORTED_VERSIONS

    @property
    def key(self) -> ReplicaKey:
        """Node id and directory id."""
        return ReplicaKey(self.node_id, self.directory_id)

    def is_replica(self, replica: ReplicaKey) -> bool:
        """Return whether a replica is this voter. A voter without a directory id is known by its node id alone."""
        return self.node_id == replica.node_id and self.directory_id in (None, replica.directory_id)

    def address(self, listener_name: str) -> Address | None:
        """Return the address of a listener, None without that listener."""
        return next((point.address for point in self.end_points if point.name == listener_name), None)


@dataclass(frozen=True)
class VoterSet:
    """The finalized kraft.version and the voters. In a static quorum the version is 0."""

    kraft_version: int = 0
    voters: tuple[Voter, ...] = ()

    @cached_property
    def by_id(self) -> Mapping[int, Voter]:
        """The voters by node id."""
        return {voter.node_id: voter for voter in self.voters}

    def addresses(self, listener_name: str) -> dict[int, Address]:
        """Return the address of each voter's listener with this name, by node id; without it that of its first one."""
        found = {}
        for voter in self.voters:
            address = voter.address(listener_name) or (voter.end_points[0].address if voter.end_points else None)
            if address is not None:
                found[voter.node_id] = address
        return found

    @property
    def keys_text(self) -> str:
        """The keys of the voters in Kafka's text form, for error messages."""
        return f"[{', '.join(str(voter.key) for voter in self.voters)}]"

    def duplicate(self, key: ReplicaKey) -> DuplicateVoter:
        """Return the error of a new voter whose node id is that of a voter."""
        return DuplicateVoter(f"The voter id for {key} is already part of the set of voters {self.keys_text}.")

    def not_removable(self, key: ReplicaKey) -> VoterNotFound:
        """Return the error of a removal of a replica that is no voter, or the last one."""
        return VoterNotFound(f"Cannot remove voter {key} from the set of voters {self.keys_text}")

    def has(self, replica: ReplicaKey) -> bool:
        """Return whether a replica is a voter."""
        voter = self.by_id.get(replica.node_id)
        return voter is not None and voter.is_replica(replica)

    def with_voter(self, voter: Voter) -> VoterSet:
        """Return the set with a voter added, or replaced by its node id; sorted by node id."""
        voters = {**self.by_id, voter.node_id: voter}
        return VoterSet(self.kraft_version, tuple(voters[node_id] for node_id in sorted(voters)))

    def needs_update(self, voter: Voter) -> bool:
        """Return whether the set has this voter with other listeners or versions; the order of listeners is no
        difference."""
        known = self.by_id.get(voter.node_id)
        if known is None or not known.is_replica(voter.key):
            return False
        return known._replace(end_points=tuple(sorted(known.end_points))) != voter._replace(
            end_points=tuple(sorted(voter.end_points))
        )

    def without(self, replica: ReplicaKey) -> VoterSet | None:
        """Return the set without a voter; None if it has no voter with this node and directory id, or no other one."""
        if replica not in [voter.key for voter in self.voters] or len(self.voters) == 1:
            return None
        return VoterSet(self.kraft_version, tuple(voter for voter in self.voters if voter.key != replica))

    @property
    def version_record(self) -> ControlRecord:
        """The KRaftVersion record of the set."""
        return encode_record(KRaftVersionRecord(k_raft_version=self.kraft_version))

    @property
    def voters_record(self) -> ControlRecord:
        """The KRaftVoters record of the set."""
        return encode_record(VotersRecord(voters=[_voter_fields(voter) for voter in self.voters]))

    @property
    def records(self) -> tuple[ControlRecord, ControlRecord]:
        """The KRaftVersion and KRaftVoters records of the set."""
        return self.version_record, self.voters_record


def _voter_fields(voter: Voter) -> Fields:
    lowest, highest = voter.versions
    return {
        "voter_id": voter.node_id,
        "voter_directory_id": voter.directory_id,
        "endpoints": [point._asdict() for point in voter.end_points],
        "k_raft_version_feature": {"min_supported_version": lowest, "max_supported_version": highest},
    }


STATIC = VoterSet()


def static_voters(voters: Mapping[int, Address], listener_name: str) -> VoterSet:
    """Return the voters of controller.quorum.voters, which have no directory ids."""
    return VoterSet(0, tuple(Voter(i, None, (EndPoint(listener_name, *voters[i]),)) for i in sorted(voters)))


def voter_set(records: Iterable[ControlRecord], before: VoterSet = STATIC) -> VoterSet:
    """Return the voters after KRaftVersion and KRaftVoters records, given those before them."""
    version, voters = before.kraft_version, before.voters
    for key, value in records:
        kind = parse_control_type(key)
        record = decode_record(kind, value)
        if kind == ControlRecordType.KRAFT_VERSION:
            version = record.k_raft_version
        else:
            voters = tuple(_voter(voter) for voter in record.voters)
    return VoterSet(version, voters)


def _voter(fields: Entity) -> Voter:
    points = tuple(EndPoint(point.name, point.host, point.port) for point in fields.endpoints)
    versions = fields.k_raft_version_feature
    range_of_versions = (versions.min_supported_version, versions.max_supported_version)
    return Voter(fields.voter_id, fields.voter_directory_id, points, range_of_versions)


class VoterHistory:
    """The voters by the offset of the record that names them, from the newest snapshot to the end of the log."""

    def __init__(self) -> None:
        self._sets: list[tuple[int, VoterSet]] = []

    def restart(self, records: Iterable[ControlRecord], offset: int) -> None:
        """Begin with the records of a snapshot that ends at `offset`, -1 for that of a formatted directory."""
        first = voter_set(records)
        self._sets = [] if first == STATIC else [(offset - 1, first)]

    def feed(self, batches: memoryview | bytes) -> None:
        """Read the voters of batches that were appended to the log."""
        view = memoryview(batches)
        for position, size in whole_batches(view):
            if read_header(view[position : position + size]).is_control:
                self._feed_control(view[position : position + size])

    def _feed_control(self, batch_bytes: memoryview) -> None:
        for batch in read_batches(batch_bytes):
            assert isinstance(batch, RecordBatch)
            for record in batch.records():
                if record.key is not None and parse_control_type(record.key) in QUORUM_KINDS:
                    self._sets.append((record.offset, voter_set([(record.key, record.value or b"")], self.last)))

    def truncate(self, end: int) -> None:
        """Forget the voters at and after an offset."""
        self._sets = [(offset, voters) for offset, voters in self._sets if offset < end]

    def at(self, end: int) -> VoterSet:
        """Return the voters of the log up to `end`, exclusive."""
        return next((voters for offset, voters in reversed(self._sets) if offset < end), STATIC)

    @property
    def last(self) -> VoterSet:
        """The newest voters of the log, committed or not; `STATIC` if it names none."""
        return self._sets[-1][1] if self._sets else STATIC

    @property
    def last_offset(self) -> int | None:
        """The offset of the record with the newest voters, -1 for those of a formatted directory; None without one."""
        return self._sets[-1][0] if self._sets else None


def epoch_start_records(voters: VoterSet, own: Voter, *, is_first: bool) -> tuple[ControlRecord, ...]:
    """Return the records of the voters with which the leader of a dynamic quorum begins its epoch
    (LeaderState.appendStartOfEpochControlRecords). There are some if its own listeners or versions are others than
    those in the log, or if `is_first`: the voters were formatted, and no log has them yet."""
    if voters.kraft_version == 0:
        return ()
    if own.directory_id is not None and own.end_points and voters.needs_update(own):
        return voters.with_voter(own).records
    return voters.records if is_first else ()


def ensure_upgrade(current: int, level: int) -> None:
    """Check that another kraft.version is no downgrade. Raises InvalidUpdateVersion."""
    if level < current:
        change = f"from version {current} to {level}"
        raise InvalidUpdateVersion(f"Invalid upgrade of kraft.version {change} because the new version is a downgrade")


def ensure_sole_voter(voters: VoterSet, own: ReplicaKey, directory: str) -> None:
    """Check that a node alone is the only voter of its metadata log. Raises ConfigError."""
    if voters.kraft_version == 0 or [voter.key for voter in voters.voters] == [own]:
        return
    names = ", ".join(map(_described, (voter.key for voter in voters.voters))) or "none"
    raise ConfigError(
        f"Node {_described(own)} cannot serve {directory} alone: the voters of its dynamic quorum are {names}. "
        "Set controller.quorum.bootstrap.servers, or format another directory by kt storage format --standalone."
    )


def _described(replica: ReplicaKey) -> str:
    return f"{replica.node_id} (directory id {uuid_text(replica.directory_id)})"
