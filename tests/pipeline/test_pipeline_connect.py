"""`kt pipeline` over Spark Connect: a server of its own, and the commands in processes of their own."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest
from support.embedded import embedded_broker
from support.ports import free_port
from support.requirements import require
from support.waiting import eventually

from kafkatools import Consumer, Producer
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run.masters import ensure_reachable
from kafkatools.pipeline.run.worker_python import worker_python

pytest.importorskip("pyspark", reason="PySpark is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.xdist_group("official")]

KT = str(pathlib.Path(sys.executable).parent / "kt")
ROWS = 1000


def answers(master: str) -> bool:
    try:
        ensure_reachable(master)
    except PipelineError:
        return False
    return True


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Spark Connect server whose Python has this package."""
    import pyspark

    for module in ("grpc", "grpc_status"):
        pytest.importorskip(module)
    home = pathlib.Path(pyspark.__file__).parent
    jars = list((home / "jars").glob("spark-connect_*.jar"))
    if not jars:
        require("PySpark has no server of Spark Connect")
    port = free_port()
    environ = {
        **os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": worker_python(None),
    }  # fmt: skip
    command = [
        f"{home}/bin/spark-submit", "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
        "--master", "local[2]", "--driver-memory", "1g",
        "--conf", f"spark.connect.grpc.binding.port={port}", "--conf", "spark.ui.enabled=false", str(jars[0]),
    ]  # fmt: skip
    directory = tmp_path_factory.mktemp("server")
    with (directory / "log").open("wb") as log:
        server = subprocess.Popen(command, env=environ, cwd=directory, stdout=log, stderr=log)
    try:
        address = f"sc://127.0.0.1:{port}"
        eventually(lambda: answers(address), 120)
        yield address
    finally:
        server.kill()  # spark-submit is the JVM itself, by exec
        server.wait(30)


def test_batches_streams_and_verification(master: str, tmp_path: pathlib.Path) -> None:
    """Exactly once from topic to topic, with counts; a directory of this machine, verified."""
    with embedded_broker(tmp_path / "broker") as bootstrap:
        with Producer(bootstrap_servers=bootstrap) as producer:
            for number in range(ROWS):
                producer.send("t", b"value %d" % number)

        def kt(*words: str) -> str:
            command = [KT, "pipeline", *words, "--master", master, "--bootstrap-server", bootstrap]
            ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=200)
            assert ran.returncode == 0, ran.stderr
            return ran.stdout + ran.stderr

        stream = ("--stream", "--checkpoint", "state", "--trigger", "available-now", "--from-option")
        told = kt("run", "--from", "topic:t", "--to", "topic:copied", *stream, "startingOffsets=earliest")
        assert f"topic:t: {ROWS} records of 1 partition\ntopic:copied: {ROWS} rows\n" in told
        assert copied(bootstrap) == [b"value %d" % number for number in range(ROWS)]
        kt("run", "--from", "topic:t", "--to", "parquet:files", "--manifest", "run.json")
        (file,) = json.loads((tmp_path / "run.json").read_text())["sink"]["files"]
        assert file["rows"] == ROWS
        assert f"match the manifest: {ROWS} records read, 1 files" in kt("verify", "run.json")


def copied(bootstrap: str) -> list[bytes | None]:
    values: list[bytes | None] = []
    with Consumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([("copied", 0)])
        (end,) = consumer.end_offsets([("copied", 0)]).values()
        while consumer.position(("copied", 0)) < end:
            values += [record.value for record in consumer.poll(1000)]
    return values


SESSION = """
import sys
from pyspark.sql import SparkSession
from kafkatools.pipeline.catalog import open_catalog

catalog = open_catalog(SparkSession.builder.remote(sys.argv[1]).getOrCreate(), sys.argv[2])
catalog.sql("CREATE VIEW first AS SELECT value, offset FROM t WHERE offset < 3")
frame = catalog.sql("SELECT a.offset FROM first a JOIN t b ON a.offset = b.offset")
assert catalog.sql("SELECT count(*) AS n FROM u").collect()[0].n == 1
assert sorted(row.offset for row in frame.collect()) == [0, 1, 2], frame.collect()
assert frame.join(catalog.table("first"), "offset").count() == 3
"""


def test_sql_over_topics(master: str, tmp_path: pathlib.Path) -> None:
    """Statements, views and errors of `kt pipeline sql`; and frames of a catalog that are used after later ones."""
    with embedded_broker(tmp_path / "broker") as bootstrap:
        with Producer(bootstrap_servers=bootstrap) as producer:
            for number in range(10):
                producer.send("t", b"value %d" % number)
            producer.send("u", b"one")
        statements = (
            "CREATE VIEW late AS SELECT CAST(value AS STRING) AS v FROM t WHERE offset >= 8; SELECT * FROM late;"
            "SHOW TABLES; EXPLAIN SELECT key FROM t; SELECT * FROM tt"
        )
        command = [KT, "pipeline", "sql", statements, "--master", master, "--bootstrap-server", bootstrap]
        environ = {**os.environ, "KT_HOME": str(tmp_path / "home")}
        ran = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=200)
        assert ran.returncode == 2, ran
        lines = [line.rstrip() for line in ran.stdout.splitlines()]
        assert lines[:7] == ["v", "value 8", "value 9", "name  kind", "late  view", "t     topic", "u     topic"]
        assert "There is no topic, view or table tt; did you mean t? (line 1, position 15)\n" in ran.stderr
        program = [sys.executable, "-c", SESSION, master, bootstrap]
        ran = subprocess.run(program, capture_output=True, text=True, check=False, timeout=200)
        assert ran.returncode == 0, ran.stderr
