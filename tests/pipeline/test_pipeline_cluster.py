"""`kt pipeline run` on a Spark standalone cluster of processes: a driver that is killed leaves nothing, the next one
does it all."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from support import recorded_segments
from support.bare_python import bare_python
from support.embedded import embedded_broker
from support.requirements import require
from support.spark_classes import QUICK
from support.spark_cluster import SparkCluster

from kafkatools import Producer
from kafkatools.core.records import kernel
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run.masters import ensure_reachable
from kafkatools.pipeline.run.session import find_java

KT = pathlib.Path(sys.executable).parent / "kt"
SLOWLY = """
import os, time
from pyspark.sql.functions import udf

def slowly(table):
    def wait(offset):
        while os.path.exists({flag!r}):
            time.sleep(0.05)
        return offset
    return table.select(udf(wait, "long")("offset").alias("offset"), "value")
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800), pytest.mark.xdist_group("cluster")]
ONE_CORE = "spark.cores.max=1"
ONE_EXECUTOR = ("--conf", ONE_CORE)
"""For runs whose number of executors does not matter: each takes four seconds of processor time to start."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    pytest.importorskip("pyspark")
    try:
        find_java(os.environ)
    except PipelineError as missing:
        require(str(missing))
    with SparkCluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


def test_a_run_on_a_cluster_of_which_the_first_driver_is_killed(cluster: SparkCluster, tmp_path: pathlib.Path) -> None:
    flag = tmp_path / "wait"
    flag.touch()
    (tmp_path / "slow.py").write_text(SLOWLY.format(flag=str(flag)))
    log = shutil.copytree(recorded_segments.log_directory("plain-java"), tmp_path / "orders-0")
    command = [
        str(KT), "pipeline", "run", "--from", f"log:{log}", "--transform", "slow:slowly", "--to", "parquet:out",
        "--manifest", "out.json", "--resume", "--json", "--master", cluster.master,
        "--conf", "spark.executor.memory=512m", "--conf", "spark.driver.memory=512m",
        "--conf", "spark.driver.host=127.0.0.1", "--conf", f"spark.executor.extraJavaOptions={cluster.java_options}",
        "--from-option", "minPartitions=2",
    ]  # fmt: skip
    with subprocess.Popen(command, cwd=tmp_path, env=cluster.environ, stderr=subprocess.PIPE) as first:
        wait_for_tasks(first, tmp_path / "out")
        os.kill(first.pid, signal.SIGKILL)
    assert not list(tmp_path.glob("out.json*")) and not list(tmp_path.glob("out/*.parquet"))
    flag.unlink()
    second = subprocess.run(
        [*command, *ONE_EXECUTOR], cwd=tmp_path, env=cluster.environ, capture_output=True, timeout=700, check=False
    )
    assert second.returncode == 0, second.stderr
    told = json.loads(second.stdout)
    content = json.loads((tmp_path / "out.json").read_text())
    (source,) = content["sources"]
    assert source["records"] == content["sink"]["rows"] == told["sink"]["rows"] > 0
    (partition,) = source["partitions"]
    assert partition["last_offset"] - partition["first_offset"] + 1 == partition["records"], (
        "nothing twice, nothing lost"
    )
    import pyarrow.parquet

    offsets = pyarrow.parquet.read_table(tmp_path / "out", columns=["offset"]).column("offset").to_pylist()
    assert sorted(offsets) == list(range(partition["first_offset"], partition["last_offset"] + 1))


def test_sql_over_topics(cluster: SparkCluster, tmp_path: pathlib.Path) -> None:
    with embedded_broker(tmp_path / "broker") as bootstrap:
        with Producer(bootstrap_servers=bootstrap) as producer:
            for number in range(100):
                producer.send("t", b"%d" % number)
        settings = (
            "spark.executor.memory=512m", "spark.driver.memory=512m", "spark.driver.host=127.0.0.1",
            f"spark.executor.extraJavaOptions={cluster.java_options}", "spark.sql.shuffle.partitions=2",
        )  # fmt: skip
        conf = [word for setting in settings for word in ("--conf", setting)]
        statements = (
            "CREATE VIEW even AS SELECT CAST(value AS INT) AS n FROM t WHERE offset % 2 = 0;"
            "SELECT sum(n) AS total, count(*) AS n FROM even"
        )
        command = [str(KT), "pipeline", "sql", statements, "--value", "string", "--json", "--master", cluster.master]
        environ = {**cluster.environ, "KT_HOME": str(tmp_path / "home")}
        ran = subprocess.run(
            [*command, "--bootstrap-server", bootstrap, *conf],
            cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=700, check=False,
        )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == {"total": sum(range(0, 100, 2)), "n": 50}


def wait_for_tasks(driver: subprocess.Popen[bytes], sink: pathlib.Path) -> None:
    """Until tasks write below the sink."""
    end = time.monotonic() + 400
    while not list(sink.glob("_kt-*/_temporary/0/_temporary/*")):
        assert driver.poll() is None and driver.stderr is not None, driver.stderr and driver.stderr.read()
        assert time.monotonic() < end, "no task began"
        time.sleep(0.05)


READ = """
import sys
from pyspark.sql import SparkSession
from kafkatools.pipeline.run.session import register
builder = SparkSession.builder.master(sys.argv[1]).config("spark.ui.enabled", "false")
for setting in sys.argv[3:]:
    builder = builder.config(*setting.split("=", 1))
spark = builder.getOrCreate()
register(spark)
rows = spark.read.format("kafka-log").load(sys.argv[2]).select("offset", "value").collect()
def worker(_):
    import kafkatools.core.records.kernel as kernel
    return kernel.__file__, kernel.COMPILED
