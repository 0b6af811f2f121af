"""kt export and kt replay against a real Apache Kafka: its topics, and the files that it wrote."""

from __future__ import annotations

import json
import pathlib

import pytest
from support.apache_kafka import ApacheKafka
from support.kt import run_kt

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")
pytestmark = [pytest.mark.real_kafka, pytest.mark.slow]

RECORDS = [{"key": f"k{number % 5}", "value": f"v{number}", "headers": [["h", str(number)]]} for number in range(300)]


def test_a_topic_of_kafka_is_exported_and_sent_again(real_kafka: ApacheKafka, tmp_path: pathlib.Path) -> None:
    server = ("--bootstrap-server", real_kafka.bootstrap)
    for topic in ("exported", "replayed"):
        assert run_kt("topics", *server, "--create", "--topic", topic, "--partitions", "3").status == 0
    lines = "".join(json.dumps(record) + "\n" for record in RECORDS).encode()
    assert run_kt("console-producer", *server, "--topic", "exported", "--json", stdin=lines).status == 0
    files = ",".join(str(real_kafka.log_dir() / f"exported-{number}") for number in range(3))
    found = []
    for source in ("topic:exported", f"log:{files}"):
        out = tmp_path / source[:3]
        ran = run_kt("export", source, "--to", f"json:{out}", "--text", "--partition-by", "topic", *server)
        assert (ran.status, ran.err) == (0, f"json:{out}: 300 rows in 1 file added (1 round)\n")
        (path,) = (out / "topic=exported").iterdir()
        found.append([json.loads(line) for line in path.read_text().splitlines()])
    assert found[0] == found[1]
    assert sorted((row["key"], row["value"]) for row in found[0]) == sorted((r["key"], r["value"]) for r in RECORDS)
    assert run_kt("replay", "topic:exported", "--to", "topic:replayed", *server).err == "300 records sent\n"
    consumed = run_kt("console-consumer", *server, "--topic", "replayed", "--from-beginning", "--exit-at-end", "--json")
    sent = [json.loads(line) for line in consumed.out.splitlines()]
    expected = [(r["key"], r["value"], [*r["headers"], ["kt-replays", "1"]]) for r in RECORDS]
    assert sorted((row["key"], row["value"], row["headers"]) for row in sent) == sorted(expected)
    assert {(row["key"], row["partition"]) for row in sent} == {(row["key"], row["partition"]) for row in found[0]}
