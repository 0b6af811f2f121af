"""kt migrate from, to and between Apache Kafka: compression, headers, transactions and compaction.

After the cut `kt diff` finds no difference, and Java's consumers go on at the right record.
"""

from __future__ import annotations

import itertools
import json
import pathlib
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest
from support.apache_kafka import ApacheKafka, run_tool
from support.embedded import embedded_broker
from support.kt import Ran, run_kt
from support.kt_process import start_kt
from support.raw_transactions import RawProducer
from support.waiting import PATIENCE_S, eventually

from kafkatools.core.producer.producer import Producer
from kafkatools.core.producer.producer_record import ProducerRecord
from kafkatools.core.records.batch import read_batches

pytestmark = [pytest.mark.real_kafka, pytest.mark.slow]

START = 1_700_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
OTHER_CLUSTER = "b3RoZXItY2x1c3Rlci0wMQ"
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "log.cleaner.backoff.ms": "100",
    "transaction.partition.verification.enable": "false",
}
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": "1000",
    "segment.ms": "1000",
}


class Clusters(NamedTuple):
    """The addresses of three clusters."""

    embedded: str
    apache: str
    other: str


@pytest.fixture(scope="module")
def clusters(kafka_jars: str, real_kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clusters]:
    assert kafka_jars
    other = ApacheKafka(tmp_path_factory.mktemp("other"), settings=SETTINGS, cluster_id=OTHER_CLUSTER)
    other.start()
    try:
        settings = {name.replace(".", "_"): value for name, value in SETTINGS.items()}
        with embedded_broker(tmp_path_factory.mktemp("embedded"), **settings) as embedded:
            yield Clusters(embedded, real_kafka.bootstrap, other.bootstrap)
    finally:
        other.stop()


def ok(*words: str) -> Ran:
    ran = run_kt(*words)
    assert ran.status == 0, ran.err
    return ran


def kt(bootstrap: str, command: str, *words: str) -> Ran:
    return ok(command, *words, "--bootstrap-server", bootstrap)


def rows(bootstrap: str, topic: str) -> list[dict[str, object]]:
    """The committed records by partition, in their order, with the offsets."""
    words = ("--topic", topic, "--from-beginning", "--exit-at-end", "--json", "--isolation-level", "read_committed")
    found = map(json.loads, kt(bootstrap, "console-consumer", *words).out.splitlines())
    return sorted(found, key=lambda row: (row["partition"], row["offset"]))


def without_offsets(found: list[dict[str, object]]) -> list[dict[str, object]]:
    return [{name: value for name, value in row.items() if name not in ("offset", "leader_epoch")} for row in found]


def count(bootstrap: str, topic: str) -> int:
    ran = run_kt("get-offsets", "--bootstrap-server", bootstrap, "--topic", topic)
    return sum(int(line.rpartition(":")[2]) for line in ran.out.split()) if ran.status == 0 else 0


def consume(bootstrap: str, topic: str, group: str, number: int, protocol: str) -> list[int]:
    """The next values of a group, as Java's consumer reads and commits them."""
    read = run_tool(
        "console-consumer", "--bootstrap-server", bootstrap, "--topic", topic, "--group", group, "--from-beginning",
        "--isolation-level", "read_committed", "--max-messages", str(number), "--timeout-ms", "120000",
        "--command-property", f"group.protocol={protocol}",
    )  # fmt: skip
    return [int(value) for value in read.stdout.split()]


def fill_plain(bootstrap: str, topic: str, start: int) -> None:
    """Ten records with each codec, with and without keys and headers."""
    for position, codec in enumerate(CODECS):
        with Producer(bootstrap_servers=bootstrap, compression_type=codec) as producer:
            for number in range(start + 10 * position, start + 10 * position + 10):
                headers = [("trace", b"%d" % number), ("trace", b""), ("empty", None)] if number % 3 else ()
                key = b"key %d" % number if number % 2 else None
                producer.send(ProducerRecord(topic, b"%d" % number * 40, key, number % 2, START + number, headers))


