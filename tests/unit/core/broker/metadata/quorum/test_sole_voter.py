"""The quorum of a node alone over restarts: its epochs, and a transaction of the metadata log that was left open."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

from kafkatools.core.broker.metadata.controller.topics import NewTopic
from kafkatools.core.protocol.schemas.metadata import BeginTransactionRecord, TopicRecord
from kafkatools.core.protocol.uuids import random_uuid


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
