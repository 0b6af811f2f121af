"""Transactions against a real Apache Kafka, in both transaction versions, read back by its own consumer and tools."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator

import pytest
from support import two_phase_story
from support.apache_kafka import ApacheKafka, run_tool
from support.kafkas_reader import read_to_end
from support.kt import run_kt
from support.prepared_transactions import STEPS, Steps

from kafkatools.core.config import PRODUCER, Config
from kafkatools.core.errors import IllegalState, KafkaError, ProducerFenced, TransactionAborted
from kafkatools.core.group.metadata import ConsumerGroupMetadata, OffsetAndMetadata
from kafkatools.core.producer.futures import TopicPartition
from kafkatools.core.producer.producer import Producer
from kafkatools.core.producer.producer_record import ProducerRecord
from kafkatools.core.records.columns import RowColumns

pytestmark = [pytest.mark.real_kafka, pytest.mark.slow]

_versions: dict[str, int] = {}  # the transaction version of a cluster that is not the newest
_names = (f"txn{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def cluster(kafka_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    """A node of this module's own: it changes the cluster's transaction version and is killed."""
    assert kafka_jars
    made = ApacheKafka(
        tmp_path_factory.mktemp("transactions"),
        settings={
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "300",
            "broker.session.timeout.ms": "2000",
            "broker.heartbeat.interval.ms": "500",
            **two_phase_story.SETTINGS,
        },
    )
    made.start()
    yield made
    made.stop()


@pytest.fixture
def topic(cluster: ApacheKafka) -> str:
    name = next(_names)
    run_kt("topics", "--create", "--topic", name, "--partitions", "3", "--bootstrap-server", cluster.bootstrap)
    return name


@pytest.fixture(params=[1, 2])
def version(request: pytest.FixtureRequest, cluster: ApacheKafka) -> int:
    """The cluster's transaction version."""
    wanted: int = request.param
    set_version(cluster, wanted)
    return wanted


def set_version(cluster: ApacheKafka, wanted: int) -> None:
    if _versions.get(cluster.bootstrap, 2) != wanted:
        verb = "downgrade" if wanted == 1 else "upgrade"
        tool(cluster, "features", verb, "--feature", f"transaction.version={wanted}")
        _versions[cluster.bootstrap] = wanted


def tool(cluster: ApacheKafka, name: str, *args: str) -> str:
    """A tool that wants its server first."""
    done = run_tool(name, "--bootstrap-server", cluster.bootstrap, *args)
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    return done.stdout.decode()


def producer_of(cluster: ApacheKafka, transactional_id: str, **settings: str) -> Producer:
    values = {name.replace("_", "."): value for name, value in settings.items()}
    values |= {"bootstrap.servers": cluster.bootstrap, "transactional.id": transactional_id}
    return Producer(Config(PRODUCER, values))


def committed(cluster: ApacheKafka, topic: str) -> list[str]:
    """The committed records, sorted; that Kafka's consumer sees the same is shown once."""
    options = ["--topic", topic, "--from-beginning", "--exit-at-end", "--isolation-level", "read_committed"]
    ran = run_kt("console-consumer", "--bootstrap-server", cluster.bootstrap, *options)
    assert ran.status == 0, ran.err
    return sorted(ran.out.splitlines())


def committed_to_kafka(cluster: ApacheKafka, topic: str) -> list[str]:
    """What Kafka's console consumer sees of committed records, sorted."""
    return sorted(read_to_end(cluster, topic, isolation_level="read_committed").splitlines())


def epoch_of(producer: Producer) -> int:
    assert producer.sender.transactions is not None
    return producer.sender.transactions.identity.epoch


