"""The consumer against Apache Kafka: what its own console consumer prints is what ours has to give."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from support.apache_kafka import ApacheKafka
from support.kafkas_reader import read_to_end
from support.kt import run_kt
from support.raw_client import RawClient

from kafkatools.core.config import CONSUMER, Config
from kafkatools.core.consumer.consumer import Consumer
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.core.records.compression import CompressionType
from kafkatools.exit_status import ExitStatus

pytestmark = pytest.mark.real_kafka
START = 1_700_000_000_000
PROPERTIES = ("print.key", "print.offset", "print.timestamp", "print.partition", "print.headers")


def consumer(bootstrap: str, **settings: Any) -> Consumer:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return Consumer(Config(CONSUMER, {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest", **given}))


def as_the_real_tool(cluster: ApacheKafka, topic: str, isolation_level: str = "read_uncommitted") -> str:
    """What kafka-console-consumer prints of a topic's only partition."""
    properties = [word for name in PROPERTIES for word in ("--formatter-property", f"{name}=true")]
    return read_to_end(cluster, topic, *properties, isolation_level=isolation_level)


def as_ours(bootstrap: str, topic: str, *more: str) -> str:
    args = ("--topic", topic, "--partition", "0", "--offset", "earliest", "--exit-at-end", *more)
    properties = [word for name in PROPERTIES for word in ("--formatter-property", f"{name}=true")]
    ran = run_kt("console-consumer", "--bootstrap-server", bootstrap, *args, *properties)
    assert ran.status == ExitStatus.OK, ran.err
    assert "complete: 1/1 partitions" in ran.err
    return ran.out


def name_of(what: str) -> str:
    return f"consumer-{what}-{uuid.uuid4().hex[:8]}"


class Transaction:
    """A transactional producer on one broker, one request at a time."""

    def __init__(self, client: RawClient, transactional_id: str) -> None:
        self.client, self.id = client, transactional_id
        while True:
            fields = {"key_type": 1, "coordinator_keys": [self.id]}
            found = client.call(ApiKey.FIND_COORDINATOR, 4, fields).coordinators[0]
            if int(found.error_code) == 0:
                break
        while True:
            fields = {
                "transactional_id": self.id,
                "transaction_timeout": 60000,
                "producer_id": -1,
                "producer_epoch": -1,
            }
            got = client.call(ApiKey.INIT_PRODUCER_ID, 4, fields)
            if int(got.error_code) == 0:
                break
        self.producer_id, self.epoch, self.sequence = got.producer_id, got.producer_epoch, 0

    def send(self, topic: str, values: list[bytes]) -> None:
        while True:
            fields = {
                "v3_and_below_transactional_id": self.id,
                "v3_and_below_producer_id": self.producer_id,
                "v3_and_below_producer_epoch": self.epoch,
                "v3_and_below_topics": [{"name": topic, "partitions": [0]}],
            }
            added = self.client.call(ApiKey.ADD_PARTITIONS_TO_TXN, 3, fields)
            result = added.results_by_topic_v3_and_below[0].results_by_partition[0]
            if int(result.partition_error_code) == 0:
                break
        builder = BatchBuilder(
            1 << 16,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            is_transactional=True,
        )
        for value in values:
            builder.append(START + self.sequence, None, value)
            self.sequence += 1
        self.client.produce(topic, 0, bytes(builder.close()), self.id)

    def end(self, commit: bool) -> None:
        while True:
            fields = {
                "transactional_id": self.id,
                "producer_id": self.producer_id,
                "producer_epoch": self.epoch,
                "committed": commit,
            }
            if int(self.client.call(ApiKey.END_TXN, 3, fields).error_code) == 0:
                return


def test_transactions_read_committed_and_uncommitted(real_kafka: ApacheKafka) -> None:
    topic = name_of("txn")
    with RawClient(real_kafka.bootstrap) as client:
        client.create_topic(topic)
        first, second, open_one = (Transaction(client, f"{topic}-{name}") for name in ("a", "b", "open"))
        first.send(topic, [b"a-committed-0", b"a-committed-1"])
        second.send(topic, [b"b-aborted-0"])
        client.produce_rows(topic, 0, [(START, b"k", b"plain", [("h", b"x")])])
        second.send(topic, [b"b-aborted-1"])
        first.end(commit=True)
        second.end(commit=False)
        first.send(topic, [b"a-aborted"])
        first.end(commit=False)
        second.send(topic, [b"b-committed"])
        second.end(commit=True)
        client.produce_rows(topic, 0, [(START, None, b"plain-2", [])])
        open_one.send(topic, [b"open"])
        client.produce_rows(topic, 0, [(START, None, b"after-open", [])])
        for level, count in (("read_committed", 5), ("read_uncommitted", 10)):
            theirs = as_the_real_tool(real_kafka, topic, level)
            assert len(theirs.splitlines()) == count
            assert as_ours(real_kafka.bootstrap, topic, "--isolation-level", level) == theirs
        open_one.end(commit=True)
    assert as_ours(real_kafka.bootstrap, topic, "--isolation-level", "read_committed").endswith("after-open\n")


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec(real_kafka: ApacheKafka, codec: str) -> None:
    topic = name_of(codec)
    with RawClient(real_kafka.bootstrap) as client:
        client.create_topic(topic)
    lines = b"".join(b"key-%d\tvalue %d of a batch, with words to compress\n" % (n, n) for n in range(500))
    real_kafka.tool(
        "console-producer",
        *("--topic", topic, "--compression-codec", codec, "--reader-property", "parse.key=true"),
        stdin=lines,
    )
    theirs = as_the_real_tool(real_kafka, topic)
    assert len(theirs.splitlines()) == 500
    assert as_ours(real_kafka.bootstrap, topic) == theirs


