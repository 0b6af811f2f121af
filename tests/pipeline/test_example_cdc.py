"""examples/cdc: the envelopes of Debezium become the current rows of their table.

The command of load.sh runs in this process, on the session of the tests.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
from typing import TYPE_CHECKING

from support.kt import run_kt

import kafkatools

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "cdc"
TOPIC = "shop.public.customers"
CHANGES = (("r", 1, "ann"), ("c", 2, "bob"), ("c", 3, "cid"), ("u", 1, "anna"), ("d", 2, None), ("u", 3, "cyd"))


def command_of(script: pathlib.Path, place: pathlib.Path, **environ: str) -> list[str]:
    """The arguments with which a script calls `kt` last."""
    kt = place / "kt"
    kt.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" > {place}/arguments\n")
    kt.chmod(0o755)
    path = f"{place}:{os.environ['PATH']}"
    subprocess.run([script], env={**os.environ, "PATH": path, **environ}, cwd=place, check=True)
    return (place / "arguments").read_text().splitlines()


def envelope(op: str, number: int, name: str | None) -> bytes:
    """A value as Debezium's connector for PostgreSQL writes it."""
    row = None if name is None else {"id": number, "name": name, "email": f"{name}@example.com", "new_column": True}
    payload = {"before": None, "after": row, "op": op, "ts_ms": 1_769_817_600_000, "source": {"table": "customers"}}
    return json.dumps({"schema": {"type": "struct"}, "payload": payload}).encode()


def test_changes_of_a_database_become_its_current_rows(spark: SparkSession, tmp_path: pathlib.Path) -> None:
    with kafkatools.EmbeddedBroker() as broker:
        with kafkatools.Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics(kafkatools.NewTopic(TOPIC, 2))
        with kafkatools.Producer(bootstrap_servers=broker.bootstrap) as producer:
            for op, number, name in CHANGES:
                key = b'{"payload":{"id":%d}}' % number
                producer.send(TOPIC, envelope(op, number, name), key=key).result()
                if op == "d":
                    producer.send(TOPIC, None, key=key).result()
        arguments = command_of(EXAMPLE / "load.sh", tmp_path, KAFKA=broker.bootstrap)
        ran = run_kt(*arguments, cwd=tmp_path)
    assert ran.status == 0, ran.err
    rows = [(row.id, row.name, row.email) for row in spark.read.parquet(str(tmp_path / "customers")).collect()]
    assert sorted(rows) == [(1, "anna", "anna@example.com"), (3, "cyd", "cyd@example.com")]
