"""Which source of a pipeline the offsets of Spark's progress and checkpoint belong to: Spark has them in the order of
the query's plan, a source once for each use."""

from __future__ import annotations

import json
import pathlib
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from kafkatools.pipeline.run.batch import Opening, SourceResult
from kafkatools.pipeline.run.recorded_stream import _committed
from kafkatools.pipeline.run.reports import SplitReport, write_report
from kafkatools.pipeline.run.spec import Pipeline, pipeline_from
from kafkatools.pipeline.run.stream import _Counts, _source_result
from kafkatools.pipeline.run.stream_progress import BatchOffsets, StreamProgress
from kafkatools.pipeline.run.stream_sources import source_name

PYTHON = "org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStreamWithTriggerAvailableNow@"
"""The description of a Python source in Spark's progress, before the hash of the object."""
FIRST = {"a": {"from": "topic:t"}, "b": {"from": "topic:t"}}
"""Sources that read topics of the same name in two clusters, or one topic twice."""


def stream_of(sources: dict[str, Any], trigger: str = "1") -> Pipeline:
    words = {"sources": sources, "sql": "SELECT 1", "to": "console:", "checkpoint": "/c", "trigger": trigger}
    return pipeline_from({**words, "stream": True}, {})


def named(name: str, topic: str, *ends: int) -> dict[str, Any]:
    """The offsets of a source's reader in a stream with several sources."""
    return {topic: {str(number): end for number, end in enumerate(ends)}, f"$source {name}": {}}


def source(rows: int, start: Any, end: Any, description: str = f"{PYTHON}3a0ed8d5") -> dict[str, Any]:
    return {"description": description, "startOffset": start, "endOffset": end, "numInputRows": rows}


def results(
    pipeline: Pipeline, *batches: list[dict[str, Any]], reports: str = "/none", has_all_reports: bool = False
) -> list[SourceResult]:
    """The results of a stream with this progress, in the order of the pipeline."""
    progress = [
        {"batchId": number, "timestamp": f"2026-01-01T00:00:{number:02d}.000Z", "sources": sources}
        for number, sources in enumerate(batches)
    ]
    recent = [
        SimpleNamespace(timestamp=lambda batch=batch: batch["timestamp"], json=lambda batch=batch: json.dumps(batch))
        for batch in progress
    ]
    counts = _Counts()
    query: Any = SimpleNamespace(_jsq=SimpleNamespace(recentProgress=lambda: recent))
    counts.update(query)
    spark: Any = None
    opening = Opening(spark, pipeline, reports)
    return [_source_result(opening, source, counts, has_all_reports=has_all_reports) for source in pipeline.sources]


def ranges(result: SourceResult) -> list[tuple[str, int, int | None, int]]:
    return [(row["topic"], row["partition"], row["start_offset"], row["end_offset"]) for row in result.partitions]


def test_counts_belong_to_the_source_that_read_them_whatever_the_order_of_the_query() -> None:
    a, b = results(
        stream_of({"a": {"from": "topic:orders"}, "b": {"from": "topic:users"}}),
        [source(2, None, named("b", "users", 2)), source(5, None, named("a", "orders", 5))],
        [
            source(1, named("b", "users", 2), named("b", "users", 3)),
            source(4, named("a", "orders", 5), named("a", "orders", 9)),
        ],
    )
    assert (a.name, a.records, ranges(a)) == ("a", 9, [("orders", 0, None, 9)])
    assert (b.name, b.records, ranges(b)) == ("b", 3, [("users", 0, None, 3)])


def test_sources_of_topics_with_one_name_are_told_apart_by_the_name_in_their_offsets() -> None:
    a, b = results(stream_of(FIRST), [source(2, None, named("b", "t", 2)), source(5, None, named("a", "t", 5))])
    assert (a.records, ranges(a)) == (5, [("t", 0, None, 5)])
    assert (b.records, ranges(b)) == (2, [("t", 0, None, 2)])