def test_what_is_committed_is_read_and_what_is_aborted_is_not(cluster: ApacheKafka, topic: str, version: int) -> None:
    with producer_of(cluster, topic, linger_ms="5") as producer:
        producer.init_transactions()
        for number in range(6):
            producer.begin_transaction()
            single = producer.send(ProducerRecord(topic, b"%d single" % number, partition=0))
            rows = producer.send_columns(topic, RowColumns.of_values([b"%d row %d" % (number, i) for i in range(3)]))
            if number % 3 == 2:
                single.get(30_000)  # written, and aborted all the same
                producer.abort_transaction()
                continue
            producer.commit_transaction()
            assert single.done() and [run.error for run in rows.get(0)] == [None] * len(rows.get(0))
        producer.begin_transaction()
        producer.commit_transaction()
        # Version 2: an epoch for every transaction that was not empty. Version 1: the first one for all.
        assert epoch_of(producer) == (0 if version == 1 else 6)
        producer.begin_transaction()
        producer.send(ProducerRecord(topic, b"left open"))
    wanted = [f"{number} {what}" for number in (0, 1, 3, 4) for what in ("row 0", "row 1", "row 2", "single")]
    assert committed(cluster, topic) == wanted
    assert committed_to_kafka(cluster, topic) == wanted


def test_a_producer_that_was_taken_over_can_do_nothing_more(cluster: ApacheKafka, topic: str, version: int) -> None:
    with producer_of(cluster, topic) as zombie, producer_of(cluster, topic) as successor:
        zombie.init_transactions()
        zombie.begin_transaction()
        zombie.send(ProducerRecord(topic, b"zombie")).get(30_000)
        successor.init_transactions()
        late = zombie.send(ProducerRecord(topic, b"late"))
        with pytest.raises(KafkaError):
            zombie.commit_transaction()
        if not zombie.has_fatal_error:  # the partition's leader said INVALID_PRODUCER_EPOCH, the coordinator knows why
            with pytest.raises(ProducerFenced):
                zombie.abort_transaction()
        assert zombie.has_fatal_error
        assert late.exception() is not None
        with pytest.raises(ProducerFenced):
            zombie.begin_transaction()
        successor.begin_transaction()
        successor.send(ProducerRecord(topic, b"successor"))
        successor.commit_transaction()
    assert committed(cluster, topic) == ["successor"]


