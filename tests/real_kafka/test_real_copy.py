"""kt copy to and from a real Apache Kafka, killed and resumed on the way; its own consumer reads the copy."""

from __future__ import annotations

import json
import pathlib

import pytest
from support.apache_kafka import ApacheKafka, run_tool
from support.embedded import embedded_broker
from support.kt import run_kt

from kafkatools.core.producer.producer import Producer
from kafkatools.core.producer.producer_record import ProducerRecord
from kafkatools.tools.copying import copier

pytestmark = [pytest.mark.real_kafka, pytest.mark.slow]

START = 1_700_000_000_000


def copy(source: str, target: str, *words: str) -> tuple[int, str]:
    ran = run_kt("copy", *words, "--bootstrap-server", source, "--to-bootstrap-server", target)
    return int(ran.status), ran.err


def rows(bootstrap: str, topic: str) -> list[tuple[object, ...]]:
    words = ("--topic", topic, "--from-beginning", "--exit-at-end", "--json", "--isolation-level", "read_committed")
    ran = run_kt("console-consumer", "--bootstrap-server", bootstrap, *words)
    found = sorted(map(json.loads, ran.out.splitlines()), key=lambda row: (row["partition"], row["offset"]))
    return [(row["partition"], row["timestamp"], row["key"], row["value"], str(row["headers"])) for row in found]


def test_a_copy_to_kafka_and_back_has_every_record_once(
    real_kafka: ApacheKafka, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with embedded_broker(tmp_path) as embedded:
        run_kt("topics", "--bootstrap-server", embedded, "--create", "--topic", "there", "--partitions", "2")
        with Producer(bootstrap_servers=embedded, compression_type="lz4", batch_size=500) as producer:
            for number in range(1000):
                headers = [("trace", b"%d" % number)] if number % 2 else ()
                record = ProducerRecord("there", b"%d" % number, None, number % 2, START + number, headers)
                producer.send(record)
        with monkeypatch.context() as patch:
            _interrupt_in_a_transaction(patch)
            status, _ = copy(embedded, real_kafka.bootstrap, "there", "copied-there", "--create")
            assert status == 130
        assert copy(embedded, real_kafka.bootstrap, "there", "copied-there", "--resume") == (
            0,
            "complete: 2/2 partitions\nCopied a total of 1000 records\n",
        )
        read = run_tool(
            "console-consumer", "--bootstrap-server", real_kafka.bootstrap, "--topic", "copied-there",
            "--from-beginning", "--isolation-level", "read_committed", "--max-messages", "1000",
            "--timeout-ms", "120000",
        )  # fmt: skip
        assert sorted(map(int, read.stdout.split())) == list(range(1000))
        assert copy(real_kafka.bootstrap, embedded, "copied-there", "back", "--create")[0] == 0
        assert rows(embedded, "back") == rows(embedded, "there") == rows(real_kafka.bootstrap, "copied-there")


def _interrupt_in_a_transaction(patch: pytest.MonkeyPatch) -> None:
    """The second commit of a run is interrupted after the offsets of its transaction were sent."""
    commits = []
    commit = copier.Producer.commit_transaction

    def interrupted(producer: Producer, timeout_ms: int | None = None) -> None:
        commits.append(producer)
        if len(commits) == 2:
            raise KeyboardInterrupt
        commit(producer, timeout_ms)

    patch.setattr(copier.Producer, "commit_transaction", interrupted)