def test_a_source_that_is_used_twice_counts_once() -> None:
    """Its two uses may have begun and ended at different offsets."""
    batch = [
        source(6, {"u": {"0": 1}}, named("b", "u", 7)),
        source(8, {"t": {"0": 0}}, named("a", "t", 8)),
        source(5, {"u": {"0": 3}}, named("b", "u", 8)),
    ]
    a, b = results(stream_of({"a": {"from": "topic:t"}, "b": {"from": "topic:u"}}), batch)
    assert (a.records, ranges(a)) == (8, [("t", 0, 0, 8)])
    assert (b.records, ranges(b)) == (6, [("u", 0, 1, 8)])
    (only,) = results(
        stream_of({"a": {"from": "topic:t"}}),
        [source(4, {"t": {"0": 2}}, {"t": {"0": 6}}), source(4, {"t": {"0": 2}}, {"t": {"0": 6}})],
    )
    assert (only.records, ranges(only)) == (4, [("t", 0, 2, 6)])


def test_a_source_that_spark_shares_among_two_uses_counts_once(tmp_path: pathlib.Path) -> None:
    """Spark then lists it once, with the rows of both uses; the readers' reports have each record once."""
    write_report(str(tmp_path / "a"), SplitReport("t", 0, "", 0, 5, start_offset=0, end_offset=5, records=5))
    pipeline = stream_of({"a": {"from": "topic:t"}}, "available-now")
    batch = [source(10, None, {"t": {"0": 5}})]
    (a,) = results(pipeline, batch, reports=str(tmp_path), has_all_reports=True)
    assert (a.records, ranges(a)) == (5, [("t", 0, 0, 5)])


def test_a_source_that_the_query_does_not_use_has_read_nothing() -> None:
    a, b = results(stream_of(FIRST), [source(2, None, named("b", "t", 2))])
    assert (a.records, a.partitions, b.records) == (0, [], 2)


def test_a_source_that_is_idle_while_another_one_reads_has_no_ranges() -> None:
    """A range without a count would make the sums of its partition in the manifest unknown."""
    idle = source(0, named("a", "t", 5), named("a", "t", 5))
    a, b = results(stream_of(FIRST), [source(2, None, named("b", "t", 2)), idle])
    assert (a.records, a.partitions, ranges(b)) == (0, [], [("t", 0, None, 2)])


def test_files_are_told_apart_by_their_path(tmp_path: pathlib.Path) -> None:
    tables = {name: {"from": f"json:{tmp_path / name}"} for name in ("x", "y")}
    files = [
        source(3, None, {"logOffset": 0}, f"FileStreamSource[file:{tmp_path}/y]"),
        source(7, None, named("t", "t", 7)),
        source(4, None, {"logOffset": 0}, f"FileStreamSource[file:{tmp_path}/x]"),
    ]
    found = results(stream_of({"t": {"from": "topic:t"}, **tables}), files)
    assert [(result.name, result.records) for result in found] == [("t", 7), ("x", 4), ("y", 3)]


def test_offsets_that_may_be_those_of_two_sources_are_those_of_none(tmp_path: pathlib.Path) -> None:
    """As after the repetition of a micro-batch that an earlier version planned."""
    batch = [source(2, None, {"t": {"0": 2}}), source(5, None, {"t": {"0": 5}})]
    assert [(result.records, result.partitions) for result in results(stream_of(FIRST), batch)] == [(None, [])] * 2
    write_report(str(tmp_path / "a"), SplitReport("t", 0, "", 0, 5, start_offset=0, end_offset=5, records=5))
    ended = results(stream_of(FIRST, "available-now"), batch, reports=str(tmp_path))
    assert [result.records for result in ended] == [5, 0], "the readers tell which source they read"


def test_a_report_counts_by_the_end_of_its_own_source(tmp_path: pathlib.Path) -> None:
    """Ctrl-C leaves the report of a micro-batch of `b` that has not ended; the topic of `a` has more records."""
    for start in (0, 2):
        report = SplitReport("t", 0, "", start, start + 2, start_offset=start, end_offset=start + 2, records=2)
        write_report(str(tmp_path / "b"), report)
    batch = [source(2, None, named("b", "t", 2)), source(5, None, named("a", "t", 5))]
    _, b = results(stream_of(FIRST, "available-now"), batch, reports=str(tmp_path))
    assert (b.records, ranges(b)) == (2, [("t", 0, 0, 2)])


