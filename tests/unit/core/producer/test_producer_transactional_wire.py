"""Transactions on real sockets against a broker that answers from a script, as old as Kafka 2.1 or silent."""

from __future__ import annotations

import struct
import time
from typing import Any

import pytest
from support.scripted_broker import SILENCE, ScriptedBroker, partition

from kafkatools.core.config import PRODUCER, Config
from kafkatools.core.errors import KafkaError, Timeout, UnsupportedVersion
from kafkatools.core.group.metadata import ConsumerGroupMetadata, OffsetAndMetadata
from kafkatools.core.producer.futures import TopicPartition
from kafkatools.core.producer.producer import Producer
from kafkatools.core.producer.producer_record import ProducerRecord
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.frames import RequestHeader

OLD = {
    ApiKey.PRODUCE: (3, 7),
    ApiKey.METADATA: (0, 7),
    ApiKey.FIND_COORDINATOR: (0, 2),
    ApiKey.INIT_PRODUCER_ID: (0, 1),
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 1),
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 1),
    ApiKey.TXN_OFFSET_COMMIT: (0, 2),
    ApiKey.END_TXN: (0, 1),
    ApiKey.API_VERSIONS: (0, 2),
}
"""What a broker of Kafka 2.1 takes."""

PLACE = TopicPartition("t", 0)


class Coordinator:
    """The answers of a broker that agrees to everything, and what it was asked."""

    def __init__(self, versions: dict[ApiKey, tuple[int, int]] | None = None) -> None:
        answers = {
            ApiKey.FIND_COORDINATOR: self.find,
            ApiKey.INIT_PRODUCER_ID: lambda header, request: {"producer_id": 5, "producer_epoch": 2},
            ApiKey.ADD_PARTITIONS_TO_TXN: self.add_partitions,
            ApiKey.ADD_OFFSETS_TO_TXN: lambda header, request: {},
            ApiKey.TXN_OFFSET_COMMIT: self.commit_offsets,
            ApiKey.END_TXN: lambda header, request: {},
            ApiKey.PRODUCE: self.produce,
        }
        self.broker = ScriptedBroker(answers, versions)
        self.broker.topics = [{"name": "t", "partitions": [partition(0)], "topic_id": None}]

    def find(self, header: RequestHeader, request: Any) -> dict[str, Any]:
        where = {"node_id": 1, "host": "127.0.0.1", "port": self.broker.port, "error_code": 0, "error_message": None}
        if header.api_version < 4:
            return where
        return {"coordinators": [{"key": key, **where} for key in request.coordinator_keys]}

    def add_partitions(self, header: RequestHeader, request: Any) -> dict[str, Any]:
        topics = [
            {
                "name": topic.name,
                "results_by_partition": [
                    {"partition_index": number, "partition_error_code": 0} for number in topic.partitions
                ],
            }
            for topic in request.v3_and_below_topics
        ]
        return {"results_by_topic_v3_and_below": topics}

    def commit_offsets(self, header: RequestHeader, request: Any) -> dict[str, Any]:
        topics = [
            {
                "name": topic.name,
                "partitions": [{"partition_index": each.partition_index, "error_code": 0} for each in topic.partitions],
            }
            for topic in request.topics
        ]
        return {"topics": topics}

    def produce(self, header: RequestHeader, request: Any) -> bytes:
        """Version 7, by hand: offset 0."""
        body = struct.pack(">iih1siihqqq", header.correlation_id, 1, 1, b"t", 1, 0, 0, 0, -1, 0)
        body += struct.pack(">i", 0)
        return struct.pack(">i", len(body)) + body

    def asked(self) -> list[tuple[str, int]]:
        """The transactional requests and their versions, in order."""
        known = {int(key) for key in self.broker.answers} - {int(ApiKey.API_VERSIONS), int(ApiKey.METADATA)}
        return [
            (ApiKey(header.api_key).label, header.api_version)
            for header, _ in self.broker.requests
            if header.api_key in known
        ]


