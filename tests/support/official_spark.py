"""Spark 4.0.0 with its own Kafka connector, in a process of its own: the oracle of the pipeline's sources.

PySpark 4.0.0 is installed beside the tests' own PySpark into the user's cache (KT_TEST_CACHE overrides), the
connector's jars come through Maven. The process sees this checkout, so that the pipeline's sources can be run under
4.0.0 too. Tests of tables run with another PySpark if KT_TEST_SPARK names its version and KT_TEST_TABLES the packages
of its tables, as `.ci/spark-matrix` does.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

from support import spark_classes
from support.apache_kafka import CACHE, Unavailable, fetch_jars, java_executable

SPARK = "4.0.0"
JARS = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", SPARK),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", SPARK),
    ("org.apache.kafka", "kafka-clients", "3.9.0"),
    ("org.apache.commons", "commons-pool2", "2.12.0"),
)
TABLE_JARS = (
    ("io.delta", "delta-spark_2.13", "4.0.0"),
    ("io.delta", "delta-storage", "4.0.0"),
    ("org.apache.iceberg", "iceberg-spark-runtime-4.0_2.13", "1.10.0"),
)
"""Delta and Iceberg for this Spark."""
TABLES_SPARK = os.environ.get("KT_TEST_SPARK", SPARK)
TABLES = tuple(os.environ.get("KT_TEST_TABLES", "io.delta org.apache.iceberg").split())
"""Packages of tables as GROUP:NAME:VERSION; without KT_TEST_TABLES the groups of TABLE_JARS."""
HAS_DELTA, HAS_ICEBERG = (any(group in package for package in TABLES) for group in ("io.delta", "org.apache.iceberg"))
TABLE_GROUPS = "io.delta,io.unitycatalog,org.apache.iceberg,org.locationtech.jts"
"""Their packages and what they need besides the jars of Spark."""
AWS_SDK = "2.29.52"
S3_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>tests</groupId><artifactId>s3</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.hadoop</groupId><artifactId>hadoop-aws</artifactId><version>3.4.1</version>
<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>
<dependency><groupId>software.amazon.awssdk</groupId><artifactId>s3</artifactId><version>{AWS_SDK}</version></dependency>
<dependency><groupId>software.amazon.awssdk</groupId><artifactId>s3-transfer-manager</artifactId>
<version>{AWS_SDK}</version></dependency>
<dependency><groupId>software.amazon.awssdk</groupId><artifactId>sts</artifactId><version>{AWS_SDK}</version></dependency>
</dependencies></project>"""
"""S3A for this Spark's Hadoop, with the parts of the SDK that it uses: its bundle would be 600 MB instead of 15."""
PYTHON = (f"pyspark=={SPARK}", "py4j==0.10.9.9")
_TESTS = pathlib.Path(__file__).parents[1]


@functools.cache
def home() -> pathlib.Path:
    """The directory with `python` and `jars`; fetched once. Raises Unavailable."""
    target = CACHE / f"spark-{SPARK}"
    if not (target / ".complete").exists():
        java_executable()
        CACHE.mkdir(parents=True, exist_ok=True)
        made = pathlib.Path(tempfile.mkdtemp(prefix="spark-", dir=CACHE))
        try:
            _fetch(made)
            (made / ".complete").touch()
            shutil.rmtree(target, ignore_errors=True)
            with contextlib.suppress(OSError):  # another process was first
                made.rename(target)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    return target


@functools.cache
def tables_python() -> pathlib.Path:
    """The directory of the PySpark of the tables. Raises Unavailable."""
    if TABLES_SPARK == SPARK:
        return home() / "python"
    found = CACHE / f"pyspark-{TABLES_SPARK}"
    if not found.exists():
        raise Unavailable(f"There is no {found}: make test-spark-matrix fetches it")
    return found


@functools.cache
def tables_home() -> pathlib.Path:
    """The directory with the jars of Delta and Iceberg in `jars`; fetched once. Raises Unavailable."""
    names = "" if TABLES_SPARK == SPARK else f"-{'-'.join(package.rpartition(':')[2] for package in TABLES)}"
    target = CACHE / f"spark-{TABLES_SPARK}-tables{names}"
    if not target.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        made = pathlib.Path(tempfile.mkdtemp(prefix="tables-", dir=CACHE))
        try:
            if TABLES_SPARK == SPARK:
                _fetch_jars(made, TABLE_JARS)
            else:
                options = ("-DincludeScope=runtime", f"-DincludeGroupIds={TABLE_GROUPS}")
                _copy_jars(made, _pom_of(TABLES), ", ".join(TABLES), *options)
            with contextlib.suppress(OSError):  # another process was first
                made.rename(target)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    return target


@functools.cache
def s3_home() -> pathlib.Path:
    """The directory with the jars of S3A in `jars`; fetched once. Raises Unavailable."""
    target = CACHE / f"spark-{SPARK}-s3"
    if not target.exists():
        made = pathlib.Path(tempfile.mkdtemp(prefix="s3-", dir=home().parent))
        try:
            _copy_jars(made, S3_POM, "hadoop-aws")
            with contextlib.suppress(OSError):  # another process was first
                made.rename(target)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    return target


