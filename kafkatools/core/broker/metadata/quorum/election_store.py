"""The `quorum-state` file: epoch, leader and vote of a voter (Kafka's FileQuorumStateStore).

A voter that forgot its vote could vote twice in an epoch, and two leaders could win. So the file is replaced atomically
and synced, and in a quorum of several nodes an unreadable one stops the start. It has data version 0 with static
voters and version 1 in a dynamic quorum (KIP-853), whose voters are in the log.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from typing import NamedTuple

from kafkatools.core.errors import KafkaStorageError
from kafkatools.core.log.files import FileSystem, write_atomically
from kafkatools.core.protocol.uuids import uuid_from_text, uuid_text

QUORUM_STATE = "quorum-state"
NOBODY = -1


class ElectionState(NamedTuple):
    """The epoch, leader and vote that a voter must not forget."""

    epoch: int = 0
    leader_id: int | None = None
    voted_id: int | None = None
    voted_directory_id: uuid.UUID | None = None


class ElectionStore:
    """The `quorum-state` file in a metadata log's directory."""

    def __init__(self, files: FileSystem, directory: str, voters: Iterable[int]) -> None:
        self._files = files
        self._path = f"{directory}/{QUORUM_STATE}"
        self._voters = [{"voterId": voter} for voter in sorted(voters)]
        self._stored: tuple[ElectionState, int] | None = None

    def read(self) -> ElectionState | None:
        """Return the stored state, None without a file. Raises KafkaStorageError for a malformed file, OSError."""
        if not self._files.exists(self._path):
            return None
        try:
            fields = json.loads(self._files.read_bytes(self._path))
            epoch, leader, voted = (int(fields[name]) for name in ("leaderEpoch", "leaderId", "votedId"))
            directory_id = uuid_from_text(fields["votedDirectoryId"]) if "votedDirectoryId" in fields else None
        except (ValueError, KeyError, TypeError) as error:
            raise KafkaStorageError(f"Cannot read the election state in {self._path}: {error!r}") from error
        voted_directory_id = None if directory_id is None or not directory_id.int else directory_id
        return ElectionState(epoch, None if leader < 0 else leader, None if voted < 0 else voted, voted_directory_id)

    def write(self, state: ElectionState, *, kraft_version: int = 0) -> None:
        """Write and sync the state, unless it equals the last written one. Raises OSError."""
        if (state, kraft_version) == self._stored:
            return
        election: dict[str, object] = {
            "leaderId": NOBODY if state.leader_id is None else state.leader_id,
            "leaderEpoch": state.epoch,
            "votedId": NOBODY if state.voted_id is None else state.voted_id,
        }
        if kraft_version == 0:
            static = {"appliedOffset": 0, "currentVoters": self._voters, "data_version": 0}
            fields = {"clusterId": "", **election, **static}
        else:
            fields = {**election, "votedDirectoryId": uuid_text(state.voted_directory_id), "data_version": 1}
        write_atomically(self._files, self._path, json.dumps(fields, separators=(",", ":")).encode())
        self._stored = (state, kraft_version)