def test_offsets_are_committed_with_the_transaction_only(cluster: ApacheKafka, topic: str, version: int) -> None:
    group = ConsumerGroupMetadata(f"group-{topic}")
    with producer_of(cluster, topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send_offsets_to_transaction({TopicPartition(topic, 1): OffsetAndMetadata(7, metadata="m")}, group)
        producer.commit_transaction()
        producer.begin_transaction()
        producer.send(ProducerRecord(topic, b"undone"))
        producer.send_offsets_to_transaction({TopicPartition(topic, 1): OffsetAndMetadata(99)}, group)
        producer.abort_transaction()
        stranger = ConsumerGroupMetadata(group.group_id, 5, "nobody")
        producer.begin_transaction()
        with pytest.raises(KafkaError, match="consumer group metadata mismatch"):
            producer.send_offsets_to_transaction({TopicPartition(topic, 1): OffsetAndMetadata(50)}, stranger)
        producer.abort_transaction()
    described = cluster.tool("consumer-groups", "--describe", "--group", group.group_id)
    rows = [line.split() for line in described.splitlines() if topic in line.split()[1:2]]
    assert [(row[2], row[3]) for row in rows] == [("1", "7")]


def test_a_transaction_that_took_too_long_is_aborted(cluster: ApacheKafka, topic: str, version: int) -> None:
    with producer_of(cluster, topic, transaction_timeout_ms="500") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(ProducerRecord(topic, b"slow")).get(30_000)
        described = ""
        while "CompleteAbort" not in described:
            described = str(cluster_state(cluster, topic))
        refused = producer.send(ProducerRecord(topic, b"too late"))
        with pytest.raises(KafkaError):
            producer.commit_transaction()
        assert refused.exception() is not None
        if version == 1:
            # The coordinator bumped the epoch when it aborted: to it we are a zombie.
            with pytest.raises(ProducerFenced):
                producer.abort_transaction()
            assert producer.has_fatal_error
            return
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send(ProducerRecord(topic, b"in time"))
        producer.commit_transaction()
    assert committed(cluster, topic) == ["in time"]


def cluster_state(cluster: ApacheKafka, transactional_id: str) -> str:
    return tool(cluster, "transactions", "describe", "--transactional-id", transactional_id)


PATIENT = {"max_block_ms": "300000", "transaction_timeout_ms": "600000", "delivery_timeout_ms": "300000"}
"""Settings of a producer that waits while a broker starts, also on a busy machine."""


def test_a_broker_killed_in_the_middle_and_the_way_up_to_version_2(cluster: ApacheKafka, topic: str) -> None:
    set_version(cluster, 1)
    starter = threading.Thread(target=cluster.start_node)
    epochs = []
    with producer_of(cluster, topic, request_timeout_ms="5000", **PATIENT) as producer:
        producer.init_transactions()
        for number in range(6):
            producer.begin_transaction()
            for part in range(3):
                producer.send(ProducerRecord(topic, b"%d-%d" % (number, part), partition=part))
            if number == 2:
                producer.flush()
                set_version(cluster, 2)  # which only a new connection tells
                producer.send(ProducerRecord(topic, b"2-3", partition=0))
                cluster.kill()  # before the commit, which thus needs a new connection
                starter.start()
            if number == 4:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
            epochs.append(epoch_of(producer))
    starter.join()
    # InitProducerId bumps the epoch once between the versions, from then on every EndTxn does.
    assert epochs[:2] == [0, 0]
    assert epochs[-1] - epochs[-2] == 1
    wanted = [f"{number}-{part}" for number in range(6) if number != 4 for part in range(3)] + ["2-3"]
    assert committed(cluster, topic) == sorted(wanted)


def test_records_outside_a_transaction_are_refused(cluster: ApacheKafka, topic: str) -> None:
    with producer_of(cluster, topic) as producer:
        with pytest.raises(IllegalState, match="before completing a call to init_transactions"):
            producer.send(ProducerRecord(topic, b"x"))
        producer.init_transactions()
        with pytest.raises(IllegalState, match="Cannot call send in state READY"):
            producer.send_columns(topic, RowColumns.of_values([b"x"]))
        with pytest.raises(IllegalState, match="from state READY to state COMMITTING_TRANSACTION"):
            producer.commit_transaction()
        producer.begin_transaction()
        unsent = producer.send(ProducerRecord(topic, b"unsent"))
        producer.abort_transaction()
        error = unsent.exception()
        assert error is None or isinstance(error, TransactionAborted)
    assert committed(cluster, topic) == []


def test_the_console_producer_commits_in_portions(cluster: ApacheKafka, topic: str) -> None:
    options = ["--bootstrap-server", cluster.bootstrap, "--topic", topic, "--transactional-id", topic]
    lines = [b"%04d" % number for number in range(2500)]
    ran = run_kt("console-producer", *options, "--transaction-records", "1000", stdin=b"\n".join(lines))
    assert (ran.status, ran.err) == (0, "2500 sent, 0 failed, 0 aborted\n")
    lines_with_a_giant = [*(b"x%d" % number for number in range(15)), b"y" * 2_000_000, b"z"]
    ran = run_kt(
        "console-producer", *options, "--transaction-records", "10", "--sync", stdin=b"\n".join(lines_with_a_giant)
    )
    assert ran.status == 1
    assert ran.err.splitlines()[-2:] == [
        "Transaction aborted: records 11 to 16 are not committed; the 10 before are committed",
        "10 sent, 1 failed, 5 aborted",
    ]
    assert committed(cluster, topic) == sorted(
        [line.decode() for line in lines] + [f"x{number}" for number in range(10)]
    )


@pytest.mark.parametrize("name", STEPS)
def test_prepared_transactions(cluster: ApacheKafka, version: int, name: str) -> None:
    STEPS[name](Steps(cluster.bootstrap, version), f"{name}_{version}")


def test_two_phase_commit(cluster: ApacheKafka) -> None:
    """Where the answers with two-phase commit in tests/golden/broker/two-phase-commit.json come from; those without it
    are of a node with unstable.api.versions.enable alone."""
    set_version(cluster, 2)
    assert two_phase_story.announced(cluster.bootstrap) == (0, 6)
    answers = two_phase_story.tell_of_two_phases(cluster.bootstrap, is_enabled=True)
    assert answers == two_phase_story.golden(is_enabled=True)
    two_phase_story.prepare_and_complete(cluster.bootstrap)


def test_two_phase_commit_is_not_offered_by_default(real_kafka: ApacheKafka) -> None:
    assert two_phase_story.announced(real_kafka.bootstrap) == (0, 5)
    refusal = two_phase_story.refused_producer(real_kafka.bootstrap)
    assert "needs brokers with InitProducerId 6 (KIP-939)" in refusal
