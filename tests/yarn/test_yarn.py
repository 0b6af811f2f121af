"""kt on YARN by spark-submit in both modes (`make test-yarn`): the nodes' Python lacks kafkatools. In client mode the
session sends it, in cluster mode it is the archive of `kt pipeline package`."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest
from support import recorded_segments
from support.apache_kafka import Unavailable
from support.bare_python import bare_python
from support.embedded import embedded_broker
from support.requirements import require
from support.yarn_cluster import yarn_cluster

from kafkatools import Consumer, Producer

pyspark = pytest.importorskip("pyspark")

pytestmark = pytest.mark.timeout(1800)
HOME = pathlib.Path(pyspark.__file__).parent
KT = pathlib.Path(sys.executable).parent / "kt"
JAVA_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
PROGRAM = "from kafkatools.__main__ import main\nmain()\n"
ROWS = 500


class Submit:
    """Runs `kt` by spark-submit in the directory `directory`, with the settings of docs/pipeline.md."""

    def __init__(self, directory: pathlib.Path, hadoop: pathlib.Path) -> None:
        self.directory = directory
        self.hadoop = hadoop
        python = bare_python(directory / "bare")
        (directory / "kt.py").write_text(PROGRAM)
        subprocess.run([str(KT), "pipeline", "package", "--out", "kt.zip"], cwd=directory, check=True)
        self.settings = {
            "spark.yarn.appMasterEnv.PYSPARK_PYTHON": python,
            "spark.executor.instances": "2",
            # what makes it small and quick on one machine
            "spark.yarn.jars": f"local:{HOME}/jars/*",
            "spark.yarn.stagingDir": (directory / "staging").as_uri(),
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.driver.extraJavaOptions": JAVA_OPTIONS,
            "spark.executor.extraJavaOptions": JAVA_OPTIONS,
        }
        names = ("SPARK_", "PYSPARK_", "PYTHONPATH")
        self.environ = {name: value for name, value in os.environ.items() if not name.startswith(names)} | {
            "HADOOP_CONF_DIR": str(hadoop),
            "PYSPARK_PYTHON": python,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }

    def __call__(self, mode: str, *words: str) -> str:
        """What the driver printed; in the mode `cluster` it is in the log of its container."""
        settings = self.settings
        submit = [f"{HOME}/bin/spark-submit", "--master", "yarn", "--deploy-mode", mode]
        if mode == "cluster":
            settings = settings | {"spark.executorEnv.PYTHONPATH": "kt", "spark.yarn.appMasterEnv.PYTHONPATH": "kt"}
            submit += ["--archives", "kt.zip#kt"]
        submit += [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        command = [*submit, "kt.py", "pipeline", *words]
        before = set(self.hadoop.rglob("stdout"))
        done = subprocess.run(
            command, cwd=self.directory, env=self.environ, capture_output=True, text=True, timeout=900, check=False
        )
        logs = [path.read_text() for path in set(self.hadoop.rglob("stdout")) - before]
        errors = [done.stderr, *(path.read_text() for path in self.hadoop.rglob("stderr"))]
        told = [line for text in errors for line in text.splitlines() if " INFO " not in line]
        assert done.returncode == 0, "\n".join([done.stdout, *told[:200]])
        return done.stdout if mode == "client" else "".join(logs)


@pytest.fixture(scope="module")
def submit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Submit]:
    hadoop = tmp_path_factory.mktemp("hadoop")
    try:
        with yarn_cluster(hadoop) as settings:
            yield Submit(tmp_path_factory.mktemp("submit"), settings)
    except Unavailable as missing:
        require(str(missing))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with embedded_broker(tmp_path_factory.mktemp("broker")) as bootstrap:
        with Producer(bootstrap_servers=bootstrap) as producer:
            for number in range(ROWS):
                producer.send("source", b"value %d" % number)
        yield bootstrap


def committed(bootstrap: str, topic: str) -> list[bytes | None]:
    values: list[bytes | None] = []
    with Consumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([(topic, 0)])
        (end,) = consumer.end_offsets([(topic, 0)]).values()
        while consumer.position((topic, 0)) < end:
            values += [record.value for record in consumer.poll(1000)]
    return values


def test_files_of_a_log_are_counted_in_client_mode(submit: Submit) -> None:
    log = shutil.copytree(recorded_segments.log_directory("codec-lz4-java"), submit.directory / "orders-0")
    assert json.loads(submit("client", "count", f"log:{log}", "--exact", "--json"))["records"] > 0


def test_a_topic_goes_to_a_topic_exactly_once_in_cluster_mode(submit: Submit, broker: str) -> None:
    """As a stream, twice: the second run finds nothing new."""
    words = ["run", "--bootstrap-server", broker, "--from", "topic:source", "--to", "topic:copied", "--stream"]
    more = ["--checkpoint", str(submit.directory / "state"), "--trigger", "available-now"]
    for _ in range(2):
        submit("cluster", *words, *more, "--from-option", "startingOffsets=earliest")
        assert committed(broker, "copied") == [b"value %d" % number for number in range(ROWS)]
