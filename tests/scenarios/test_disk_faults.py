"""Disks that fail under librdkafka's idempotent producer."""

from __future__ import annotations

import collections
import pathlib

import pytest
from support.full_disk import FullBroker

from kafkatools.core.records.batch import read_batches

PARTITIONS = 6
RECORDS = 20_000


def values_of(broker: FullBroker, partition: int) -> list[bytes]:
    log = broker.node.replicas.get("t", partition).log
    found: list[bytes] = []
    offset = 0
    while offset < log.log_end_offset:
        for each in read_batches(log.read(offset, 1 << 20).read()):
            found += [record.value or b"" for record in each.records()]
            offset = each.last_offset + 1
    return found


@pytest.mark.parametrize("is_repaired", [False, True])
def test_nothing_is_doubled_where_the_disk_is_sound(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, is_repaired: bool
) -> None:
    """A directory fails under a producer with batches in flight to all partitions: those in sound directories have
    each record once and in order. A disk that is full for a while and the only one of its broker: so have all."""
    from confluent_kafka import Producer

    more = () if is_repaired else (tmp_path / "b",)
    broker = FullBroker(tmp_path / "a", monkeypatch, *more)
    delivered: collections.defaultdict[int, list[bytes]] = collections.defaultdict(list)
    try:
        servers = {"bootstrap.servers": broker.bootstrap}
        wanted = [{"name": "t", "num_partitions": PARTITIONS, "replication_factor": 1}]
        assert broker.client.call(19, 7, topics=wanted, timeout=5000).topics[0].error_code == 0
        producer = Producer(
            {
                **servers,
                "enable.idempotence": True,
                "linger.ms": 1,
                "batch.num.messages": 10,
                "message.timeout.ms": 60_000 if is_repaired else 5_000,
            }
        )

        def note(error: object, message: object) -> None:
            if error is None:
                delivered[message.partition()].append(message.value())  # type: ignore[attr-defined]

        failing = "/a/t-1/" if is_repaired else "/b/"
        for number in range(RECORDS):
            if number == RECORDS // 2:
                broker.disk.is_full = lambda path: failing in path and path.endswith(".log")
            if number == RECORDS * 3 // 4 and is_repaired:
                broker.disk.is_full = lambda path: False
            producer.produce("t", b"%d" % number, partition=number % PARTITIONS, on_delivery=note)
            if number % 100 == 0:
                producer.poll(0.005)
        assert producer.flush(60) == 0
        sound = range(PARTITIONS) if is_repaired else sorted(broker.node.replicas.partitions["t"])
        assert len(sound) == (PARTITIONS if is_repaired else PARTITIONS // 2)
        for partition in sound:
            sent = [b"%d" % number for number in range(RECORDS) if number % PARTITIONS == partition]
            assert values_of(broker, partition) == delivered[partition] == sent
    finally:
        broker.disk.is_full = lambda path: False
        broker.close()
