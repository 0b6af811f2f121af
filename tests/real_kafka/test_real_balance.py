"""Plans of kt reassign-partitions plan balance: carried out by Apache Kafka's own tool, and those with log directories
by `run` on brokers of Apache Kafka with two directories each."""

from __future__ import annotations

import base64
import json
import pathlib
import random
from collections import Counter

import pytest
from support.apache_kafka import ApacheKafka
from support.kt import run_kt
from support.three_nodes import ThreeNodes, replicas
from support.waiting import eventually

from kafkatools import Producer
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.log_dirs import describe_log_dirs
from kafkatools.core.admin.replication_throttles import find_throttles
from kafkatools.core.admin.topics import NewTopic, create_topics
from kafkatools.core.clock import SystemClock
from kafkatools.exit_status import ExitStatus

pytestmark = [pytest.mark.real_kafka, pytest.mark.slow]
_NOISE = random.Random(9).randbytes(50_000)
_CLUSTER = base64.urlsafe_b64encode(b"TwoDirectories11").decode().rstrip("=")
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

    eventually(is_verified)
    with AdminClient(kafka.bootstrap, {}, SystemClock()) as admin:
        (lists,) = replicas(admin, {"heavy": []}).values()
    loads: Counter[int] = Counter()
    for ids, records in zip(lists, _RECORDS, strict=True):
        assert len(set(ids)) == 2
        for broker in ids:
            loads[broker] += records
    # 42 records' bytes on three brokers: 14 each, within 12%.
    assert all(12 <= loads[broker] <= 16 for broker in (1, 2, 3)), loads


class TwoDirectories(ApacheKafka):
    """Nodes with a second log directory each."""

    def _properties(self, node: int) -> pathlib.Path:
        path = super()._properties(node)
        with path.open("a") as file:
            file.write(f"log.dirs={self.log_dir(node)},{self.log_dir(node).parent / 'more'}\n")
        return path


def test_run_carries_out_a_plan_with_log_directories(tmp_path: pathlib.Path, kafka_jars: str) -> None:
    assert kafka_jars
    # With an id of its own, both directories are formatted by the storage tool, and not copied from another cluster.
    kafka = TwoDirectories(tmp_path / "kafka", 2, controllers=1, cluster_id=_CLUSTER)
    try:
        kafka.start()
        with AdminClient(kafka.bootstrap, {}, SystemClock()) as admin:
            eventually(lambda: _live(admin) == [1, 2])
            _ensure_run_moves_and_undoes(kafka, admin, tmp_path)
    finally:
        kafka.kill_all()


def _live(admin: AdminClient) -> list[int]:
    admin.refresh_cluster()
    return list(admin.brokers())


def _ensure_run_moves_and_undoes(kafka: ApacheKafka, admin: AdminClient, tmp_path: pathlib.Path) -> None:
    create_topics(admin, [NewTopic("crowded", replicas_assignments=dict.fromkeys(range(4), [1]))])
    eventually(lambda: len(_directories(admin)) == 4)
    with Producer(bootstrap_servers=kafka.bootstrap, acks="all", batch_size=60_000) as producer:
        for partition in range(4):
            producer.send_many("crowded", [_NOISE] * 4, partition=partition).result()
    plan, undo = tmp_path / "plan.json", tmp_path / "undo.json"
    data, in_data = str(kafka.log_dir(1)), [(1, "data")] * 4
    entries = [{"topic": "crowded", "partition": n, "replicas": [1], "log_dirs": [data]} for n in range(4)]
    plan.write_text(json.dumps({"version": 1, "partitions": entries}))
    run = ("reassign-partitions", "run", "--interval", "0.1", "--bootstrap-server", kafka.bootstrap)
    assert run_kt(*run, "--no-undo-file", "--reassignment-json-file", str(plan)).status is ExitStatus.OK
    eventually(lambda: _directories(admin) == in_data)

    words = ("--by", "bytes", "--disks", "--tolerance", "12%", "--out", str(plan))
    ran = run_kt("reassign-partitions", "plan", "balance", *words, *run[-2:])
    assert ran.status is ExitStatus.OK, ran.err
    ran = run_kt(*run, "--undo-file", str(undo), "--batch-size", "2", "--reassignment-json-file", str(plan))
    assert ran.status is ExitStatus.OK, ran.err
    assert ran.out.endswith("have their new replicas and log directories; no throttle is left.\n")
    eventually(lambda: _directories(admin) == [(1, "data"), (1, "more"), (2, "data"), (2, "more")])
    assert not find_throttles(admin, ["crowded"], (1, 2)).brokers
    verified = kafka.tool("reassign-partitions", "--verify", "--reassignment-json-file", str(plan))
    assert verified.count("completed") == 2 * len(json.loads(plan.read_text())["partitions"])
    ran = run_kt(*run, "--no-undo-file", "--reassignment-json-file", str(undo))
    assert ran.status is ExitStatus.OK, ran.err
    eventually(lambda: _directories(admin) == in_data)


def _directories(admin: AdminClient) -> list[tuple[int, str]]:
    """Broker and name of the log directory of each replica, also of one that its broker has not deleted yet."""
    found = []
    for broker, dirs in describe_log_dirs(admin, (1, 2)).items():
        assert isinstance(dirs, tuple)
        for log_dir in dirs:
            name = pathlib.Path(log_dir.path).name
            found += [(broker, name) for replica in log_dir.replicas if replica.topic == "crowded"]
    return sorted(found)
