"""Queries over a table `input` of records, and what they need of it; read under each version of PySpark."""

from __future__ import annotations

from typing import Any

CASES: dict[str, tuple[list[str], dict[str, Any]]] = {
    "SELECT count(*) FROM input": ([], {}),
    "SELECT sum(length(value)) FROM input": (["value"], {}),
    "SELECT value FROM input WHERE 4 < offset AND partition IN (0, 3) AND topic = 'log' AND offset <= 40": (
        ["offset", "partition", "topic", "value"],
        {"start_offset": 5, "end_offset": 41, "partitions": [0, 3], "topics": ["log"]},
    ),
    "SELECT key FROM input WHERE timestamp >= '2023-11-14 22:13:20.5' AND timestamp < '2023-11-14 22:13:21'": (
        ["key", "timestamp"],
        {"start_timestamp_ms": 1_700_000_000_500, "end_timestamp_ms": 1_700_000_001_000},
    ),
    "SELECT key FROM input WHERE offset > 5 OR length(value) > 3": (["key", "offset", "value"], {}),
    "SELECT count(*) FROM (SELECT key, value, offset FROM input) WHERE offset % 2 = 0": (["offset"], {}),
    "SELECT a.offset, b.key FROM input a JOIN input b USING (offset) WHERE a.partition = 0": (
        ["key", "offset", "partition"],
        {},
    ),
    "WITH some AS (SELECT *, row_number() OVER (PARTITION BY partition ORDER BY offset) AS n FROM input) "
    "SELECT max(n) FROM some": (["offset", "partition"], {}),
    "SELECT headers[0].key AS k, max(producerId) FROM input GROUP BY 1": (["headers", "producerId"], {}),
    "SELECT key FROM input UNION ALL SELECT value FROM input": (["key", "value"], {}),
    "SELECT topic FROM input WHERE offset IN (SELECT max(offset) FROM input WHERE key IS NULL)": (
        ["key", "offset", "topic"],
        {},
    ),
    "SELECT explode(headers) FROM input": (["headers"], {}),
}
EVERYTHING = "SELECT * FROM input"


def _rows(frame: Any) -> list[str]:
    return sorted(map(str, frame.collect()))


def run(spark: Any, path: str, statements: list[str]) -> list[dict[str, Any]]:
    """What each query needs, and whether a narrowed one was taken that gives the same rows (of some it is asked)."""
    from dataclasses import asdict, fields

    from kafkatools.pipeline.run.batch import columns_schema
    from kafkatools.pipeline.run.session import register
    from kafkatools.pipeline.sources.pruning import needs_of, prune
    from kafkatools.pipeline.sources.record_bounds import RecordBounds

    register(spark)
    reader = spark.read.format("kafka-log").option("path", path)
    full = reader.option("includeHeaders", "true").option("includeMetadata", "true").load()
    answers = []
    for statement in statements:

        def make(needs: Any, statement: str = statement) -> Any:
            schema = columns_schema(needs.columns)
            spark.read.format("kafka-log").option("path", path).schema(schema).load().createOrReplaceTempView("input")
            return spark.sql(statement)

        full.createOrReplaceTempView("input")
        everything = spark.sql(statement)
        needs = needs_of(everything)
        narrowed = prune(everything, make)
        said = {
            field.name: getattr(needs.bounds, field.name)
            for field in fields(RecordBounds)
            if getattr(needs.bounds, field.name) != field.default
        }
        assert asdict(needs.bounds)
        answers.append(
            {
                "columns": sorted(needs.columns),
                "bounds": {name: sorted(each) if isinstance(each, frozenset) else each for name, each in said.items()},
                "is_pruned": narrowed is not everything,
                "is_same": len(answers) % 4 != 1 or _rows(narrowed) == _rows(everything),
            }
        )
    return answers