def s3_settings(endpoint: str) -> dict[str, str]:
    """The settings of a session whose `s3a:` is the server at an address, with the credentials of the environment."""
    return {
        "spark.driver.extraClassPath": os.pathsep.join(f"{found / 'jars'}/*" for found in (home(), s3_home())),
        "spark.hadoop.fs.s3a.endpoint": endpoint,
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.attempts.maximum": "1",
        "spark.hadoop.fs.s3a.retry.limit": "1",
    }


def table_jars() -> str:
    """The jars of Delta and Iceberg as a setting `spark.jars`, without copies for executors. Raises Unavailable."""
    return ",".join(f"local:{jar}" for jar in sorted((tables_home() / "jars").glob("*.jar")))


def table_settings(warehouse: pathlib.Path) -> dict[str, str]:
    """The settings of a session with Delta, and with Iceberg as the catalog `lake`. Raises Unavailable."""
    delta = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",  # 50 tasks for each look at a table without it
    }
    iceberg = {
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(warehouse),
        "spark.sql.catalog.lake.cache-enabled": "false",  # the tests read what the commands' own sessions write
    }
    return {"spark.jars": table_jars()} | (delta if HAS_DELTA else {}) | (iceberg if HAS_ICEBERG else {})


def _fetch(target: pathlib.Path) -> None:
    install = [sys.executable, str(_TESTS.parent / ".ci" / "install"), "--no-deps", "--target", str(target / "python")]
    done = subprocess.run([*install, *PYTHON], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"{PYTHON[0]} could not be installed: {(done.stdout + done.stderr)[-500:]}")
    _fetch_jars(target, JARS)


def _fetch_jars(target: pathlib.Path, jars: Sequence[tuple[str, str, str]]) -> None:
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
        "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"
        for group, name, version in jars
    )
    pom = (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>tests</groupId>'
        f"<artifactId>connector</artifactId><version>1</version><dependencies>{dependencies}</dependencies></project>"
    )
    _copy_jars(target, pom, ", ".join(name for _, name, _ in jars))


def _pom_of(packages: Sequence[str]) -> str:
    """A POM that needs packages and what they need."""
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version></dependency>"
        for group, name, version in (package.split(":") for package in packages)
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>tests</groupId>'
        f"<artifactId>tables</artifactId><version>1</version><dependencies>{dependencies}</dependencies></project>"
    )


def _copy_jars(target: pathlib.Path, pom: str, names: str, *options: str) -> None:
    directory = target / "jars"
    directory.mkdir()
    fetch_jars(pom, directory, names, *options)


class OfficialSpark:
    """One process with a session of Spark 4.0.0 (two cores unless `master` says otherwise), until `close`."""

    def __init__(
        self,
        directory: pathlib.Path,
        master: str = "local[2]",
        conf: Mapping[str, str] | None = None,
        python: pathlib.Path | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """`python`: the directory of another PySpark, which has no connector of its own. `environ`: further
        variables of the process."""
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        settings = {
            "spark.master": master,
            "spark.ui.enabled": "false",
            "spark.driver.memory": "1g",
            **({} if python else {"spark.driver.extraClassPath": f"{home() / 'jars'}/*"}),
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.session.timeZone": "UTC",
            "spark.local.dir": str(directory),
            "spark.python.authenticate.socketTimeout": "120s",  # 15 s are too few on a busy machine
            **(conf or {}),
        }
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
        java = pathlib.Path(java_executable()).resolve().parents[1]
        environment |= {
            "PYTHONPATH": os.pathsep.join(map(str, (python or home() / "python", _TESTS.parent, _TESTS))),
            "PYSPARK_PYTHON": sys.executable,
            "JAVA_HOME": str(java),
            **(environ or {}),
        }
        self._log = (directory / "spark.log").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.official_spark_worker", json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd=directory,
            env=environment,
            text=True,
        )
        self._tables = 0

    def __enter__(self) -> OfficialSpark:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The process id, whose children are the JVM and its executors."""
        return self._process.pid

    def call(self, function: Callable[..., Any], **arguments: Any) -> Any:
        """Runs `function(spark, **arguments)` there; what goes in and out is JSON. Its source is what travels, so it
        imports what it needs. An exception there is a RuntimeError here."""
        source = textwrap.dedent(inspect.getsource(function))
        request = {"source": source, "name": function.__name__, "arguments": arguments}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass
        line = self._process.stdout.readline()
        if not line:
            self._log.seek(0)
            raise RuntimeError(f"Spark ended: {self._log.read()[-2000:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["result"]

    def rows(self, source: str, options: Mapping[str, str], columns: str = "*", where: str = "true") -> Any:
        """What a batch read gives, as a pyarrow.Table."""
        import pyarrow.parquet

        self._tables += 1
        target = self._directory / f"table-{self._tables}"
        self.call(read_into, source=source, options=dict(options), columns=columns, where=where, target=str(target))
        return pyarrow.parquet.read_table(target)

    def close(self) -> None:
        """Ends the process and its JVM."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._log.close()


def read_into(spark: Any, source: str, options: dict[str, str], columns: str, where: str, target: str) -> None:
    """Runs in the process: a batch read, written as Parquet."""
    if source != "kafka":
        from kafkatools.pipeline.run.session import register

        register(spark)
    frame = spark.read.format(source).options(**options).load()
    frame.where(where).selectExpr(*columns.split(",")).write.parquet(target)


if __name__ == "__main__":  # before the tests, whose time is limited
    with contextlib.suppress(Unavailable):
        home()
        tables_home()
        s3_home()
    spark_classes.quick_options()
