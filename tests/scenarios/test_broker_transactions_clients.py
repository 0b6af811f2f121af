"""Other people's transactional clients against the broker: librdkafka, aiokafka, and Apache Kafka's own tools, also
while the broker is killed.

KT_CLIENTS_PYTHON names an interpreter that has confluent-kafka and aiokafka (default: this one).
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import time
from typing import Any

import pytest
from support import apache_kafka
from support.requirements import require
from support.waiting import PATIENCE_S

CLIENTS = pathlib.Path(__file__).parent / "clients"
PYTHON = os.environ.get("KT_CLIENTS_PYTHON", sys.executable)
pytestmark = pytest.mark.clients
SETTINGS = {
    "transaction_state_log_num_partitions": "4",
    "offsets_topic_num_partitions": "4",
    "group_initial_rebalance_delay_ms": "0",
}


def create(broker: Any, *topics: str) -> None:
    for topic in topics:
        done = broker.kt("topics", "--bootstrap-server", broker.bootstrap, "--create", "--topic", topic)
        assert done.returncode == 0, done.stderr


def committed_lines(broker: Any, topic: str) -> bytes:
    """The values that were committed."""
    words = ("--topic", topic, "--from-beginning", "--exit-at-end", "--isolation-level", "read_committed")
    done = broker.kt("console-consumer", "--bootstrap-server", broker.bootstrap, *words)
    assert done.returncode == 0, done.stderr
    return bytes(done.stdout)


@pytest.mark.parametrize(
    ("module", "script"),
    [("confluent_kafka", "confluent_transactions.py"), ("aiokafka", "aiokafka_transactions.py")],
)
def test_python_clients_commit_abort_copy_and_are_fenced(make_broker: Any, module: str, script: str) -> None:
    if subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True, check=False).returncode:
        require(f"{PYTHON} has no {module}")
    broker = make_broker()
    broker.start(**SETTINGS)
    create(broker, "source", "source-copies")
    command = [PYTHON, str(CLIENTS / script), broker.bootstrap, "source"]
    done = subprocess.run(command, capture_output=True, timeout=120, check=False)
    assert done.stdout == b"ok\n", done.stdout + done.stderr


@pytest.mark.real_kafka
@pytest.mark.parametrize("durability", ["none", "fsync"])
def test_a_transactional_copy_is_exact_while_the_broker_is_killed(
    make_broker: Any, kafka_jars: str, tmp_path: pathlib.Path, durability: str
) -> None:
    """Apache Kafka's TransactionalMessageCopier in a group, with aborts in between: one copy of each, in order."""
    assert kafka_jars
    broker = make_broker()
    settings = {**SETTINGS, "log_durability": durability}
    broker.start(**settings)
    create(broker, "source", "copies")
    lines = b"".join(b"%d\n" % i for i in range(10_000))
    filled = broker.kt("console-producer", "--bootstrap-server", broker.bootstrap, "--topic", "source", stdin=lines)
    assert filled.returncode == 0, filled.stderr
    words = (
        *("--broker-list", broker.bootstrap, "--input-topic", "source", "--input-partition", "0"),
        *("--output-topic", "copies", "--transactional-id", "copier", "--transaction-size", "100"),
        *("--consumer-group", "copiers", "--max-messages", "10000", "--enable-random-aborts", "--use-group-metadata"),
        "--group-mode",
    )
    output = tmp_path / "copier.log"
    with output.open("wb") as log:
        copier = subprocess.Popen(
            apache_kafka.command("transactional-message-copier", *words), stdout=log, stderr=subprocess.STDOUT
        )
        try:
            kills = 0
            while kills < 2:
                before = output.read_bytes().count(b"ProcessLoop")
                while output.read_bytes().count(b"ProcessLoop") < before + 10 and copier.poll() is None:
                    time.sleep(0.01)
                assert copier.poll() is None, "the copier was done before the broker was killed"
                broker.kill()
                broker.start(**settings)
                kills += 1
            assert copier.wait(PATIENCE_S) == 0
        finally:
            copier.kill()
            copier.wait()
    assert committed_lines(broker, "copies") == lines


@pytest.mark.real_kafka
def test_apache_kafkas_tools_find_and_end_a_hanging_transaction(make_broker: Any, kafka_tool: Any) -> None:
    """A transaction that no coordinator knows of; the partitions do not verify."""
    from support.broker_client import batch
    from support.transaction_teller import Teller

    from kafkatools.core.clock import SystemClock
    from kafkatools.core.protocol.api_versions import ApiKey

    broker = make_broker()
    broker.start(transaction_partition_verification_enable="false", **SETTINGS)
    teller = Teller(broker.bootstrap, "hanging")
    with teller.client:
        teller.find_coordinator("x")
        topic = teller.topic()
        producer_id, epoch = teller.init("x")
        old = SystemClock().wall_ms() - 3 * 3_600_000
        records = batch(
            [b"v"], old, producer_id=producer_id, producer_epoch=epoch, base_sequence=0, is_transactional=True
        )
        data = [{"name": topic, "partition_data": [{"index": 0, "records": records}]}]
        fields = {"transactional_id": "x", "acks": -1, "timeout": 5000, "topic_data": data}
        answer = teller.client.call(ApiKey.PRODUCE, 11, fields).responses[0].partition_responses[0]
        assert int(answer.error_code) == 0

        def tool(*words: str) -> list[list[str]]:
            done = kafka_tool("transactions", "--bootstrap-server", broker.bootstrap, *words)
            assert done.returncode == 0, (done.stdout + done.stderr).decode()
            return [line.split() for line in done.stdout.decode().splitlines()[1:]]

        (found,) = tool("find-hanging", "--broker-id", "1")
        assert found[:6] == [topic, "0", str(producer_id), str(epoch), "-1", "0"]
        tool("abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
        assert tool("find-hanging", "--broker-id", "1") == []
        ((_, _, _, _, _, start),) = tool("describe-producers", "--topic", topic, "--partition", "0")
        assert start == "None"
        assert tool("list") == [["x", "1", str(producer_id), "Empty"]]
