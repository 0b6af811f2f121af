"""Spark for the tests of a process: one session in it, and one process each with Spark 4.0.0 for the tests that compare
with its Kafka connector and for those of tables.

The processes serve all tests of the groups `official` and `tables` (`xdist_group`).
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from support import spark_classes
from support.apache_kafka import Unavailable
from support.official_spark import SPARK, TABLES_SPARK, OfficialSpark, s3_settings, table_settings, tables_python
from support.requirements import require
from support.s3_server import S3Server, s3_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test waits for Spark as well, and one that is cut off spoils the session of all others."""
    for item in items:
        if item.path.parent == pathlib.Path(__file__).parent and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session", autouse=True)
def _shared_classes() -> None:
    """Sessions of these tests, also those of commands, share their classes, unless SPARK_SUBMIT_OPTS was given."""
    if os.environ.get("SPARK_SUBMIT_OPTS") == spark_classes.QUICK and TABLES_SPARK == SPARK:
        spark_classes.share_classes()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Local, two cores, without a page on a port."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        require("PySpark is not installed: pip install '.[spark]'")
    from kafkatools.pipeline.errors import PipelineError
    from kafkatools.pipeline.run.session import find_java, own_python

    try:
        find_java(os.environ)
    except PipelineError as missing:
        require(str(missing))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("kafkatools tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.sql.python.filterPushdown.enabled", "true")
        .config(map=spark_classes.SHARED | spark_classes.INTERPRETED)
    )
    with own_python("local[2]"):
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def official(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OfficialSpark]:
    """Spark 4.0.0 with its own Kafka connector."""
    with contextlib.ExitStack() as stack:
        try:
            process = stack.enter_context(OfficialSpark(tmp_path_factory.mktemp("official"), conf=spark_classes.SHARED))
        except Unavailable as missing:
            require(str(missing))
        yield process


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """An S3 with a bucket `lake`."""
    with s3_server("lake") as server:
        yield server


@pytest.fixture(scope="session")
def spark4(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OfficialSpark]:
    """The Spark of the tables, with Delta and Iceberg. Spark 4.0.0 has `s3a:` besides, whose server is `s3`."""
    environ: dict[str, str] = {}
    try:
        conf, python = table_settings(tmp_path_factory.mktemp("warehouse")), tables_python()
        conf = spark_classes.SHARED | spark_classes.INTERPRETED | conf
        if TABLES_SPARK == SPARK:
            server: S3Server = request.getfixturevalue("s3")
            conf, environ = conf | s3_settings(server.endpoint), server.environ
    except Unavailable as missing:
        require(str(missing))
    with OfficialSpark(tmp_path_factory.mktemp("spark4"), conf=conf, python=python, environ=environ) as process:
        yield process
