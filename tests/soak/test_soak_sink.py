"""Exactly once from topic to topic while the driver of the query is killed many times, on the embedded broker and on
Apache Kafka. Only when KT_SOAK_KILLS asks for it (`make soak`): tests/pipeline has the short one."""

from __future__ import annotations

import os
import pathlib
import random

import pytest
from support.apache_kafka import ApacheKafka
from support.embedded import embedded_broker
from support.requirements import require
from support.sink_kills import KilledQuery

ASKED = int(os.environ.get("KT_SOAK_KILLS", "0"))
SEED = int(os.environ.get("KT_SOAK_SEED") or random.SystemRandom().randrange(1_000_000))
KILLS = min(ASKED, 10 + ASKED // 10)
RECORDS_A_KILL = 2000

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not ASKED, reason="KT_SOAK_KILLS is not set"),
    pytest.mark.timeout(600 + 120 * KILLS),
]


def survives(bootstrap: str, directory: pathlib.Path, kills: int) -> None:
    try:
        import pyspark  # noqa: F401
    except ImportError:
        require("PySpark is not installed: pip install '.[spark]'")
    print(f"KT_SOAK_SEED={SEED}: {kills} kills", flush=True)
    with KilledQuery(bootstrap, directory, SEED) as query:
        wanted = query.fill(RECORDS_A_KILL * kills)
        for number in range(kills):
            query.run_and_kill(records=200, longest_s=3)
            print(f"kill {number + 1} after {query.epochs()} epochs", flush=True)
        query.finish(records=10_000)
        print(f"{query.epochs()} epochs", flush=True)
        assert query.committed() == wanted
        assert query.open_transactions() == []


def test_a_stream_comes_through_kills_of_its_driver(tmp_path: pathlib.Path) -> None:
    with embedded_broker(tmp_path / "broker") as bootstrap:
        survives(bootstrap, tmp_path, KILLS)


@pytest.mark.real_kafka
def test_a_stream_into_apache_kafka_comes_through_kills_of_its_driver(kafka_jars: str, tmp_path: pathlib.Path) -> None:
    assert kafka_jars
    cluster = ApacheKafka(tmp_path / "kafka")
    cluster.start()
    try:
        survives(cluster.bootstrap, tmp_path, max(1, KILLS // 4))
    finally:
        cluster.stop()
