"""The voters of a dynamic quorum (KIP-853), from the KRaftVersion and KRaftVoters records of its log and snapshots.

The embedded broker serves a dynamic quorum only as its one voter. A node that took the lead although the records name
other voters would be a second leader beside theirs, so its start is refused before it writes anything.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import NamedTuple

from kafkatools.core.errors import ConfigError
from kafkatools.core.protocol.schemas.snapshot import decode_record
from kafkatools.core.protocol.uuids import uuid_text
from kafkatools.core.records.control import ControlRecordType, parse_control_type


class Voter(NamedTuple):
    """A voter: the node's id and the directory id of its metadata log."""

    node_id: int
    directory_id: uuid.UUID | None

    def __str__(self) -> str:
        return f"{self.node_id} (directory id {uuid_text(self.directory_id)})"


class VoterSet(NamedTuple):
    """The finalized kraft.version and the voters; version 0 without voters for a static quorum."""

    kraft_version: int = 0
    voters: tuple[Voter, ...] = ()


STATIC = VoterSet()


def voter_set(records: Mapping[bytes, bytes]) -> VoterSet:
    """Return the voters of the last KRaftVersion and KRaftVoters records, which are given by key."""
    version, voters = STATIC
    for key, value in records.items():
        kind = parse_control_type(key)
        record = decode_record(kind, value)
        if kind == ControlRecordType.KRAFT_VERSION:
            version = record.k_raft_version
        else:
            voters = tuple(Voter(voter.voter_id, voter.voter_directory_id) for voter in record.voters)
    return VoterSet(version, voters)


def ensure_sole_voter(voters: VoterSet, own: Voter, directory: str) -> None:
    """Check that a node alone is the only voter of its metadata log. Raises ConfigError."""
    if voters.kraft_version == 0 or voters.voters == (own,):
        return
    names = ", ".join(map(str, voters.voters)) or "none"
    raise ConfigError(
        f"Node {own} cannot serve {directory} alone: the voters of its dynamic quorum are {names}. "
        "Start it with Apache Kafka, or format another directory by kt storage format --standalone."
    )
