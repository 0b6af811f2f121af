"""A plan of kt reassign-partitions plan balance, accepted and carried out by Apache Kafka's own tool."""

from __future__ import annotations

import json
import pathlib
import random
from collections import Counter

import pytest
from support.kt import run_kt
from support.three_nodes import ThreeNodes, replicas
from support.waiting import eventually

from kafkatools import Producer
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.clock import SystemClock
from kafkatools.exit_status import ExitStatus

pytestmark = [pytest.mark.real_kafka, pytest.mark.slow]
_NOISE = random.Random(9).randbytes(50_000)
_RECORDS = [6, 5, 4, 3, 2, 1]


def test_apache_kafka_executes_a_balance_plan(empty_three_nodes: ThreeNodes, tmp_path: pathlib.Path) -> None:
    kafka = empty_three_nodes
    kafka.make_topics({"heavy": [[1, 2]] * 6})
    with Producer(bootstrap_servers=kafka.bootstrap, acks="all", batch_size=60_000) as producer:
        for partition, count in enumerate(_RECORDS):
            producer.send_many("heavy", [_NOISE] * count, partition=partition).result()
    plan = tmp_path / "plan.json"
    on_kafka = ("--bootstrap-server", kafka.bootstrap)
    words = ("--by", "bytes", "--tolerance", "12%", "--topics", "heavy", "--out", str(plan))
    ran = run_kt("reassign-partitions", "plan", "balance", *words, *on_kafka)
    assert ran.status is ExitStatus.OK, ran.err
    begun = kafka.tool("reassign-partitions", "--execute", "--reassignment-json-file", str(plan))
    assert "Successfully started partition reassignment" in begun

    def is_verified() -> bool:
        verified = kafka.tool("reassign-partitions", "--verify", "--reassignment-json-file", str(plan))
        return verified.count("is completed.") == len(json.loads(plan.read_text())["partitions"])

    eventually(is_verified, 60)
    with AdminClient(kafka.bootstrap, {}, SystemClock()) as admin:
        (lists,) = replicas(admin, {"heavy": []}).values()
    loads: Counter[int] = Counter()
    for ids, records in zip(lists, _RECORDS, strict=True):
        assert len(set(ids)) == 2
        for broker in ids:
            loads[broker] += records
    # 42 records' bytes on three brokers: 14 each, within 12%.
    assert all(12 <= loads[broker] <= 16 for broker in (1, 2, 3)), loads
