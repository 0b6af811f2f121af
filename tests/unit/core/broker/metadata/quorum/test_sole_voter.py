"""The quorum of a node alone over restarts: its epochs, a transaction of the metadata log that was left open, and its
voter (KIP-853) beside the records of Apache Kafka."""

from __future__ import annotations

import json
import pathlib
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from kafkatools.core.broker.metadata.controller.topics import NewTopic
from kafkatools.core.broker.metadata.formatter import FormatRequest, PlannedDirectory, Voter, write_directory
from kafkatools.core.errors import ConfigError, DuplicateVoter, InvalidRequest, InvalidUpdateVersion, VoterNotFound
from kafkatools.core.log.files import RealFileSystem
from kafkatools.core.protocol.schemas.metadata import BeginTransactionRecord, TopicRecord
from kafkatools.core.protocol.uuids import random_uuid, uuid_text
from kafkatools.core.records.batch import RecordBatch, read_batches


def quorum_state(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "data" / "__cluster_metadata-0" / "quorum-state"


def test_each_start_begins_an_epoch_that_is_on_the_disk(run_node: Callable[..., Any], tmp_path: pathlib.Path) -> None:
    for epoch in (1, 2, 3):
        running = run_node()
        assert running.node.quorum.epoch == epoch
        assert json.loads(quorum_state(tmp_path).read_bytes())["leaderEpoch"] == epoch
        running.stop()


def test_epoch_is_that_of_the_log_when_quorum_state_cannot_be_read(
    run_node: Callable[..., Any], tmp_path: pathlib.Path
) -> None:
    run_node().stop()
    quorum_state(tmp_path).write_bytes(b"{")
    assert run_node().node.quorum.epoch == 2


def test_records_behind_a_transaction_that_was_left_open_count(run_node: Callable[..., Any]) -> None:
    running = run_node()
    half = [BeginTransactionRecord(name="half"), TopicRecord(name="half", topic_id=random_uuid())]
    running.node.controller.ensure_active().append(half, running.node.clock.wall_ms())
    running.stop()
    running = run_node()
    running.node.member.create_topic(NewTopic("whole", 1, 1))
    running.stop()
    assert set(run_node().node.image.topics) == {"whole"}


GOLDEN = pathlib.Path(__file__).parents[5] / "golden" / "controller" / "voters-of-a-leader.json"
UPDATE_FEATURES, API_VERSIONS, ADD_RAFT_VOTER, REMOVE_RAFT_VOTER = 57, 18, 80, 81
OWN, OTHER = uuid.UUID(int=5 << 80), uuid.UUID(int=6 << 80)


def _format_dynamic(
    path: pathlib.Path,
    voters: dict[int, uuid.UUID],
    own: uuid.UUID = OWN,
    kind: str = "dynamic metadata voter directory",
) -> None:
    """Format a directory for a dynamic quorum, with the directory id `own`."""
    members = tuple(Voter(node_id, "localhost", 9093, uuid_text(each)) for node_id, each in voters.items())
    levels = {"metadata.version": 30, "kraft.version": 1} if voters else {"metadata.version": 30}
    request = FormatRequest("4L6g3nShT-eMCtK--X86sw", 1, [str(path)], str(path), levels, voters=members)
    planned = PlannedDirectory(str(path), kind, uuid_text(own))
    write_directory(RealFileSystem(), request, planned, 1_700_000_000_000)


def test_sole_voter_of_a_dynamic_quorum_leads_with_its_directory_id(
    run_node: Callable[..., Any], tmp_path: pathlib.Path
) -> None:
    _format_dynamic(tmp_path / "data", {1: OWN})
    running = run_node()
    quorum = running.node.quorum
    assert [voter.replica_directory_id for voter in quorum.describe(0).voters] == [OWN]
    assert quorum.kraft_version == 1
    running.stop()
    assert json.loads(quorum_state(tmp_path).read_bytes()) == {
        "leaderId": 1,
        "leaderEpoch": 1,
        "votedId": -1,
        "votedDirectoryId": "AAAAAAAAAAAAAAAAAAAAAA",
        "data_version": 1,
    }
    (log,) = quorum_state(tmp_path).parent.glob("*.log")
    first = next(iter(read_batches(log.read_bytes())))
    assert isinstance(first, RecordBatch)
    assert [(record.key or b"")[3] for record in first.records()] == [
        2,
        5,
        6,
    ]  # LeaderChange, KRaftVersion, KRaftVoters
    assert run_node().node.quorum.kraft_version == 1


@pytest.mark.parametrize("voters", [{1: OWN, 2: OTHER}, {2: OTHER}, {1: OTHER}], ids=["two", "another", "directory"])
def test_node_alone_refuses_the_log_of_other_voters(
    run_node: Callable[..., Any], tmp_path: pathlib.Path, voters: dict[int, uuid.UUID]
) -> None:
    _format_dynamic(tmp_path / "data", voters)
    with pytest.raises(ConfigError, match="the voters of its dynamic quorum are"):
        run_node()
    assert not quorum_state(tmp_path).exists()


@pytest.fixture(scope="module")
def golden() -> dict[str, Any]:
    """The records of Apache Kafka."""
    found: dict[str, Any] = json.loads(GOLDEN.read_text())
    return found


def _control_batches(tmp_path: pathlib.Path) -> list[list[list[str]]]:
    """The control records of the metadata log, batch by batch, as the golden file has them."""
    logs = sorted(quorum_state(tmp_path).parent.glob("*.log"))
    return [
        [[bytes(record.key or b"").hex(), bytes(record.value or b"").hex()] for record in batch.records()]
        for log in logs
        for batch in read_batches(log.read_bytes())
        if isinstance(batch, RecordBatch) and batch.is_control
    ]


def _on_port(port: int) -> dict[str, str]:
    listeners = f"PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{port}"
    return {"listeners": listeners, "controller.listener.names": "CONTROLLER"}


def _update(running: Any, level: int, **fields: Any) -> tuple[int, str | None]:
    update = {"feature": "kraft.version", "max_version_level": level, "upgrade_type": 1, **fields}
    response = running.connect().call(UPDATE_FEATURES, 2, feature_updates=[update], timeout=5000, validate_only=False)
    return response.error_code, response.error_message


def _change(running: Any, api_key: int, node_id: int) -> tuple[int, str]:
    """The error code of a change of the voters, and which of the expected words are in its message."""
    directory_id = running.node.directories.metadata_id
    fields = {"cluster_id": None, "voter_id": node_id, "voter_directory_id": directory_id}
    if api_key == ADD_RAFT_VOTER:
        fields |= {"timeout": 1000, "listeners": [{"name": "CONTROLLER", "host": "localhost", "port": 9}]}
    response = running.connect().call(api_key, 0, **fields)
    words = ("is already part of the set of voters", "set controller.quorum.bootstrap.servers", "Cannot remove voter")
    return response.error_code, next(text for text in words if text in response.error_message)


def test_an_upgrade_of_kraft_version_writes_apache_kafkas_records(
    run_node: Callable[..., Any], tmp_path: pathlib.Path, golden: dict[str, Any]
) -> None:
    _format_dynamic(tmp_path / "data", {}, uuid.UUID(golden["directory_id"]), "metadata directory")
    first, second = golden["ports"]
    running = run_node(_on_port(first))
    assert _update(running, 1) == (0, None)
    assert _update(running, 1) == (0, None)  # nothing is left to do
    code, message = _update(running, 0, upgrade_type=2)
    assert code == InvalidUpdateVersion.code
    assert message is not None
    assert message.endswith("Can't downgrade the version of this feature.")
    levels = running.connect().call(API_VERSIONS, 4, client_software_name="kt", client_software_version="1")
    assert {each.name: each.max_version_level for each in levels.finalized_features}["kraft.version"] == 1
    assert running.node.quorum.describe(0).voters[0].replica_directory_id == uuid.UUID(golden["directory_id"])
    assert _change(running, ADD_RAFT_VOTER, 1) == (DuplicateVoter.code, "is already part of the set of voters")
    assert _change(running, ADD_RAFT_VOTER, 2) == (InvalidRequest.code, "set controller.quorum.bootstrap.servers")
    assert _change(running, REMOVE_RAFT_VOTER, 1) == (VoterNotFound.code, "Cannot remove voter")
    running.stop()
    *_, upgrade = _control_batches(tmp_path)
    assert upgrade == golden["upgrade"]

    for port, name in ((first, "next_epoch"), (second, "epoch_on_other_port"), (second, "next_epoch")):
        running = run_node(_on_port(port))
        assert running.node.quorum.kraft_version == 1
        running.stop()
        assert _control_batches(tmp_path)[-1] == golden[name], name
