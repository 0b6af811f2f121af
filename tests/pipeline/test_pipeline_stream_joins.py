"""Streams whose query joins two topics, or uses one topic twice: rows, counts and offsets of each source."""

from __future__ import annotations

import json
import pathlib
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from support.embedded import embedded_broker
from support.kt import run_kt
from support.raw_client import RawClient

from kafkatools.pipeline.run.session import register
from kafkatools.pipeline.run.spec import pipeline_from
from kafkatools.pipeline.uris import Cluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytest.importorskip("pyspark", reason="PySpark is not installed")

from pyspark.sql import functions as F  # noqa: E402

from kafkatools.pipeline.run.stream import Stopped, StreamCallbacks, run_stream  # noqa: E402

EARLIEST = {"startingOffsets": "earliest"}


class Place(NamedTuple):
    """A broker, and a directory for what runs write."""

    bootstrap: str
    directory: pathlib.Path

    def topic(self, partitions: int) -> str:
        name = f"joined-{uuid.uuid4().hex[:8]}"
        with RawClient(self.bootstrap) as client:
            client.create_topic(name, partitions)
        return name

    def send(self, topic: str, partition: int, *keys: int, at_ms: int = 1) -> None:
        with RawClient(self.bootstrap) as client:
            client.produce_rows(topic, partition, [(at_ms, b"%d" % key, b"%s" % topic.encode(), ()) for key in keys])

    def run(self, *words: str) -> dict[str, Any]:
        """The summary of `kt pipeline run`."""
        ran = run_kt(
            "pipeline", "run", "--bootstrap-server", self.bootstrap, *words, "--stream", "--trigger", "available-now",
            "--json", cwd=self.directory,
        )  # fmt: skip
        assert ran.status == 0, ran
        found: dict[str, Any] = json.loads(ran.out)
        return found

    def rows(self, name: str) -> list[dict[str, Any]]:
        files = (self.directory / name).glob("part-*.json")
        return [json.loads(line) for path in files for line in path.read_text().splitlines()]

    def ends(self, manifest: str) -> dict[str, tuple[int, dict[tuple[str, int], tuple[int, int]]]]:
        """Records and offset ranges by source."""
        content = json.loads((self.directory / manifest).read_text())
        return {
            source["name"]: (
                source["records"],
                {
                    (row["topic"], row["partition"]): (row["start_offset"], row["end_offset"])
                    for row in source["partitions"]
                },
            )
            for source in content["sources"]
        }


@pytest.fixture(scope="module")
def place(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    register(spark)
    directory = tmp_path_factory.mktemp("joins")
    with embedded_broker(directory / "data") as bootstrap:
        yield Place(bootstrap, directory)


def late_users(orders: DataFrame, users: DataFrame) -> DataFrame:
    """Orders with their users, which come at most a minute later."""
    orders, users = (table.withWatermark("timestamp", "1 minute") for table in (orders, users))
    condition = "o.key = u.key AND u.timestamp BETWEEN o.timestamp AND o.timestamp + INTERVAL 1 MINUTE"
    joined = users.alias("u").join(orders.alias("o"), F.expr(condition))
    return joined.selectExpr("CAST(o.key AS STRING) k", "o.offset o", "u.offset u")


JOINS = {
    "sql": 'sql = "SELECT CAST(o.key AS STRING) k, o.offset o, u.offset u FROM users u JOIN orders o ON o.key = u.key"',
    "transform": 'transform = "test_pipeline_stream_joins:late_users"',
}


@pytest.mark.parametrize("kind", JOINS)
def test_two_topics_are_joined_and_each_source_has_its_own_counts_and_offsets(kind: str, place: Place) -> None:
    """The query names the sources in another order than the file; rows of the first run match those of the second."""
    orders, users = place.topic(2), place.topic(1)
    options = 'from-option = {startingOffsets = "earliest"}'
    (place.directory / f"{kind}.toml").write_text(
        f'{JOINS[kind]}\n[sources.orders]\nfrom = "topic:{orders}"\n{options}\n'
        f'[sources.users]\nfrom = "topic:{users}"\n{options}\n'
    )
    words = (f"{kind}.toml", "--to", f"json:{kind}", "--checkpoint", f"{kind}-state", "--manifest", f"{kind}.json")
    place.send(orders, 0, 1, 2, 3)
    place.send(orders, 1, 4)
    place.send(users, 0, 2, 9)
    told = place.run(*words)
    assert [(source["name"], source["records"]) for source in told["sources"]] == [("orders", 4), ("users", 2)]
    assert place.rows(kind) == [{"k": "2", "o": 1, "u": 0}]
    place.send(users, 0, 4, 1)
    told = place.run(*words)
    assert [(source["name"], source["records"]) for source in told["sources"]] == [("orders", 0), ("users", 2)]
    assert told["sink"]["rows"] == 2
    joined = sorted(place.rows(kind), key=lambda row: str(row["k"]))
    assert joined == [{"k": "1", "o": 0, "u": 3}, {"k": "2", "o": 1, "u": 0}, {"k": "4", "o": 0, "u": 2}]
    assert place.ends(f"{kind}.json") == {
        "orders": (4, {(orders, 0): (0, 3), (orders, 1): (0, 1)}),
        "users": (4, {(users, 0): (0, 4)}),
    }
    verified = run_kt("pipeline", "verify", "--bootstrap-server", place.bootstrap, f"{kind}.json", cwd=place.directory)
    assert verified.status == 0, verified


TWICE = {
    "union": "SELECT CAST(key AS STRING) k FROM input UNION ALL SELECT CAST(offset AS STRING) FROM input",
    "named query": "WITH t AS (SELECT * FROM input) SELECT a.offset FROM t a JOIN t b ON a.key = b.key",
    "self join": "SELECT a.offset FROM input a JOIN input b ON a.key = b.key",
}


@pytest.mark.parametrize("kind", TWICE)
@pytest.mark.parametrize("has_manifest", [False, True])
def test_an_endless_stream_counts_a_topic_that_it_uses_twice_once(
    kind: str, has_manifest: bool, place: Place, spark: SparkSession
) -> None:
    """Spark shares one source among both uses, and adds up the rows of both."""
    topic = place.topic(1)
    place.send(topic, 0, *range(20))
    name = f"{topic}-out"
    values: dict[str, Any] = {
        "from": f"topic:{topic}", "from-option": EARLIEST, "sql": TWICE[kind], "to": f"json:{place.directory / name}",
        "stream": True, "trigger": "1", "checkpoint": f"{place.directory / topic}-state",
    }  # fmt: skip
    if has_manifest:
        values["manifest"] = f"{place.directory / topic}.json"
    pipeline = pipeline_from(values, {"input": Cluster(place.bootstrap, {})})

    def stop_at_the_end(read: int) -> None:
        if read:
            raise KeyboardInterrupt

    with pytest.raises(Stopped) as stopped:
        run_stream(spark, pipeline, lambda table: 0, StreamCallbacks(stop_at_the_end, print))
    (source,) = stopped.value.result.sources
    assert source.records == 20
    assert [(row["start_offset"], row["end_offset"]) for row in source.partitions] in ([(0, 20)], [(None, 20)])
    assert len(place.rows(name)) == (40 if kind == "union" else 20)
