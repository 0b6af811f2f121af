"""The sink's two phases against Apache Kafka, in both transaction versions: the driver dies at every step."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from support.apache_kafka import ApacheKafka
from support.prepared_transactions import Steps
from support.requirements import require
from support.sink_stories import CRASHES, Query, comes_through

pytestmark = [pytest.mark.real_kafka, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster(kafka_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    """A node of this module's own: its transaction version is changed."""
    assert kafka_jars
    try:
        import pyarrow  # noqa: F401
        import pyspark  # noqa: F401
    except ImportError:
        require("PySpark is not installed: pip install '.[spark]'")
    made = ApacheKafka(tmp_path_factory.mktemp("sink"), settings={"num.partitions": "2"})
    made.start()
    yield made
    made.stop()


@pytest.mark.timeout(600)
def test_every_record_is_there_once_wherever_the_driver_dies(cluster: ApacheKafka) -> None:
    for version in (2, 1):
        steps = Steps(cluster.bootstrap, version)
        if version == 1:
            steps.lower_version()
        for dies in CRASHES:
            told(dies, steps)


def told(dies: Callable[[Query, pytest.MonkeyPatch], None], steps: Steps) -> None:
    try:
        comes_through(steps, dies)
    except AssertionError as error:
        raise AssertionError(f"{dies.__name__}, transaction version {steps.version}: {error}") from error
