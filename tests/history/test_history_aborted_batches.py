"""A batch whose answer was lost, in a transaction that is then aborted, must not take the place of a batch of the next
transaction: a client that forgets it may reuse its sequence, and the broker takes the new batch for a duplicate.

librdkafka 2.16.0 does so, on Apache Kafka 4.3.1 as on this broker: `abort_transaction` purges messages that wait to be
sent again and moves the base of its sequences by their number, as if none of them had been appended. The next
transaction commits without an error and is absent from that partition. A `flush` before the abort avoids it.
"""

from __future__ import annotations

import pathlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from support.chaos_checks import read_topic
from support.cutting_proxy import CuttingProxy
from support.kt_process import BrokerProcess
from support.waiting import eventually

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.topics import NewTopic, create_topics
from kafkatools.core.clock import SystemClock
from kafkatools.core.config import PRODUCER, Config
from kafkatools.core.producer.producer import Producer
from kafkatools.core.producer.producer_record import ProducerRecord

PATIENCE_S = 120


class Cluster:
    """A broker whose answers to clients can be lost."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.proxy = CuttingProxy()
        advertised = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.proxy.port}"}
        self.broker = BrokerProcess(directory, advertised)
        self.proxy.target = int(self.broker.bootstrap.rpartition(":")[2])
        self.broker.start()
        with AdminClient(self.broker.bootstrap, {}, SystemClock()) as admin:
            assert create_topics(admin, [NewTopic("t", 2, 1)])["t"].error is None
        self.bootstrap = f"127.0.0.1:{self.proxy.port}"

    def size(self) -> int:
        """The bytes of the first partition's log."""
        log = self.broker.directory / "t-0" / "00000000000000000000.log"
        return log.stat().st_size if log.exists() else 0

    def close(self) -> None:
        self.proxy.close()
        self.broker.kill()


@pytest.fixture
def cluster(tmp_path: pathlib.Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    made.close()


class OurProducer:
    def __init__(self, bootstrap: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "transactional.id": "x", "linger.ms": "0"}
        patience = {"max.block.ms": str(PATIENCE_S * 1000), "delivery.timeout.ms": str(PATIENCE_S * 1000)}
        self._producer = Producer(Config(PRODUCER, {**settings, **patience, "reconnect.backoff.max.ms": "200"}))
        self._producer.init_transactions()
        self.begin, self.flush = self._producer.begin_transaction, self._producer.flush
        self.commit, self.abort = self._producer.commit_transaction, self._producer.abort_transaction
        self.close = self._producer.close

    def send(self, partition: int, value: bytes) -> None:
        self._producer.send(ProducerRecord("t", value, partition=partition))


class LibrdkafkaProducer:
    def __init__(self, bootstrap: str) -> None:
        confluent_kafka = pytest.importorskip("confluent_kafka")
        settings = {"bootstrap.servers": bootstrap, "transactional.id": "x", "linger.ms": 0}
        self._producer = confluent_kafka.Producer({**settings, "reconnect.backoff.max.ms": 200, "log_level": 0})
        self._producer.init_transactions(PATIENCE_S)
        self.begin = self._producer.begin_transaction

    def send(self, partition: int, value: bytes) -> None:
        self._producer.produce("t", value, partition=partition)

    def flush(self) -> None:
        self._producer.flush(PATIENCE_S)

    def commit(self) -> None:
        self._producer.commit_transaction(PATIENCE_S)

    def abort(self) -> None:
        self._producer.abort_transaction(PATIENCE_S)

    def close(self) -> None:
        self.flush()


def lose_an_answer_and_abort(cluster: Cluster, producer: Any, *, flushes: bool) -> None:
    producer.begin()
    producer.send(0, b"before")
    producer.flush()
    size = cluster.size()
    cluster.proxy.lose_answers()
    producer.send(0, b"appended, but not answered")
    eventually(lambda: cluster.size() > size)
    cluster.proxy.sever()
    thread = threading.Thread(target=lambda: (producer.flush() if flushes else None, producer.abort()))
    thread.start()
    thread.join(1)
    assert thread.is_alive(), "the abort needs the coordinator, which nobody reaches"
    cluster.proxy.mend()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


REUSES = pytest.mark.xfail(reason="librdkafka reuses the sequences of messages that it purges", strict=False)


@pytest.mark.clients
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "flushes"),
    [(OurProducer, False), (LibrdkafkaProducer, True), pytest.param(LibrdkafkaProducer, False, marks=REUSES)],
    ids=["kafkatools", "librdkafka that flushes", "librdkafka"],
)
def test_a_committed_transaction_is_in_all_partitions_after_an_abort(
    cluster: Cluster, kind: type[Any], flushes: bool
) -> None:
    producer = kind(cluster.bootstrap)
    lose_an_answer_and_abort(cluster, producer, flushes=flushes)
    producer.begin()
    for partition in (0, 1):
        producer.send(partition, b"committed")
    producer.commit()
    producer.close()
    found = read_topic(cluster.broker.bootstrap, "t", 2, "read_committed")
    assert [[record.value for record in records] for records in found] == [[b"committed"], [b"committed"]]
