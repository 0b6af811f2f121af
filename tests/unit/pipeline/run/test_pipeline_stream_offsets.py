"""What a stream's progress says of offsets, and of values that are not what the columns are."""

from __future__ import annotations

import json
import pathlib
from types import SimpleNamespace
from typing import Any

import pytest

from kafkatools.pipeline.run.batch import Opening
from kafkatools.pipeline.run.reports import SplitReport, write_report
from kafkatools.pipeline.run.spec import pipeline_from
from kafkatools.pipeline.run.stream import _Counts, _offsets, _source_result, _tell_of_values
from kafkatools.pipeline.sources.live.offsets import with_beginning

START, END = {"orders": {"0": 3, "1": 0}}, {"orders": {"0": 9, "1": 4}}


@pytest.mark.parametrize(
    ("told", "offsets"),
    [
        (START, START),
        (json.dumps(END), END),
        (json.dumps(with_beginning(END, START)), END),  # the end of a stream's first batch
        (None, {}),
        ({"logOffset": 7}, {}),
        ("no JSON", {}),
    ],
)
def test_offsets_of_topics_and_nothing_else(told: Any, offsets: dict[str, Any]) -> None:
    assert _offsets(told) == offsets


class KeptProgress:
    """A trigger's progress as the JVM keeps it: each reading costs a call."""

    def __init__(self, number: int, rows: int) -> None:
        self.number, self.rows, self.reads = number, rows, 0

    def timestamp(self) -> str:
        return f"2026-01-01T00:00:{self.number:02d}.000Z"

    def json(self) -> str:
        self.reads += 1
        sources = [{"numInputRows": self.rows, "startOffset": None, "endOffset": {"t": {"0": self.number}}}]
        return json.dumps({"batchId": self.number, "timestamp": self.timestamp(), "sources": sources})


def test_the_progress_of_a_trigger_is_read_once() -> None:
    kept = [KeptProgress(number, rows) for number, rows in enumerate((3, 0, 4))]
    query: Any = SimpleNamespace(_jsq=SimpleNamespace(recentProgress=lambda: kept))
    counts = _Counts()
    assert [batch["batchId"] for batch in counts.update(query)] == [0, 2], "a trigger without rows is no micro-batch"
    assert counts.update(query) == []
    kept.append(KeptProgress(3, 5))
    del kept[0]  # Spark keeps the newest ones
    assert [batch["batchId"] for batch in counts.update(query)] == [3]
    assert (counts.read, counts.offsets) == (12, [({}, {"t": {"0": 3}})])
    assert [progress.reads for progress in kept] == [1, 1, 1]


def test_no_progress_is_left_out_after_the_clock_was_set_back() -> None:
    kept = [KeptProgress(number, 1) for number in (50, 51)]
    query: Any = SimpleNamespace(_jsq=SimpleNamespace(recentProgress=lambda: kept))
    counts = _Counts()
    counts.update(query)
    kept += [KeptProgress(number, 1) for number in (10, 11)]
    assert [batch["batchId"] for batch in counts.update(query)] == [10, 11]
    assert counts.update(query) == []


@pytest.mark.parametrize(("trigger", "ranges"), [("available-now", [(0, 5)]), ("1", [(None, 5)])])
def test_a_micro_batch_that_ctrl_c_interrupts_is_not_in_the_result(
    tmp_path: pathlib.Path, trigger: str, ranges: list[Any]
) -> None:
    values = {"from": "topic:t", "to": "json:/o", "stream": True, "checkpoint": "/c", "trigger": trigger}
    pipeline = pipeline_from(values, {})
    counts = _Counts()
    query: Any = SimpleNamespace(_jsq=SimpleNamespace(recentProgress=lambda: [KeptProgress(5, 5)]))
    counts.update(query)
    for start in (0, 5):
        report = SplitReport("t", 0, "", start, start + 5, start_offset=start, end_offset=start + 5, records=5)
        write_report(str(tmp_path / "input"), report)
    spark: Any = None
    result = _source_result(Opening(spark, pipeline, str(tmp_path)), pipeline.sources[0], counts)
    assert result.records == 5
    assert [(partition["start_offset"], partition["end_offset"]) for partition in result.partitions] == ranges


def test_bad_values_and_those_with_more_fields_are_told_once_each() -> None:
    pipeline = pipeline_from({"from": "topic:orders", "to": "console:"}, {})
    counts, lines = _Counts(), list[str]()
    for metrics in (
        {"__kt_bad_value": 0},
        {"__kt_bad_value": 2},
        {"__kt_bad_value": 3, "__kt_unknown_fields_value": 1},
    ):
        counts.metrics["kt_input"] = metrics
        _tell_of_values(pipeline, counts, lines.append)
        _tell_of_values(pipeline, counts, lines.append)
    assert lines == [
        "topic:orders: values cannot be decoded: null in their place",
        "topic:orders: values of a newer schema have fields that the columns of this stream lack: they are left out; "
        "start the stream again to get them, or give --value-schema FILE",
    ]
