"""Faults of the sandbox, observed by clients: ours, librdkafka and kcat."""

from __future__ import annotations

import socket
import struct
import subprocess
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from random import Random

import confluent_kafka
import pytest
from support.waiting import eventually

from kafkatools import EmbeddedBroker, EmbeddedCluster
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.cluster import describe_cluster
from kafkatools.core.admin.group_offsets import alter_offsets, fetch_offsets
from kafkatools.core.admin.topics import NewTopic, create_topics, describe_topics, list_topics
from kafkatools.core.clock import SystemClock
from kafkatools.core.errors import ConfigError, KafkaError
from kafkatools.core.group.metadata import OffsetAndMetadata
from kafkatools.sandbox.spawn import SandboxError

_PATIENT = {"request.timeout.ms": "60000", "default.api.timeout.ms": "60000"}
_HASTY = {"request.timeout.ms": "500", "default.api.timeout.ms": "1000"}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as started, _admin(started) as admin:
        topics = [NewTopic(name, 1) for name in ("orders", "shop", "kept", "filled")]
        topics.append(NewTopic("stamped", 1, configs={"message.timestamp.type": "LogAppendTime"}))
        assert all(topic.error is None for topic in create_topics(admin, topics).values())
        yield started


@pytest.fixture(autouse=True)
def no_fault_is_left(broker: EmbeddedBroker) -> Iterator[None]:
    yield
    assert broker.faults.active() == []


def _admin(
    broker: EmbeddedBroker | EmbeddedCluster, client_id: str = "", times: Mapping[str, str] = _PATIENT
) -> AdminClient:
    return AdminClient(broker.bootstrap, {**times, "client.id": client_id}, SystemClock())


def _produce(
    broker: EmbeddedBroker | EmbeddedCluster, topic: str, value: bytes = b"x", **settings: object
) -> str | None:
    """Write one record with librdkafka, without retries; return the name of the error."""
    outcome: list[str | None] = []
    options = {name.replace("_", "."): value for name, value in settings.items()}
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "retries": 0, **options})
    producer.produce(topic, value, callback=lambda error, _: outcome.append(error and error.name()))
    producer.flush(60)
    return outcome[0]


def test_a_delay_answers_later_and_blocks_nobody_else(broker: EmbeddedBroker) -> None:
    with broker.faults.add("delay", api="DescribeCluster", client="slow-*", delay_ms=400) as fault:
        began_ns = time.monotonic_ns()
        with _admin(broker, "slow-1") as admin:
            assert describe_cluster(admin).cluster_id
        assert time.monotonic_ns() - began_ns >= 400_000_000
        assert fault.hits == 1
    with broker.faults.add("delay", api="DescribeCluster", client="slow-*", delay_ms=600_000) as fault:
        with _admin(broker, "slow-1", _HASTY) as slow, _admin(broker, "fast") as fast, ThreadPoolExecutor() as pool:
            waiting = pool.submit(describe_cluster, slow)
            eventually(lambda: fault.hits >= 1)
            assert describe_cluster(fast).cluster_id
            with pytest.raises(KafkaError):
                waiting.result()
        assert fault.hits >= 1


def test_a_dropped_request_is_not_executed_and_never_answered(broker: EmbeddedBroker) -> None:
    with broker.faults.add("drop", api="CreateTopics", topic="dropped-*") as fault:
        with _admin(broker, times=_HASTY) as admin, pytest.raises(KafkaError):
            create_topics(admin, [NewTopic("dropped-1", 1)])
        assert fault.hits >= 1
        with _admin(broker) as admin:
            assert "dropped-1" not in {topic.name for topic in list_topics(admin)}
            assert create_topics(admin, [NewTopic("undropped", 1)])["undropped"].error is None


def _metadata_frame(client_id: bytes) -> bytes:
    """A Metadata request of version 1 about all topics, by Kafka's protocol guide."""
    body = struct.pack(">hhih", 3, 1, 77, len(client_id)) + client_id + struct.pack(">i", -1)
    return struct.pack(">i", len(body)) + body


def test_a_cut_closes_the_connection(broker: EmbeddedBroker) -> None:
    host, _, port = broker.bootstrap.rpartition(":")
    with broker.faults.add("cut", api="Metadata", client="raw") as fault:
        for client_id, is_cut in ((b"raw", True), (b"other", False)):
            with socket.create_connection((host, int(port))) as connection:
                connection.settimeout(60)
                connection.sendall(_metadata_frame(client_id))
                assert (connection.recv(1) == b"") == is_cut
        assert fault.hits == 1


def test_a_cut_before_or_after_the_request_was_executed(broker: EmbeddedBroker) -> None:
    def create(name: str) -> None:
        with _admin(broker, name, _HASTY) as admin, pytest.raises(KafkaError):
            create_topics(admin, [NewTopic(name, 1)])

    with (
        broker.faults.add("cut", api="CreateTopics", client="cut-before"),
        broker.faults.add("cut", api="CreateTopics", client="cut-after", after=True),
        ThreadPoolExecutor() as pool,  # each client tries again until its time is over
    ):
        list(pool.map(create, ("cut-before", "cut-after")))
    with _admin(broker) as admin:
        found = {topic.name for topic in list_topics(admin)}
    assert "cut-before" not in found and "cut-after" in found


