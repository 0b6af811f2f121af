"""Reports of the readers of a topic: whether a query needs them."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

pytest.importorskip("pyspark")
pa = pytest.importorskip("pyarrow")

from kafkatools.core.topic_partition import TopicPartition  # noqa: E402
from kafkatools.pipeline.errors import PipelineError  # noqa: E402
from kafkatools.pipeline.run.batch import Opening, open_table  # noqa: E402
from kafkatools.pipeline.run.spec import pipeline_from  # noqa: E402
from kafkatools.pipeline.sources.live import reader  # noqa: E402
from kafkatools.pipeline.sources.live.options import read_options  # noqa: E402
from kafkatools.pipeline.sources.record_bounds import RecordBounds  # noqa: E402


@pytest.fixture
def options(tmp_path: pathlib.Path) -> dict[str, str]:
    (tmp_path / "file").write_text("")
    return {"subscribe": "t", "kafka.bootstrap.servers": "localhost:1", "reportPath": str(tmp_path / "file")}


def read(options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    monkeypatch.setattr(reader, "_read_range", lambda *_: iter(["rows"]))
    task = reader.Task(read_options(options, is_streaming=True), pa.schema([]), RecordBounds())
    return list(reader.read_split(split_of(0, 5), task))


def split_of(start: int, end: int) -> reader.LiveSplit:
    return reader.LiveSplit(*TopicPartition("t", 0), start, end)


def test_a_report_that_cannot_be_written_ends_a_query_that_needs_it(
    options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(PipelineError, match="cannot be written"):
        read(options, monkeypatch)


def test_a_report_for_sparks_ui_alone_does_not_end_a_stream(
    options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read({**options, "requireReports": "false"}, monkeypatch) == ["rows"]


def test_a_stream_without_end_does_not_need_its_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[dict[str, str]] = []

    def stream_source(spark: Any, uri: Any, options: dict[str, str], *_: Any) -> Any:
        opened.append(options)
        raise PipelineError("enough")

    monkeypatch.setattr("kafkatools.pipeline.uris.stream_source", stream_source)
    spark: Any = None
    for trigger in ("1", "available-now"):
        values = {"from": "topic:t", "to": "console:", "stream": True, "checkpoint": "/c", "trigger": trigger}
        pipeline = pipeline_from(values, {})
        with pytest.raises(PipelineError, match="enough"):
            open_table(Opening(spark, pipeline, "/r", has_stream_reports=trigger == "1"), pipeline.sources[0])
    assert [options.get("requireReports") for options in opened] == ["false", None]
