"""Batches and streams into tables on a standalone cluster with two workers, of which a Python worker, an executor and
the driver are killed: the table has each record once, the manifest counts them, and the run tells what happened.

They take minutes and belong to `make test-spark-matrix`.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from support.apache_kafka import Unavailable
from support.embedded import embedded_broker
from support.official_spark import (
    HAS_DELTA,
    HAS_ICEBERG,
    table_settings,
    tables_python,
)
from support.requirements import require
from support.sink_kills import children_of
from support.spark_cluster import SparkCluster
from support.table_files import rows_of_delta, rows_of_iceberg
from support.waiting import eventually

import kafkatools

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]

TOPIC = "orders"
PATIENCE_S = 600
QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
SLOWLY = """
import os, time
from pyspark.sql.functions import udf

def slowly(table):
    def wait(offset):
        if os.path.exists({flag!r}):
            open(os.path.join({at_work!r}, str(os.getpid())), "w").close()
            while os.path.exists({flag!r}):
                time.sleep(0.05)
        return offset
    return table.select("partition", udf(wait, "long")("offset").alias("offset"), "value")
"""
PAIRS = [(way, kind) for kind, present in (("delta", HAS_DELTA), ("iceberg", HAS_ICEBERG)) if present
         for way in ("stream", "batch")]  # fmt: skip


@pytest.fixture(scope="module")
def python() -> pathlib.Path:
    pytest.importorskip("pyspark")
    try:
        table_settings(pathlib.Path("/"))
        return tables_python()
    except Unavailable as missing:
        require(str(missing))


@pytest.fixture(scope="module")
def cluster(python: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("cluster"), python=python) as made:
        yield made


class Story:
    """A topic of two partitions, the run that writes it into a table, and its processes."""

    def __init__(self, cluster: SparkCluster, bootstrap: str, directory: pathlib.Path, pair: tuple[str, str]) -> None:
        self.way, self.kind = pair
        self.cluster, self.bootstrap, self.directory = cluster, bootstrap, directory
        self.flag, self.at_work = directory / "wait", directory / "at-work"
        self.at_work.mkdir()
        (directory / "slow.py").write_text(SLOWLY.format(flag=str(self.flag), at_work=str(self.at_work)))
        self.sent = 0
        self._runs = 0
        self._killed: set[int] = set()

    def send(self, count: int) -> None:
        with kafkatools.Producer(bootstrap_servers=self.bootstrap) as producer:
            for number in range(self.sent, self.sent + count):
                producer.send(TOPIC, b"value %d" % number, partition=number % 2)
        self.sent += count

    def command(self, *words: str) -> list[str]:
        uri = f"delta:{self.directory}/table" if self.kind == "delta" else "iceberg:lake.db.orders"
        settings = {
            **table_settings(self.directory), "spark.executor.memory": "512m", "spark.driver.memory": "512m",
            "spark.driver.host": "127.0.0.1", "spark.executor.extraJavaOptions": QUICK,
            "spark.driver.extraJavaOptions": QUICK, "spark.sql.shuffle.partitions": "2",
            "spark.executorEnv.PYTHONPATH": self.cluster.environ["PYTHONPATH"],
        }  # fmt: skip
        stream = ("--stream", "--checkpoint", "state", "--from-option", "startingOffsets=earliest")
        return [
            sys.executable, "-m", "kafkatools", "pipeline", "run", "--bootstrap-server", self.bootstrap,
            "--from", f"topic:{TOPIC}", "--transform", "slow:slowly", "--to", uri, "--manifest", "orders.json",
            "--master", self.cluster.master, *(stream if self.way == "stream" else ("--resume",)),
            *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}")), *words,
        ]  # fmt: skip

    @contextlib.contextmanager
    def started(self, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        self._runs += 1
        with (self.directory / f"run{self._runs}.txt").open("wb") as told:
            driver = subprocess.Popen(
                self.command(*words), cwd=self.directory, env=self.cluster.environ, stdout=told, stderr=told
            )
        try:
            yield driver
        finally:
            self.kill_driver(driver)

    def told(self) -> str:
        """What the last run has told."""
        return (self.directory / f"run{self._runs}.txt").read_text(errors="replace")

    def wait(self, driver: subprocess.Popen[bytes], condition: Callable[[], bool]) -> None:
        def is_so() -> bool:
            assert driver.poll() is None, self.told()
            return condition()

        eventually(is_so, PATIENCE_S)

    def workers(self) -> list[int]:
        """The Python workers that wait in a task, of those not killed."""
        found = {int(path.name) for path in self.at_work.iterdir()} - self._killed
        return sorted(pid for pid in found if pathlib.Path(f"/proc/{pid}").exists())

    def kill_worker(self, driver: subprocess.Popen[bytes]) -> None:
        """Kill a Python worker, and wait until another one works at its task."""
        self.wait(driver, lambda: len(self.workers()) == 2)
        self._kill(self.workers()[0])
        self.wait(driver, lambda: len(self.workers()) == 2)

    def kill_executor(self, driver: subprocess.Popen[bytes]) -> None:
        """Kill the JVM of an executor, and wait until another one works at its task."""
        worker = self.workers()[0]
        self._killed.add(worker)
        os.kill(_parent(_parent(worker)), signal.SIGKILL)
        self.wait(driver, lambda: len(self.workers()) == 2)

    def kill_driver(self, driver: subprocess.Popen[bytes]) -> None:
        """Kill Python and JVM of the driver at once."""
        self._killed.update(self.workers())
        for pid in (*children_of(driver.pid, "java"), driver.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        driver.wait()

    def _kill(self, pid: int) -> None:
        self._killed.add(pid)
        os.kill(pid, signal.SIGKILL)

    def rows(self) -> list[tuple[int, int, bytes]]:
        if self.kind == "delta":
            return rows_of_delta(self.directory / "table")
        return rows_of_iceberg(self.directory / "db" / "orders")

    def expected(self) -> list[tuple[int, int, bytes]]:
        return sorted((number % 2, number // 2, b"value %d" % number) for number in range(self.sent))


def _parent(pid: int) -> int:
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_each_record_is_in_the_table_once_after_kills(
    pair: tuple[str, str], cluster: SparkCluster, tmp_path: pathlib.Path
) -> None:
    with embedded_broker(tmp_path / "broker", num_partitions="2") as bootstrap:
        directory = tmp_path / "place"
        directory.mkdir()
        story = Story(cluster, bootstrap, directory, pair)
        with kafkatools.Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topics(kafkatools.NewTopic(TOPIC, 2))
        story.send(300)
        story.flag.touch()
        with story.started() as driver:
            story.kill_worker(driver)
            story.kill_executor(driver)
            if story.way == "stream":
                story.flag.unlink()
                story.wait(driver, (directory / "state" / "commits" / "0").exists)
                story.flag.touch()
                story.send(100)
                story.wait(driver, lambda: len(story.workers()) > 0)
            story.kill_driver(driver)
        assert "Lost executor 127.0.0.1:" in story.told() and "failed: Spark repeats" in story.told()
        assert not (directory / "orders.json").exists()
        story.flag.unlink()
        with story.started(*(("--trigger", "available-now") if story.way == "stream" else ())) as driver:
            assert driver.wait(PATIENCE_S) == 0, story.told()
        interrupted = "completing the manifest of a stream" if story.way == "stream" else "a run was interrupted before"
        assert interrupted in story.told()
        assert story.rows() == story.expected()
        manifest = json.loads((directory / "orders.json").read_text())
        (source,) = manifest["sources"]
        assert source["records"] == manifest["sink"]["rows"] == story.sent
        covered = [(row["start_offset"], row["end_offset"], row["records"]) for row in source["partitions"]]
        assert covered == [(0, story.sent // 2, story.sent // 2)] * 2
        assert not (directory / "orders.json.journal").exists()