def test_an_error_of_produce_concerns_its_topic_and_is_not_written(broker: EmbeddedBroker) -> None:
    with broker.faults.add("error", api="produce", error="not_enough_replicas", topic="ord*") as fault:
        assert _produce(broker, "orders") == "NOT_ENOUGH_REPLICAS"
        assert _produce(broker, "shop") is None
        assert fault.hits == 1
    assert _produce(broker, "orders", b"later") is None
    read = ("kcat", "-b", broker.bootstrap, "-C", "-t", "orders", "-o", "beginning", "-e", "-q")
    assert subprocess.run(read, capture_output=True, check=True, timeout=60).stdout == b"later\n"


def test_an_error_also_reaches_a_producer_that_repeats_its_requests(broker: EmbeddedBroker) -> None:
    errors: list[str | None] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "retries": 0, "linger.ms": 0})

    def write() -> None:
        producer.produce("kept", b"x", callback=lambda error, _: errors.append(error and error.name()))
        producer.flush(60)

    for _ in range(5):
        write()
    with broker.faults.add("error", api="Produce", error="INVALID_RECORD"):
        write()
        write()
    write()
    assert errors == [None] * 5 + ["INVALID_RECORD"] * 2 + [None]


def test_an_error_concerns_one_of_the_topics_of_a_request(broker: EmbeddedBroker) -> None:
    offsets = {("orders", 0): OffsetAndMetadata(1), ("shop", 0): OffsetAndMetadata(1)}
    with (
        _admin(broker) as admin,
        broker.faults.add("error", api="OffsetCommit", error="TOPIC_AUTHORIZATION_FAILED", topic="shop"),
    ):
        errors = alter_offsets(admin, {"readers": offsets})["readers"].errors
        assert {key: error.name for key, error in errors.items()} == {("shop", 0): "TOPIC_AUTHORIZATION_FAILED"}
        assert list(fetch_offsets(admin, ["readers"])["readers"].offsets) == [("orders", 0)]
        made = create_topics(admin, [NewTopic("one", 1)])
        assert made["one"].error is None


@pytest.mark.parametrize(("topic", "error"), [("*", "LEADER_NOT_AVAILABLE"), ("kept", "TOPIC_AUTHORIZATION_FAILED")])
def test_errors_of_metadata(broker: EmbeddedBroker, topic: str, error: str) -> None:
    with broker.faults.add("error", api="Metadata", error=error, topic=topic):
        described = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=60).topics
    assert described["kept"].error is not None and described["kept"].error.name() == error
    assert (described["shop"].error is None) == (topic == "kept")


def test_an_error_of_fetch_reaches_consumers(broker: EmbeddedBroker) -> None:
    assert _produce(broker, "shop") is None
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "none"})
    consumer.assign([confluent_kafka.TopicPartition("shop", 0, confluent_kafka.OFFSET_BEGINNING)])
    with broker.faults.add("error", api="Fetch", error="TOPIC_AUTHORIZATION_FAILED", topic="shop"):
        failed = consumer.poll(60)
    assert failed is not None and failed.error() is not None
    assert failed.error().name() == "TOPIC_AUTHORIZATION_FAILED"
    consumer.close()
    read = ("kcat", "-b", broker.bootstrap, "-C", "-t", "shop", "-o", "beginning", "-e", "-q")
    assert subprocess.run(read, capture_output=True, check=True, timeout=60).stdout.startswith(b"x\n")


def test_rate_and_seed_choose_the_requests(broker: EmbeddedBroker) -> None:
    count, seed, rate = 60, 11, 0.3
    choices = Random(seed)
    expected = sum(choices.random() < rate for _ in range(count))
    with broker.faults.add("delay", api="DescribeCluster", rate=rate, seed=seed, delay_ms=1) as fault:
        with _admin(broker) as admin:
            for _ in range(count):
                describe_cluster(admin)
        assert fault.hits == expected


def test_faults_that_are_added_at_the_same_time_have_ids_of_their_own(broker: EmbeddedBroker) -> None:
    def add(name: str) -> int:
        return broker.faults.add("drop", client=name).id

    names = [f"nobody-{number}" for number in range(8)]
    with ThreadPoolExecutor(len(names)) as pool:
        ids = list(pool.map(add, names))
    try:
        assert {status.id: status.spec.client for status in broker.faults.active()} == dict(
            zip(ids, names, strict=True)
        )
    finally:
        broker.faults.clear()


def test_the_end_of_a_block_spares_a_fault_that_was_added_after_its_own_ended(broker: EmbeddedBroker) -> None:
    with broker.faults.add("drop", client="nobody") as first:
        first.remove()
        second = broker.faults.add("drop", client="nobody")
    assert second.id != first.id
    assert [fault.id for fault in broker.faults.active()] == [second.id]
    second.remove()