def test_codecs_that_we_write_come_back(real_kafka: ApacheKafka) -> None:
    topic = name_of("written")
    with RawClient(real_kafka.bootstrap) as client:
        client.create_topic(topic)
        for codec in CompressionType:
            builder = BatchBuilder(1 << 16, codec)
            for index in range(20):
                builder.append(START + index, b"k", b"%s %d" % (codec.label.encode(), index))
            client.produce(topic, 0, bytes(builder.close()))
    assert as_ours(real_kafka.bootstrap, topic) == as_the_real_tool(real_kafka, topic)


def test_compacted_topic_has_holes_and_an_end(real_kafka: ApacheKafka) -> None:
    topic = name_of("compacted")
    config = {
        "cleanup_policy": "compact",
        "segment_ms": "100",
        "min_cleanable_dirty_ratio": "0.01",
        "min_compaction_lag_ms": "0",
        "delete_retention_ms": "100",
    }
    with RawClient(real_kafka.bootstrap) as client:
        client.create_topic(topic, **config)
        for number in range(30):
            rows = [(START, b"key-%d" % key, b"%d" % number if key else None, []) for key in range(4)]
            client.produce_rows(topic, 0, rows)
    ours = as_ours(real_kafka.bootstrap, topic)
    assert ours.splitlines()[-1].endswith("\tkey-3\t29")


def test_positions_offsets_and_times(real_kafka: ApacheKafka) -> None:
    topic = name_of("positions")
    with RawClient(real_kafka.bootstrap) as client:
        client.create_topic(topic, 2)
        for partition, count in ((0, 10), (1, 3)):
            rows = [(START + index * 1000, None, b"%d" % index, []) for index in range(count)]
            client.produce_rows(topic, partition, rows)
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with consumer(real_kafka.bootstrap, max_poll_records="4") as reader:
        assert reader.partitions_for(topic) == [0, 1]
        reader.assign([zero, one])
        assert reader.beginning_offsets([zero, one]) == {zero: 0, one: 0}
        assert reader.end_offsets([zero, one]) == {zero: 10, one: 3}
        times = reader.offsets_for_times({zero: START + 2500, one: START + 99_000})
        assert times[zero] is not None
        assert (times[zero].offset, times[zero].timestamp) == (3, START + 3000)
        assert times[one] is None
        reader.pause([one])
        reader.seek(zero, 6)
        records = list(reader.poll(10_000))
        assert [(record.partition, record.offset, record.value) for record in records] == [
            (0, offset, b"%d" % offset) for offset in range(6, 10)
        ]
        assert reader.position(zero) == 10
        reader.resume([one])
        reader.seek_to_end([zero])
        seen = list(reader.poll(10_000))
        assert [record.offset for record in seen] == [0, 1, 2]
        assert reader.position(zero) == 10
        assert len(reader.poll(0)) == 0


def test_leader_epochs_survive_a_restart(new_kafka: Callable[..., ApacheKafka]) -> None:
    """Restarted between two polls: the epoch rises, the position is validated, nothing is lost or twice."""
    cluster = new_kafka()
    cluster.start()
    topic = name_of("epochs")
    with RawClient(cluster.bootstrap) as client:
        client.create_topic(topic)
        client.produce_rows(topic, 0, [(START, None, b"%d" % index, []) for index in range(5)])
    with consumer(cluster.bootstrap, retry_backoff_ms="50", reconnect_backoff_max_ms="200") as reader:
        reader.assign([(topic, 0)])
        values = [record.value for record in reader.poll(10_000)]
        cluster.stop_node()
        assert len(reader.poll(300)) == 0
        cluster.start_node()
        with RawClient(cluster.bootstrap) as client:
            client.create_topic(name_of("alive"))
            client.produce_rows(topic, 0, [(START, None, b"%d" % index, []) for index in range(5, 8)])
        for _ in range(200):
            values += [record.value for record in reader.poll(200)]
            if len(values) >= 8:
                break
    assert values == [b"%d" % index for index in range(8)]


def test_json_lines_hold_everything(real_kafka: ApacheKafka) -> None:
    topic = name_of("json")
    with RawClient(real_kafka.bootstrap) as client:
        client.create_topic(topic)
        client.produce_rows(
            topic,
            0,
            [(START, b"\xff", "grün".encode(), [("a", None), ("a", b"\xfe"), ("b", b"")]), (START + 1, None, b"", [])],
        )
    ran = run_kt(
        *("console-consumer", "--bootstrap-server", real_kafka.bootstrap, "--topic", topic),
        *("--from-beginning", "--exit-at-end", "--json"),
    )
    assert ran.status == ExitStatus.OK
    assert [json.loads(line) for line in ran.out.splitlines()] == [
        {
            "topic": topic,
            "partition": 0,
            "offset": 0,
            "timestamp": START,
            "timestamp_type": "CreateTime",
            "key": {"b64": "/w=="},
            "value": "grün",
            "headers": [["a", None], ["a", {"b64": "/g=="}], ["b", ""]],
        },
        {
            "topic": topic,
            "partition": 0,
            "offset": 1,
            "timestamp": START + 1,
            "timestamp_type": "CreateTime",
            "key": None,
            "value": "",
            "headers": [],
        },
    ]