def fill_ledger(bootstrap: str, topic: str, numbers: range) -> None:
    """Transactions of 20 numbers; before every third one is one that is aborted, with negative numbers."""
    settings = {"compression_type": "zstd", "batch_size": 300, "transactional_id": f"fill-{topic}"}
    with Producer(bootstrap_servers=bootstrap, **settings) as producer:
        producer.init_transactions()
        for start in range(numbers.start, numbers.stop, 20):
            for is_aborted in (True, False) if start % 60 == 0 else (False,):
                producer.begin_transaction()
                for number in range(start, start + 20):
                    value = b"%d" % (-1 - number if is_aborted else number)
                    producer.send(ProducerRecord(topic, value, None, number % 2, START + number))
                if is_aborted:
                    producer.flush()
                    producer.abort_transaction()
                else:
                    producer.commit_transaction()


def fill_state(bootstrap: str, topic: str, start: int) -> None:
    """Forty records of ten keys, a tombstone for every fourth; a segment for each second."""
    with Producer(bootstrap_servers=bootstrap, compression_type="lz4") as producer:
        for number in range(start, start + 40):
            value = None if number % 4 == 0 else b"state %d" % number
            record = ProducerRecord(topic, value, b"%d" % (number % 10), 0, START + 2000 * number)
            producer.send(record).result()


def codecs(bootstrap: str, topic: str, directory: pathlib.Path) -> set[str]:
    """The compression types of a topic's batches."""
    kt(bootstrap, "backup", "--to", str(directory / "copy"), "--topic", topic)
    files = (directory / "copy" / "logs").rglob("*.log")
    return {batch.compression_type.name.lower() for path in files for batch in read_batches(path.read_bytes())}


def ensure_equal(source: str, target: str, topic: str, by: str) -> None:
    name = f"topic:{topic}"
    ran = kt(source, "diff", name, name, "--right-bootstrap-server", target, "--by", by, "--json")
    assert ran.status == 0, ran.out


def produce_until(stop: threading.Event, bootstrap: str, topic: str) -> None:
    """Send numbers from 0, twenty at a time, until the event is set."""
    numbers = itertools.count()
    with Producer(bootstrap_servers=bootstrap, compression_type="lz4") as producer:
        while not stop.wait(0.01):
            for number in itertools.islice(numbers, 20):
                producer.send(ProducerRecord(topic, b"%d" % number, b"%d" % (number % 7), number % 2, START + number))
            producer.flush()


def add_access(bootstrap: str, topic: str, *, has_acls: bool) -> None:
    user = f"user-of-{topic}"
    kt(bootstrap, "configs", "--alter", "--user", user, "--add-config", "consumer_byte_rate=2048")
    if has_acls:
        kt(bootstrap, "acls", "--add", "--allow-principal", f"User:{user}", "--operation", "Read", "--topic", topic)


def state(bootstrap: str, topic: str) -> dict[object, object]:
    return {row["key"]: row["value"] for row in rows(bootstrap, topic)}


@pytest.mark.parametrize(
    ("route", "protocol"),
    [(("embedded", "other"), "consumer"), (("other", "embedded"), "classic"), (("apache", "other"), "consumer")],
    ids=["to Apache Kafka", "from Apache Kafka", "between two of Apache Kafka"],
)
def test_consumers_go_on_after_the_cut(
    clusters: Clusters, tmp_path: pathlib.Path, route: tuple[str, str], protocol: str
) -> None:
    source, target = getattr(clusters, route[0]), getattr(clusters, route[1])
    prefix = f"{route[0]}-to-{route[1]}"
    topics = plain, ledger, stateful = [f"{prefix}-{name}" for name in ("plain", "ledger", "state")]
    for topic in (plain, ledger):
        kt(source, "topics", "--create", "--topic", topic, "--partitions", "2")
    configs = [word for item in COMPACTED.items() for word in ("--config", "=".join(item))]
    kt(source, "topics", "--create", "--topic", stateful, "--partitions", "1", *configs)
    fill_plain(source, plain, 0)
    fill_ledger(source, ledger, range(0, 200))
    fill_state(source, stateful, 0)
    words = ["migrate", "--through", str(tmp_path / "through"), "--to-bootstrap-server", target]
    words += ["--bootstrap-server", source, *(word for topic in topics for word in ("--topic", topic))]
    if route[0] != "apache":  # whose cleaner pauses for 15 seconds
        eventually(lambda: len(rows(source, stateful)) < 40)
    plan = [json.loads(line) for line in ok(*words, "--dry-run", "--json").out.splitlines()]
    assert [(row["target"], row["action"], row["partitions"], row["offsets"]) for row in plan] == [
        (topic, "create", 1 + (topic != stateful), count(source, topic)) for topic in sorted(topics)
    ]
    assert not (tmp_path / "through").exists() and count(target, ledger) == 0
    child = start_kt(tmp_path, *words, "--interval", "100ms")
    eventually(lambda: count(target, ledger) >= 200)
    with RawProducer(source, f"{prefix}-open") as held:
        held.send(ledger, 0, [START])
        fill_ledger(source, ledger, range(200, 300))
        held.end(committed=False)
    fill_plain(source, plain, 50)
    fill_state(source, stateful, 40)
    seen = consume(source, ledger, f"{prefix}-reader", 170, protocol)
    child.send_signal(signal.SIGKILL)
    child.communicate(timeout=PATIENCE_S)
    access = ("--acls", "--quotas") if route[0] != "apache" else ("--quotas",)  # that broker has no authorizer
    add_access(source, plain, has_acls="--acls" in access)
    ok(*words, "--cut", *access)
    for topic in (plain, ledger):
        assert without_offsets(rows(target, topic)) == without_offsets(rows(source, topic))
    assert (len(rows(target, plain)), len(rows(target, ledger))) == (100, 300)
    for topic, by in ((plain, "multiset"), (ledger, "multiset"), (stateful, "key")):
        ensure_equal(source, target, topic, by)
    assert codecs(target, plain, tmp_path) == set(CODECS)
    assert state(target, stateful) == state(source, stateful)
    rest = consume(target, ledger, f"{prefix}-reader", 300 - len(seen), protocol)
    assert sorted(seen + rest) == list(range(300))
    assert "consumer_byte_rate=2048" in kt(target, "configs", "--describe", "--user", f"user-of-{plain}").out
    if "--acls" in access:
        assert f"User:user-of-{plain}" in kt(target, "acls", "--list", "--topic", plain).out