def producer_of(coordinator: Coordinator, **settings: str) -> Producer:
    values = {name.replace("_", "."): value for name, value in settings.items()}
    values |= {"bootstrap.servers": coordinator.broker.bootstrap, "transactional.id": "tid", "max.block.ms": "5000"}
    return Producer(Config(PRODUCER, values | {name.replace("_", "."): value for name, value in settings.items()}))


def test_a_broker_as_old_as_2_1_is_spoken_to_in_its_versions() -> None:
    coordinator = Coordinator({int(key): versions for key, versions in OLD.items()})  # type: ignore[misc]
    with coordinator.broker.in_background(), producer_of(coordinator) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        future = producer.send(ProducerRecord("t", b"v", partition=0))
        producer.send_offsets_to_transaction({PLACE: OffsetAndMetadata(3)}, ConsumerGroupMetadata("g"))
        producer.commit_transaction()
        assert future.get(0).offset == 0
    asked = coordinator.asked()
    assert asked[:2] == [("FindCoordinator", 2), ("InitProducerId", 1)]
    assert asked[-1] == ("EndTxn", 1)
    assert sorted(asked[2:-1]) == [
        ("AddOffsetsToTxn", 1),
        ("AddPartitionsToTxn", 1),
        ("FindCoordinator", 2),
        ("Produce", 7),
        ("TxnOffsetCommit", 2),
    ]


def test_a_broker_that_cannot_check_the_groups_member_gets_no_offsets_of_one() -> None:
    coordinator = Coordinator({int(key): versions for key, versions in OLD.items()})  # type: ignore[misc]
    with coordinator.broker.in_background(), producer_of(coordinator) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        with pytest.raises(UnsupportedVersion, match="brokers to be on version 2.5"):
            producer.send_offsets_to_transaction({PLACE: OffsetAndMetadata(3)}, ConsumerGroupMetadata("g", 4, "member"))
        assert producer.has_fatal_error
    assert "TxnOffsetCommit" not in [name for name, _ in coordinator.asked()]


def test_every_request_is_understood_in_its_newest_version() -> None:
    coordinator = Coordinator({ApiKey.PRODUCE: (3, 7), ApiKey.METADATA: (0, 8)})
    with coordinator.broker.in_background(), producer_of(coordinator) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(ProducerRecord("t", b"v", partition=0)).get(5000)
        producer.send_offsets_to_transaction({PLACE: OffsetAndMetadata(3, 1)}, ConsumerGroupMetadata("g", 4, "member"))
        producer.abort_transaction()
    assert dict(coordinator.asked()) == {
        "FindCoordinator": 6,
        "InitProducerId": 6,
        "AddPartitionsToTxn": 3,
        "Produce": 7,
        "AddOffsetsToTxn": 4,
        "TxnOffsetCommit": 4,
        "EndTxn": 4,
    }


def test_a_close_does_not_wait_for_ever_for_the_end_of_a_transaction() -> None:
    coordinator = Coordinator({ApiKey.PRODUCE: (3, 7), ApiKey.METADATA: (0, 8)})
    with coordinator.broker.in_background():
        producer = producer_of(coordinator)
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(ProducerRecord("t", b"v", partition=0)).get(5000)
        coordinator.broker.answers[ApiKey.END_TXN] = lambda header, request: SILENCE
        with pytest.raises(Timeout):
            producer.commit_transaction(50)
        producer._max_block_ms = 100
        started = time.monotonic()
        producer.close()
        assert time.monotonic() - started < 30  # max.block.ms is 60 s


def test_a_forced_close_lets_those_who_wait_go() -> None:
    coordinator = Coordinator()
    coordinator.broker.answers[ApiKey.INIT_PRODUCER_ID] = lambda header, request: SILENCE
    with coordinator.broker.in_background():
        producer = producer_of(coordinator)
        with pytest.raises(Timeout):
            producer.init_transactions(50)
        producer.close(0)
        assert producer.sender.transactions is not None
        with pytest.raises(KafkaError, match="producer has been closed"):
            producer.init_transactions(50)
