"""examples/cdc: the envelopes of Debezium become the current rows of their table.

The command of load.sh runs in a process of the Spark that has Delta, whose session has Delta's jars already.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
from typing import Any

import pytest
from support.official_spark import HAS_DELTA, OfficialSpark

import kafkatools

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200), pytest.mark.xdist_group("tables")]

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "cdc"
TOPIC = "shop.public.customers"
CHANGES = (("r", 1, "ann"), ("c", 2, "bob"), ("c", 3, "cid"), ("u", 1, "anna"), ("d", 2, None), ("u", 3, "cyd"))
LATER = (("d", 1, None), ("c", 2, "bea"))


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


def run_there(spark: Any, words: list[str], directory: str) -> Any:
    """Runs in the process, whose session the command shares."""
    from support.kt import run_kt

    ran = run_kt(*words, cwd=directory)
    if "console:" in words:
        return [ran.status, ran.err, ran.out]
    rows = spark.read.format("delta").load(f"{directory}/customers").select("id", "name", "email").collect()
    return [ran.status, ran.err, sorted(list(row) for row in rows)]


def send(bootstrap: str, changes: tuple[tuple[str, int, str | None], ...]) -> None:
    with kafkatools.Producer(bootstrap_servers=bootstrap) as producer:
        for op, number, name in changes:
            key = b'{"schema":{"type":"struct"},"payload":{"id":%d}}' % number
            producer.send(TOPIC, envelope(op, number, name), key=key).result()
            if op == "d":
                producer.send(TOPIC, None, key=key).result()


@pytest.mark.skipif(not HAS_DELTA, reason="There is no Delta for this Spark")
def test_changes_of_a_database_become_its_current_rows_also_in_a_later_load(
    spark4: OfficialSpark, tmp_path: pathlib.Path
) -> None:
    with kafkatools.EmbeddedBroker() as broker:
        with kafkatools.Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics(kafkatools.NewTopic(TOPIC, 2))
        words = command_of(EXAMPLE / "load.sh", tmp_path, KAFKA=broker.bootstrap)
        send(broker.bootstrap, CHANGES)
        status, told, rows = spark4.call(run_there, words=words, directory=str(tmp_path))
        assert status == 0, told
        assert rows == [[1, "anna", "anna@example.com"], [3, "cyd", "cyd@example.com"]]
        send(broker.bootstrap, LATER)
        status, told, rows = spark4.call(run_there, words=words, directory=str(tmp_path))
        assert status == 0, told
        assert rows == [[2, "bea", "bea@example.com"], [3, "cyd", "cyd@example.com"]]
        words = command_of(EXAMPLE / "show.sh", tmp_path)
        status, told, shown = spark4.call(run_there, words=words, directory=str(tmp_path))
        assert (status, shown.split()) == (0, ["id", "name", "email", *map(str, sum(rows, []))]), told