def test_acls_that_a_cluster_cannot_have_are_refused_before_anything_is_copied(
    clusters: Clusters, tmp_path: pathlib.Path
) -> None:
    for source, target, message in (
        (clusters.apache, clusters.other, "The source has no ACLs: "),
        (clusters.other, clusters.apache, "ACLs cannot be set in the target: "),
    ):
        ran = run_kt(
            "migrate", "--through", str(tmp_path / "through"), "--to-bootstrap-server", target, "--bootstrap-server",
            source, "--cut", "--acls",
        )  # fmt: skip
        assert (ran.status, ran.err.startswith(message)) == (1, True), ran.err
        assert ran.err.endswith("\nRun the command without --acls.\n")


def test_killed_and_cut_while_a_producer_goes_on(clusters: Clusters, tmp_path: pathlib.Path) -> None:
    source, target, topic = clusters.apache, clusters.other, "busy"
    kt(source, "topics", "--create", "--topic", topic, "--partitions", "2")
    words = ["migrate", "--through", str(tmp_path / "through"), "--to-bootstrap-server", target]
    words += ["--bootstrap-server", source, "--topic", topic]
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        producing = pool.submit(produce_until, stop, source, topic)
        try:
            for _ in range(2):
                before = count(target, topic)
                child = start_kt(tmp_path, *words, "--interval", "10ms")
                eventually(lambda before=before: count(target, topic) > before)
                child.send_signal(signal.SIGKILL)
                child.communicate(timeout=PATIENCE_S)
            seen = consume(source, topic, "busy-reader", 50, "consumer")
            before = count(target, topic)
            cut = start_kt(tmp_path, *words, "--cut")
            eventually(lambda: count(target, topic) > before)
        finally:
            stop.set()
        producing.result(60)
    out, errors = cut.communicate(timeout=PATIENCE_S)
    assert (cut.returncode, errors) == (0, b"")
    assert out.endswith(b"Cut: 1 topic and 1 group can go on in the target\n")
    copied = without_offsets(rows(target, topic))
    produced = without_offsets(rows(source, topic))
    for partition in (0, 1):  # what came after the cut found a moment without new records stays in the source
        own, all_of = ([row for row in found if row["partition"] == partition] for found in (copied, produced))
        assert own == all_of[: len(own)]
    rest = consume(target, topic, "busy-reader", len(copied) - len(seen), "classic")
    assert sorted(seen + rest) == sorted(int(str(row["value"])) for row in copied)
    for option in ("--cut", "--dry-run"):
        ran = run_kt(*words, option)
        assert ran.status == 1
        assert ran.err.startswith(f"Topic {topic} was cut over: clients may already write to the target\n")
