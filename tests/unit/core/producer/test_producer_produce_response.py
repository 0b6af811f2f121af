"""Produce responses written by the generated encoders are read alike in every version."""

from __future__ import annotations

import datetime
import importlib
import io
import uuid
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

from kafkatools.core.errors import DecodeError, InvalidRecord, NotLeaderOrFollower
from kafkatools.core.net.metadata import NodeEndpoint
from kafkatools.core.producer.futures import TopicPartition
from kafkatools.core.producer.produce_response import read_produce_response
from kafkatools.core.producer.transaction_manager import ProduceOutcome

TOPIC_ID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
APPENDED = datetime.datetime(2023, 11, 14, 22, 13, 20, 5000, datetime.UTC)


def generated(version: int) -> bytes:
    module: Any = importlib.import_module(f"kio.schema.produce.v{version}.response")
    parts: list[dict[str, Any]] = [
        {"index": 0, "error_code": ErrorCode.none, "base_offset": 1 << 40, "log_append_time": APPENDED},
        {"index": 7, "error_code": ErrorCode.not_leader_or_follower, "base_offset": -1, "log_append_time": None},
        {"index": 9, "error_code": ErrorCode.invalid_record, "base_offset": -1, "log_append_time": None},
    ]
    if version >= 5:
        parts[0]["log_start_offset"] = 12
    if version >= 8:
        error = module.BatchIndexAndErrorMessage
        for part in parts:
            part["record_errors"] = ()
        parts[2]["record_errors"] = (error(batch_index=3, batch_index_error_message="böse"), error(batch_index=4))
        parts[2]["error_message"] = "all"
    if version >= 10:
        parts[1]["current_leader"] = module.LeaderIdAndEpoch(leader_id=2, leader_epoch=11)
    partitions = tuple(module.PartitionProduceResponse(**part) for part in parts)
    place = {"topic_id": TOPIC_ID} if version >= 13 else {"name": "thema"}
    fields: dict[str, Any] = {
        "responses": (module.TopicProduceResponse(partition_responses=partitions, **place),),
        "throttle_time": datetime.timedelta(milliseconds=321),
    }
    if version >= 10:
        fields["node_endpoints"] = (module.NodeEndpoint(node_id=2, host="b2", port=9093, rack="r"),)
    out = io.BytesIO()
    entity_writer(module.ProduceResponse)(out, module.ProduceResponse(**fields))
    return out.getvalue()


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_is_read(version: int) -> None:
    response = read_produce_response(memoryview(generated(version)), version, {TOPIC_ID: "thema"})
    assert response.throttle_ms == 321
    assert response.outcomes == {
        TopicPartition("thema", 0): ProduceOutcome(None, 1 << 40, 1_700_000_000_005, 12 if version >= 5 else -1),
        TopicPartition("thema", 7): ProduceOutcome(
            NotLeaderOrFollower,
            -1,
            -1,
            -1,
            leader_id=2 if version >= 10 else -1,
            leader_epoch=11 if version >= 10 else -1,
        ),
        TopicPartition("thema", 9): ProduceOutcome(
            InvalidRecord,
            -1,
            -1,
            -1,
            "all" if version >= 8 else None,
            ((3, "böse"), (4, None)) if version >= 8 else (),
        ),
    }
    assert response.endpoints == ((NodeEndpoint(2, "b2", 9093, "r"),) if version >= 10 else ())


@pytest.mark.parametrize("version", [3, 8, 13])
def test_a_response_that_is_cut_off_anywhere_is_an_error(version: int) -> None:
    whole = generated(version)
    for size in range(len(whole)):
        with pytest.raises(DecodeError):
            read_produce_response(whole[:size], version, {TOPIC_ID: "thema"})


def test_a_topic_that_was_not_asked_for_is_left_out() -> None:
    assert read_produce_response(generated(13), 13, {}).outcomes == {}