def test_a_fault_ends_with_its_time(broker: EmbeddedBroker) -> None:
    broker.faults.add("drop", for_ms=200)
    eventually(lambda: broker.faults.active() == [])
    with _admin(broker) as admin:
        assert describe_cluster(admin).cluster_id


def test_a_wrong_clock_stamps_records(broker: EmbeddedBroker) -> None:
    with broker.faults.add("clock-skew", skew_ms=-3_600_000):
        assert _produce(broker, "stamped") is None
    assert _produce(broker, "stamped") is None
    read = ("kcat", "-b", broker.bootstrap, "-C", "-t", "stamped", "-o", "beginning", "-e", "-q", "-f", "%T\n")
    skewed, right = map(int, subprocess.run(read, capture_output=True, check=True, timeout=60).stdout.split())
    assert 0 <= right - skewed - 3_600_000 + 60_000 < 600_000


def test_a_slow_disk_delays_writes_of_its_topic(broker: EmbeddedBroker) -> None:
    with broker.faults.add("slow-disk", delay_ms=300, topic="kept") as fault:
        began_ns = time.monotonic_ns()
        assert _produce(broker, "kept") is None
        assert time.monotonic_ns() - began_ns >= 300_000_000
        hits = fault.hits
        assert hits >= 1
        assert _produce(broker, "shop") is None
        assert fault.hits == hits


def test_a_full_disk_and_a_restart_with_faults(broker: EmbeddedBroker) -> None:
    assert _produce(broker, "filled") is None
    full = broker.faults.add("full-disk", topic="filled")
    assert _produce(broker, "filled") == "KAFKA_STORAGE_ERROR"
    assert full.hits >= 1
    broker.kill()
    try:
        assert [fault.hits for fault in broker.faults.active()] == [None]
        full.remove()
        drop = broker.faults.add("drop", api="CreateTopics", topic="u")
    finally:
        broker.start()
    with _admin(broker, times=_HASTY) as admin, pytest.raises(KafkaError):
        create_topics(admin, [NewTopic("u", 1)])
    assert drop.hits >= 1
    drop.remove()
    assert _produce(broker, "filled") is None


@pytest.mark.parametrize(
    ("kind", "options", "text"),
    [
        ("slow", {}, "There is no fault 'slow'"),
        ("delay", {}, "needs a delay"),
        ("delay", {"delay_ms": -1}, "The delay is negative"),
        ("drop", {"delay_ms": 1}, "takes no delay"),
        ("drop", {"api": "Metadatas"}, "did you mean Metadata?"),
        ("drop", {"rate": 0}, "The rate is 0"),
        ("drop", {"for_ms": 0}, "The duration of a fault must be above 0"),
        ("drop", {"senders": "me"}, "There are no senders 'me'"),
        ("error", {"api": "Produce"}, "needs an error"),
        ("error", {"error": "UNKNOWN_TOPIC_ID"}, "needs an API"),
        ("error", {"api": "Produce", "error": "NO_SUCH_ERROR"}, "Kafka has no error 'NO_SUCH_ERROR'"),
        ("error", {"api": "ApiVersions", "error": "UNKNOWN_TOPIC_ID"}, "does not know the responses of ApiVersions"),
        ("clock-skew", {"skew_ms": 1, "topic": "t"}, "takes no topic"),
        ("drop", {"topic": ""}, "The topic is empty"),
        ("drop", {"api": ""}, "There is no API ''; kt broker-api-versions prints the names"),
        (
            "drop",
            {"api": ["Fetch", "Heartbeat"], "topic": "t"},
            "Requests of Heartbeat cannot be chosen by topic",
        ),
        ("error", {"api": "JoinGroup", "error": "UNKNOWN_TOPIC_ID", "topic": "t"}, "Requests of JoinGroup cannot be"),
    ],
)
def test_a_senseless_fault_is_refused(broker: EmbeddedBroker, kind: str, options: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=text.replace("?", r"\?")):
        broker.faults.add(kind, **options)  # type: ignore[arg-type]
    with pytest.raises(SandboxError, match="There is no node 3"):
        broker.faults.add("drop", node=3)


@pytest.mark.slow
def test_requests_of_nodes_are_spared_unless_named() -> None:
    settings = {"replica.lag.time.max.ms": "800", "replica.fetch.wait.max.ms": "100"}
    with EmbeddedCluster(nodes=2, settings=settings) as cluster, _admin(cluster) as admin:
        create_topics(admin, [NewTopic("t", replicas_assignments={0: [1, 2]})])

        def isr() -> list[int]:
            return sorted(number for part in describe_topics(admin, ["t"])["t"].partitions for number in part.isr)

        eventually(lambda: isr() == [1, 2])
        with cluster.faults.add("drop", node=1, api="Fetch") as fault:
            assert _produce(cluster, "t", acks="all") is None
            assert fault.hits == 0
        with cluster.faults.add("drop", node=1, api="Fetch", senders="nodes", topic="t"):
            assert _produce(cluster, "t", acks=1) is None
            eventually(lambda: isr() == [1])
