"""Log directories change hands: Apache Kafka reads and opens what this broker wrote, and this broker what Apache
Kafka wrote, after a clean stop and after kill -9."""

from __future__ import annotations

import itertools
import pathlib
import shutil
import threading
from typing import Any

import pytest
from support import archives
from support.broker_client import BrokerClient, batch
from support.waiting import PATIENCE_S

from kafkatools.core.clock import SystemClock

GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "log"


def connect(broker: Any) -> BrokerClient:
    return BrokerClient("127.0.0.1", broker.port)


def create(client: BrokerClient, topic: str, partitions: int = 1, **configs: str) -> None:
    entries = [{"name": name.replace("_", "."), "value": value} for name, value in configs.items()]
    topics = [{"name": topic, "num_partitions": partitions, "replication_factor": 1, "configs": entries}]
    result = client.call(19, 7, topics=topics, timeout=5000).topics[0]
    assert result.error_code == 0, result


def fetch(client: BrokerClient, topic: str, offset: int, partition: int = 0) -> Any:
    wanted = [{"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20}]
    fields = {"max_wait": 0, "min_bytes": 0, "max_bytes": 1 << 24, "topics": [{"topic": topic, "partitions": wanted}]}
    return client.call(1, 12, **fields).responses[0].partitions[0]


def read_all(client: BrokerClient, topic: str, partition: int = 0) -> list[Any]:
    from kafkatools.core.records.batch import read_batches

    records: list[Any] = []
    while True:
        answer = fetch(client, topic, len(records) and records[-1].offset + 1, partition)
        assert answer.error_code == 0
        if not answer.records:
            return records
        first = len(records) and records[-1].offset + 1
        for each in read_batches(answer.records):
            records += [record for record in each.records() if record.offset >= first]


def test_records_acked_before_a_kill_are_there_after_it(broker: Any) -> None:
    """kill -9 in the middle of producing, three times: every acknowledged record keeps its offset, offsets have no
    gap and no repetition."""
    acked: dict[int, bytes] = {}
    numbers = itertools.count()
    with connect(broker) as client:
        create(client, "load", segment_bytes="1048576")
    for _ in range(3):
        enough = threading.Event()

        def load(enough: threading.Event = enough, goal: int = len(acked) + 300) -> None:
            with connect(broker) as client:
                while True:
                    value = b"record %d " % next(numbers) + b"x" * 2000
                    try:
                        answer = client.produce("load", batch([value]))
                    except (EOFError, OSError):
                        return
                    assert answer.error_code == 0
                    assert answer.base_offset not in acked
                    acked[answer.base_offset] = value
                    if len(acked) >= goal:
                        enough.set()

        thread = threading.Thread(target=load)
        thread.start()
        assert enough.wait(PATIENCE_S)
        broker.kill()
        thread.join(PATIENCE_S)
        broker.start()
    with connect(broker) as client:
        found = {record.offset: record.value for record in read_all(client, "load")}
    assert len(acked) >= 900
    assert list(found) == list(range(len(found)))
    assert {offset: found.get(offset) for offset in acked} == acked


def test_a_retry_after_a_clean_restart_is_recognised(broker: Any) -> None:
    with connect(broker) as client:
        create(client, "retried")
        producer = client.call(22, 4, transactional_id=None, transaction_timeout=1000)
        header = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
        now = SystemClock().wall_ms()
        sent = [batch([b"a", b"b"], now, base_sequence=2 * i, **header) for i in range(5)]
        first = [client.produce("retried", records).base_offset for records in sent]
    broker.stop()
    broker.start()
    with connect(broker) as client:
        assert [client.produce("retried", records).base_offset for records in sent] == first == [0, 2, 4, 6, 8]
        assert len(read_all(client, "retried")) == 10
        following = client.call(22, 4, transactional_id=None, transaction_timeout=1000)
        assert following.producer_id > producer.producer_id


@pytest.mark.real_kafka
def test_apache_kafkas_dump_log_finds_nothing_wrong(broker: Any, kafka_tool: Any) -> None:
    with connect(broker) as client:
        create(client, "dumped", segment_bytes="1048576", index_interval_bytes="1024")
        for i in range(300):
            client.produce("dumped", batch([b"v%d" % i + b"x" * 500] * 10, timestamp=1_700_000_000_000 + i))
    broker.stop()
    files = sorted(map(str, (broker.directory / "dumped-0").glob("*.*index")))
    logs = sorted(map(str, (broker.directory / "dumped-0").glob("*.log")))
    assert len(logs) >= 2
    sane = kafka_tool("dump-log", "--index-sanity-check", "--files", ",".join(files))
    assert sane.stdout.count(b"passed sanity check") == len(files)
    deep = kafka_tool("dump-log", "--deep-iteration", "--files", ",".join(logs + files))
    assert deep.returncode == 0
    complaints = [
        line for line in deep.stderr.splitlines() if b"Mismatch" in line or b"timestamp" in line or b"Invalid" in line
    ]
    assert complaints == []
    assert deep.stdout.count(b"isvalid: true") == 300
    assert b"isvalid: false" not in deep.stdout
    metadata = broker.directory / "__cluster_metadata-0" / f"{0:020d}.log"
    decoded = kafka_tool("dump-log", "--cluster-metadata-decoder", "--files", str(metadata))
    assert decoded.returncode == 0
    assert b'"type":"TOPIC_RECORD","version":0,"data":{"name":"dumped"' in decoded.stdout
    assert b'"resourceName":"dumped","name":"segment.bytes","value":"1048576"' in decoded.stdout


@pytest.mark.real_kafka
def test_apache_kafka_and_this_broker_take_turns_on_a_directory(broker: Any, new_kafka: Any) -> None:
    with connect(broker) as client:
        create(client, "shared", partitions=2, retention_ms="-1")
        client.produce("shared", batch([b"one", b"two"]), partition=1)
    broker.stop()
    kafka = new_kafka()
    kafka.log_dir().parent.mkdir(parents=True)
    shutil.copytree(broker.directory, kafka.log_dir())
    kafka.start(format_first=False)
    described = kafka.tool("topics", "--describe", "--topic", "shared")
    assert "PartitionCount: 2" in described
    assert "retention.ms=-1" in described
    read = ("--topic", "shared", "--partition", "1", "--offset", "earliest", "--max-messages", "2")
    assert kafka.tool("console-consumer", *read) == "one\ntwo\n"
    kafka.tool("topics", "--create", "--topic", "theirs", "--partitions", "1", "--config", "cleanup.policy=compact")
    kafka.tool(
        "console-producer",
        "--topic",
        "theirs",
        "--reader-property",
        "parse.key=true",
        "--reader-property",
        "key.separator=:",
        stdin=b"k:three\n",
    )
    kafka.stop()
    shutil.rmtree(broker.directory)
    shutil.copytree(kafka.log_dir(), broker.directory)
    broker.start()
    with connect(broker) as client:
        assert [record.value for record in read_all(client, "shared", 1)] == [b"one", b"two"]
        assert [record.value for record in read_all(client, "theirs")] == [b"three"]
        assert client.produce("shared", batch([b"four"]), partition=1).base_offset == 2
        configs = client.call(
            32, 4, resources=[{"resource_type": 2, "resource_name": "theirs", "configuration_keys": ["cleanup.policy"]}]
        )
        assert configs.results[0].configs[0].value == "compact"


@pytest.mark.parametrize(
    ("name", "topic", "ends"), [("broker-root", "trio", (20, 40, 0)), ("unclean-kill9", "firehose", (1600,))]
)
def test_a_directory_of_apache_kafka_without_its_metadata_log_is_adopted(
    make_broker: Any, tmp_path: pathlib.Path, name: str, topic: str, ends: tuple[int, ...]
) -> None:
    """Roots recorded from Apache Kafka 4.3.1: after a clean stop, and after kill -9 amid producing. Their partitions
    become topics again, with all records."""
    archives.unpack(GOLDEN / f"{name}.tar.gz", tmp_path / "root")
    broker = make_broker()
    shutil.copytree(tmp_path / "root" / "log", broker.directory, ignore=shutil.ignore_patterns(".hypothesis"))
    broker.start(log_retention_ms="-1")
    with connect(broker) as client:
        found = [read_all(client, topic, index) for index in range(len(ends))]
        assert tuple(len(records) for records in found) == ends
        for records in found:
            assert [record.offset for record in records] == list(range(len(records)))
        partitions = client.call(3, 12, topics=[{"topic_id": None, "name": topic}]).topics[0].partitions
        assert len(partitions) == len(ends)
        before = client.produce(topic, batch([b"more"]))
        assert (before.error_code, before.base_offset) == (0, ends[0])