@pytest.mark.parametrize(
    ("options", "topic", "name"),
    [
        ({"from": "topic:t, u"}, "u", "a"),
        ({"from": "topic:", "from-option": {"subscribe": "v,u"}}, "u", "a"),
        ({"from": "topic:", "from-option": {"assign": '{"u":[0]}'}}, "u", "a"),
        ({"from": "topic:", "from-option": {"subscribePattern": "^u"}}, "users", "a"),
        ({"from": "topic:", "from-option": {"subscribePattern": "^u"}}, "other", "b"),
        ({"from": "topic:", "from-option": {"subscribePattern": "."}}, "other", None),
        ({"from": "topic:u"}, "neither", None),
    ],
)
def test_offsets_of_an_earlier_version_belong_to_the_source_that_reads_their_topic(
    options: dict[str, Any], topic: str, name: str | None
) -> None:
    pipeline = stream_of({"a": options, "b": {"from": "topic:other"}})
    assert source_name(pipeline, {topic: {"0": 1}}) == name
    assert source_name(pipeline, {topic: {"0": 1}, "$source renamed": {}}) == name


# --- checkpoints


def planned(tmp_path: pathlib.Path, pipeline: Pipeline, *offsets: Any) -> BatchOffsets | None:
    """The offsets of the only micro-batch of a checkpoint."""
    lines = ["v1", '{"batchWatermarkMs":0}', *(json.dumps(offset) for offset in offsets)]
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text("\n".join(lines))
    remote: Any = type("Session", (), {"__module__": "pyspark.sql.connect.session"})()  # reads without a JVM
    spec = Pipeline(pipeline.sources, pipeline.sink, is_streaming=True, checkpoint=str(tmp_path))
    return StreamProgress(remote, spec).planned(0)


def test_a_checkpoint_names_its_sources(tmp_path: pathlib.Path) -> None:
    b = {**named("b", "t", 2), "$start": named("b", "t", 1)}
    a = {**named("a", "t", 5), "$start": named("a", "t", 0)}
    again = {**named("b", "t", 3), "$start": named("b", "t", 2)}
    assert planned(tmp_path, stream_of(FIRST), b, a, again) == BatchOffsets(
        {"a": {"t": {"0": 5}}, "b": {"t": {"0": 3}}}, {"a": {"t": {"0": 0}}, "b": {"t": {"0": 1}}}
    )


def test_a_checkpoint_of_an_earlier_version_is_read_by_its_topics(tmp_path: pathlib.Path) -> None:
    pipeline = stream_of({"a": {"from": "topic:orders"}, "b": {"from": "topic:users"}, "c": {"from": "json:/c"}})
    found = planned(tmp_path, pipeline, {"logOffset": 3}, {"users": {"0": 2}}, {"orders": {"0": 5}})
    assert found == BatchOffsets(
        {"a": {"orders": {"0": 5}}, "b": {"users": {"0": 2}}, "c": {}}, {"a": {}, "b": {}, "c": {}}
    )


def test_an_ambiguous_checkpoint_of_an_earlier_version_leaves_its_sources_uncounted(tmp_path: pathlib.Path) -> None:
    pipeline = stream_of(FIRST)
    found = planned(tmp_path, pipeline, {"t": {"0": 2}}, {"t": {"0": 5}})
    assert found == BatchOffsets({"a": {}, "b": {}}, {"a": {}, "b": {}}, frozenset({"a", "b"}))
    checkpoint: Any = SimpleNamespace(last_committed=lambda: 0, planned=lambda _: found)
    committed = _committed(checkpoint, {"batch": -1, "starts": None}, pipeline, None)
    assert committed is not None and committed.unknown == {"a", "b"}


@pytest.mark.parametrize(
    "starts",
    [{"a": {"orders": {"0": 1}}, "b": {"users": {"0": 2}}}, [{"users": {"0": 2}}, {"orders": {"0": 1}}]],
    ids=["by name", "by an earlier version"],
)
def test_a_journal_names_its_sources(starts: Any) -> None:
    pipeline = stream_of({"a": {"from": "topic:orders"}, "b": {"from": "topic:users"}})
    ends = BatchOffsets({"a": {"orders": {"0": 9}}, "b": {"users": {"0": 8}}}, {"a": {}, "b": {}})
    checkpoint: Any = SimpleNamespace(last_committed=lambda: 1, planned=lambda _: ends)
    committed = _committed(checkpoint, {"batch": 0, "starts": starts}, pipeline, None)
    assert committed is not None
    assert committed.starts == {"a": {"orders": {"0": 1}}, "b": {"users": {"0": 2}}}
    assert committed.ends == ends.ends