place, is_compiled = spark.sparkContext.parallelize([0], 1).map(worker).collect()[0]
print(len(rows), len({row.offset for row in rows}), is_compiled, place)
"""


def settings_on(cluster: SparkCluster) -> list[str]:
    """Settings of a session there."""
    return [
        "spark.executor.memory=512m", "spark.driver.memory=512m", "spark.driver.host=127.0.0.1",
        f"spark.executor.extraJavaOptions={cluster.java_options}", f"spark.driver.extraJavaOptions={QUICK}",
    ]  # fmt: skip


def read_on(cluster: SparkCluster, python: str, directory: pathlib.Path) -> subprocess.CompletedProcess[str]:
    """Run a program that registers the sources in a session of its own, with another Python on the executors."""
    log = shutil.copytree(recorded_segments.log_directory("codec-lz4-java"), directory / "orders-0")
    command = [sys.executable, "-c", READ, cluster.master, str(log), *settings_on(cluster), ONE_CORE]
    environ = {**cluster.environ, "PYSPARK_PYTHON": python}
    return subprocess.run(command, cwd=directory, env=environ, capture_output=True, text=True, timeout=700, check=False)


def test_the_port_of_a_worker_is_not_that_of_a_master(cluster: SparkCluster) -> None:
    ensure_reachable(cluster.master)
    worker = cluster.worker_address()
    with pytest.raises(PipelineError, match=f"{worker}: a Spark worker or driver listens there, not a master"):
        ensure_reachable(f"spark://{worker}")


def test_executors_without_the_package_get_it_with_its_dependencies(
    cluster: SparkCluster, tmp_path: pathlib.Path
) -> None:
    done = read_on(cluster, bare_python(tmp_path / "bare"), tmp_path)
    assert done.returncode == 0, done.stderr
    rows, offsets, is_compiled, place = done.stdout.split()
    assert rows == offsets and int(rows) > 0
    assert is_compiled == str(kernel.COMPILED)
    assert str(cluster.directory) in place, "from the archive in the executor's directory"


READ_TWICE = """
import sys
from pyspark.sql import SparkSession
from kafkatools.pipeline.run.session import plain_error, register
builder = SparkSession.builder.master(sys.argv[1]).config("spark.ui.enabled", "false")
for setting in sys.argv[3:]:
    builder = builder.config(*setting.split("=", 1))
spark = builder.getOrCreate()
register(spark)
table = spark.read.format("kafka-log").option("minPartitions", "12").load(sys.argv[2])
print(table.count(), flush=True)
sys.stdin.readline()
while spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() < 4:  # the driver is one of them
    pass
try:
    for _ in range(20):
        table.count()
except Exception as error:
    print(plain_error(error))
"""


def test_an_executor_that_joins_later_with_another_python_is_told(
    cluster: SparkCluster, tmp_path: pathlib.Path
) -> None:
    """Its Python lacks the package, which the executors at the start have."""
    python = tmp_path / "python"
    at_start = cluster.environ["PYSPARK_PYTHON"]
    python.write_text(f'#!/bin/sh\nexec "${{KT_TEST_PYTHON:-{at_start}}}" "$@"\n')
    python.chmod(0o755)
    log = shutil.copytree(recorded_segments.log_directory("plain-java"), tmp_path / "orders-0")
    settings = [*settings_on(cluster), "spark.task.maxFailures=1"]
    command = [sys.executable, "-c", READ_TWICE, cluster.master, str(log), *settings]
    environ = {**cluster.environ, "PYSPARK_PYTHON": str(python)}
    late = {"KT_TEST_PYTHON": bare_python(tmp_path / "bare"), "PYTHONPATH": ""}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environ, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as program:
        assert program.stdout is not None
        assert int(program.stdout.readline()) > 0
        with cluster.late_worker(late):
            told, _ = program.communicate("\n", timeout=700)
    assert re.fullmatch(
        r"The Python of the executor(s| on 127.0.0.1) has no kafkatools: install it there, or start the session anew, "
        r"which sends it to executors that lack it\n",
        told,
    ), "Spark does not name the host in each error"


def test_a_program_of_spark_submit_runs_on_its_master_and_not_in_cluster_mode(
    cluster: SparkCluster, tmp_path: pathlib.Path
) -> None:
    """The program of docs/pipeline.md. Its notes, on stderr, are on the stdout of spark-submit."""
    (tmp_path / "kt.py").write_text("from kafkatools.__main__ import main\nmain()\n")
    log = shutil.copytree(recorded_segments.log_directory("plain-java"), tmp_path / "orders-0")
    submit = [f"{cluster.environ['SPARK_HOME']}/bin/spark-submit", "--master", cluster.master]
    job = ["kt.py", "pipeline", "count", f"log:{log}", "--exact"]
    settings = [word for setting in settings_on(cluster) for word in ("--conf", setting)]
    environ = {**cluster.environ, "KT_HOME": str(tmp_path / "home")}
    options = {"cwd": tmp_path, "env": environ, "capture_output": True, "text": True, "check": False}
    done = subprocess.run([*submit, *ONE_EXECUTOR, *settings, *job, "--json"], timeout=700, **options)
    assert done.returncode == 0, done.stderr
    (count,) = (row for row in map(json.loads, done.stdout.splitlines()) if "note" not in row)
    assert count["records"] > 0
    assert f"Connecting to master {cluster.master}" in done.stderr
    refused = subprocess.run([*submit, "--deploy-mode", "cluster", *job], timeout=700, **options)
    assert refused.returncode != 0
    assert "Cluster deploy mode is currently not supported for python applications on standalone" in refused.stderr
