"""One Spark session for the tests of a process."""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from support import spark_classes
from support.official_spark import SPARK, TABLES_SPARK
from support.requirements import require

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
    from kafkatools.pipeline.run.session import find_java

    try:
        find_java(os.environ)
    except PipelineError as missing:
        require(str(missing))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = (
        SparkSession.builder.master("local[2]")
        .appName("kafkatools tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", spark_classes.QUICK)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.sql.python.filterPushdown.enabled", "true")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
